//! What can go wrong with an artifact.

use std::io;

/// Why an artifact could not be made, published or read. Paths are relative to the packaged directory, so that the text may be shown.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The disk, or the quota on it, is full. Nothing of the artifact is left behind.
    #[error("the disk that holds the artifacts is full; free some space and build again")]
    StorageFull,
    /// The tarball would be larger than the configured limit.
    #[error("the artifact is larger than the limit of {limit} bytes")]
    TooLarge {
        /// In bytes.
        limit: u64,
    },
    /// The directory holds more entries than are packaged.
    #[error("the directory to package holds more than {limit} files")]
    TooManyFiles {
        /// Files, directories and links together.
        limit: usize,
    },
    /// A symbolic link points outside of the directory: unpacked elsewhere it would be broken, or worse.
    #[error("the symbolic link {path:?} points outside of the packaged directory")]
    LinkLeaves {
        /// The link.
        path: String,
    },
    /// A file grew, shrank or vanished while it was being read: something of the build is still at work.
    #[error("the file {path:?} changed while it was being packaged")]
    SourceChanged {
        /// The file.
        path: String,
    },
    /// A file or directory that cannot be read.
    #[error("{path:?} cannot be read: {source}")]
    Unreadable {
        /// The file or directory; empty for the packaged directory itself.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// Asked to stop.
    #[error("packaging was cancelled")]
    Cancelled,
    /// There is an artifact of this build already; the first one stays.
    #[error("this build has an artifact already")]
    AlreadyPublished,
    /// Anything else the disk said.
    #[error("{doing}: {source}")]
    Disk {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl ArtifactError {
    /// Tells a full disk apart from everything else a write can say.
    pub(super) fn disk(doing: &'static str) -> impl FnOnce(io::Error) -> ArtifactError {
        move |source| match source.kind() {
            // A file size limit is a full disk to whoever has to act on it.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => ArtifactError::StorageFull,
            _ => ArtifactError::Disk { doing, source },
        }
    }
}
