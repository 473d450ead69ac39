//! When a message that was not taken is tried again: the plan of Standard Webhooks 1.0, over three days.

use std::time::Duration;

/// The longest that an endpoint may ask us to wait.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The pauses before each try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan(Vec<Duration>);

impl Default for Plan {
    /// 0, 5 s, 5 m, 30 m, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h: ten tries (decisions 13).
    fn default() -> Self {
        const MINUTE: u64 = 60;
        const HOUR: u64 = 60 * MINUTE;
        Plan::new([0, 5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR].map(Duration::from_secs))
    }
}

impl Plan {
    /// A plan of these pauses, the first before the first try.
    pub fn new(pauses: impl IntoIterator<Item = Duration>) -> Plan {
        Plan(pauses.into_iter().collect())
    }

    /// How many tries there are.
    pub fn tries(&self) -> usize {
        self.0.len()
    }

    /// The pause after `tries` tries; `None`: that was the last. `chance` spreads it by a tenth in both directions, so that
    /// endpoints that fell together are not all met at once. `asked` is what the endpoint wants, and never shortens it.
    pub fn pause_after(&self, tries: usize, chance: u16, asked: Option<Duration>) -> Option<Duration> {
        let pause = self.0.get(tries)?;
        let spread = 0.9 + 0.2 * f64::from(chance) / f64::from(u16::MAX);
        Some(pause.mul_f64(spread).max(asked.unwrap_or_default().min(LONGEST_WAIT)))
    }
}

/// What `Retry-After` asks for, in seconds or as a date, at `now` (Unix seconds).
pub fn retry_after(value: &str, now: i64) -> Option<Duration> {
    let value = value.trim();
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        return (!value.is_empty()).then(|| Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let at = chrono::DateTime::parse_from_rfc2822(value).ok()?;
    u64::try_from(at.timestamp().saturating_sub(now)).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_tries_over_three_days_each_spread_by_a_tenth() {
        let plan = Plan::default();
        let all: Duration = (1..plan.tries()).map(|tries| plan.pause_after(tries, u16::MAX / 2, None).unwrap()).sum();
        assert_eq!((plan.tries(), all.as_secs() / 60), (10, 75 * 60 + 35));
        let pause = |chance| plan.pause_after(3, chance, None).unwrap().as_secs();
        assert_eq!((pause(0), pause(u16::MAX)), (27 * 60, 33 * 60));
        assert_eq!(plan.pause_after(10, 0, None), None);
        assert_eq!(plan.pause_after(0, 99, None), Some(Duration::ZERO));
    }

    #[test]
    fn an_endpoint_can_ask_for_more_time_but_not_for_ever_and_not_for_less() {
        let pause = |tries, asked| Plan::default().pause_after(tries, u16::MAX / 2, Some(Duration::from_secs(asked))).unwrap().as_secs();
        assert_eq!((pause(1, 60), pause(3, 60), pause(1, u64::MAX)), (60, 1799, 86_400));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let asked = |value| retry_after(value, 784_111_770).map(|asked| asked.as_secs());
        assert_eq!(asked(" 120 "), Some(120));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT"), Some(7));
        assert_eq!(asked("99999999999999999999999"), Some(u64::MAX));
        for nonsense in ["", "-1", "soon", "1.5", "Sun, 06 Nov 1994 08:49:00 GMT", "\u{0661}"] {
            assert_eq!(asked(nonsense), None, "{nonsense}");
        }
    }
}
