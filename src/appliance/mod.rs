//! Builds the parts in order, runs them, shuts them down in reverse order.

mod directory;

use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::Clock;
use crate::config::Config;
use crate::people::{People, PeopleError, SetupToken};
use crate::platform::lock::LockError;
use crate::store::{self, Store, StoreError};
use crate::vault::VaultError;

use directory::Layout;
pub use directory::prepare as prepare_directory;

/// Memory for pages of the store.
const STORE_CACHE_BYTES: usize = 32 << 20;

/// Why the service does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error("the data directory {} cannot be used: {message}", .path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// Another server has it, or the lock file is no good.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The store.
    #[error("the store cannot be opened: {0}")]
    Store(#[from] StoreError),
    /// The key of secrets.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// People.
    #[error(transparent)]
    People(#[from] PeopleError),
}

/// Opens the store of a data directory for what the command line does with people. The caller holds the lock.
pub fn open_people(config: &Config) -> Result<(People, SetupToken), StartError> {
    let store = open_store(config)?;
    Ok((People::new(store, Arc::new(Clock::default())), SetupToken::new(&config.data_dir)))
}

fn open_store(config: &Config) -> Result<Store, StoreError> {
    Store::open(&store::Settings { path: Layout(&config.data_dir).store(), cache_bytes: STORE_CACHE_BYTES })
}
