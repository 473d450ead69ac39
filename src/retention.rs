//! What nobody needs any more goes: artifacts by age, number and pin (`builds::keeping` says which), logs by age, and
//! records that only a while is interested in.
//!
//! A record says that something is gone before its file is deleted, so nobody is ever sent to a file that is missing. A
//! crash in between leaves a file that the next start (artifacts) or the next look (logs) deletes. Every pass looks at
//! everything anew: one that was cut short, or never woken, is made up for by the next.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::artifacts::{ArtifactError, Artifacts};
use crate::builds::Builds;
use crate::builds::keeping::Keeping;
use crate::builds::logs::Logs;
use crate::clock::Clock;
use crate::model::deploy::DeployStatus;
use crate::model::idempotency::RememberedAnswer;
use crate::model::retention::days;
use crate::model::{Build, Id, Organization, Timestamp};
use crate::people::People;
use crate::store::key::Key;
use crate::store::tables::{BUILDS_WITH_ARTIFACT, ORGANIZATIONS_ALL, REMEMBERED_ANSWERS_ALL};
use crate::store::{Change, Read, Store, StoreError, audit, event_log, webhook_queue};

/// Between two looks at everything.
const EVERY: Duration = Duration::from_secs(60 * 60);
/// Looking for old logs walks their directories.
const LOGS_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// While builds wait for space, at most so often is looked for some.
const WANTED_EVERY: Duration = Duration::from_secs(5);
/// How many builds one snapshot is held for.
const LOOKED_AT: usize = 500;
/// How many records one transaction removes: others want to write as well.
const AT_ONCE: usize = 64;
/// An `Idempotency-Key` holds for so long (decisions 2).
const ANSWERS_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// `artifact.deletedReason`.
const REASON: &str = "retention";

/// How long things are kept, besides artifacts (see [`crate::builds::Settings::keep`]).
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Logs, in days from the end of the build.
    pub log_days: u32,
    /// The event log from which live clients resume, in days.
    pub event_days: u32,
    /// The ledgers of webhooks, inbound and outbound, in days.
    pub delivery_days: u32,
    /// Entries of the audit log, in days.
    pub audit_days: u32,
}

/// What it works on.
pub struct Parts {
    /// Records.
    pub store: Store,
    /// Now.
    pub clock: Arc<Clock>,
    /// Tarballs.
    pub artifacts: Artifacts,
    /// Logs.
    pub logs: Logs,
    /// Sessions.
    pub people: People,
    /// Says which artifacts end when, and when space is wanted.
    pub builds: Builds,
}

/// Why a pass did not come to its end. The next one begins anew.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A directory of the artifacts could not be read.
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
    /// The directory of the logs could not be read.
    #[error("the logs: {0}")]
    Logs(#[from] std::io::Error),
}

/// How much a pass removed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Artifacts.
    pub artifacts: usize,
    /// Logs.
    pub logs: usize,
    /// Remembered answers, sessions, events and entries of ledgers, the audit log among them.
    pub records: usize,
}

/// The retention of everything.
pub struct Retention {
    settings: Settings,
    parts: Parts,
    /// Artifacts whose record says that they are gone and whose file would not go.
    left: Mutex<BTreeSet<Id<Build>>>,
}

impl Retention {
    /// Nothing happens yet.
    pub fn new(settings: Settings, parts: Parts) -> Retention {
        Retention { settings, parts, left: Mutex::default() }
    }

