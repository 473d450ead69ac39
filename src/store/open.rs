//! Making, opening and reopening the file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use redb::{Database, ReadableDatabase, TableHandle};
use tokio::sync::watch;

use super::{Settings, StoreError, migrations, read, tables};
use crate::platform::files::{make_private, sync_directory};

/// The open database, which the writer may close and open again after the disk was full.
pub(super) struct Shared {
    settings: Settings,
    database: RwLock<Option<Database>>,
    failed: watch::Sender<bool>,
}

impl Shared {
    pub(super) fn open(settings: &Settings) -> Result<Self, StoreError> {
        if !settings.path.try_exists()? {
            create(settings)?;
        }
        let database = open(settings)?;
        Ok(Shared { settings: settings.clone(), database: RwLock::new(Some(database)), failed: watch::Sender::new(false) })
    }

    /// Runs `job` while the database stays as it is; there is none between a full disk and its end.
    pub(super) fn with_database<T>(&self, job: impl FnOnce(Option<&Database>) -> T) -> T {
        job(self.database.read().unwrap_or_else(PoisonError::into_inner).as_ref())
    }

    pub(super) fn close(&self) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn ensure_open(&self) -> Result<(), StoreError> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        if database.is_none() {
            *database = Some(open(&self.settings)?);
        }
        Ok(())
    }

    pub(super) fn fail(&self) {
        self.failed.send_replace(true);
    }

    pub(super) async fn failed(&self) {
        let mut failed = self.failed.subscribe();
        // The sender lives as long as `self`.
        let _ = failed.wait_for(|failed| *failed).await;
    }
}

/// A crash while redb makes a file leaves one that will not open, so it is made under another name.
fn create(settings: &Settings) -> Result<(), StoreError> {
    let mut new = settings.path.clone().into_os_string();
    new.push(".new");
    let new = PathBuf::from(new);
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let database = Database::builder().set_cache_size(settings.cache_bytes).create(&new)?;
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    for name in tables::names() {
        transaction.open_table(read::table(name))?;
    }
    migrations::stamp(&transaction)?;
    transaction.commit()?;
    drop(database);
    // It holds password hashes and sealed secrets.
    make_private(&new)?;
    std::fs::rename(&new, &settings.path)?;
    sync_directory(settings.path.parent().unwrap_or(Path::new(".")))?;
    Ok(())
}

fn open(settings: &Settings) -> Result<Database, StoreError> {
    let said = std::sync::Once::new();
    let database = Database::builder()
        .set_cache_size(settings.cache_bytes)
        .set_repair_callback(move |_| {
            said.call_once(|| tracing::warn!("the store was not closed cleanly; checking it"));
        })
        .open(&settings.path)?;
    // Nothing is written to a store that is as it should be: it must open on a full disk, too.
    if is_current(&database)? {
        return Ok(database);
    }
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    for name in tables::names() {
        transaction.open_table(read::table(name))?;
    }
    migrations::run(&transaction)?;
    transaction.commit()?;
    tracing::info!(schema = migrations::newest(), "the store was brought to this version's schema");
    Ok(database)
}

fn is_current(database: &Database) -> Result<bool, StoreError> {
    let transaction = database.begin_read()?;
    let present: BTreeSet<String> = transaction.list_tables()?.map(|table| table.name().to_owned()).collect();
    Ok(tables::names().iter().all(|name| present.contains(*name))
        && migrations::found(&transaction.open_table(read::table(tables::META))?)? == migrations::newest())
}
