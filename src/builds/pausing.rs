//! Starting no builds for a while: an organization's wish, which is on record, and the machine's, which ends with the
//! service. What is triggered meanwhile is accepted and waits.

use std::sync::atomic::Ordering;

use super::{Builds, turns};
use crate::model::queue::QueuePause;
use crate::model::{Build, Id, Organization, Status, TriggeredBy};
use crate::store::key::Key;
use crate::store::tables::BUILDS_UNFINISHED;
use crate::store::{Change, Read, StoreError};

/// Builds that are counted at the most.
const COUNTED: usize = 10_000;

/// An organization's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueState {
    /// While none of its builds is started.
    pub pause: Option<QueuePause>,
    /// While no build of the host is started.
    pub is_draining: bool,
    /// How many builds the host runs at once.
    pub slots: usize,
    /// The organization's, that run.
    pub running: usize,
    /// The organization's, that wait; counted up to 10,000.
    pub pending: usize,
}

/// How far a drain is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draining {
    /// Builds of the host that still run.
    pub running: Vec<Id<Build>>,
}

impl Builds {
    /// Starts no more builds of an organization. What runs goes on.
    pub async fn pause(&self, organization: Id<Organization>, by: TriggeredBy) -> Result<(), StoreError> {
        let builds = self.clone();
        self.0.parts.store.write(move |tx| builds.pause_in(tx, organization, by)).await
    }

    /// The same as a part of the caller's transaction. Who paused first stays on record.
    pub fn pause_in(&self, tx: &Change, organization: Id<Organization>, by: TriggeredBy) -> Result<(), StoreError> {
        if turns::pause_of(tx, organization)?.is_some() {
            return Ok(());
        }
        let paused_at = self.0.parts.clock.now();
        tx.put(&QueuePause { id: organization.cast(), organization_id: organization, paused_at, paused_by: by })
    }

    /// Starts its builds again.
    pub async fn resume(&self, organization: Id<Organization>) -> Result<(), StoreError> {
        let builds = self.clone();
        self.0.parts.store.write(move |tx| builds.resume_in(tx, organization)).await
    }

    /// The same as a part of the caller's transaction.
    pub fn resume_in(&self, tx: &Change, organization: Id<Organization>) -> Result<(), StoreError> {
        tx.remove::<QueuePause>(organization, organization.cast())?;
        let builds = self.clone();
        tx.after_commit(move || builds.0.queue.notify_one());
        Ok(())
    }

    /// How an organization's queue stands.
    pub fn queue_state(&self, rows: &impl Read, organization: Id<Organization>) -> Result<QueueState, StoreError> {
        let count = |status: Status| rows.count(organization, &BUILDS_UNFINISHED, &Key::of_text(status.as_str()), COUNTED);
        Ok(QueueState {
            pause: turns::pause_of(rows, organization)?,
            is_draining: self.is_draining(),
            slots: self.0.settings.slots,
            running: count(Status::Running)?,
            pending: count(Status::Pending)?,
        })
    }

    /// Starts no more builds of this host, and tells what still runs. Not on record: the next start of the service begins
    /// with what waits.
    pub fn drain(&self) -> Draining {
        self.0.is_draining.store(true, Ordering::SeqCst);
        // A build that was about to begin when the word came holds its slot already.
        let mut running: Vec<Id<Build>> = self.0.running().keys().copied().collect();
        running.sort_unstable();
        Draining { running }
    }

    /// Thinks better of it.
    pub fn end_drain(&self) {
        self.0.is_draining.store(false, Ordering::SeqCst);
        self.0.queue.notify_one();
    }

    /// Whether nothing is started because the host is drained.
    pub fn is_draining(&self) -> bool {
        self.0.is_draining.load(Ordering::SeqCst)
    }

    /// Whether a build occupies a slot.
    pub fn is_busy(&self) -> bool {
        !self.0.running().is_empty()
    }
}