    /// Works until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let _ = stop.run_until_cancelled(self.work()).await;
    }

    async fn work(&self) {
        let mut logs_from = Instant::now();
        loop {
            let is_time = Instant::now() >= logs_from;
            match self.pass(is_time).await {
                Ok(removed) if removed != Removed::default() => {
                    let Removed { artifacts, logs, records } = removed;
                    tracing::info!(artifacts, logs, records, "what was kept long enough was removed");
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "what was kept long enough could not be removed; it is tried again"),
            }
            if is_time {
                logs_from = Instant::now() + LOGS_EVERY;
            }
            let next = Instant::now() + EVERY;
            while tokio::time::timeout_at(next, self.parts.builds.space_wanted()).await.is_ok() {
                self.make_room().await;
                tokio::time::sleep(WANTED_EVERY).await;
            }
        }
    }

    /// For builds that wait for space: what is expired goes first, then workspaces that were not used for longest.
    pub async fn make_room(&self) {
        if let Err(error) = self.artifacts().await {
            tracing::warn!(%error, "expired artifacts could not be removed");
        }
        if let Err(error) = self.parts.builds.make_room().await {
            tracing::warn!(%error, "workspaces could not be removed");
        }
    }

    /// Removes everything whose time is over; `with_logs` also looks through the logs.
    ///
    /// # Errors
    /// When the store or a directory cannot be read or written; what was removed until then stays removed.
    pub async fn pass(&self, with_logs: bool) -> Result<Removed, RetentionError> {
        let artifacts = self.artifacts().await?;
        self.parts.artifacts.empty_quarantine().await?;
        let short_lived = self.answers().await? + self.sessions().await? + self.events().await?;
        let records = short_lived + self.deliveries().await? + self.audit_entries().await?;
        let logs = if with_logs { self.logs().await? } else { 0 };
        Ok(Removed { artifacts, logs, records })
    }

    async fn artifacts(&self) -> Result<usize, RetentionError> {
        let store = &self.parts.store;
        let left: Vec<Id<Build>> = self.left().iter().copied().collect();
        self.delete_files(&left).await;
        let all = store.read(|snapshot| snapshot.ids_on_host(&BUILDS_WITH_ARTIFACT, &Key::all(), usize::MAX))?;
        let mut removed = 0;
        for some in all.chunks(LOOKED_AT) {
            let now = self.parts.clock.now();
            let due = store.read(|snapshot| {
                let mut keeping = self.parts.builds.keeping();
                let mut due = Vec::new();
                for id in some {
                    let found: Vec<Build> = snapshot.find_on_host(&BUILDS_WITH_ARTIFACT, &Key::of_id(*id), 1)?;
                    for build in found {
                        if is_due(snapshot, &mut keeping, &build, now)? {
                            due.push((build.organization_id, build.id));
                        }
                    }
                }
                Ok::<_, StoreError>(due)
            })?;
            for few in due.chunks(AT_ONCE) {
                let (few, builds) = (few.to_vec(), self.parts.builds.clone());
                // Pinned, deployed or kept for its number meanwhile: what counts is how it is now.
                let gone = store.write(move |tx| expire(tx, builds.keeping(), &few, now)).await?;
                removed += gone.len();
                self.left().extend(&gone);
                self.delete_files(&gone).await;
            }
            tokio::task::yield_now().await;
        }
        Ok(removed)
    }

    async fn delete_files(&self, builds: &[Id<Build>]) {
        for build in builds {
            match self.parts.artifacts.delete(*build).await {
                Ok(()) => drop(self.left().remove(build)),
                Err(error) => tracing::warn!(%error, build.id = %build, "an artifact could not be deleted; it is tried again"),
            }
        }
    }

    fn left(&self) -> std::sync::MutexGuard<'_, BTreeSet<Id<Build>>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn logs(&self) -> Result<usize, RetentionError> {
        let now = self.parts.clock.now();
        let until = now.minus(days(self.settings.log_days));
        let organizations = self.organizations()?;
        let mut removed = 0;
        for some in self.parts.logs.made_before(until).await?.chunks(AT_ONCE) {
            let (builds, organizations) = (some.to_vec(), organizations.clone());
            let gone = self.parts.store.write(move |tx| forget_logs(tx, &organizations, &builds, until, now)).await?;
            for build in gone {
                match self.parts.logs.delete(build).await {
                    Ok(is_gone) => removed += usize::from(is_gone),
                    Err(error) => tracing::warn!(%error, build.id = %build, "a log could not be deleted; it is tried again"),
                }
            }
        }
        Ok(removed)
    }

    async fn answers(&self) -> Result<usize, StoreError> {
        let until = self.parts.clock.now().minus(ANSWERS_FOR);
        let some = move |tx: &Change| {
            let mut answers: Vec<RememberedAnswer> = tx.find_on_host(&REMEMBERED_ANSWERS_ALL, &Key::all(), AT_ONCE)?;
            answers.retain(|answer| answer.created_at <= until);
            answers.iter().try_for_each(|answer| tx.remove::<RememberedAnswer>(answer.organization_id, answer.id).map(|_| ()))?;
            Ok::<_, StoreError>(answers.len())
        };
        let mut removed = 0;
        // Nothing is written where nothing is over.
        while self.parts.store.read(|snapshot| {
            let oldest: Vec<RememberedAnswer> = snapshot.find_on_host(&REMEMBERED_ANSWERS_ALL, &Key::all(), 1)?;
            Ok::<_, StoreError>(oldest.iter().any(|answer| answer.created_at <= until))
        })? {
            removed += self.parts.store.write(some).await?;
        }
        Ok(removed)
    }

    async fn sessions(&self) -> Result<usize, StoreError> {
        self.parts.people.forget_ended_sessions().await
    }

    async fn events(&self) -> Result<usize, StoreError> {
        let until = self.parts.clock.now().minus(days(self.settings.event_days));
        let mut removed = 0;
        loop {
            match self.parts.store.write(move |change| event_log::prune(change, until, AT_ONCE)).await? {
                0 => return Ok(removed),
                some => removed += some,
            }
        }
    }

    async fn deliveries(&self) -> Result<usize, StoreError> {
        let until = self.parts.clock.now().minus(days(self.settings.delivery_days));
        let mut removed = 0;
        loop {
            match self.parts.store.write(move |change| webhook_queue::prune(change, until, AT_ONCE)).await? {
                0 => return Ok(removed),
                some => removed += some,
            }
        }
    }

    async fn audit_entries(&self) -> Result<usize, StoreError> {
        let until = self.parts.clock.now().minus(days(self.settings.audit_days));
        let mut removed = 0;
        loop {
            match self.parts.store.write(move |change| audit::prune(change, until, AT_ONCE)).await? {
                0 => return Ok(removed),
                some => removed += some,
            }
        }
    }

    fn organizations(&self) -> Result<Vec<Id<Organization>>, StoreError> {
        self.parts.store.read(|snapshot| snapshot.ids_on_host(&ORGANIZATIONS_ALL, &Key::all(), usize::MAX))
    }
}

