//! What can go wrong in the store.

/// The store's own words; the API translates them once.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full. Everything stored stays readable; writing works again when there is space.
    #[error("the disk that holds the store is full")]
    StorageFull,
    /// More writes are waiting than the writer may queue.
    #[error("too many writes are waiting")]
    Busy,
    /// The writer has ended: the service is stopping, or the disk failed.
    #[error("the store is closed")]
    Closed,
    /// Another process has the file open.
    #[error("another process has the store open")]
    InUse,
    /// The file was written by a newer version.
    #[error(
        "the store has schema {found}, this version knows up to {known}: start the newer version again, or restore the backup made before the upgrade"
    )]
    NewerSchema {
        /// What the file says.
        found: u32,
        /// The newest that this version has.
        known: u32,
    },
    /// A stored value does not read back.
    #[error("the store holds a value in {table} that does not read back: {reason}")]
    Corrupt {
        /// Which table.
        table: &'static str,
        /// Why.
        reason: String,
    },
    /// The database itself failed.
    #[error("the store failed: {0}")]
    Database(Box<redb::Error>),
    /// Reading or renaming the file failed.
    #[error("the store's file: {0}")]
    File(#[from] std::io::Error),
}

impl StoreError {
    /// The same refusal for everybody else who waited: full, or closed.
    pub(super) fn again(&self) -> StoreError {
        if self.is_for_want_of_space() { StoreError::StorageFull } else { StoreError::Closed }
    }

    /// The disk was full, at this write or at the one that made the handle refuse this one.
    pub(super) fn is_for_want_of_space(&self) -> bool {
        match self {
            StoreError::StorageFull => true,
            StoreError::Database(error) => matches!(**error, redb::Error::PreviousIo),
            _ => false,
        }
    }
}

impl From<redb::Error> for StoreError {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::Io(io) if io.kind() == std::io::ErrorKind::StorageFull => StoreError::StorageFull,
            redb::Error::DatabaseAlreadyOpen => StoreError::InUse,
            other => StoreError::Database(Box::new(other)),
        }
    }
}

macro_rules! through_the_common_error {
    ($($kind:ident),*) => {$(
        impl From<redb::$kind> for StoreError {
            fn from(error: redb::$kind) -> Self {
                redb::Error::from(error).into()
            }
        }
    )*};
}
through_the_common_error!(CommitError, DatabaseError, SetDurabilityError, StorageError, TableError, TransactionError);
