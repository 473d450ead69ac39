//! Twenty years of schedules in several zones, with a clock that is put forward and back and a service that is often
//! down: of every slot there is a record, and none has two builds. Slots come from an oracle that knows nothing of ours:
//! it goes through the days, and through the minutes of those whose clocks change.
//!
//! `COOKHOUSE_SIMULATED_YEARS` and `COOKHOUSE_SIMULATED_SITES` ask for more.

use std::collections::BTreeSet;
use std::str::FromStr;

use chrono::{DateTime, Datelike, Days, NaiveDateTime, TimeDelta, TimeZone, Timelike, Utc};
use chrono_tz::Tz;
use cookhouse::builds::Builds;
use cookhouse::model::build_setting::{Schedule, Trigger};
use cookhouse::model::schedule::Starts;
use cookhouse::model::schedule_slot::{ScheduleSlot, SlotOutcome};
use cookhouse::model::{BuildSetting, Timestamp};
use cookhouse::schedules::{fire, replanned};
use cookhouse::store::{Change, Read, StoreError};

use crate::support::server::TestServer;
use crate::support::studio::{self, Kind};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;
const FIRST_YEAR: i32 = 2020;

/// Hours and minutes of every day, and whether they mean elapsed time.
struct Site {
    zone: &'static str,
    cron: &'static str,
    minutes: &'static [u32],
    hours: &'static [u32],
    is_by_elapsed_time: bool,
    only_sundays: bool,
}

const EVERY_SIXTH: &[u32] = &[0, 6, 12, 18];

const SITES: [Site; 8] = [
    site("Europe/Stockholm", "30 2 * * *", &[30], &[2]),
    Site { only_sundays: true, ..site("Asia/Tehran", "0 0 * * sun", &[0], &[0]) },
    site("Australia/Lord_Howe", "45 1 * * *", &[45], &[1]),
    Site { only_sundays: true, ..site("America/Santiago", "30 0 * * 7", &[30], &[0]) },
    site("Asia/Kathmandu", "0 0,12 * * *", &[0], &[0, 12]),
    site("America/New_York", "0,58 1,3 * * *", &[0, 58], &[1, 3]),
    Site { is_by_elapsed_time: true, ..site("Africa/Casablanca", "15 */6 * * *", &[15], EVERY_SIXTH) },
    Site { is_by_elapsed_time: true, ..site("America/St_Johns", "1 */6 * * *", &[1], EVERY_SIXTH) },
];

const fn site(zone: &'static str, cron: &'static str, minutes: &'static [u32], hours: &'static [u32]) -> Site {
    Site { zone, cron, minutes, hours, is_by_elapsed_time: false, only_sundays: false }
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

impl Site {
    fn means(&self, local: NaiveDateTime) -> bool {
        let is_day = !self.only_sundays || local.weekday().num_days_from_sunday() == 0;
        is_day && self.minutes.contains(&local.minute()) && self.hours.contains(&local.hour())
    }

    /// Whether clocks that run steadily show such a time so many minutes later.
    fn means_minute(&self, from: NaiveDateTime, later: i64) -> bool {
        let minutes = i64::from(from.hour() * 60 + from.minute()) + later;
        self.minutes.iter().any(|minute| minutes % 60 == i64::from(*minute))
            && self.hours.iter().any(|hour| minutes / 60 % 24 == i64::from(*hour))
    }

    /// Every slot of these years, one minute after the other where clocks change.
    fn slots(&self, years: usize) -> BTreeSet<i64> {
        let zone = Tz::from_str(self.zone).expect("a zone");
        let start = Utc.with_ymd_and_hms(FIRST_YEAR, 1, 1, 0, 0, 0).single().expect("a time");
        let end = start.checked_add_days(Days::new(years as u64 * 365)).expect("a time");
        let local = |instant: DateTime<Utc>| instant.with_timezone(&zone).naive_local();
        let offset = |instant: DateTime<Utc>| local(instant) - instant.naive_utc();
        let (mut found, mut seen, mut day) = (BTreeSet::new(), BTreeSet::new(), start);
        while day < end {
            let steady = (0..=24).all(|hour| offset(day + TimeDelta::hours(hour)) == offset(day));
            let shown_first = local(day);
            for minute in 0..24 * 60 {
                if steady && !self.means_minute(shown_first, minute) {
                    continue;
                }
                let instant = day + TimeDelta::minutes(minute);
                let shown = local(instant);
                let mut is_slot = self.means(shown) && (self.is_by_elapsed_time || seen.insert(shown));
                // What the clocks left out since the minute before.
                let mut left_out = if steady { shown } else { local(instant - TimeDelta::minutes(1)) + TimeDelta::minutes(1) };
                while !self.is_by_elapsed_time && left_out < shown {
                    is_slot |= self.means(left_out);
                    left_out += TimeDelta::minutes(1);
                }
                let instant = instant.timestamp_millis();
                if is_slot && found.range(instant - 5 * MINUTE + 1..).next().is_none() {
                    found.insert(instant);
                }
            }
            if steady {
                seen.clear();
            }
            day += TimeDelta::days(1);
        }
        found
    }
}

/// A small generator: the same history each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        i64::try_from(self.0 % u64::try_from(limit).expect("positive")).expect("it fits")
    }
}

fn next_run(setting: &BuildSetting) -> Option<Timestamp> {
    match &setting.trigger {
        Trigger::Scheduled(schedule) => schedule.next_run_at,
        Trigger::Manual | Trigger::Push => None,
    }
}

/// A service on a machine whose clock cannot be trusted.
struct Machine<'a> {
    tx: &'a Change,
    builds: &'a Builds,
    setting: BuildSetting,
    builds_made: usize,
}

