//! Reading the event log, and letting go of its old end.

use super::key::Key;
use super::read::{Order, Read, Rows};
use super::tables::{EVENTS_BY_BUILD, META, ORGANIZATIONS_ALL};
use super::{Change, StoreError};
use crate::model::{Build, Event, Id, Organization, Timestamp};

/// Where the sequence of the newest event is kept.
pub(super) const SEQUENCE: &[u8] = b"event_sequence";

/// The words for reading the event log.
pub trait EventLog: Read {
    /// The sequence of the newest event on the host, 0 when there was none yet.
    fn newest_event(&self) -> Result<u64, StoreError> {
        number(self, SEQUENCE)
    }

    /// The sequence of the newest event that an organization's log no longer has; 0 while it has all.
    fn pruned_events(&self, organization: Id<Organization>) -> Result<u64, StoreError> {
        number(self, &pruned_key(organization))
    }

    /// An organization's events behind `after`, oldest first: of one build, or all.
    fn events_after(
        &self,
        organization: Id<Organization>,
        build: Option<Id<Build>>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let walk = build.map(|build| (&EVENTS_BY_BUILD, Key::of_id(build)));
        Ok(self.page(organization, walk, Some(Event::id_of(after)), Order::OldestFirst, limit)?.items)
    }

    /// The sequence of a build's newest event, 0 if none is kept.
    fn newest_event_of(&self, organization: Id<Organization>, build: Id<Build>) -> Result<u64, StoreError> {
        let newest = self.next_id(organization, (&EVENTS_BY_BUILD, &Key::of_id(build)), None, Order::NewestFirst)?;
        Ok(newest.map_or(0, |id| id.milliseconds()))
    }
}

impl<T: Read> EventLog for T {}

/// Removes up to `limit` events of each organization that happened before `before`, oldest first, and notes how far that
/// went, so that a reader who resumes before that point is told. Returns how many are gone.
pub fn prune(change: &Change, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
    let organizations: Vec<Id<Organization>> = change.ids_on_host(&ORGANIZATIONS_ALL, &Key::all(), usize::MAX)?;
    let mut removed = 0;
    for organization in organizations {
        let oldest = change.page::<Event>(organization, None, None, Order::OldestFirst, limit)?.items;
        let mut last = None;
        for event in oldest.into_iter().take_while(|event| event.at < before) {
            change.remove(organization, event.id)?;
            last = Some(event.sequence());
            removed += 1;
        }
        if let Some(last) = last {
            change.set_meta(&pruned_key(organization), &last.to_be_bytes())?;
        }
    }
    Ok(removed)
}

fn pruned_key(organization: Id<Organization>) -> Vec<u8> {
    [&b"events_pruned/"[..], organization.as_bytes()].concat()
}

fn number(rows: &impl Rows, name: &[u8]) -> Result<u64, StoreError> {
    Ok(rows.row(META, name)?.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes))
}
