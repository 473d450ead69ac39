//! Stored values: one version byte, then JSON.

use super::{Record, StoreError};

pub(super) fn encode<R: Record>(record: &R) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![R::VERSION];
    serde_json::to_writer(&mut bytes, record).map_err(|error| StoreError::Corrupt { table: R::TABLE, reason: error.to_string() })?;
    Ok(bytes)
}

pub(super) fn decode<R: Record>(bytes: &[u8]) -> Result<R, StoreError> {
    let corrupt = |reason: String| StoreError::Corrupt { table: R::TABLE, reason };
    match bytes.split_first() {
        Some((version, json)) if *version == R::VERSION => serde_json::from_slice(json).map_err(|error| corrupt(error.to_string())),
        Some((version, _)) => Err(corrupt(format!("version {version} where {} was expected", R::VERSION))),
        None => Err(corrupt("no bytes".into())),
    }
}
