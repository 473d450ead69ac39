//! Brings exactly one changelist into a workspace, and keeps what an earlier build left there where that is wanted.
//!
//! The server remembers what the workspace's client has; a mark in the workspace says which server's that is, so that a
//! connection to another server, or a client that somebody deleted, does not build upon files that it knows nothing of.

use super::bindings::cookhouse::plugin::config;
use super::bindings::cookhouse::plugin::log::{self, Level};
use super::bindings::cookhouse::plugin::progress::{self, Unit};
use super::bindings::cookhouse::plugin::types::{Error, ErrorCode};
use super::bindings::cookhouse::plugin::workspaces::Workspace;
use super::bindings::exports::cookhouse::plugin::source_control::{CheckoutOptions, Materialised};
use super::source::{describe, known_stream};
use super::tool::{self, P4};
use crate::commands;
use crate::names::{Changelist, StreamPath};
use crate::record::Message;
use crate::tool::has_threads;

/// In the workspace: which server its files came from, and how many there are.
const MARK: &str = ".cookhouse-streamvc";
const MARK_LIMIT: u32 = 4096;
/// Complaints that are shown.
const SHOWN: usize = 20;
/// Entries of a workspace that are removed at one time.
const ENTRIES: u32 = 5000;

pub(super) fn materialise(
    p4: &mut P4,
    stream: &StreamPath,
    at: Changelist,
    workspace: &Workspace,
    options: &CheckoutOptions,
) -> Result<Materialised, Error> {
    let revision = describe(p4, stream, at)?;
    let stream = known_stream(p4, stream)?;
    let mut job = Job { p4, stream: &stream, at, workspace, files: 0, bytes: 0 };
    say(Level::Info, format!("Syncing {stream} at changelist {at} by {}", revision.author));
    let known = mark(workspace).filter(|(server, _)| *server == server_name());
    let kept = known.filter(|_| options.incremental);
    let is_known = job.client()?;
    match kept.filter(|_| is_known) {
        Some((_, files)) => {
            job.files = files;
            job.sync(false)?;
            job.repair()?;
        }
        None => {
            job.empty()?;
            job.sync(true)?;
        }
    }
    let text = format!("{}\n{}\n", server_name(), job.files);
    workspace.write(MARK, text.as_bytes(), false)?;
    say(Level::Info, format!("{} files of {stream} at changelist {at}", job.files));
    Ok(Materialised { revision, files: job.files, bytes: job.bytes, reusable: true, extra: Vec::new() })
}

/// Removes the workspace's client from the server: others wait there for its have list each time that it is looked through. A
/// workspace that never was brought to a changelist of this server has none.
pub(super) fn forget(workspace: &Workspace, p4: impl FnOnce() -> Result<P4, Error>) -> Result<(), Error> {
    if mark(workspace).is_none_or(|(server, _)| server != server_name()) {
        return Ok(());
    }
    match p4()?.ask_in(&commands::remove_client(), Some(workspace)) {
        // Somebody else tidied up.
        Err(error) if error.reason.as_deref() == Some("client") && error.code == ErrorCode::NotFound => Ok(()),
        other => other.map(drop),
    }
}

struct Job<'a> {
    p4: &'a P4,
    stream: &'a StreamPath,
    at: Changelist,
    workspace: &'a Workspace,
    /// In the workspace.
    files: u64,
    /// That came.
    bytes: u64,
}

impl Job<'_> {
    /// Makes the client workspace what it has to be; the answer is whether the server knew it before.
    fn client(&self) -> Result<bool, Error> {
        let answer = self.p4.ask_in(&commands::client(), Some(self.workspace))?;
        let is_known = answer.records.first().is_some_and(|form| {
            // What the server would make of a new one has none of these.
            ["Update", "Access", "Stream"].iter().any(|field| !form.get(field).is_empty())
        });
        self.p4.tell(&commands::save_client(), self.workspace, &commands::client_form(self.stream))?;
        Ok(is_known)
    }

    /// Everything out of the workspace.
    fn empty(&self) -> Result<(), Error> {
        loop {
            let entries = self.workspace.entries("", ENTRIES)?;
            if entries.is_empty() {
                return Ok(());
            }
            for entry in entries {
                self.workspace.remove(&entry.path, true)?;
            }
        }
    }

    fn sync(&mut self, anew: bool) -> Result<(), Error> {
        let parallel = tool::version().is_ok_and(|text| has_threads(&text));
        match self.sync_by(anew, parallel) {
            // Only a server that forbids it, or does not know it, complains of the option itself.
            Err(error) if parallel && error.message.contains("arallel") => {
                say(Level::Info, "The server does not transfer in parallel; once more, one file after the other");
                self.sync_by(anew, false)
            }
            other => other,
        }
    }

    fn sync_by(&mut self, anew: bool, parallel: bool) -> Result<(), Error> {
        let (mut done, mut total, mut bytes) = (0u64, None, 0u64);
        let mut files = if anew { 0 } else { self.files };
        let line = commands::sync(self.at, anew, parallel);
        let messages = self.p4.follow(&line, self.workspace, |record| {
            total = record.number("totalFileCount").or(total);
            match record.get("action") {
                "" => return,
                "deleted" => files = files.saturating_sub(1),
                "added" => files += 1,
                _ if anew => files += 1,
                _ => {}
            }
            done += 1;
            bytes += record.number("fileSize").unwrap_or(0);
            progress::report("sync", done, total, Unit::Items, None);
        });
        complain(&messages?);
        (self.files, self.bytes) = (files, self.bytes + bytes);
        say(Level::Info, format!("{done} files synced, {bytes} bytes"));
        Ok(())
    }

    /// Brings back what a build changed or deleted of the stream's files. What is not in the stream stays.
    fn repair(&mut self) -> Result<(), Error> {
        let mended = match self.clean(true) {
            // Servers before the option compare every file.
            Err(error) if error.message.contains("sage") || error.message.contains("option") => self.clean(false),
            other => other,
        };
        match mended {
            Ok(0) => Ok(()),
            Ok(count) => {
                say(Level::Info, format!("{count} files that builds had changed or deleted were brought back"));
                Ok(())
            }
            Err(error) if matches!(error.reason.as_deref(), Some("unknown-command" | "refused" | "permission")) => {
                say(Level::Warn, format!("The workspace cannot be repaired, everything is synced anew: {}", error.message));
                self.empty()?;
                self.sync(true)
            }
            Err(error) => Err(error),
        }
    }

    fn clean(&self, quick: bool) -> Result<u64, Error> {
        let mut mended = 0;
        let messages = self.p4.follow(&commands::clean(quick), self.workspace, |record| {
            mended += u64::from(!record.get("action").is_empty());
        })?;
        complain(&messages);
        Ok(mended)
    }
}

fn complain(messages: &[Message]) {
    for message in messages.iter().take(SHOWN) {
        say(Level::Warn, &message.text);
    }
}

fn server_name() -> String {
    config::get("serverUrl").unwrap_or_default()
}

/// The server that the files of the workspace came from, and how many there are.
fn mark(workspace: &Workspace) -> Option<(String, u64)> {
    let text = String::from_utf8(workspace.read(MARK, 0, MARK_LIMIT).ok()?).ok()?;
    let mut lines = text.lines();
    Some((lines.next()?.to_owned(), lines.next()?.parse().ok()?))
}

fn say(level: Level, text: impl AsRef<str>) {
    log::log(level, text.as_ref(), &[]);
}
