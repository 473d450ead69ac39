//! The numbered list of migrations, and the check of the schema's number at open.
//!
//! A migration works on raw rows as `serde_json::Value`, never on today's types, which change under it.

use redb::{ReadableTable, WriteTransaction};

use super::StoreError;
use super::read::table;
use super::tables::META;

type Migration = fn(&WriteTransaction) -> Result<(), StoreError>;

/// Entry n brings schema n + 1 to n + 2: a store begins at 1.
const MIGRATIONS: &[Migration] = &[];

const SCHEMA: &[u8] = b"schema";

/// The schema of this version.
pub(super) fn newest() -> u32 {
    1 + MIGRATIONS.len() as u32
}

/// Notes the newest schema in a new store.
pub(super) fn stamp(transaction: &WriteTransaction) -> Result<(), StoreError> {
    transaction.open_table(table(META))?.insert(SCHEMA, newest().to_be_bytes().as_slice())?;
    Ok(())
}

/// The schema of an opened store; a newer one than ours is refused.
pub(super) fn found(meta: &impl ReadableTable<&'static [u8], &'static [u8]>) -> Result<u32, StoreError> {
    let value = meta.get(SCHEMA)?.map(|value| value.value().to_vec());
    let bytes: Option<[u8; 4]> = value.and_then(|value| value.try_into().ok());
    let found = u32::from_be_bytes(bytes.ok_or(StoreError::Corrupt { table: META, reason: "it has no schema number".into() })?);
    if found > newest() {
        return Err(StoreError::NewerSchema { found, known: newest() });
    }
    Ok(found)
}

/// Brings an opened store to the newest schema, in the caller's one transaction.
pub(super) fn run(transaction: &WriteTransaction) -> Result<(), StoreError> {
    let found = found(&transaction.open_table(table(META))?)?;
    for migration in MIGRATIONS.iter().skip(found.saturating_sub(1) as usize) {
        migration(transaction)?;
    }
    stamp(transaction)
}
