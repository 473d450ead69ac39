//! Tarballs on local disk: stage → publish → open → delete.
//!
//! An artifact lies at `<directory>/<aa>/<buildId>.tar.gz`, where `aa` are the last two characters of the id. It is made under
//! a temporary name on the same file system, synced, and renamed: a file under its real name is complete. The caller writes
//! the record after [`Staged::publish`] and calls [`Artifacts::delete`] after the record says that it is gone.

mod deflate;
mod error;
mod fast_deflate;
mod huffman;
mod pipeline;
pub mod signed_url;
mod staged;
mod sweep;
mod tar_header;
mod tarball;
mod tree;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use tokio_util::sync::CancellationToken;

pub use error::ArtifactError;
pub use staged::Staged;
pub use sweep::{Fate, Swept};

use crate::model::{Build, Id};
use crate::platform::files;

const SUFFIX: &str = ".tar.gz";
const TEMPORARY_SUFFIX: &str = ".artifact-part";
/// More compressing threads than this wait for the disk and the checksums; each costs about 3 MiB.
const MOST_THREADS: usize = 16;

/// Where artifacts lie.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Holds the artifacts and nothing else.
    pub directory: PathBuf,
    /// On the same file system as `directory`.
    pub temporary: PathBuf,
    /// The largest tarball, in bytes.
    pub largest: u64,
}

/// The artifacts of all builds. A cheap handle.
#[derive(Debug, Clone)]
pub struct Artifacts {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    temporary: PathBuf,
    largest: u64,
    threads: usize,
}

/// An artifact that is being read; stays readable when it is deleted meanwhile.
#[derive(Debug)]
pub struct OpenArtifact {
    /// At its beginning.
    pub file: File,
    /// In bytes.
    pub size: u64,
    /// When it was finished.
    pub modified: SystemTime,
}

impl Artifacts {
    /// Makes the directories where they are missing.
    pub fn open(settings: &Settings) -> Result<Self, ArtifactError> {
        for directory in [&settings.directory, &settings.temporary] {
            files::create_private_directory(directory).map_err(ArtifactError::disk("creating the directory of the artifacts"))?;
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        let Settings { directory, temporary, largest } = settings.clone();
        Ok(Artifacts { inner: Arc::new(Inner { directory, temporary, largest, threads }) })
    }

    /// Makes the tarball of everything in `source`, synced to disk under a temporary name. `progress` is told the bytes of
    /// files done and of all files, often. Whatever goes wrong, nothing is left behind.
    pub async fn package(
        &self,
        source: PathBuf,
        build: Id<Build>,
        stop: CancellationToken,
        progress: impl Fn(u64, u64) + Send + 'static,
    ) -> Result<Staged, ArtifactError> {
        let artifacts = self.clone();
        // When the caller goes away, the work stops with it.
        let given_up = CancellationToken::new();
        let _guard = given_up.clone().drop_guard();
        blocking(move || artifacts.package_now(&source, build, &|| stop.is_cancelled() || given_up.is_cancelled(), &progress)).await
    }

    fn package_now(
        &self,
        source: &Path,
        build: Id<Build>,
        is_stopped: &dyn Fn() -> bool,
        progress: &dyn Fn(u64, u64),
    ) -> Result<Staged, ArtifactError> {
        let unreadable = |source| ArtifactError::Unreadable { path: String::new(), source };
        let root = Dir::open_ambient_dir(source, ambient_authority()).map_err(unreadable)?;
        let mut chance = [0; 8];
        let _ = getrandom::fill(&mut chance);
        let name = format!("{build}-{:016x}{TEMPORARY_SUFFIX}", u64::from_ne_bytes(chance));
        let (temporary, file) = staged::TemporaryFile::create(self.inner.temporary.join(name))?;
        let job = tarball::Job { threads: self.inner.threads, limit: self.inner.largest, is_stopped, progress };
        let (written, skipped) = tarball::write(&root, &file, &job)?;
        file.sync_all().map_err(ArtifactError::disk("syncing the artifact"))?;
        Ok(Staged {
            size_bytes: written.size_bytes,
            md5: written.md5,
            sha256: written.sha256,
            skipped,
            file: temporary,
            place: self.path(build),
        })
    }

    /// Where the artifact of this build lies, or would.
    pub fn path(&self, build: Id<Build>) -> PathBuf {
        let id = build.as_str();
        self.inner.directory.join(&id[id.len() - 2..]).join(file_name(build))
    }

    /// What is left of their disk.
    pub fn free_space(&self) -> io::Result<files::Space> {
        files::free_space(&self.inner.directory)
    }

    /// Opens a published artifact; `None` if there is none.
    pub async fn open_artifact(&self, build: Id<Build>) -> Result<Option<OpenArtifact>, ArtifactError> {
        let path = self.path(build);
        blocking(move || {
            let opened = File::open(path).and_then(|file| {
                let metadata = file.metadata()?;
                Ok(OpenArtifact { size: metadata.len(), modified: metadata.modified()?, file })
            });
            match opened {
                Ok(artifact) => Ok(Some(artifact)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(source) => Err(ArtifactError::Disk { doing: "opening the artifact", source }),
            }
        })
        .await
    }

    /// Deletes it, for good when this returns. An artifact that is not there counts as deleted; whoever reads it can go on.
    pub async fn delete(&self, build: Id<Build>) -> Result<(), ArtifactError> {
        let path = self.path(build);
        blocking(move || {
            let failed = || ArtifactError::disk("deleting the artifact");
            match fs::remove_file(&path) {
                Ok(()) => path.parent().map_or(Ok(()), |directory| files::sync_directory(directory).map_err(failed())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(failed()(error)),
            }
        })
        .await
    }
}

/// `<buildId>.tar.gz`, as downloads and deploys name it.
pub fn file_name(build: Id<Build>) -> String {
    format!("{build}{SUFFIX}")
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, ArtifactError> + Send + 'static) -> Result<T, ArtifactError> {
    let ended = |error| ArtifactError::Disk { doing: "working on an artifact", source: io::Error::other(error) };
    tokio::task::spawn_blocking(work).await.map_err(ended)?
}
