//! One schedule: what fires, what does not, and what is on record then.

use cookhouse::model::build_setting::{Schedule, Trigger};
use cookhouse::model::schedule_slot::{ScheduleSlot, SkipReason, SlotOutcome};
use cookhouse::model::{Build, BuildSetting, Status, Timestamp, TriggeredBy};
use cookhouse::schedules::{Schedules, fire};
use cookhouse::store::{Read, StoreError};
use tokio_util::sync::CancellationToken;

use crate::support::farm::{Farm, HEAD, source_error};

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

fn daily(next: &str) -> Schedule {
    Schedule {
        cron: "0 3 * * *".into(),
        timezone: "UTC".into(),
        enabled: true,
        only_if_changed: false,
        catch_up: true,
        next_run_at: Some(at(next)),
        last_run_at: None,
        last_error: None,
    }
}

struct Site {
    farm: Farm,
    schedules: Schedules,
}

impl Site {
    /// A farm that starts nothing, with a schedule that is due at three in the morning.
    async fn start(change: impl FnOnce(&mut Schedule)) -> Site {
        let mut farm = Farm::start().await;
        farm.stop().await;
        let mut schedule = daily("2026-11-20T03:00:00Z");
        change(&mut schedule);
        farm.change_setting(|setting| setting.trigger = Trigger::Scheduled(schedule)).await;
        let schedules = Schedules::new(farm.store.clone(), farm.builds.clone(), farm.clock.clone());
        Site { farm, schedules }
    }

    async fn tick(&self, now: &str) {
        self.schedules.tick(at(now)).await.expect("ticked");
    }

    fn schedule(&self) -> Schedule {
        let (organization, id) = (self.farm.records.organization.id, self.farm.records.setting.id);
        let setting: Result<Option<BuildSetting>, StoreError> = self.farm.store.read(|snapshot| snapshot.get(organization, id));
        match setting.expect("read").expect("there").trigger {
            Trigger::Scheduled(schedule) => schedule,
            Trigger::Manual | Trigger::Push => panic!("it is scheduled"),
        }
    }

    fn builds(&self) -> Vec<Build> {
        self.every()
    }

    /// Every record of a slot, in order, in few words.
    fn slots(&self) -> Vec<String> {
        let words = |slot: ScheduleSlot| {
            let due = slot.due_at.to_string().replace(":00.000Z", "").replace("2026-", "");
            match slot.outcome {
                SlotOutcome::Built { .. } => format!("{due} built"),
                SlotOutcome::Coalesced { .. } => format!("{due} coalesced"),
                SlotOutcome::Skipped { reason: SkipReason::Missed } => format!("{due} missed"),
                SlotOutcome::Skipped { reason: SkipReason::Unchanged } => format!("{due} unchanged"),
                SlotOutcome::Skipped { reason: SkipReason::Refused } => format!("{due} refused"),
            }
        };
        self.every::<ScheduleSlot>().into_iter().map(words).collect()
    }

    fn every<R: cookhouse::store::Record>(&self) -> Vec<R> {
        let mut found = Vec::new();
        let visit = |record| {
            found.push(record);
            Ok(true)
        };
        self.farm.store.read::<_, StoreError>(|snapshot| snapshot.every(visit)).expect("read");
        found
    }
}

#[tokio::test]
async fn a_due_schedule_makes_one_build_of_the_newest_commit() {
    let site = Site::start(|_| {}).await;
    site.tick("2026-11-20T02:59:59.999Z").await;
    assert!(site.builds().is_empty() && site.slots().is_empty());
    site.tick("2026-11-20T03:00:00.500Z").await;
    site.tick("2026-11-20T03:00:00.500Z").await;
    site.tick("2026-11-20T03:04:00Z").await;
    let builds = site.builds();
    let [build] = builds.as_slice() else { panic!("{builds:#?}") };
    assert_eq!((&build.triggered_by, build.status, build.requested_revision.as_deref()), (&TriggeredBy::Cron, Status::Pending, Some(HEAD)));
    let schedule = site.schedule();
    assert_eq!((schedule.next_run_at, schedule.last_run_at), (Some(at("2026-11-21T03:00:00Z")), Some(at("2026-11-20T03:00:00.500Z"))));
    assert_eq!((schedule.last_error, site.slots()), (None, vec!["11-20T03:00 built".to_owned()]));
    // The next one takes the place of the one that still waits.
    site.tick("2026-11-21T03:00:01Z").await;
    let statuses: Vec<_> = site.builds().iter().map(|build| build.status).collect();
    assert_eq!(statuses, [Status::Superseded, Status::Pending]);
}

