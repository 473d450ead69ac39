//! What an answer outside 2xx means on a git host.

use guest_support::problem::EXCERPT_CHARACTERS;
use guest_support::{Code, Problem, text};
use serde::Deserialize;

/// The headers that say how long to wait.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// `retry-after`, in seconds.
    pub retry_after: Option<String>,
    /// `x-ratelimit-remaining`.
    pub remaining: Option<String>,
    /// `x-ratelimit-reset`, in seconds since 1970.
    pub reset: Option<String>,
}

/// Waiting time when the server names none, as GitHub's documentation asks for.
pub const DEFAULT_WAIT_MS: u64 = 60_000;
const LONGEST_WAIT_MS: u64 = 24 * 3_600_000;

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    message: String,
}

/// The problem behind a status. `now_ms` is the time since 1970.
pub fn problem(status: u16, limits: &Limits, answer: &[u8], now_ms: u64) -> Problem {
    let said = serde_json::from_slice::<Fault>(answer).map(|fault| fault.message.into_bytes()).unwrap_or_else(|_| answer.to_vec());
    let said = text::excerpt(&said, EXCERPT_CHARACTERS);
    let is_limit = status == 429
        || (status == 403
            && (limits.remaining.as_deref().map(str::trim) == Some("0")
                || limits.retry_after.is_some()
                || said.to_ascii_lowercase().contains("rate limit")));
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

fn wait_ms(limits: &Limits, now_ms: u64) -> u64 {
    let seconds = |text: &Option<String>| text.as_deref().and_then(|text| text.trim().parse::<u64>().ok());
    let wait = match (seconds(&limits.retry_after), seconds(&limits.reset)) {
        (Some(after), _) => after.saturating_mul(1000),
        (None, Some(reset)) => reset.saturating_mul(1000).saturating_sub(now_ms).max(1000),
        (None, None) => DEFAULT_WAIT_MS,
    };
    wait.min(LONGEST_WAIT_MS)
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
