//! Which build runs next: the oldest that can, one of a setting at a time, one for an engine's directory at a time,
//! `slots` at once. Wake-ups are hints; each pass reads the index of pending builds anew.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::engines::Inventory;
use super::lifecycle::{self, Claim, LifecycleError};
use super::{Builds, Inner, Running, Stop, StopReason, run};
use crate::model::{Build, Id, Timestamp};
use crate::platform::files;
use crate::store::key::Key;
use crate::store::tables::BUILDS_PENDING;
use crate::store::{Read, Snapshot, StoreError};

/// How long a lost hint delays a build.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// How long a build may wait.
const LONGEST_WAIT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Why nothing is started on a full disk.
const STORAGE_FULL: &str = "storage_full";

/// How many builds begin before this one, plus one.
pub(super) fn position(snapshot: &Snapshot, id: Id<Build>) -> Result<Option<usize>, StoreError> {
    Ok(snapshot.ids_on_host(&BUILDS_PENDING, &Key::all())?.iter().position(|waiting| *waiting == id).map(|before| before + 1))
}

impl Builds {
    /// Runs builds and deploys until `stop`; then starts nothing more, gives what runs the configured grace, ends the
    /// rest, and returns when all of it is recorded.
    pub async fn run(&self, stop: CancellationToken) {
        tokio::join!(self.run_queue(&stop), self.run_deploys(&stop));
    }

    async fn run_queue(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            // Interest is registered before the index is read, so that what comes in between is not missed.
            let mut woken = std::pin::pin!(self.0.queue.notified());
            woken.as_mut().enable();
            if let Err(error) = self.start_what_fits().await {
                tracing::warn!(%error, "builds could not be started");
            }
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = stop.cancelled() => {}
            }
        }
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
            let Some(next) = self.0.next(free > 0)? else { return Ok(()) };
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
                What::Start(engine) => self.start(next.build, engine).await?,
            }
        }
    }

    async fn start(&self, build: Build, engine: Option<PathBuf>) -> Result<(), LifecycleError> {
        let (organization, id) = (build.organization_id, build.id);
        let stop = Stop::default();
        // Entered before the claim, so that a cancellation right after it finds someone to ask.
        self.0.running().insert(id, Running { setting: build.build_setting_id, engine, stop: stop.clone() });
        let mut slot = Slot { builds: self.clone(), id, is_taken: true };
        let now = self.0.parts.clock.now();
        match self.0.parts.store.write(move |tx| lifecycle::claim(tx, organization, id, now)).await {
            Ok(Claim::Running(claimed)) => {
                tokio::spawn(run::run(self.clone(), *claimed, stop, slot));
                Ok(())
            }
            Ok(Claim::NotNow | Claim::Failed) => {
                slot.release();
                Ok(())
            }
            Err(error) => Err(error),
        }
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
    Start(Option<PathBuf>),
    Expire,
    NoteFull,
}

impl Inner {
    /// The oldest build about which something can be done.
    fn next(&self, may_start: bool) -> Result<Option<Next>, StoreError> {
        let running: Vec<Running> = self.running().values().cloned().collect();
        let settings: HashSet<_> = running.iter().map(|running| running.setting).collect();
        let engines: HashSet<&Path> = running.iter().filter_map(|running| running.engine.as_deref()).collect();
        let too_old = Timestamp(self.parts.clock.now().0.saturating_sub(i64::try_from(LONGEST_WAIT.as_millis()).unwrap_or(i64::MAX)));
        let mut inventory = None;
        let mut found = None;
        self.parts.store.read(|snapshot| {
            snapshot.for_each_on_host(&BUILDS_PENDING, &Key::all(), |build: Build| {
                if build.created_at < too_old {
                    found = Some(Next { build, what: What::Expire });
                    return Ok(false);
                }
                if !may_start {
                    // The oldest is not too old, so no other is.
                    return Ok(false);
                }
                if settings.contains(&build.build_setting_id) {
                    return Ok(true);
                }
                let inventory = inventory.get_or_insert_with(|| Inventory::read(&self.settings.engines));
                let engine = inventory.find(&build.ue_version).ok().map(|engine| canonical(&engine.root));
                if engine.as_deref().is_some_and(|engine| engines.contains(engine)) {
                    return Ok(true);
                }
                let what = match self.has_room() {
                    true => What::Start(engine),
                    false if build.pending_reason.as_deref() == Some(STORAGE_FULL) => return Ok(false),
                    false => What::NoteFull,
                };
                found = Some(Next { build, what });
                Ok(false)
            })
        })?;
        Ok(found)
    }

    /// Whether the disk of the workspaces is above its floor. A disk that cannot be asked is not held against a build.
    fn has_room(&self) -> bool {
        files::free_space(&self.settings.workspaces).map_or(true, |space| {
            let percent = u128::from(space.free_bytes) * 100 >= u128::from(space.total_bytes) * u128::from(self.settings.floor_percent);
            percent && space.free_bytes >= self.settings.floor_bytes
        })
    }
}

/// Two labels of one engine are one directory.
fn canonical(root: &Path) -> PathBuf {
    root.canonicalize().unwrap_or_else(|_| root.to_owned())
}
