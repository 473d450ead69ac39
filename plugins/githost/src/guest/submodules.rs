//! Submodules that lie on the same git host: each exactly at the commit that its parent names. Others are named in the log and left.

use std::collections::VecDeque;

use guest_support::{Code, Problem};

use super::bindings::cookhouse::plugin::log::Level;
use super::bindings::cookhouse::plugin::types::Error;
use super::bindings::cookhouse::plugin::workspaces::{EntryKind, Workspace};
use super::bindings::exports::cookhouse::plugin::source_control::CheckoutOptions;
use super::checkout::{Job, say};
use super::tool::Git;
use crate::names::{CommitName, RepositoryName};
use crate::settings::Settings;
use crate::{git, git_output, submodules};

/// Submodules of one checkout, those of submodules counted too.
const MOST: usize = 200;
/// How deep submodules may hold submodules.
const DEEPEST: usize = 8;
const OUTPUT_LIMIT: u32 = 64 << 10;

/// What came with them.
#[derive(Default)]
pub(super) struct Below {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// Checks out the submodules of what lies in the workspace.
pub(super) fn check_out(
    settings: &Settings,
    repository: &RepositoryName,
    workspace: &Workspace,
    options: &CheckoutOptions,
) -> Result<Below, Error> {
    let (mut below, mut count) = (Below::default(), 0);
    let mut waiting = VecDeque::from([(repository.clone(), String::new(), 0)]);
    while let Some((parent, directory, depth)) = waiting.pop_front() {
        let git = Git::new(settings, &parent, workspace, &directory);
        for (path, url, commit) in named(&git)? {
            let place = git.path(&path);
            let Some(name) = submodules::on_same_host(settings.git(), &parent, &url).filter(|_| options.submodules) else {
                let why = if options.submodules { "its address is not on this git host" } else { "that was not asked for" };
                say(Level::Warn, format!("The submodule {place} is not checked out: {why}"));
                continue;
            };
            count += 1;
            if count > MOST || depth == DEEPEST {
                let text = format!("at most {MOST} submodules are checked out, nested {DEEPEST} deep; {place} is one too many");
                return Err(Problem::new(Code::TooLarge, text).because("submodule").into());
            }
            make_way(workspace, &place)?;
            say(Level::Info, format!("Checking out the submodule {place}, {name} at {}", commit.short()));
            let done = Job { branch: None, commit: &commit, options }.at(&mut Git::new(settings, &name, workspace, &place));
            let done = done.map_err(|error| of_submodule(error, &place, &name))?;
            below.files += done.files;
            below.bytes += done.bytes;
            waiting.push_back((name, place, depth + 1));
        }
    }
    Ok(below)
}

/// The submodules of what is checked out there: path, address and commit.
fn named(git: &Git<'_>) -> Result<Vec<(String, String, CommitName)>, Error> {
    let place = git.path(".gitmodules");
    // Git does not follow one that is a link, and neither does this.
    if git.workspace.stat(&place)?.is_none_or(|entry| entry.kind != EntryKind::File) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for one in submodules::read(&git.workspace.read(&place, 0, submodules::SIZE_LIMIT)?) {
        // What the index says counts: an entry without a commit there is none.
        let listed = git.output(&git::file(&one.path), b"", OUTPUT_LIMIT)?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let staged = listed.split('\0').filter_map(git_output::staged).find(|(mode, _, path)| *mode == "160000" && *path == one.path);
        if let Some((_, commit, _)) = staged {
            found.push((one.path, one.url, CommitName::parse(commit)?));
        }
    }
    Ok(found)
}

/// Makes the directory. A build may have put a link on the way: it is removed, never followed.
fn make_way(workspace: &Workspace, place: &str) -> Result<(), Error> {
    for end in place.match_indices('/').map(|(end, _)| end).chain([place.len()]) {
        let part = &place[..end];
        match workspace.stat(part)? {
            Some(entry) if entry.kind == EntryKind::Directory => {}
            Some(_) => {
                workspace.remove(part, false)?;
                workspace.make_directory(part)?;
            }
            None => workspace.make_directory(part)?,
        }
    }
    Ok(())
}

/// Whoever reads it must not take the submodule for the project's own repository.
fn of_submodule(error: Error, place: &str, name: &RepositoryName) -> Error {
    let is_own = matches!(error.reason.as_deref(), Some("repository" | "branch" | "revision" | "http-status-301"));
    let reason = if is_own { Some("submodule".to_owned()) } else { error.reason };
    Error { message: format!("submodule {place} ({name}): {}", error.message), reason, ..error }
}
