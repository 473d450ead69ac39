//! The store: one redb file. No other module names redb.
//!
//! Reading is a closure over one snapshot, writing a closure that runs on the one writer thread in a transaction of
//! its own. A write is answered only after the flush that covers it. Readers may see a change a moment before it is
//! durable, therefore nothing outside may be done because of something merely read: claim it with a write first.

mod announce;
pub mod audit;
pub mod build_list;
pub mod census;
mod codec;
mod deploy_ledger;
mod error;
pub mod event_log;
pub mod key;
mod migrations;
mod open;
pub mod read;
pub mod record;
mod sealing;
pub mod tables;
pub mod webhook_queue;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

pub use error::StoreError;
pub use event_log::EventLog;
pub use read::{Order, Page, Read, Snapshot};
pub use record::{Index, Record, Scope};
pub use redb::StorageBackend;
pub use writer::Change;

use crate::model::histogram::Counts;

/// Where the store lies and how much memory it may keep pages in.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The file.
    pub path: PathBuf,
    /// Page cache, in bytes.
    pub cache_bytes: usize,
}

/// The handle. Cheap to clone; the file is closed when the last one is gone.
#[derive(Clone)]
pub struct Store {
    shared: Arc<open::Shared>,
    writer: Arc<writer::Writer>,
}

impl Store {
    /// Opens the file, makes it when there is none, and brings it to this version's schema.
    ///
    /// A file of a newer version is refused: going back needs the backup of that version.
    pub fn open(settings: &Settings) -> Result<Store, StoreError> {
        Store::start(open::Shared::open(settings)?)
    }

    /// Opens a store on another medium than a file: memory, or a disk that a test lets fail. `medium` is asked again
    /// whenever the store has to be opened anew.
    pub fn open_on<B: StorageBackend>(medium: impl Fn() -> B + Send + Sync + 'static) -> Result<Store, StoreError> {
        Store::start(open::Shared::open_on(medium)?)
    }

    fn start(shared: open::Shared) -> Result<Store, StoreError> {
        let shared = Arc::new(shared);
        let newest = shared.with_database(|database| Snapshot::begin(database.ok_or(StoreError::Closed)?)?.newest_event())?;
        let writer = Arc::new(writer::Writer::start(shared.clone(), newest)?);
        Ok(Store { shared, writer })
    }

    /// Runs `job` over one snapshot. Keep it short and never wait inside: a held snapshot pins pages.
    pub fn read<T, E: From<StoreError>>(&self, job: impl FnOnce(&Snapshot) -> Result<T, E>) -> Result<T, E> {
        self.shared.with_database(|database| job(&Snapshot::begin(database.ok_or(StoreError::Closed)?)?))
    }

    /// Runs `job` in a transaction of its own and returns once it is on disk. An error undoes exactly this job.
    pub async fn write<T, E>(&self, job: impl FnOnce(&Change) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.writer.run(job).await
    }

    /// As [`Store::write`], for callers outside the runtime.
    pub fn write_blocking<T, E>(&self, job: impl FnOnce(&Change) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.writer.run_blocking(job)
    }

    /// Waits until the disk refused to keep what was written for another reason than a lack of space.
    /// From then on every write is refused; the appliance must stop.
    pub async fn failed(&self) {
        self.shared.failed().await;
    }

    /// Follows the sequence of the newest durable event, 0 before the first one. What a snapshot shows beyond it may still be
    /// lost in a crash: nobody outside is told of it before.
    pub fn events(&self) -> tokio::sync::watch::Receiver<u64> {
        self.writer.events()
    }

    /// How long writes took, from asking for one to its being durable.
    pub fn write_durations(&self) -> Counts {
        self.writer.durations()
    }

    /// Every index row that disagrees with its record, in words; empty when all is well.
    pub fn check(&self) -> Result<Vec<String>, StoreError> {
        self.read(tables::check)
    }
}
