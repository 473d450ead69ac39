//! Which build runs next: of the project whose turn it is (see `turns`) the oldest that can, one of a setting at a time,
//! one for an engine's directory at a time, `slots` at once; none of an organization that has paused its builds, and none
//! while the service is drained. Wake-ups are hints; each pass reads the index of pending builds anew.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::engines::Inventory;
use super::lifecycle::{self, Claim, LifecycleError};
use super::logs::LogWriter;
use super::{Builds, Inner, Running, Stop, StopReason, run, turns};
use crate::model::{Build, Id, Status, Timestamp};
use crate::platform::process;
use crate::store::key::Key;
use crate::store::tables::{BUILDS_PENDING, BUILDS_PENDING_BY_PROJECT};
use crate::store::{Change, Read, StoreError};

/// How long a lost hint delays a build.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// How long a build may wait.
const LONGEST_WAIT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Why nothing is started on a full disk.
pub(super) const STORAGE_FULL: &str = "storage_full";

impl Builds {
    /// Runs builds, deploys and what git hosts tell until `stop`; then starts nothing more, gives what runs the configured
    /// grace, ends the rest, and returns when all of it is recorded.
    pub async fn run(&self, stop: CancellationToken) {
        *self.0.runtime() = Some(Handle::current());
        tokio::join!(self.run_queue(&stop), self.run_deploys(&stop), self.run_deliveries(&stop), self.run_reconciliation(&stop));
    }

    /// Whether builds are being started: [`Builds::run`] runs and was not asked to stop.
    pub fn is_running(&self) -> bool {
        self.0.runtime().is_some()
    }