#[tokio::test]
async fn many_who_look_at_once_fire_once() {
    let site = Site::start(|_| {}).await;
    let ticks = (0..8).map(|_| site.tick("2026-11-20T03:00:01Z"));
    futures_util::future::join_all(ticks).await;
    assert_eq!((site.builds().len(), site.slots().len()), (1, 1));
}

#[tokio::test]
async fn what_is_undone_leaves_nothing_and_fires_later() {
    let site = Site::start(|_| {}).await;
    let (builds, setting) = (site.farm.builds.clone(), site.farm.records.setting.clone());
    let job = move |tx: &cookhouse::store::Change| {
        let fired = fire(tx, &builds, (setting.organization_id, setting.id), None, at("2026-11-20T03:00:00Z"))?;
        assert!(fired.is_some());
        Err::<(), _>(StoreError::Closed)
    };
    assert!(site.farm.store.write(job).await.is_err());
    assert!(site.builds().is_empty() && site.slots().is_empty());
    site.tick("2026-11-20T03:00:10Z").await;
    assert_eq!((site.builds().len(), site.slots().len()), (1, 1));
}

#[tokio::test]
async fn after_a_downtime_exactly_one_is_caught_up_and_older_ones_are_told() {
    let site = Site::start(|schedule| {
        schedule.cron = "0 */8 * * *".into();
        schedule.next_run_at = Some(at("2026-11-18T00:00:00Z"));
    })
    .await;
    site.tick("2026-11-20T12:00:00Z").await;
    assert_eq!(site.builds().len(), 1);
    assert_eq!(site.slots(), ["11-18T00:00 missed", "11-19T16:00 coalesced", "11-20T00:00 coalesced", "11-20T08:00 built"]);
    let schedule = site.schedule();
    assert_eq!(schedule.next_run_at, Some(at("2026-11-20T16:00:00Z")));
    let told = schedule.last_error.expect("told");
    assert!(told.starts_with("5 runs were missed between 2026-11-18T00:00:00.000Z and 2026-11-19T12:00:00.000Z"), "{told}");
    site.tick("2026-11-20T16:00:00Z").await;
    assert_eq!((site.builds().len(), site.schedule().last_error), (2, None));
}

#[tokio::test]
async fn who_does_not_want_to_catch_up_is_told_what_was_missed() {
    let site = Site::start(|schedule| schedule.catch_up = false).await;
    site.tick("2026-11-20T03:05:00Z").await;
    assert!(site.builds().is_empty());
    assert_eq!(site.slots(), ["11-20T03:00 missed"]);
    assert!(site.schedule().last_error.is_some_and(|told| told.contains("2026-11-20T03:00:00.000Z was missed")));
    site.tick("2026-11-21T03:04:59Z").await;
    assert_eq!((site.builds().len(), site.schedule().last_error), (1, None));
}

#[tokio::test]
async fn an_unchanged_branch_is_not_built_again_if_so_wished() {
    let site = Site::start(|schedule| schedule.only_if_changed = true).await;
    site.tick("2026-11-20T03:00:00Z").await;
    site.tick("2026-11-21T03:00:00Z").await;
    assert_eq!(site.slots(), ["11-20T03:00 built", "11-21T03:00 unchanged"], "the first still waits for the same commit");
    // It was built, then somebody built an older commit by hand.
    let mut build = site.builds().remove(0);
    build.requested_revision = Some("b".repeat(40));
    site.farm.store.write::<(), StoreError>(move |tx| tx.put(&build)).await.expect("stored");
    site.tick("2026-11-22T03:00:00Z").await;
    assert_eq!(site.slots().last().map(String::as_str), Some("11-22T03:00 built"));
    // Who cannot say what is newest does not stop the build.
    let failure = source_error(cookhouse::seams::SourceProblem::Unavailable, "connect");
    *site.farm.source.failure.lock().expect("not poisoned") = Some(failure);
    site.tick("2026-11-23T03:00:00Z").await;
    let newest = site.builds().pop().expect("there");
    assert_eq!((site.builds().len(), newest.requested_revision), (3, None), "the build asks itself");
}

