//! A finished tarball that nobody can see yet.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::ArtifactError;
use crate::platform::files;

/// A tarball on disk, complete and synced, still under a temporary name. Dropping it removes it.
#[derive(Debug)]
pub struct Staged {
    /// Bytes of the tarball.
    pub size_bytes: u64,
    /// Lower-case hex.
    pub md5: String,
    /// Lower-case hex.
    pub sha256: String,
    /// What could not be packaged (sockets, devices), for the log.
    pub skipped: Vec<String>,
    pub(super) file: TemporaryFile,
    pub(super) place: PathBuf,
}

impl Staged {
    /// Gives the tarball its name, on disk for good when this returns. The record that names it is written after, so that a
    /// crash leaves a stray file, never a dead link.
    pub async fn publish(self) -> Result<(), ArtifactError> {
        super::blocking(move || self.publish_now()).await
    }

    fn publish_now(mut self) -> Result<(), ArtifactError> {
        let failed = || ArtifactError::disk("publishing the artifact");
        let directory = self.place.parent().map(PathBuf::from).unwrap_or_default();
        let is_new = match std::fs::create_dir(&directory) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(failed()(error)),
        };
        files::rename_no_replace(&self.file.path, &self.place).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => ArtifactError::AlreadyPublished,
            _ => failed()(error),
        })?;
        self.file.is_gone = true;
        files::sync_directory(&directory).map_err(failed())?;
        match directory.parent() {
            Some(parent) if is_new => files::sync_directory(parent).map_err(failed()),
            _ => Ok(()),
        }
    }
}

/// A file that is removed unless it was renamed.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    pub path: PathBuf,
    pub is_gone: bool,
}

impl TemporaryFile {
    /// A new file, readable by the service alone.
    pub(super) fn create(path: PathBuf) -> Result<(Self, File), ArtifactError> {
        let file = files::create_private_file(&path).map_err(ArtifactError::disk("creating the artifact"))?;
        Ok((TemporaryFile { path, is_gone: false }, file))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.is_gone {
            // What stays after a failure here goes with the sweep of the next start.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
