//! Finding and reading files of a changelist without a checkout.

use guest_support::pattern;

use super::bindings::cookhouse::plugin::types::{Error, ErrorCode};
use super::bindings::exports::cookhouse::plugin::source_control::Found;
use super::source::{missing, view};
use super::tool::P4;
use crate::commands;
use crate::names::{Changelist, FilePath, StreamPath};
use crate::record::Record;

/// Patterns of one question.
const AT_ONCE: usize = 100;
/// Files that are looked at for each one that may match: the server's patterns are coarser than ours.
const MARGIN: u32 = 4;
const MOST_LOOKED_AT: u32 = 10_000;

pub(super) fn find(p4: &mut P4, stream: &StreamPath, at: Changelist, wanted: &str, max_depth: u32, limit: u32) -> Result<Found, Error> {
    let view = view(p4, stream)?;
    let most = limit.saturating_add(1).saturating_mul(MARGIN).min(MOST_LOOKED_AT);
    let (mut paths, mut truncated) = (Vec::new(), false);
    for patterns in view.find(wanted, max_depth as usize).chunks(AT_ONCE) {
        let answer = match p4.ask(&commands::files(patterns, at, most)) {
            // A pattern in a depot that holds nothing of ours.
            Err(error) if error.code == ErrorCode::NotFound => continue,
            other => other?,
        };
        truncated |= answer.records.len() >= most as usize;
        for file in answer.records.iter().filter(|file| is_regular(file)) {
            let Some(path) = view.stream_file(file.get("depotFile"), p4.ignores_case) else { continue };
            // A path that could not be asked for is no path of ours, whatever the server says.
            if path.matches('/').count() <= max_depth as usize && matches(wanted, &path, p4.ignores_case) && FilePath::parse(&path).is_ok()
            {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.dedup();
    truncated |= paths.len() > limit as usize;
    paths.truncate(limit as usize);
    Ok(Found { paths, truncated })
}

/// A pattern is for any case; a path without wildcards means this file, unless the server thinks otherwise.
fn matches(wanted: &str, path: &str, ignores_case: bool) -> bool {
    if wanted.contains(['*', '?']) || ignores_case { pattern::matches(wanted, path) } else { wanted == path }
}

/// Links are not followed.
fn is_regular(file: &Record) -> bool {
    !file.get("type").starts_with("symlink") && !file.get("action").contains("delete")
}

pub(super) fn read(p4: &mut P4, stream: &StreamPath, at: Changelist, path: &FilePath, limit: u32) -> Result<Vec<u8>, Error> {
    let view = view(p4, stream)?;
    let none = || missing(format!("{stream} has no file {} at changelist {at}", path.as_str()), "file");
    let depot_file = view.depot_file(path.as_str(), p4.ignores_case).ok_or_else(none)?;
    let answer = p4.ask(&commands::files(std::slice::from_ref(&depot_file), at, 2))?;
    let file = answer.records.iter().find(|file| is_regular(file)).ok_or_else(none)?;
    // As the server writes it.
    let depot_file = Some(file.get("depotFile")).filter(|name| !name.is_empty()).unwrap_or(&depot_file);
    p4.bytes(&commands::print(depot_file, at), limit)
}