    async fn run_queue(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            // Interest is registered before the index is read, so that what comes in between is not missed.
            let mut woken = std::pin::pin!(self.0.queue.notified());
            woken.as_mut().enable();
            self.0.watch_disk();
            if let Err(error) = self.start_what_fits().await {
                tracing::warn!(%error, "builds could not be started");
            }
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = stop.cancelled() => {}
            }
        }
        *self.0.runtime() = None;
        self.end_running().await;
    }

    /// What is left gets the grace, then it is interrupted.
    async fn end_running(&self) {
        let idle = async {
            while !self.0.running().is_empty() {
                let mut woken = std::pin::pin!(self.0.queue.notified());
                woken.as_mut().enable();
                if !self.0.running().is_empty() {
                    let _ = tokio::time::timeout(LOOK_AGAIN, woken).await;
                }
            }
        };
        let mut idle = std::pin::pin!(idle);
        if tokio::time::timeout(self.0.settings.shutdown_grace, idle.as_mut()).await.is_err() {
            self.0.running().values().for_each(|running| running.stop.ask(StopReason::Shutdown));
            idle.await;
        }
    }

    async fn start_what_fits(&self) -> Result<(), LifecycleError> {
        loop {
            let free = self.0.settings.slots.saturating_sub(self.0.running().len());
            let Some(next) = self.0.next(free > 0 && !self.is_draining())? else { return Ok(()) };
            let now = self.0.parts.clock.now();
            let (organization, id) = (next.build.organization_id, next.build.id);
            match next.what {
                What::Expire => {
                    self.0.parts.store.write(move |tx| lifecycle::expire(tx, organization, id, now)).await?;
                }
                What::NoteFull => {
                    self.0.parts.store.write(move |tx| lifecycle::note_waiting(tx, organization, id, Some(STORAGE_FULL))).await?;
                    return Ok(());
                }
                What::Start => self.start(next.build).await?,
            }
        }
    }

    async fn start(&self, build: Build) -> Result<(), LifecycleError> {
        let (organization, id) = (build.organization_id, build.id);
        let expected = self.0.parts.store.read(|snapshot| self.0.expected(snapshot, &build))?;
        let Some((mut slot, stop)) = self.occupy(&build, self.0.settings.slots, expected) else { return Ok(()) };
        // Makes directories and syncs them, while the claim is being synced itself.
        let log = self.open_log(id, &Handle::current());
        let now = self.0.parts.clock.now();
        match self.0.parts.store.write(move |tx| lifecycle::claim(tx, organization, id, now)).await {
            Ok(Claim::Running(claimed)) => {
                tokio::spawn(run::run(self.clone(), *claimed, log, stop, slot));
                Ok(())
            }
            Ok(Claim::NotNow | Claim::Failed) => {
                slot.release();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Takes one of `slots`. Before the claim, so that a cancellation right after that finds someone to ask.
    fn occupy(&self, build: &Build, slots: usize, reserved: u64) -> Option<(Slot, Stop)> {
        let mut running = self.0.running();
        if running.len() >= slots || running.values().any(|running| running.setting == build.build_setting_id) {
            return None;
        }
        let stop = Stop::default();
        let entry = Running { setting: build.build_setting_id, ue_version: build.ue_version.clone(), reserved, stop: stop.clone() };
        running.insert(build.id, entry);
        Some((Slot { builds: self.clone(), id: build.id, is_taken: true }, stop))
    }

    fn open_log(&self, id: Id<Build>, runtime: &Handle) -> JoinHandle<io::Result<LogWriter>> {
        let builds = self.clone();
        runtime.spawn_blocking(process::expect_start);
        runtime.spawn(async move { builds.0.parts.logs.writer(id).await })
    }

    /// Claims a new build in the transaction that makes it, where the machine is idle and nothing else waits: one flush
    /// then covers both, and the build begins as soon as it is accepted.
    pub(super) fn begin_in(&self, tx: &Change, build: &Build) -> Result<(), LifecycleError> {
        let Some(runtime) = self.0.runtime().clone() else { return Ok(()) };
        if self.is_draining() || turns::pause_of(tx, build.organization_id)?.is_some() {
            return Ok(());
        }
        if build.status != Status::Pending || tx.ids_on_host(&BUILDS_PENDING, &Key::all(), 2)? != [build.id] || !self.0.fits(tx, build)? {
            return Ok(());
        }
        let expected = self.0.expected(tx, build)?;
        let Some((slot, stop)) = self.occupy(build, self.0.settings.slots.min(1), expected) else { return Ok(()) };
        match lifecycle::claim(tx, build.organization_id, build.id, self.0.parts.clock.now())? {
            Claim::Running(claimed) => {
                let (builds, log) = (self.clone(), self.open_log(build.id, &runtime));
                // Not committed: the hook is dropped, and the slot with it.
                tx.after_commit(move || drop(runtime.spawn(run::run(builds, *claimed, log, stop, slot))));
            }
            Claim::NotNow | Claim::Failed => drop(slot),
        }
        Ok(())
    }
}

/// An occupied slot. However the run ends, the slot is free again and the queue looks.
pub(super) struct Slot {
    builds: Builds,
    id: Id<Build>,
    is_taken: bool,
}

impl Slot {
    fn release(&mut self) {
        if std::mem::take(&mut self.is_taken) {
            self.builds.0.running().remove(&self.id);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.release();
        self.builds.0.queue.notify_one();
    }
}

struct Next {
    build: Build,
    what: What,
}

enum What {
    Start,
    Expire,
    NoteFull,
}

impl Inner {
    fn runtime(&self) -> MutexGuard<'_, Option<Handle>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next build about which something can be done.
    fn next(&self, may_start: bool) -> Result<Option<Next>, StoreError> {
        let running: Vec<Running> = self.running().values().cloned().collect();
        let settings: HashSet<_> = running.iter().map(|running| running.setting).collect();
        let too_old = Timestamp(self.parts.clock.now().0.saturating_sub(i64::try_from(LONGEST_WAIT.as_millis()).unwrap_or(i64::MAX)));
        // On an idle machine no engine is busy, and the disk need not be asked which there are.
        let inventory = if running.is_empty() { Inventory::default() } else { Inventory::read(&self.settings.engines) };
        let root = |ue_version: &str| inventory.find(ue_version).ok().map(|engine| canonical(&engine.root));
        let busy: HashSet<PathBuf> = running.iter().filter_map(|running| root(&running.ue_version)).collect();
        let now = self.parts.clock.now();
        self.parts.store.read(|snapshot| {
            let oldest = snapshot.find_on_host(&BUILDS_PENDING, &Key::all(), 1)?.pop();
            if let Some(build) = oldest.filter(|build: &Build| build.created_at < too_old) {
                return Ok(Some(Next { build, what: What::Expire }));
            }
            let mut found = None;
            // The oldest is not too old, so no other is.
            let lines = if may_start { turns::lines(snapshot, now)? } else { Vec::new() };
            for line in lines.iter().filter(|line| !line.is_paused) {
                snapshot.for_each_on_host(&BUILDS_PENDING_BY_PROJECT, &line.key(), |build: Build| {
                    let is_engine_busy = || root(&build.ue_version).is_some_and(|engine| busy.contains(&engine));
                    if settings.contains(&build.build_setting_id) || is_engine_busy() {
                        return Ok(true);
                    }
                    found = Some(build);
                    Ok(false)
                })?;
                if found.is_some() {
                    break;
                }
            }
            let Some(build) = found else { return Ok(None) };
            let what = match self.fits(snapshot, &build)? {
                true => What::Start,
                false if build.pending_reason.as_deref() == Some(STORAGE_FULL) => return Ok(None),
                false => What::NoteFull,
            };
            Ok(Some(Next { build, what }))
        })
    }
}

/// Two labels of one engine are one directory.
fn canonical(root: &Path) -> PathBuf {
    root.canonicalize().unwrap_or_else(|_| root.to_owned())
}
