//! The first start: a one-time token, printed once and kept in a file only the service's user reads.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use subtle::ConstantTimeEq;

use super::bearer::{self, Kind};
use super::{People, PeopleError};
use crate::model::Secret;
use crate::platform::files::create_private_file;

/// How long the token holds.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The token's file.
#[derive(Debug, Clone)]
pub struct SetupToken {
    path: PathBuf,
}

impl SetupToken {
    /// In this data directory.
    pub fn new(data_directory: &Path) -> Self {
        SetupToken { path: data_directory.join("setup-token") }
    }

    /// At start: the token to print while nobody exists, a new one if the former one is too old. Once there is somebody
    /// the file goes.
    pub fn prepare(&self, people: &People) -> Result<Option<Secret>, PeopleError> {
        if !people.is_empty()? {
            self.forget();
            return Ok(None);
        }
        if let Some(token) = self.read() {
            return Ok(Some(token));
        }
        self.forget();
        let token = bearer::new(Kind::Setup).map_err(|error| PeopleError::Hash(error.to_string()))?;
        let mut file = create_private_file(&self.path)?;
        writeln!(file, "{}", token.reveal())?;
        file.sync_all()?;
        Ok(Some(token))
    }

    /// Whether this is the token. Compared by hash in constant time.
    pub fn matches(&self, shown: &Secret) -> bool {
        self.read().is_some_and(|token| {
            let (own, shown) = (bearer::hash(token.reveal()), bearer::hash(shown.reveal()));
            own.as_bytes().ct_eq(shown.as_bytes()).into()
        })
    }

    /// It was used.
    pub fn forget(&self) {
        if let Err(error) = std::fs::remove_file(&self.path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "the used setup token's file could not be removed; it opens nothing any more");
        }
    }

    fn read(&self) -> Option<Secret> {
        let modified = std::fs::metadata(&self.path).ok()?.modified().ok()?;
        // A file from the future counts as fresh: clocks step.
        if SystemTime::now().duration_since(modified).is_ok_and(|age| age > LIFETIME) {
            return None;
        }
        let text = std::fs::read_to_string(&self.path).ok()?;
        let token = text.trim();
        (bearer::kind_of(token) == Some(Kind::Setup)).then(|| Secret::new(token.to_owned()))
    }
}
