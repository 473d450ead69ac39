//! Schedules: builds that the clock starts (decisions 7).
//!
//! The truth is `nextRunAt` in the store, and a record of every slot: a time at which a schedule was due. One transaction
//! makes the record, the build and the next time, so nothing fires twice and nothing is lost, wherever the service ends.
//!
//! ```text
//! run      looks at every tick (`ticking`), and after a few seconds without one: a tick is a hint
//!  ├─ replan   at a start and when the clock went back: plans what lies too far ahead anew
//!  └─ tick     reads the index of due settings, asks for the newest revision of each,
//!      └─ fire     one write: records, build, next time
//! ```
//!
//! Whatever the clock does: a time that was decided once is never decided again, because its record is there. Put
//! forward, it is like a downtime: the newest slot of the last 24 hours is built, the others are recorded.

pub mod due;
mod fire;
mod ticking;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

pub use fire::fire;
use ticking::Ticking;

use crate::builds::Builds;
use crate::clock::Clock;
use crate::model::build_setting::Trigger;
use crate::model::schedule::Starts;
use crate::model::{BuildSetting, Timestamp};
use crate::store::key::Key;
use crate::store::tables::{BUILD_SETTINGS_DUE, SCHEDULE_SLOTS_ALL};
use crate::store::{Change, Read, Store, StoreError};

/// How far the clock may step back without a second look at what is planned.
const STEADY: Duration = Duration::from_secs(1);
/// Settings that are looked at together.
const AT_ONCE: usize = 64;
/// How long records of slots are kept.
const KEPT: Duration = Duration::from_secs(180 * 24 * 60 * 60);
/// How often old ones are looked for.
const SWEEP: Duration = Duration::from_secs(60 * 60);
/// How many go at once.
const SWEPT_AT_ONCE: usize = 500;
/// Git hosts that are asked at the same time.
const ASKED_AT_ONCE: usize = 8;
/// How long a server may take to say what its newest revision is. The build asks again if it did not.
const PATIENCE: Duration = Duration::from_secs(20);

/// What fires schedules. Cheap to clone.
#[derive(Clone)]
pub struct Schedules {
    store: Store,
    builds: Builds,
    clock: Arc<Clock>,
}

impl Schedules {
    /// Nothing fires yet.
    pub fn new(store: Store, builds: Builds, clock: Arc<Clock>) -> Schedules {
        Schedules { store, builds, clock }
    }

    /// Fires what is due until `stop`. What is in the middle then is either on disk or still due at the next start.
    pub async fn run(&self, stop: CancellationToken) {
        let mut ticking = Ticking::start().await;
        let mut last = None;
        let mut swept = (Instant::now(), self.clock.now());
        while !stop.is_cancelled() {
            let now = self.clock.now();
            let is_steady = last.is_some_and(|last| now.plus(STEADY) >= last);
            let work = async {
                if !is_steady {
                    self.replan(now).await?;
                }
                self.tick(now).await
            };
            match work.await {
                Ok(()) => last = Some(now),
                Err(error) => tracing::warn!(%error, "schedules could not be looked at"),
            }
            if swept.0.elapsed() >= SWEEP {
                // A clock that is wrong must not take away what keeps it from firing twice once it is right again.
                let wall = Duration::from_millis(now.since(swept.1));
                if wall.abs_diff(swept.0.elapsed()) < SWEEP / 10
                    && let Err(error) = self.forget(now).await
                {
                    tracing::warn!(%error, "old records of schedules could not be removed");
                }
                swept = (Instant::now(), now);
            }
            tokio::select! {
                () = ticking.next() => {}
                () = stop.cancelled() => {}
            }
        }
        ticking.stop().await;
    }

    /// Fires everything that is due at `now`.
    pub async fn tick(&self, now: Timestamp) -> Result<(), StoreError> {
        loop {
            let due = self.store.read(|snapshot| due_settings(snapshot, now))?;
            if due.is_empty() {
                return Ok(());
            }
            // A setting that was fired is not due any more, so each pass sees others.
            let fired = futures_util::stream::iter(due).map(|setting| self.fire_one(setting, now)).buffer_unordered(ASKED_AT_ONCE);
            let failed = fired.filter_map(async |result: Result<(), StoreError>| result.err()).collect::<Vec<_>>().await;
            if let Some(error) = failed.into_iter().next() {
                return Err(error);
            }
        }
    }