impl Machine<'_> {
    fn planned(&mut self) -> Option<Timestamp> {
        self.setting = self.tx.get(self.setting.organization_id, self.setting.id).expect("read").expect("there");
        next_run(&self.setting)
    }

    fn tick(&mut self, now: Timestamp) {
        let which = (self.setting.organization_id, self.setting.id);
        let build = fire(self.tx, self.builds, which, None, now).expect("fired");
        self.builds_made += usize::from(build.is_some());
    }

    fn replan(&mut self, now: Timestamp) {
        self.planned();
        if let (Some(next), Trigger::Scheduled(schedule)) =
            (replanned(self.tx, &self.setting, now).expect("read"), &mut self.setting.trigger)
        {
            schedule.next_run_at = Some(next);
            self.tx.put(&self.setting).expect("stored");
        }
    }
}

/// The slots that the records of this setting cover, spans taken apart by the oracle, and how many were built.
fn on_record(tx: &Change, setting: &BuildSetting, slots: &BTreeSet<i64>) -> (BTreeSet<i64>, usize) {
    let (mut covered, mut built) = (BTreeSet::new(), 0);
    tx.for_each(setting.organization_id, None, |slot: ScheduleSlot| {
        let until = slot.until.map_or(slot.due_at.0 + 1, |until| until.0);
        covered.extend(slots.range(slot.due_at.0..until));
        built += usize::from(matches!(slot.outcome, SlotOutcome::Built { .. }));
        assert!(slots.contains(&slot.due_at.0) || slot.due_at.0 > slots.last().copied().unwrap_or(0), "{} is nobody's slot", slot.due_at);
        Ok(true)
    })
    .expect("read");
    (covered, built)
}

fn play(tx: &Change, builds: &Builds, clock: &cookhouse::clock::Clock, site: &Site, years: usize, seed: u64) {
    let studio = studio::records(clock, Kind::Githost);
    let starts = Starts::parse(site.cron, site.zone).expect("an expression");
    let slots = site.slots(years);
    let (first, end) = (*slots.first().expect("slots"), *slots.last().expect("slots"));
    let mut setting = studio.setting.clone();
    setting.trigger = Trigger::Scheduled(Schedule {
        cron: site.cron.into(),
        timezone: site.zone.into(),
        enabled: true,
        only_if_changed: false,
        catch_up: true,
        next_run_at: starts.after(Timestamp(first - 1)),
        last_run_at: None,
        last_error: None,
    });
    tx.put(&studio.organization).expect("stored");
    tx.put(&studio.project).expect("stored");
    tx.put(&setting).expect("stored");
    let mut machine = Machine { tx, builds, setting, builds_made: 0 };
    let mut chance = Chance(seed);
    let (mut now, mut furthest) = (first - 1, first - 1);
    while now < end {
        let planned = machine.planned().expect("there is always a next time").0;
        match chance.below(40) {
            // Down for hours, days, or weeks; or the clock is put forward, which is the same.
            0 => now += chance.below(3 * DAY),
            1 if chance.below(8) == 0 => now += chance.below(60 * DAY),
            // Put back, within what records are kept.
            2 => {
                now = (now - chance.below(2 * DAY)).max(first - 1);
                machine.replan(Timestamp(now));
            }
            3 if chance.below(8) == 0 => {
                now = (now - chance.below(40 * DAY)).max(first - 1);
                machine.replan(Timestamp(now));
            }
            // Awake when it is due, a moment early, or a little late.
            4 => now = planned.max(now) - 1,
            _ => now = planned.max(now) + chance.below(5000),
        }
        machine.tick(Timestamp(now));
        furthest = furthest.max(now);
    }
    // A record is of one slot and names one build: a slot that fires twice makes a build without a record.
    let (covered, built) = on_record(tx, &machine.setting, &slots);
    assert_eq!(machine.builds_made, built, "{}: fired twice", site.zone);
    let due = slots.range(..=furthest.min(end));
    let lost: Vec<_> = due.filter(|slot| !covered.contains(slot)).map(|slot| Timestamp(*slot).to_string()).collect();
    assert!(lost.is_empty(), "{}: nobody decided about {lost:?}", site.zone);
    assert!(built > slots.len() / 4, "{}: {built} of {}", site.zone, slots.len());
}

#[test]
fn our_slots_are_those_of_the_oracle() {
    let years = number("COOKHOUSE_SIMULATED_YEARS", 20);
    for site in &SITES {
        let starts = Starts::parse(site.cron, site.zone).expect("an expression");
        let slots = site.slots(years);
        let mut time = Timestamp(slots.first().expect("slots") - 1);
        for expected in &slots {
            let next = starts.after(time).expect("another");
            assert_eq!(next, Timestamp(*expected), "{} behind {time}", site.zone);
            time = next;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_twenty_years_nothing_fires_twice_and_no_slot_is_lost() {
    let years = number("COOKHOUSE_SIMULATED_YEARS", 20);
    let sites = number("COOKHOUSE_SIMULATED_SITES", 4);
    for turn in 0..sites {
        let server = TestServer::start().await;
        let (builds, clock) = (server.app.builds.clone(), server.app.clock.clone());
        let site = &SITES[turn % SITES.len()];
        let job = move |tx: &Change| {
            play(tx, &builds, &clock, site, years, 0x9e37_79b9_7f4a_7c15 ^ (turn as u64 + 1));
            Ok::<_, StoreError>(())
        };
        server.app.store.write(job).await.expect("committed");
        assert_eq!(server.app.store.check().expect("checked"), Vec::<String>::new());
    }
}
