//! Artifacts from outside: the tarball as other programs read it, and what goes wrong on disk.

// Links, pipes, and GNU's tar.
#[cfg(unix)]
mod abuse;
mod lifecycle;
#[cfg(unix)]
mod tarball;

use std::path::Path;
use std::process::Command;

use cookhouse::artifacts::{ArtifactError, Artifacts, Settings, Staged};
use cookhouse::model::{Build, Id};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Artifacts in a directory of their own, and a directory to package.
struct Shelf {
    home: TempDir,
    artifacts: Artifacts,
}

impl Shelf {
    fn new() -> Shelf {
        let home = tempfile::tempdir().unwrap();
        let artifacts = open(home.path());
        std::fs::create_dir(home.path().join("source")).unwrap();
        Shelf { home, artifacts }
    }

    fn source(&self) -> std::path::PathBuf {
        self.home.path().join("source")
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.source().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    async fn package(&self, build: Id<Build>) -> Result<Staged, ArtifactError> {
        self.artifacts.package(self.source(), build, CancellationToken::new(), |_, _| {}).await
    }

    /// Packages and publishes, and returns where the tarball lies.
    async fn publish(&self, build: Id<Build>) -> std::path::PathBuf {
        self.package(build).await.unwrap().publish().await.unwrap();
        self.artifacts.path(build)
    }

    fn temporaries(&self) -> usize {
        std::fs::read_dir(self.home.path().join("temporary")).unwrap().count()
    }
}

fn open(home: &Path) -> Artifacts {
    let (directory, temporary) = (home.join("artifacts"), home.join("temporary"));
    Artifacts::open(&Settings { directory, temporary, largest: 1 << 30 }).unwrap()
}

fn build(chance: u128) -> Id<Build> {
    Id::from_parts(1_700_000_000_000, chance)
}

/// What a program prints; panics unless it succeeds.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
