//! Why a call of a guest failed, before it is put into the contract's own type.

use std::fmt;

use crate::text::excerpt;

/// Characters of the other side's answer that are shown.
pub const EXCERPT_CHARACTERS: usize = 300;

/// The kinds of failure that the guests tell apart; each is a case of the contract's `error-code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract explains its cases")]
pub enum Code {
    InvalidArgument,
    InvalidConfig,
    Unauthenticated,
    Forbidden,
    NotFound,
    Conflict,
    RateLimited,
    Unavailable,
    TimedOut,
    Cancelled,
    Denied,
    TooLarge,
    Unsupported,
    Protocol,
    Io,
    Internal,
    Other,
}

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// For programs.
    pub code: Code,
    /// For people.
    pub message: String,
    /// The same call may succeed later without a human.
    pub retryable: bool,
    /// Milliseconds after which the other side wants to be asked again.
    pub retry_after_ms: Option<u64>,
    /// Stable and machine-readable.
    pub reason: Option<String>,
}

impl Problem {
    /// A failure that only a human can mend.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Problem { code, message: message.into(), retryable: false, retry_after_ms: None, reason: None }
    }

    /// The same with a machine-readable reason.
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// The same, and worth another try.
    pub fn transient(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// An answer outside 2xx: the kind by its status, `http-status-NNN` as the reason, an excerpt of the answer in the text.
    /// `who` begins the sentence ("the receiver").
    pub fn from_status(who: &str, status: u16, answer: &[u8]) -> Self {
        let code = match status {
            401 | 407 => Code::Unauthenticated,
            403 | 451 => Code::Forbidden,
            404 | 410 => Code::NotFound,
            409 | 412 => Code::Conflict,
            408 | 504 => Code::TimedOut,
            413 => Code::TooLarge,
            400 | 405 | 406 | 411 | 414 | 415 | 422 | 428 | 431 => Code::InvalidArgument,
            429 => Code::RateLimited,
            500..=599 => Code::Unavailable,
            _ => Code::Protocol,
        };
        let answer = excerpt(answer, EXCERPT_CHARACTERS);
        let message = if answer.is_empty() { format!("{who} answered {status}") } else { format!("{who} answered {status}: {answer}") };
        let retryable = matches!(code, Code::TimedOut | Code::RateLimited | Code::Unavailable);
        Problem { code, message, retryable, retry_after_ms: None, reason: Some(format!("http-status-{status}")) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

/// Turns a [`Problem`] into the `error` of a guest's own bindings (`types` is their module).
#[macro_export]
macro_rules! problem_into_error {
    ($types:path) => {
        impl From<$crate::Problem> for $types {
            fn from(problem: $crate::Problem) -> Self {
                use $crate::Code;
                let code = match problem.code {
                    Code::InvalidArgument => ErrorCode::InvalidArgument,
                    Code::InvalidConfig => ErrorCode::InvalidConfig,
                    Code::Unauthenticated => ErrorCode::Unauthenticated,
                    Code::Forbidden => ErrorCode::Forbidden,
                    Code::NotFound => ErrorCode::NotFound,
                    Code::Conflict => ErrorCode::Conflict,
                    Code::RateLimited => ErrorCode::RateLimited,
                    Code::Unavailable => ErrorCode::Unavailable,
                    Code::TimedOut => ErrorCode::TimedOut,
                    Code::Cancelled => ErrorCode::Cancelled,
                    Code::Denied => ErrorCode::Denied,
                    Code::TooLarge => ErrorCode::TooLarge,
                    Code::Unsupported => ErrorCode::Unsupported,
                    Code::Protocol => ErrorCode::Protocol,
                    Code::Io => ErrorCode::Io,
                    Code::Internal => ErrorCode::Internal,
                    Code::Other => ErrorCode::Other,
                };
                let $crate::Problem { message, retryable, retry_after_ms, reason, .. } = problem;
                Self { code, message, retryable, retry_after_ms, reason }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::{Code, Problem};

    #[test]
    fn a_status_gives_the_kind_the_reason_and_whether_to_try_again() {
        for (status, code, retryable) in [
            (401, Code::Unauthenticated, false),
            (403, Code::Forbidden, false),
            (404, Code::NotFound, false),
            (413, Code::TooLarge, false),
            (429, Code::RateLimited, true),
            (500, Code::Unavailable, true),
            (503, Code::Unavailable, true),
            (504, Code::TimedOut, true),
            (302, Code::Protocol, false),
            (418, Code::Protocol, false),
        ] {
            let problem = Problem::from_status("the receiver", status, b"");
            assert_eq!((problem.code, problem.retryable), (code, retryable), "{status}");
            assert_eq!(problem.reason, Some(format!("http-status-{status}")));
            assert_eq!(problem.message, format!("the receiver answered {status}"));
        }
    }

    #[test]
    fn the_answer_is_shown_without_what_a_terminal_would_obey() {
        let problem = Problem::from_status("the receiver", 500, b"out of\r\nspace \x1b[2J");
        assert_eq!(problem.message, "the receiver answered 500: out of space [2J");
    }
}
