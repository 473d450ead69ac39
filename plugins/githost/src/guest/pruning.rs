//! Keeps the repository in a workspace from growing for ever: what the commit does not need is removed, now and then.

use super::bindings::cookhouse::plugin::log::Level;
use super::bindings::cookhouse::plugin::workspaces::{Entry, EntryKind};
use super::checkout::say;
use super::tool::{Fault, Git};
use crate::git;

const MOST_ENTRIES: u32 = 10_000;

/// Removes what only earlier commits needed. Nothing is lost by not doing it: a failure is named and costs disk space.
pub(super) fn prune(git: &Git<'_>) -> Result<(), Fault> {
    if !git.has_fetched() {
        return Ok(());
    }
    let files = |path: &str| -> Result<Vec<Entry>, Fault> {
        let place = git.path(path);
        match git.workspace.stat(&place)? {
            Some(entry) if entry.kind == EntryKind::Directory => Ok(git.workspace.entries(&place, MOST_ENTRIES)?),
            _ => Ok(Vec::new()),
        }
    };
    let packs: Vec<u64> =
        files(".git/objects/pack")?.into_iter().filter(|entry| entry.path.ends_with(".pack")).map(|entry| entry.size).collect();
    // Loose objects are spread evenly over 256 directories.
    let loose = files(".git/objects/17")?.len() * 256;
    if git::has_grown(&packs, loose) {
        say(Level::Info, "Removing what earlier commits left in the repository");
        tolerate(git.run(&git::collect()))?;
    }
    if !files(".git/lfs/objects")?.is_empty() {
        tolerate(git.run(&git::prune_large_files()))?;
    }
    Ok(())
}

fn tolerate(outcome: Result<(), Fault>) -> Result<(), Fault> {
    match outcome {
        Err(Fault::Failed(failure)) => {
            say(Level::Warn, format!("What earlier commits left could not be removed: {}", failure.into_problem()));
            Ok(())
        }
        other => other,
    }
}