    /// Removes records that are older than anybody asks for.
    pub async fn forget(&self, now: Timestamp) -> Result<(), StoreError> {
        let oldest = Timestamp(now.0.saturating_sub(i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX)));
        let job = move |tx: &Change| {
            let mut slots = tx.find_on_host(&SCHEDULE_SLOTS_ALL, &Key::all(), SWEPT_AT_ONCE)?;
            slots.retain(|slot| slot.decided_at < oldest);
            slots.iter().try_for_each(|slot| tx.remove(slot.organization_id, slot.id).map(|_| ()))
        };
        self.store.write(job).await
    }

    async fn fire_one(&self, setting: BuildSetting, now: Timestamp) -> Result<(), StoreError> {
        let head = match tokio::time::timeout(PATIENCE, self.builds.head(&setting, PATIENCE)).await {
            Ok(Ok(revision)) => Some(revision.id),
            Ok(Err(error)) => {
                tracing::info!(%error, build_setting.id = %setting.id, "the newest revision is not known; the build asks again");
                None
            }
            Err(_) => None,
        };
        let builds = self.builds.clone();
        let which = (setting.organization_id, setting.id);
        let build = self.store.write(move |tx| fire(tx, &builds, which, head.as_deref(), now)).await?;
        if let Some(build) = build {
            tracing::info!(build.id = %build.id, build_setting.id = %setting.id, "a schedule started a build");
        }
        Ok(())
    }

    /// Plans every schedule whose next time is unknown, or lies behind a slot that nobody decided about: the clock went
    /// back since it was planned.
    pub async fn replan(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut wrong = Vec::new();
        self.store.read(|snapshot| {
            snapshot.every(|setting: BuildSetting| {
                if replanned(snapshot, &setting, now)?.is_some() {
                    wrong.push((setting.organization_id, setting.id));
                }
                Ok(true)
            })
        })?;
        for (organization, id) in wrong {
            let job = move |tx: &Change| {
                let Some(mut setting) = tx.get::<BuildSetting>(organization, id)? else { return Ok(()) };
                let Some(next) = replanned(tx, &setting, now)? else { return Ok(()) };
                if let Trigger::Scheduled(schedule) = &mut setting.trigger {
                    schedule.next_run_at = Some(next);
                    setting.version += 1;
                }
                tx.put(&setting)
            };
            self.store.write(job).await?;
        }
        Ok(())
    }
}

/// The next time of a setting, where the planned one is not it.
pub fn replanned(rows: &impl Read, setting: &BuildSetting, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    let Trigger::Scheduled(schedule) = &setting.trigger else { return Ok(None) };
    if !schedule.enabled || schedule.next_run_at.is_some_and(|next| next <= now) {
        return Ok(None);
    }
    // An expression that cannot be read any more has said so when it was due.
    let Ok(starts) = Starts::parse(&schedule.cron, &schedule.timezone) else { return Ok(None) };
    let mut next = starts.after(now);
    while let Some(slot) = next.filter(|slot| schedule.next_run_at.is_none_or(|planned| *slot < planned)) {
        if !fire::is_recorded(rows, setting, slot)? {
            return Ok(Some(slot));
        }
        next = starts.after(slot);
    }
    Ok(None)
}

fn next_run(setting: &BuildSetting) -> Option<Timestamp> {
    match &setting.trigger {
        Trigger::Scheduled(schedule) => schedule.next_run_at,
        Trigger::Manual | Trigger::Push => None,
    }
}

fn due_settings(rows: &impl Read, now: Timestamp) -> Result<Vec<BuildSetting>, StoreError> {
    let mut due = rows.find_on_host(&BUILD_SETTINGS_DUE, &Key::all(), AT_ONCE)?;
    due.retain(|setting| next_run(setting).is_some_and(|next| next <= now));
    Ok(due)
}
