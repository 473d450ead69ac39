//! Why a message was not taken, and whether and when it is tried again.

use std::time::Duration;

use crate::model::Timestamp;
use crate::model::notification::{LONGEST_MESSAGE, NotificationError, NotificationErrorCode};
use crate::notifications::text;
use crate::outbound::{OutboundError, OutboundErrorKind};

/// When a message is tried again, and how fast.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The pause before each of the tries after the first, give or take a tenth.
    pub retries: Vec<Duration>,
    /// The longest that the other side may ask for.
    pub longest_wait: Duration,
    /// Between two messages to the same chat: the busiest of them takes one a second.
    pub pause: Duration,
    /// The longest that a chat may take to answer.
    pub chat: Duration,
    /// The longest for a connection to a mail server, up to and with signing in.
    pub greeting: Duration,
    /// The longest for one mail.
    pub mail: Duration,
    /// How long what was sent or given up is kept on record.
    pub kept: Duration,
}

impl Default for Plan {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        Plan {
            retries: vec![Duration::from_secs(30), minutes(2), minutes(10), minutes(30), minutes(60)],
            longest_wait: minutes(60),
            pause: Duration::from_millis(1100),
            chat: Duration::from_secs(15),
            greeting: Duration::from_secs(45),
            mail: Duration::from_secs(90),
            kept: minutes(30 * 24 * 60),
        }
    }
}

impl Plan {
    /// How long to wait after so many tries; `None`: it is given up.
    pub(super) fn wait(&self, attempts: u32, asked: Option<Duration>) -> Option<Duration> {
        let planned = *self.retries.get(usize::try_from(attempts).ok()?.checked_sub(1)?)?;
        let mut chance = [0u8; 1];
        // Without chance everything would still be tried again, only all at once.
        let _ = getrandom::fill(&mut chance);
        // From nine to eleven tenths.
        let planned = planned.mul_f64(0.9 + 0.2 * f64::from(chance[0]) / 255.0);
        Some(planned.max(asked.unwrap_or_default().min(self.longest_wait)))
    }
}

/// A message was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) code: NotificationErrorCode,
    pub(super) status: Option<u16>,
    pub(super) message: String,
    pub(super) again: Again,
}

/// Whether it is worth another try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    Never,
    /// After the plan's pause, or this one if it is longer.
    Later(Option<Duration>),
}

impl Trouble {
    pub(super) fn for_ever(code: NotificationErrorCode, message: impl Into<String>) -> Self {
        Trouble { code, status: None, message: message.into(), again: Again::Never }
    }

    pub(super) fn for_now(code: NotificationErrorCode, message: impl Into<String>) -> Self {
        Trouble { code, status: None, message: message.into(), again: Again::Later(None) }
    }

    pub(super) fn with_status(self, status: u16) -> Self {
        Trouble { status: Some(status), ..self }
    }

    /// As it is recorded.
    pub(super) fn error(&self, attempted_at: Timestamp) -> NotificationError {
        let message = text::line(&self.message, LONGEST_MESSAGE);
        NotificationError { code: self.code, status: self.status, message, attempted_at }
    }
}

impl From<OutboundError> for Trouble {
    fn from(error: OutboundError) -> Self {
        use NotificationErrorCode as Code;
        let (code, again) = match error.kind {
            OutboundErrorKind::InvalidUrl | OutboundErrorKind::InvalidRequest => (Code::Invalid, Again::Never),
            OutboundErrorKind::AddressDenied => (Code::AddressDenied, Again::Never),
            OutboundErrorKind::Dns | OutboundErrorKind::Connect | OutboundErrorKind::Reset => (Code::ConnectFailed, Again::Later(None)),
            OutboundErrorKind::Tls => (Code::TlsFailed, Again::Later(None)),
            OutboundErrorKind::Timeout => (Code::Timeout, Again::Later(None)),
            OutboundErrorKind::Protocol | OutboundErrorKind::TooLarge => (Code::ProtocolError, Again::Later(None)),
        };
        Trouble { code, status: None, message: error.message, again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_retries_and_no_more_and_the_other_side_may_ask_for_longer() {
        let plan = Plan::default();
        for (attempts, planned) in plan.retries.iter().enumerate() {
            let wait = plan.wait(attempts as u32 + 1, None).unwrap();
            assert!(wait >= planned.mul_f64(0.89) && wait <= planned.mul_f64(1.11), "{wait:?} {planned:?}");
        }
        assert_eq!((plan.retries.len(), plan.wait(6, None), plan.wait(0, None)), (5, None, None));
        assert_eq!(plan.wait(1, Some(Duration::from_secs(400))), Some(Duration::from_secs(400)));
        assert!(plan.wait(1, Some(Duration::from_secs(1 << 40))).unwrap() <= plan.longest_wait);
        assert!(plan.wait(1, Some(Duration::ZERO)).unwrap() >= Duration::from_secs(26));
    }
}
