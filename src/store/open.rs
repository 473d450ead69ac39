//! Making, opening and reopening the file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use redb::{Database, ReadableDatabase, StorageBackend, TableHandle};
use tokio::sync::watch;

use super::{Settings, StoreError, migrations, read, tables};
use crate::platform::files::{make_private, rename, sync_directory};

/// Opens the database, as often as it has to be opened.
type Opener = Box<dyn Fn() -> Result<Database, StoreError> + Send + Sync>;

/// The open database, which the writer may close and open again after the disk was full.
pub(super) struct Shared {
    opener: Opener,
    database: RwLock<Option<Database>>,
    failed: watch::Sender<bool>,
}

impl Shared {
    pub(super) fn open(settings: &Settings) -> Result<Self, StoreError> {
        if !settings.path.try_exists()? {
            create(settings)?;
        }
        let settings = settings.clone();
        Shared::with_opener(Box::new(move || {
            let said = std::sync::Once::new();
            let builder = &mut Database::builder();
            builder.set_cache_size(settings.cache_bytes);
            builder.set_repair_callback(move |_| said.call_once(|| tracing::warn!("the store was not closed cleanly; checking it")));
            Ok(builder.open(&settings.path)?)
        }))
    }

    pub(super) fn open_on<B: StorageBackend>(backend: impl Fn() -> B + Send + Sync + 'static) -> Result<Self, StoreError> {
        Shared::with_opener(Box::new(move || Ok(Database::builder().create_with_backend(backend())?)))
    }

    fn with_opener(opener: Opener) -> Result<Self, StoreError> {
        let database = bring_up(opener()?)?;
        Ok(Shared { opener, database: RwLock::new(Some(database)), failed: watch::Sender::new(false) })
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
            *database = Some(bring_up((self.opener)()?)?);
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
    drop(bring_up(Database::builder().set_cache_size(settings.cache_bytes).create(&new)?)?);
    // It holds password hashes and sealed secrets.
    make_private(&new)?;
    rename(&new, &settings.path)?;
    sync_directory(settings.path.parent().unwrap_or(Path::new(".")))?;
    Ok(())
}

/// Makes the tables of a new store, and brings an old one to this version's schema.
fn bring_up(database: Database) -> Result<Database, StoreError> {
    let present = tables_of(&database)?;
    // Nothing is written to a store that is as it should be: it must open on a full disk, too.
    if is_current(&database, &present)? {
        return Ok(database);
    }
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    for name in tables::names() {
        transaction.open_table(read::table(name))?;
    }
    if present.is_empty() {
        migrations::stamp(&transaction)?;
    } else {
        migrations::run(&transaction)?;
        tracing::info!(schema = migrations::newest(), "the store was brought to this version's schema");
    }
    transaction.commit()?;
    Ok(database)
}

fn tables_of(database: &Database) -> Result<BTreeSet<String>, StoreError> {
    Ok(database.begin_read()?.list_tables()?.map(|table| table.name().to_owned()).collect())
}

fn is_current(database: &Database, present: &BTreeSet<String>) -> Result<bool, StoreError> {
    if !tables::names().iter().all(|name| present.contains(*name)) {
        return Ok(false);
    }
    let meta = database.begin_read()?.open_table(read::table(tables::META))?;
    Ok(migrations::found(&meta)? == migrations::newest())
}
