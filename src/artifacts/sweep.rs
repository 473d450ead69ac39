//! What the last run left behind, cleared away at start.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{ArtifactError, Artifacts, SUFFIX};
use crate::model::{Build, Id};

/// Artifacts without a record are kept this long before they are deleted: time to notice a store that came from a backup.
const QUARANTINE: Duration = Duration::from_secs(24 * 60 * 60);
/// Beside the directories of artifacts, which have two characters.
const QUARANTINE_DIRECTORY: &str = "quarantine";

/// What becomes of a file that lies under a build's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// A record names it.
    Keep,
    /// The record says that it was deleted: a crash came between the record and the file.
    Delete,
    /// Nobody knows it.
    Quarantine,
}

/// What a sweep did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Half-made files of builds that are no more.
    pub temporaries: usize,
    /// Names of the files that no record names, now in quarantine.
    pub quarantined: Vec<String>,
    /// Files that retention had deleted already, and those whose time in quarantine was over.
    pub deleted: usize,
}

impl Artifacts {
    /// Clears away what a crash left. Called once at start, before anything is packaged; `fate` says what the build's
    /// record says of its artifact.
    pub async fn sweep(&self, fate: impl Fn(Id<Build>) -> Fate + Send + 'static) -> Result<Swept, ArtifactError> {
        let artifacts = self.clone();
        super::blocking(move || artifacts.sweep_now(&fate).map_err(ArtifactError::disk("sweeping the artifacts"))).await
    }

    /// Deletes what has been in quarantine for a day.
    pub async fn empty_quarantine(&self) -> Result<usize, ArtifactError> {
        let quarantine = self.inner.directory.join(QUARANTINE_DIRECTORY);
        super::blocking(move || match delete_old(&quarantine) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            result => result.map_err(ArtifactError::disk("emptying the quarantine")),
        })
        .await
    }

    fn sweep_now(&self, fate: &dyn Fn(Id<Build>) -> Fate) -> io::Result<Swept> {
        let mut swept = Swept::default();
        for entry in fs::read_dir(&self.inner.temporary)? {
            let entry = entry?;
            // Others keep their temporaries here as well.
            if entry.file_name().as_encoded_bytes().ends_with(super::TEMPORARY_SUFFIX.as_bytes()) {
                fs::remove_file(entry.path())?;
                swept.temporaries += 1;
            }
        }
        let quarantine = self.inner.directory.join(QUARANTINE_DIRECTORY);
        fs::create_dir_all(&quarantine)?;
        swept.deleted += delete_old(&quarantine)?;
        for directory in fs::read_dir(&self.inner.directory)? {
            let directory = directory?;
            if !directory.file_type()?.is_dir() || directory.path() == quarantine {
                continue;
            }
            for entry in fs::read_dir(directory.path())? {
                let path = entry?.path();
                let build = path.file_name().and_then(|name| name.to_str()?.strip_suffix(SUFFIX)?.parse().ok());
                match build.filter(|build| self.path(*build) == path).map_or(Fate::Quarantine, fate) {
                    Fate::Keep => continue,
                    Fate::Delete => {
                        fs::remove_file(&path)?;
                        swept.deleted += 1;
                        continue;
                    }
                    Fate::Quarantine => {}
                }
                let name = path.file_name().unwrap_or_default();
                let place = quarantine.join(name);
                fs::rename(&path, &place)?;
                touch(&place);
                swept.quarantined.push(name.to_string_lossy().into_owned());
            }
        }
        swept.quarantined.sort();
        Ok(swept)
    }
}

fn delete_old(quarantine: &Path) -> io::Result<usize> {
    let mut deleted = 0;
    for entry in fs::read_dir(quarantine)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        // A time in the future waits for its turn; what has no time goes.
        let age = metadata.modified().map_or(Duration::MAX, |time| SystemTime::now().duration_since(time).unwrap_or_default());
        if metadata.is_file() && age >= QUARANTINE {
            fs::remove_file(entry.path())?;
            deleted += 1;
        }
    }
    Ok(deleted)
}

/// The time in quarantine counts from now; a file that cannot be touched leaves it earlier.
fn touch(path: &Path) {
    if let Ok(file) = fs::File::options().write(true).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}
