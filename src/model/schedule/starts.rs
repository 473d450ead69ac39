//! When an expression fires in a time zone: pure, and the same for every clock.
//!
//! Where the clocks of a zone change, this is what every cron of Vixie's family does. A fixed time of day (neither the
//! minute nor the hour begins with `*`) that the change leaves out fires at the first instant after the gap, and one that
//! comes twice fires the first time. An expression with `*` goes on by elapsed time: what is left out does not fire, and
//! what comes twice fires twice.
//!
//! Two starts never lie closer than [`LEAST_GAP`] minutes: a change of clocks can bring them together, and then the
//! earlier one stands for both.

use std::str::FromStr;

use chrono::{DateTime, Datelike, Days, MappedLocalTime, NaiveDate, NaiveDateTime, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;

use super::{Cron, LEAST_GAP, parse};
use crate::model::Timestamp;

/// Nothing lies further apart: the 29th of February across a year like 2100.
const FURTHEST_YEARS: i32 = 9;
/// The longest that clocks were ever put forward, in hours: a whole day where the date line moved.
const LONGEST_CHANGE_HOURS: i64 = 25;
const MINUTE: i64 = 60_000;

/// An expression in its zone.
#[derive(Debug, Clone, Copy)]
pub struct Starts {
    cron: Cron,
    zone: Tz,
}

impl Starts {
    /// Reads both; the error is a sentence for the one who wrote them.
    pub fn parse(expression: &str, zone: &str) -> Result<Starts, String> {
        super::check_timezone(zone)?;
        let cron = parse(expression)?;
        Ok(Starts { cron, zone: Tz::from_str(zone).map_err(|error| error.to_string())? })
    }

    /// The first start after `time`, which itself does not count. `None`: not within nine years, or beyond the calendar.
    pub fn after(&self, time: Timestamp) -> Option<Timestamp> {
        let mut time = time;
        loop {
            let next = self.nominal_after(time)?;
            let closest = Timestamp(next.0 - i64::from(LEAST_GAP) * MINUTE);
            match self.nominal_after(closest) {
                Some(earlier) if earlier < next => time = next,
                _ => return Some(next),
            }
        }
    }

    /// The same, before starts that lie too close together are taken out.
    fn nominal_after(&self, time: Timestamp) -> Option<Timestamp> {
        let local = DateTime::<Utc>::from_timestamp_millis(time.0)?.with_timezone(&self.zone).date_naive();
        let mut day = local.checked_sub_days(Days::new(2))?;
        let last_year = local.year() + FURTHEST_YEARS;
        let mut best: Option<i64> = None;
        // Days do not always follow one another in time: where clocks go back across midnight, the last hour of a day
        // comes again after the first minute of the next. Two days more settle it.
        let mut days_more = 2;
        while day.year() <= last_year && days_more > 0 {
            if !self.cron.has_month(day) {
                day = first_of_next_month(day)?;
                days_more -= i32::from(best.is_some());
                continue;
            }
            if self.cron.has_day(day) {
                self.instants(day, |instant| {
                    if instant > time.0 && best.is_none_or(|best| instant < best) {
                        best = Some(instant);
                    }
                });
            }
            days_more -= i32::from(best.is_some());
            day = day.succ_opt()?;
        }
        best.map(Timestamp)
    }

    fn instants(&self, day: NaiveDate, mut visit: impl FnMut(i64)) {
        let hours = (0..24).filter(|hour| self.cron.hours & 1 << hour != 0);
        for hour in hours {
            for minute in (0..60).filter(|minute| self.cron.minutes & 1 << minute != 0) {
                let Some(local) = day.and_hms_opt(hour, minute, 0) else { continue };
                match self.zone.from_local_datetime(&local) {
                    MappedLocalTime::Single(only) => visit(only.timestamp_millis()),
                    MappedLocalTime::Ambiguous(first, second) => {
                        visit(first.timestamp_millis());
                        if self.cron.is_by_elapsed_time {
                            visit(second.timestamp_millis());
                        }
                    }
                    MappedLocalTime::None if self.cron.is_by_elapsed_time => {}
                    MappedLocalTime::None => self.end_of_gap(local).into_iter().for_each(&mut visit),
                }
            }
        }
    }

    /// The first instant at which clocks show more than a time that they left out.
    fn end_of_gap(&self, left_out: NaiveDateTime) -> Option<i64> {
        let shows_less = |instant: i64| {
            DateTime::<Utc>::from_timestamp(instant, 0).is_some_and(|instant| instant.with_timezone(&self.zone).naive_local() < left_out)
        };
        // As if the zone had no offset; the change lies within a day and a bit of it. Offsets can have odd seconds.
        let about = left_out.and_utc();
        let mut before = (about - TimeDelta::hours(2 * LONGEST_CHANGE_HOURS)).timestamp();
        let mut behind = (about + TimeDelta::hours(2 * LONGEST_CHANGE_HOURS)).timestamp();
        if !shows_less(before) || shows_less(behind) {
            return None;
        }
        while behind - before > 1 {
            let middle = before + (behind - before) / 2;
            if shows_less(middle) { before = middle } else { behind = middle }
        }
        Some(behind * 1000)
    }
}

impl Cron {
    fn has_month(&self, day: NaiveDate) -> bool {
        self.months & 1 << day.month() != 0
    }

    fn has_day(&self, day: NaiveDate) -> bool {
        let by_date = self.days & 1 << day.day() != 0;
        let by_weekday = self.weekdays & 1 << day.weekday().num_days_from_sunday() != 0;
        match (self.are_days_free, self.are_weekdays_free) {
            (false, false) => by_date || by_weekday,
            _ => by_date && by_weekday,
        }
    }
}

fn first_of_next_month(day: NaiveDate) -> Option<NaiveDate> {
    day.with_day(1)?.checked_add_months(chrono::Months::new(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn starts(expression: &str, zone: &str) -> Starts {
        Starts::parse(expression, zone).expect("an expression")
    }

    fn list(expression: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let starts = starts(expression, zone);
        let mut time = Timestamp::parse(from).expect("a time");
        let mut found = Vec::new();
        for _ in 0..count {
            time = starts.after(time).expect("another");
            found.push(time.to_string().replace(":00.000Z", "Z"));
        }
        found
    }

    #[test]
    fn days_months_and_weekdays_are_those_of_every_cron() {
        assert_eq!(list("@daily", "UTC", "2026-02-27T00:00:00Z", 3), ["2026-02-28T00:00Z", "2026-03-01T00:00Z", "2026-03-02T00:00Z"]);
        assert_eq!(list("@hourly", "Asia/Kolkata", "2026-01-01T00:00:00Z", 2), ["2026-01-01T00:30Z", "2026-01-01T01:30Z"]);
        assert_eq!(list("0 3 * * mon", "UTC", "2026-11-20T12:00:00Z", 2), ["2026-11-23T03:00Z", "2026-11-30T03:00Z"]);
        // Either list, where both say something.
        assert_eq!(
            list("0 0 13 * 5", "UTC", "2026-11-01T00:00:00Z", 4),
            ["2026-11-06T00:00Z", "2026-11-13T00:00Z", "2026-11-20T00:00Z", "2026-11-27T00:00Z"]
        );
        assert_eq!(list("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", 1), ["2104-02-29T00:00Z"]);
        assert_eq!(list("@yearly", "Pacific/Auckland", "2026-06-01T00:00:00Z", 1), ["2026-12-31T11:00Z"]);
    }

    #[test]
    fn a_fixed_time_in_a_gap_fires_at_its_end_and_in_an_overlap_once() {
        // Stockholm: 2026-03-29 02:00 becomes 03:00, 2026-10-25 03:00 becomes 02:00.
        let stockholm = "Europe/Stockholm";
        assert_eq!(list("30 2 * * *", stockholm, "2026-03-28T12:00:00Z", 2), ["2026-03-29T01:00Z", "2026-03-30T00:30Z"]);
        assert_eq!(list("30 2 * * *", stockholm, "2026-10-24T12:00:00Z", 2), ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]);
        // All that fell into the gap is one start, also together with the one at its end.
        assert_eq!(
            list("0,20,40 2,3 * * *", stockholm, "2026-03-29T00:30:00Z", 3),
            ["2026-03-29T01:00Z", "2026-03-29T01:20Z", "2026-03-29T01:40Z"]
        );
        // Half an hour, and a day that never was.
        assert_eq!(list("10 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 1), ["2026-10-03T15:30Z"]);
        assert_eq!(list("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", 1), ["2011-12-30T10:00Z"]);
        assert_eq!(list("@daily", "Pacific/Apia", "2011-12-29T12:00:00Z", 2), ["2011-12-30T10:00Z", "2011-12-31T10:00Z"]);
    }

    #[test]
    fn what_goes_on_by_the_hour_follows_elapsed_time() {
        let list = |from, count| list("*/30 * * * *", "Europe/Stockholm", from, count);
        assert_eq!(list("2026-03-29T00:29:00Z", 3), ["2026-03-29T00:30Z", "2026-03-29T01:00Z", "2026-03-29T01:30Z"]);
        assert_eq!(list("2026-10-25T00:15:00Z", 4), ["2026-10-25T00:30Z", "2026-10-25T01:00Z", "2026-10-25T01:30Z", "2026-10-25T02:00Z"]);
    }

    #[test]
    fn clocks_that_go_back_across_midnight_do_not_shuffle_the_starts() {
        // St. John's went back from 00:01 to 23:01 of the day before.
        let starts = starts("*/5 * * * *", "America/St_Johns");
        let mut time = Timestamp::parse("2010-11-07T01:00:00Z").expect("a time");
        for _ in 0..60 {
            let next = starts.after(time).expect("another");
            assert!((5 * MINUTE..=9 * MINUTE).contains(&(next.0 - time.0)) || time.0 % (5 * MINUTE) != 0, "{time} {next}");
            time = next;
        }
    }

    #[test]
    fn a_change_of_clocks_brings_no_two_starts_closer_than_five_minutes() {
        let found = list("0,58 1,3 * * *", "Europe/Stockholm", "2026-03-29T00:00:00Z", 3);
        assert_eq!(found, ["2026-03-29T00:58Z", "2026-03-29T01:58Z", "2026-03-29T23:00Z"]);
    }

    fn expressions() -> impl Strategy<Value = String> {
        let minute = prop_oneof![Just("*/5".to_owned()), Just("*/15".into()), (0..60u32).prop_map(|m| m.to_string()), Just("0,30".into())];
        let hour = prop_oneof![Just("*".to_owned()), Just("*/6".into()), (0..24u32).prop_map(|h| h.to_string()), Just("1-3".into())];
        let day = prop_oneof![3 => Just("*".to_owned()), 1 => (1..29u32).prop_map(|d| d.to_string())];
        let weekday = prop_oneof![3 => Just("*"), 1 => Just("1-5"), 1 => Just("sun")];
        (minute, hour, day, weekday).prop_map(|(minute, hour, day, weekday)| format!("{minute} {hour} {day} * {weekday}"))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn starts_increase_keep_their_distance_and_do_not_depend_on_where_one_begins(
            expression in expressions(),
            zone in 0..chrono_tz::TZ_VARIANTS.len(),
            from in 946_684_800_000..2_208_988_800_000i64,
            step in 0..90 * MINUTE,
        ) {
            let starts = Starts::parse(&expression, chrono_tz::TZ_VARIANTS[zone].name()).expect("an expression");
            let from = Timestamp(from);
            let first = starts.after(from).expect("a start");
            let second = starts.after(first).expect("a start");
            prop_assert!(first > from && second.0 - first.0 >= i64::from(LEAST_GAP) * MINUTE, "{} {}", first, second);
            prop_assert_eq!(first.0 % 1000, 0);
            // From anywhere between two starts the next one is the second.
            let between = Timestamp((first.0 + step).min(second.0 - 1));
            prop_assert_eq!(starts.after(between), Some(second));
            prop_assert_eq!(starts.after(Timestamp(first.0 - 1)), Some(first));
            // What clocks show then is what was asked for, or the end of a gap.
            let shown = DateTime::<Utc>::from_timestamp_millis(second.0).expect("a time").with_timezone(&starts.zone);
            let asked = |time: &DateTime<Tz>| {
                use chrono::Timelike;
                starts.cron.minutes & 1 << time.minute() != 0 && starts.cron.hours & 1 << time.hour() != 0 && starts.cron.has_day(time.date_naive())
            };
            let before = shown - TimeDelta::seconds(1);
            let is_end_of_gap = (shown.naive_local() - before.naive_local()).num_seconds() > 1;
            prop_assert!(asked(&shown) || is_end_of_gap, "{} in {}", shown, starts.zone);
        }
    }
}
