//! What has to be done about a schedule at a time: pure.

use std::time::Duration;

use crate::model::Timestamp;
use crate::model::schedule::{LEAST_GAP, Starts};

/// How long after a missed run it is still caught up (decisions 7).
pub const LATEST_CATCH_UP: Duration = Duration::from_secs(24 * 60 * 60);
/// A run that begins within this is on time. No other run of the schedule can be due within it.
pub const ON_TIME: Duration = Duration::from_secs(LEAST_GAP as u64 * 60);
/// Runs missed long ago are counted as far as this.
const COUNTED: usize = 1000;

/// What is due of one schedule. Every slot from the planned one to now is in exactly one of the first three.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Slots that are too old to be caught up.
    pub missed: Option<Missed>,
    /// Slots that the newest one stands for.
    pub earlier: Vec<Timestamp>,
    /// The newest slot.
    pub newest: Option<Timestamp>,
    /// The first slot that is not due yet.
    pub next: Option<Timestamp>,
}

/// A span of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed {
    /// The first of them.
    pub first: Timestamp,
    /// Behind the last of them.
    pub until: Timestamp,
    /// How many, as far as they were counted.
    pub count: usize,
    /// There are more.
    pub and_more: bool,
}

/// What is due at `now` of a schedule whose next slot is `planned`, which is not after `now`.
pub fn due(starts: &Starts, planned: Timestamp, now: Timestamp) -> Due {
    let horizon = earlier(now, LATEST_CATCH_UP);
    let (missed, mut slot) = match planned < horizon {
        true => (Some(missed(starts, planned, horizon)), starts.after(Timestamp(horizon.0 - 1))),
        false => (None, Some(planned)),
    };
    let (mut newest, mut before) = (None, Vec::new());
    // At most as many as there are five minutes in a day.
    while let Some(due) = slot.filter(|slot| *slot <= now) {
        before.extend(newest.replace(due));
        slot = starts.after(due);
    }
    Due { missed, earlier: before, newest, next: slot }
}

/// Whether a slot is begun when it was due, not caught up.
pub fn is_on_time(slot: Timestamp, now: Timestamp) -> bool {
    slot > earlier(now, ON_TIME)
}

fn missed(starts: &Starts, first: Timestamp, until: Timestamp) -> Missed {
    let (mut count, mut last) = (1, first);
    while count < COUNTED
        && let Some(next) = starts.after(last).filter(|next| *next < until)
    {
        (count, last) = (count + 1, next);
    }
    let and_more = count == COUNTED && starts.after(last).is_some_and(|next| next < until);
    Missed { first, until, count, and_more }
}

fn earlier(time: Timestamp, by: Duration) -> Timestamp {
    Timestamp(time.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("a time")
    }

    fn hourly() -> Starts {
        Starts::parse("@hourly", "UTC").expect("an expression")
    }

    #[test]
    fn on_time_there_is_one_slot() {
        let due = due(&hourly(), at("2026-01-01T05:00:00Z"), at("2026-01-01T05:00:02Z"));
        let expected =
            Due { missed: None, earlier: Vec::new(), newest: Some(at("2026-01-01T05:00:00Z")), next: Some(at("2026-01-01T06:00:00Z")) };
        assert_eq!(due, expected);
        assert!(is_on_time(at("2026-01-01T05:00:00Z"), at("2026-01-01T05:04:59Z")));
        assert!(!is_on_time(at("2026-01-01T05:00:00Z"), at("2026-01-01T05:05:00Z")));
    }

    #[test]
    fn after_a_night_the_newest_stands_for_the_others() {
        let due = due(&hourly(), at("2026-01-01T05:00:00Z"), at("2026-01-01T08:30:00Z"));
        assert_eq!(due.earlier, ["2026-01-01T05:00:00Z", "2026-01-01T06:00:00Z", "2026-01-01T07:00:00Z"].map(at));
        assert_eq!((due.newest, due.next), (Some(at("2026-01-01T08:00:00Z")), Some(at("2026-01-01T09:00:00Z"))));
        assert_eq!(due.missed, None);
    }

    #[test]
    fn what_is_older_than_a_day_is_missed() {
        let found = due(&hourly(), at("2026-01-01T05:00:00Z"), at("2026-01-03T05:30:00Z"));
        let missed = found.missed.expect("missed");
        assert_eq!((missed.first, missed.until, missed.count), (at("2026-01-01T05:00:00Z"), at("2026-01-02T05:30:00Z"), 25));
        assert_eq!((found.earlier.len(), found.earlier[0]), (23, at("2026-01-02T06:00:00Z")));
        let weekly = Starts::parse("@weekly", "UTC").expect("an expression");
        let found = due(&weekly, at("2026-01-04T00:00:00Z"), at("2026-01-07T00:00:00Z"));
        assert_eq!((found.newest, found.next, found.missed.map(|missed| missed.count)), (None, Some(at("2026-01-11T00:00:00Z")), Some(1)));
        let found = due(&hourly(), at("2026-01-01T05:00:00Z"), at("2027-01-01T05:00:00Z"));
        assert!(found.missed.is_some_and(|missed| missed.and_more && missed.count == 1000));
    }
}