#[tokio::test]
async fn what_is_switched_off_or_cannot_be_read_fires_never() {
    let site = Site::start(|schedule| schedule.enabled = false).await;
    site.tick("2027-01-01T00:00:00Z").await;
    site.schedules.replan(at("2027-01-01T00:00:00Z")).await.expect("planned");
    assert!(site.builds().is_empty() && site.slots().is_empty());
    let site = Site::start(|schedule| schedule.cron = "whenever".into()).await;
    site.tick("2027-01-01T00:00:00Z").await;
    let schedule = site.schedule();
    assert!(site.builds().is_empty() && schedule.next_run_at.is_none());
    assert!(schedule.last_error.is_some_and(|told| told.contains("five fields")));
}

#[tokio::test]
async fn a_clock_that_is_put_right_again_neither_repeats_nor_forgets() {
    let site = Site::start(|_| {}).await;
    site.tick("2026-11-20T03:00:00Z").await;
    // A year ahead for a moment: one run is caught up, then planned from there.
    site.tick("2027-11-20T12:00:00Z").await;
    assert_eq!(site.schedule().next_run_at, Some(at("2027-11-21T03:00:00Z")));
    assert_eq!(site.builds().len(), 2);
    // Back again, to before the first run.
    site.schedules.replan(at("2026-11-20T02:00:00Z")).await.expect("planned");
    assert_eq!(site.schedule().next_run_at, Some(at("2026-11-22T03:00:00Z")), "of the 20th and the 21st there are records");
    site.tick("2026-11-20T03:00:00Z").await;
    assert_eq!(site.builds().len(), 2);
    site.tick("2026-11-22T03:00:00Z").await;
    assert_eq!(site.builds().len(), 3);
}

#[tokio::test]
async fn old_records_are_forgotten() {
    let site = Site::start(|_| {}).await;
    site.tick("2026-11-20T03:00:00Z").await;
    site.tick("2027-11-20T03:00:00Z").await;
    assert_eq!(site.slots().len(), 4);
    site.schedules.forget(at("2027-11-20T03:00:00Z")).await.expect("forgotten");
    assert_eq!(site.slots(), ["11-21T03:00 missed", "2027-11-19T03:00 coalesced", "2027-11-20T03:00 built"], "by when it was decided");
}

#[tokio::test]
async fn a_service_that_starts_fires_what_is_due_and_the_build_runs() {
    let mut farm = Farm::start().await;
    let mut schedule = daily("2026-11-20T03:00:00Z");
    schedule.cron = "*/5 * * * *".into();
    let a_minute_ago = Timestamp(farm.clock.now().0 - 60_000);
    schedule.next_run_at = Some(a_minute_ago);
    farm.change_setting(|setting| setting.trigger = Trigger::Scheduled(schedule)).await;
    let stop = CancellationToken::new();
    let schedules = Schedules::new(farm.store.clone(), farm.builds.clone(), farm.clock.clone());
    let work = tokio::spawn({
        let stop = stop.clone();
        async move { schedules.run(stop).await }
    });
    let mut first = None;
    while first.is_none() {
        let lists = farm.store.read::<_, StoreError>(|snapshot| {
            snapshot.page(farm.records.organization.id, None, None, cookhouse::store::Order::OldestFirst, 1)
        });
        first = lists.expect("read").items.into_iter().next().map(|build: Build| build.id);
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let build = farm.finished(first.expect("there")).await;
    assert_eq!((build.status, build.triggered_by, build.commit.as_str()), (Status::Complete, TriggeredBy::Cron, HEAD));
    stop.cancel();
    work.await.expect("an orderly end");
}
