//! Logs that nobody will read any more: finding them by their age, and deleting them.

use std::fs;
use std::io;
use std::path::Path;

use super::Logs;
use crate::model::{Build, Id, Timestamp};
use crate::platform::files;

/// A log is renamed to this before it is removed, so that a crash leaves no half of it under its name.
const DISCARDED: &str = ".discarded-";

impl Logs {
    /// The logs of builds that were made before `time`, oldest first. Also finishes deletions that a crash cut short.
    pub async fn made_before(&self, time: Timestamp) -> io::Result<Vec<Id<Build>>> {
        let directory = self.inner.settings.directory.clone();
        tokio::task::spawn_blocking(move || find(&directory, time)).await.map_err(io::Error::other)?
    }

    /// Deletes a log. One that is not there counts as deleted; one that is being written stays, and the answer is false.
    pub async fn delete(&self, build: Id<Build>) -> io::Result<bool> {
        let logs = self.clone();
        tokio::task::spawn_blocking(move || logs.delete_now(build)).await.map_err(io::Error::other)?
    }

    fn delete_now(&self, build: Id<Build>) -> io::Result<bool> {
        let directory = self.directory(build);
        let grave = directory.with_file_name(format!("{DISCARDED}{build}"));
        {
            // Nobody opens it for writing between the look and the rename.
            let _opening = self.inner.opening.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if self.open_logs().contains_key(&build) {
                return Ok(false);
            }
            match files::rename(&directory, &grave) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
                result => result?,
            }
        }
        fs::remove_dir_all(&grave)?;
        grave.parent().map_or(Ok(()), files::sync_directory)?;
        Ok(true)
    }
}

fn find(directory: &Path, time: Timestamp) -> io::Result<Vec<Id<Build>>> {
    let mut found = Vec::new();
    for part in fs::read_dir(directory)? {
        let part = part?;
        if !part.file_type()?.is_dir() {
            continue;
        }
        for entry in fs::read_dir(part.path())? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            if name.starts_with(DISCARDED) {
                fs::remove_dir_all(entry.path())?;
            } else if let Ok(build) = name.parse::<Id<Build>>()
                && i64::try_from(build.milliseconds()).is_ok_and(|made| made < time.0)
            {
                found.push(build);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}
