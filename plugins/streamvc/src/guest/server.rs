//! The server: how it wants to be spoken to, and whether it lets us in.

use guest_support::{Code, Problem};

use super::bindings::cookhouse::plugin::cache;
use super::bindings::cookhouse::plugin::types::Error;
use super::bindings::exports::cookhouse::plugin::source_control::{Features, Server};
use super::tool::{self, P4};
use crate::record::Record;
use crate::settings::Settings;
use crate::{commands, failure, tool as program};

/// How long it is believed that a server is as it was.
const REMEMBERED_MS: u64 = 10 * 60 * 1000;
const REMEMBERED: &str = "server";

/// Reachability, key, ticket, and one question that only a user who was let in may ask.
pub(super) fn check(settings: &Settings) -> Result<Server, Error> {
    check_program()?;
    let mut p4 = P4::new(settings.user_name.clone(), settings.fingerprint.clone());
    let facts = first_sight(&mut p4)?;
    learn(&mut p4, &facts);
    let login = p4.ask(&commands::login_status())?;
    // A server that does not know the question does not keep anybody out.
    match p4.ask(&commands::newest()) {
        Err(error) if matches!(error.reason.as_deref(), Some("unknown-command" | "refused")) => {}
        other => drop(other?),
    }
    let mut extra = Vec::new();
    let mut add = |name: &str, value: String| extra.push((name.to_owned(), value));
    if !p4.fingerprint().is_empty() {
        add("fingerprint", p4.fingerprint().to_owned());
    }
    if let Some(seconds) = login.records.iter().find_map(|record| record.number("TicketExpiration")) {
        add("ticketSeconds", seconds.to_string());
    }
    add("caseHandling", if p4.ignores_case { "insensitive" } else { "sensitive" }.to_owned());
    Ok(Server {
        product: "Perforce".to_owned(),
        version: facts.get("serverVersion").to_owned(),
        account: Some(settings.user_name.clone()),
        features: Features::REPOSITORIES | Features::BRANCHES | Features::REMOTE_READ | Features::LARGE_FILES,
        extra,
    })
}

/// The first question, by whose answer a key that nobody pinned is taken for the server's.
fn first_sight(p4: &mut P4) -> Result<Record, Error> {
    match ask(p4) {
        Err(error) if error.reason.as_deref() == Some("untrusted-certificate") && p4.fingerprint().is_empty() => {
            let Some(fingerprint) = failure::fingerprint(&error.message).map(str::to_owned) else { return Err(error) };
            p4.trust(&fingerprint);
            ask(p4)
        }
        other => other,
    }
}

fn ask(p4: &mut P4) -> Result<Record, Error> {
    let answer = match p4.ask(&commands::info()) {
        Err(error) if error.reason.as_deref() == Some("charset") && !p4.is_unicode => {
            p4.is_unicode = true;
            p4.ask(&commands::info())?
        }
        other => other?,
    };
    let facts = answer.records.into_iter().next();
    facts.ok_or_else(|| Problem::new(Code::Protocol, "the server says nothing about itself").because("info").into())
}

fn learn(p4: &mut P4, facts: &Record) {
    // What a server does not tell is what it was found to be.
    p4.is_unicode |= facts.get("unicode") == "enabled";
    p4.ignores_case = facts.get("caseHandling") == "insensitive";
    let known = format!("{} {}", p4.is_unicode, p4.ignores_case);
    cache::put(REMEMBERED, known.as_bytes(), REMEMBERED_MS);
}

/// p4 as the server wants it: known from an earlier call, or asked now.
pub(super) fn meet(mut p4: P4) -> Result<P4, Error> {
    match cache::get(REMEMBERED).and_then(|known| String::from_utf8(known).ok()) {
        Some(known) => (p4.is_unicode, p4.ignores_case) = (known.starts_with("true "), known.ends_with(" true")),
        None => {
            let facts = ask(&mut p4)?;
            learn(&mut p4, &facts);
        }
    }
    Ok(p4)
}

/// Builds of p4 that print no JSON are told from servers that fail.
fn check_program() -> Result<(), Error> {
    let text = tool::version()?;
    match program::version(&text) {
        Some(version) if version < program::OLDEST => {
            let text = format!(
                "the p4 program of this machine is of {}.{}; {}.{} or newer is needed",
                version.0,
                version.1,
                program::OLDEST.0,
                program::OLDEST.1
            );
            Err(Problem::new(Code::Unsupported, text).because("tool-version").into())
        }
        _ => Ok(()),
    }
}
