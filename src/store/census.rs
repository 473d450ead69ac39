//! How many builds there are in each status, and what their artifacts take: counted with every change, so that asking
//! costs one row and not the table.

use super::read::{Read, Rows};
use super::tables::META;
use super::{Change, Snapshot, StoreError};
use crate::model::{Build, Status};

const NAME: &[u8] = b"census_of_builds";
const FIGURES: usize = Status::ALL.len() + 2;

/// The counts over the whole host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Census {
    statuses: [u64; Status::ALL.len()],
    /// Artifacts that are there.
    pub artifacts: u64,
    /// Their sizes together.
    pub artifact_bytes: u64,
}

impl Census {
    /// Builds in a status.
    pub fn of(&self, status: Status) -> u64 {
        Status::ALL.iter().position(|other| *other == status).map_or(0, |place| self.statuses[place])
    }

    fn count(&mut self, build: &Build, sign: i64) {
        let bytes = build.artifact.as_ref().filter(|artifact| artifact.deleted_at.is_none()).map(|artifact| artifact.size_bytes);
        if let Some(place) = Status::ALL.iter().position(|status| *status == build.status) {
            self.statuses[place] = self.statuses[place].saturating_add_signed(sign);
        }
        if let Some(bytes) = bytes {
            self.artifacts = self.artifacts.saturating_add_signed(sign);
            self.artifact_bytes = match sign {
                1.. => self.artifact_bytes.saturating_add(bytes),
                _ => self.artifact_bytes.saturating_sub(bytes),
            };
        }
    }

    fn figures(&self) -> [u64; FIGURES] {
        let mut figures = [0; FIGURES];
        figures[..Status::ALL.len()].copy_from_slice(&self.statuses);
        figures[FIGURES - 2..].copy_from_slice(&[self.artifacts, self.artifact_bytes]);
        figures
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != FIGURES * 8 {
            return None;
        }
        let mut figures = bytes.chunks_exact(8).filter_map(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        let mut census = Census::default();
        for status in &mut census.statuses {
            *status = figures.next()?;
        }
        Some(Census { artifacts: figures.next()?, artifact_bytes: figures.next()?, ..census })
    }
}

/// The counts as they are now.
pub fn read(snapshot: &Snapshot) -> Result<Census, StoreError> {
    of(snapshot)
}

fn of(rows: &impl Rows) -> Result<Census, StoreError> {
    match rows.row(META, NAME)?.as_deref().and_then(Census::decode) {
        Some(census) => Ok(census),
        // Nothing was counted yet: an empty store, or one of a version that did not count.
        None => recount(rows),
    }
}

/// The counts, counted anew from every build.
pub(super) fn recount(rows: &impl Read) -> Result<Census, StoreError> {
    let mut census = Census::default();
    rows.every::<Build>(|build| {
        census.count(&build, 1);
        Ok(true)
    })?;
    Ok(census)
}

/// Runs after a build was stored or removed, in the same transaction.
pub(super) fn build(change: &Change, old: Option<&Build>, new: Option<&Build>) -> Result<(), StoreError> {
    let known = change.meta(NAME)?;
    let before = known.as_deref().and_then(Census::decode);
    // A recount sees this change already.
    let mut census = before.map_or_else(|| recount(change), Ok)?;
    if before.is_some() {
        old.into_iter().for_each(|old| census.count(old, -1));
        new.into_iter().for_each(|new| census.count(new, 1));
    }
    if before == Some(census) {
        return Ok(());
    }
    let bytes: Vec<u8> = census.figures().iter().flat_map(|figure| figure.to_be_bytes()).collect();
    change.set_meta(NAME, &bytes)
}
