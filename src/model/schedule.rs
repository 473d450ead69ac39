//! Cron expressions as people write them: five fields, or one of the `@` words; checked when they are stored.

mod starts;

use std::str::FromStr;

pub use starts::Starts;

/// The least time between two starts, in minutes.
pub const LEAST_GAP: u32 = 5;
/// Longest expression, in bytes.
const LONGEST: usize = 200;
const MINUTES_PER_DAY: u32 = 24 * 60;

/// Which minutes an expression means, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// A day has to fit either list when both are restricted, as in every cron.
    are_days_free: bool,
    are_weekdays_free: bool,
    /// The minute or the hour begins with `*`: it means every so often, not a time of day.
    is_by_elapsed_time: bool,
}

/// One field: its name, its least and greatest number, and the words for its numbers.
struct Field {
    name: &'static str,
    least: u32,
    greatest: u32,
    words: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", least: 0, greatest: 59, words: &[] },
    Field { name: "hour", least: 0, greatest: 23, words: &[] },
    Field { name: "day of the month", least: 1, greatest: 31, words: &[] },
    Field {
        name: "month",
        least: 1,
        greatest: 12,
        words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    // 7 is Sunday too.
    Field { name: "day of the week", least: 0, greatest: 7, words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

/// Reads an expression. The error is a sentence for the one who wrote it.
pub fn parse(expression: &str) -> Result<Cron, String> {
    if expression.len() > LONGEST {
        return Err(format!("A schedule has at most {LONGEST} bytes."));
    }
    let expression = match expression.trim() {
        "@hourly" => "0 * * * *",
        "@daily" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" => "0 0 1 1 *",
        word if word.starts_with('@') => return Err("The words are @hourly, @daily, @weekly, @monthly and @yearly.".into()),
        fields => fields,
    };
    let texts: Vec<&str> = expression.split_ascii_whitespace().collect();
    let [minute, hour, day, month, weekday] = texts.as_slice() else {
        return Err("A schedule has five fields: minute, hour, day of the month, month, day of the week.".into());
    };
    let weekdays = bits(weekday, &FIELDS[4])?;
    let cron = Cron {
        minutes: bits(minute, &FIELDS[0])?,
        hours: bits(hour, &FIELDS[1])?,
        days: bits(day, &FIELDS[2])?,
        months: bits(month, &FIELDS[3])?,
        weekdays: (weekdays | weekdays >> 7) & 0x7f,
        are_days_free: day.starts_with('*'),
        are_weekdays_free: weekday.starts_with('*'),
        is_by_elapsed_time: minute.starts_with('*') || hour.starts_with('*'),
    };
    if cron.never_fires() {
        return Err("This day does not exist in any of these months.".into());
    }
    match cron.shortest_gap() {
        gap if gap < LEAST_GAP => Err(format!("Two starts must lie at least {LEAST_GAP} minutes apart; these are {gap}.")),
        _ => Ok(cron),
    }
}

/// Whether a text names a time zone of the IANA database.
pub fn check_timezone(name: &str) -> Result<(), String> {
    let found = chrono_tz::Tz::from_str(name).map(|_| ());
    found.map_err(|_| "This is no time zone of the IANA database, such as UTC or Europe/Stockholm.".to_owned())
}

fn bits(text: &str, field: &Field) -> Result<u64, String> {
    let wrong = || {
        format!(
            "The {} must be `*`, numbers from {} to {}, ranges (1-5), steps (*/10) or lists of them.",
            field.name, field.least, field.greatest
        )
    };
    let mut bits = 0;
    for item in text.split(',') {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => {
                (range, Some(step.parse::<u32>().ok().filter(|step| (1..=field.greatest).contains(step)).ok_or_else(wrong)?))
            }
            None => (item, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (field.least, if field.greatest == 7 { 6 } else { field.greatest }),
            Some((first, last)) => (number(first, field).ok_or_else(wrong)?, number(last, field).ok_or_else(wrong)?),
            None => {
                let first = number(range, field).ok_or_else(wrong)?;
                (first, if step.is_some() { field.greatest } else { first })
            }
        };
        if first > last {
            return Err(wrong());
        }
        bits |= (first..=last).step_by(step.unwrap_or(1) as usize).fold(0, |bits, number| bits | 1 << number);
    }
    Ok(bits)
}

fn number(text: &str, field: &Field) -> Option<u32> {
    if let Some(place) = field.words.iter().position(|word| word.eq_ignore_ascii_case(text)) {
        return Some(place as u32 + field.least);
    }
    let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && (field.least..=field.greatest).contains(number))
}

impl Cron {
    fn never_fires(&self) -> bool {
        const LONGEST_MONTHS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let has_day = |month: u32| (1..=LONGEST_MONTHS[month as usize - 1]).any(|day| self.days & 1 << day != 0);
        self.are_weekdays_free && !(1..=12).any(|month| self.months & 1 << month != 0 && has_day(month))
    }

    /// Minutes between the two starts that lie closest together.
    fn shortest_gap(&self) -> u32 {
        let hours = (0..24).filter(|hour| self.hours & 1 << hour != 0);
        let starts: Vec<u32> =
            hours.flat_map(|hour| (0..60).filter(|minute| self.minutes & 1 << minute != 0).map(move |minute| hour * 60 + minute)).collect();
        let within = starts.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(MINUTES_PER_DAY);
        match (starts.first(), starts.last()) {
            (Some(first), Some(last)) if self.may_fire_on_successive_days() => within.min(first + MINUTES_PER_DAY - last),
            _ => within,
        }
    }

    fn may_fire_on_successive_days(&self) -> bool {
        match (self.are_days_free, self.are_weekdays_free) {
            (true, true) | (false, false) => true,
            (true, false) => (0..7).any(|day| self.weekdays & 1 << day != 0 && self.weekdays & 1 << ((day + 1) % 7) != 0),
            (false, true) => {
                (1..31).any(|day| self.days & 1 << day != 0 && self.days & 1 << (day + 1) != 0)
                    || (self.days & 1 << 1 != 0 && (28..32).any(|day| self.days & 1 << day != 0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_cron_takes_is_taken() {
        for good in [
            "@daily",
            "0 3 * * *",
            "*/5 * * * *",
            "30 2 * * mon-fri",
            "0 0,12 1,15 * *",
            "0 4 * JAN-MAR 7",
            "5/10 6-20/2 * * *",
            " 0  3 * * * ",
        ] {
            assert!(parse(good).is_ok(), "{good}: {:?}", parse(good));
        }
        assert_eq!(parse("0 0 * * 7").map(|cron| cron.weekdays), parse("@weekly").map(|cron| cron.weekdays));
    }

    #[test]
    fn what_cannot_be_or_comes_too_often_is_refused() {
        for bad in [
            "",
            "*",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "0 24 * * *",
            "0 0 0 * *",
            "0 0 32 * *",
            "0 0 * 13 *",
            "0 0 * * 8",
            "5-1 * * * *",
            "*/0 * * * *",
            "-1 * * * *",
            "+1 * * * *",
            "1. * * * *",
            "a * * * *",
            "0 0 L * *",
            "0 0 30 2 *",
            "0 0 31 4,6 *",
            "@reboot",
            "* * * * *",
            "*/4 * * * *",
            "0,3 * * * *",
            "58 23,0 * * *,",
            "0,58 0,23 * * *",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&format!("{} * * * *", "1,".repeat(200))).is_err());
        assert!(parse("0,58 0,23 * * 1").is_ok(), "never on two days in a row");
    }

    #[test]
    fn zones_are_those_of_the_database() {
        for (name, known) in [
            ("UTC", true),
            ("Europe/Stockholm", true),
            ("America/Argentina/Ushuaia", true),
            ("Mars/Olympus", false),
            ("", false),
            ("../etc", false),
        ] {
            assert_eq!(check_timezone(name).is_ok(), known, "{name}");
        }
    }
}