/// An artifact that is still to be handed on stays until that is over.
fn is_due(rows: &impl Read, keeping: &mut Keeping, build: &Build, now: Timestamp) -> Result<bool, StoreError> {
    let is_wanted = matches!(build.auto_deploy_status, Some(DeployStatus::Pending | DeployStatus::InProgress));
    Ok(!is_wanted && keeping.ends(rows, build)?.is_some_and(|end| end <= now))
}

fn expire(
    tx: &Change,
    mut keeping: Keeping,
    builds: &[(Id<Organization>, Id<Build>)],
    now: Timestamp,
) -> Result<Vec<Id<Build>>, StoreError> {
    let mut gone = Vec::new();
    for (organization, id) in builds {
        let Some(mut build) = tx.get::<Build>(*organization, *id)? else { continue };
        if !is_due(tx, &mut keeping, &build, now)? {
            continue;
        }
        let ended = keeping.ends(tx, &build)?;
        if let Some(artifact) = &mut build.artifact {
            artifact.expires_at = ended;
            artifact.deleted_at = Some(now);
            artifact.deleted_reason = Some(REASON.to_owned());
            tx.put(&build)?;
            gone.push(build.id);
        }
    }
    Ok(gone)
}

/// Notes which of these logs are over; those of unknown builds are, too.
fn forget_logs(
    tx: &Change,
    organizations: &[Id<Organization>],
    builds: &[Id<Build>],
    until: Timestamp,
    now: Timestamp,
) -> Result<Vec<Id<Build>>, StoreError> {
    let mut gone = Vec::new();
    for id in builds {
        let mut found = None;
        for organization in organizations {
            found = tx.get::<Build>(*organization, *id)?;
            if found.is_some() {
                break;
            }
        }
        if let Some(mut build) = found {
            if build.finished_at.is_none_or(|finished| finished >= until) {
                continue;
            }
            if build.log_deleted_at.is_none() {
                build.log_deleted_at = Some(now);
                tx.put(&build)?;
            }
        }
        gone.push(*id);
    }
    Ok(gone)
}
