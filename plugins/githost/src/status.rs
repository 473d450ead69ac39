//! What an answer outside 2xx means on a git host.

use guest_support::problem::EXCERPT_CHARACTERS;
use guest_support::{Code, Problem, text};
use serde::Deserialize;

use crate::answers::{header_milliseconds, text_or_null};

/// The headers that say how long to wait.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// `date`: what time it is for the server.
    pub date: Option<String>,
    /// `retry-after`: seconds, or a time.
    pub retry_after: Option<String>,
    /// `x-ratelimit-remaining`.
    pub remaining: Option<String>,
    /// `x-ratelimit-reset`, in seconds since 1970.
    pub reset: Option<String>,
}

/// Waiting time when the server names none, as GitHub's documentation asks for.
pub const DEFAULT_WAIT_MS: u64 = 60_000;
const LONGEST_WAIT_MS: u64 = 24 * 3_600_000;

/// A server that says "now" means soon.
const SHORTEST_WAIT_MS: u64 = 1000;

#[derive(Deserialize)]
struct Fault {
    #[serde(default, deserialize_with = "text_or_null")]
    message: String,
}

/// The problem behind a status. `now_ms` is the time since 1970.
pub fn problem(status: u16, limits: &Limits, answer: &[u8], now_ms: u64) -> Problem {
    let said = serde_json::from_slice::<Fault>(answer).map(|fault| fault.message.into_bytes()).unwrap_or_else(|_| answer.to_vec());
    let said = text::excerpt(&said, EXCERPT_CHARACTERS);
    let is_limit = status == 429
        || (status == 403 && (is_spent(limits) || limits.retry_after.is_some() || said.to_ascii_lowercase().contains("rate limit")));
    if is_limit {
        return limited(status, limits, now_ms);
    }
    let mut problem = Problem::from_status("the git host", status, said.as_bytes());
    match status {
        401 => problem.message = with(said, "the git host refused the token: it is wrong, expired or revoked"),
        403 => problem.message = with(said, "the token is not allowed to do this on the git host"),
        300..=399 => problem.message = format!("the git host answered {status}, a redirect that is not followed; check apiBaseUrl"),
        _ => {}
    }
    problem
}

/// The server allows no more requests for now; how long to wait is part of the problem.
pub fn limited(status: u16, limits: &Limits, now_ms: u64) -> Problem {
    must_wait(status, wait_ms(limits, now_ms))
}

/// The same, with the time to wait.
pub fn must_wait(status: u16, wait_ms: u64) -> Problem {
    let seconds = wait_ms.div_ceil(1000);
    let text = format!("the git host allows no more requests for now; it can be asked again in {seconds} seconds");
    let mut problem = Problem::new(Code::RateLimited, text).because(format!("http-status-{status}")).transient();
    problem.retry_after_ms = Some(wait_ms);
    problem
}

fn with(said: String, sentence: &str) -> String {
    if said.is_empty() { sentence.to_owned() } else { format!("{sentence} ({said})") }
}

fn is_spent(limits: &Limits) -> bool {
    limits.remaining.as_deref().map(str::trim) == Some("0")
}

/// Times are the server's, and so is the time they are counted from. When the hour's share is used up counts where it is: an answer
/// about too many requests at once has that header as well, and the next hour is much too late for it.
fn wait_ms(limits: &Limits, now_ms: u64) -> u64 {
    let now_ms = limits.date.as_deref().and_then(header_milliseconds).unwrap_or(now_ms);
    let seconds = |text: &str| text.trim().parse::<u64>().ok();
    let until = |text: &str| Some(header_milliseconds(text)?.saturating_sub(now_ms));
    let after = |text: &str| seconds(text).map(|seconds| seconds.saturating_mul(1000)).or_else(|| until(text));
    let reset = limits.reset.as_deref().filter(|_| limits.remaining.is_none() || is_spent(limits));
    let wait = limits.retry_after.as_deref().and_then(after);
    let wait = wait.or_else(|| Some(seconds(reset?)?.saturating_mul(1000).saturating_sub(now_ms)));
    wait.unwrap_or(DEFAULT_WAIT_MS).clamp(SHORTEST_WAIT_MS, LONGEST_WAIT_MS)
}

#[cfg(test)]
mod tests {
    use guest_support::Code;

    use super::{Limits, problem};

    #[test]
    fn a_limit_says_when_to_come_back() {
        let now = 1_000_000_000;
        let limits = Limits { remaining: Some("0".into()), reset: Some("1000090".into()), ..Limits::default() };
        let limited = problem(403, &limits, b"{}", now);
        assert_eq!((limited.code, limited.retryable, limited.retry_after_ms), (Code::RateLimited, true, Some(90_000)));
        let secondary = problem(403, &Limits { retry_after: Some("7".into()), ..Limits::default() }, b"", now);
        assert_eq!((secondary.code, secondary.retry_after_ms), (Code::RateLimited, Some(7_000)));
        let told = problem(403, &Limits::default(), br#"{"message":"You have exceeded a secondary rate limit."}"#, now);
        assert_eq!((told.code, told.retry_after_ms), (Code::RateLimited, Some(60_000)));
        let absurd = problem(429, &Limits { retry_after: Some("99999999999999".into()), ..Limits::default() }, b"", now);
        assert_eq!(absurd.retry_after_ms, Some(86_400_000));
        // Too many at once, in the middle of an hour whose share is not used up.
        let at_once = Limits { remaining: Some("4000".into()), reset: Some("1003600".into()), ..Limits::default() };
        let at_once = problem(403, &at_once, br#"{"message":"You have exceeded a secondary rate limit."}"#, now);
        assert_eq!(at_once.retry_after_ms, Some(60_000));
    }

    #[test]
    fn times_are_counted_by_the_servers_clock() {
        let limits = |retry_after: Option<&str>, reset: Option<&str>| Limits {
            date: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
            retry_after: retry_after.map(str::to_owned),
            remaining: Some("0".into()),
            reset: reset.map(str::to_owned),
        };
        for (limits, wait) in [
            (limits(Some("Sun, 06 Nov 1994 08:51:07 GMT"), Some("784111800")), 90_000),
            (limits(Some("Sun, 06 Nov 1994 08:00:00 GMT"), None), 1_000),
            (limits(None, Some("784111800")), 23_000),
            (limits(None, Some("784111000")), 1_000),
            (limits(Some("0"), None), 1_000),
            (limits(Some("soon"), None), 60_000),
            (limits(None, None), 60_000),
        ] {
            assert_eq!(problem(429, &limits, b"", 5).retry_after_ms, Some(wait), "{limits:?}");
        }
    }

    #[test]
    fn other_refusals_keep_their_kind() {
        let none = Limits { remaining: Some("4999".into()), ..Limits::default() };
        for (status, code) in [
            (401, Code::Unauthenticated),
            (403, Code::Forbidden),
            (404, Code::NotFound),
            (409, Code::Conflict),
            (500, Code::Unavailable),
            (302, Code::Protocol),
        ] {
            assert_eq!(problem(status, &none, b"", 0).code, code, "{status}");
        }
        let refused = problem(401, &none, br#"{"message":"Bad credentials\u001b[0m"}"#, 0);
        assert!(refused.message.contains("refused the token") && refused.message.contains("(Bad credentials [0m)"), "{}", refused.message);
    }
}
