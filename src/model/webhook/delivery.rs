//! The ledger of webhooks: one entry for each message to each endpoint, with every try.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message::WebhookMessage;
use super::{Webhook, WebhookKind};
use crate::model::{Build, Id, Organization, Timestamp};

/// Tries that an entry keeps. The plan has ten; more come from services that ended in the middle of one.
const TRIES_KEPT: usize = 40;

/// A message on its way to an endpoint, or what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookDelivery {
    /// Its id.
    pub id: Id<WebhookDelivery>,
    /// Whose.
    pub organization_id: Id<Organization>,
    /// Where to.
    pub webhook_id: Id<Webhook>,
    /// What; its id is `webhook-id` on every try.
    pub message_id: Id<WebhookMessage>,
    /// Of which kind.
    pub kind: WebhookKind,
    /// Its event's place in the event log, which is its place in the queue of its endpoint; 0 for what was asked for.
    pub sequence: u64,
    /// The build it is about.
    pub build_id: Option<Id<Build>>,
    /// Somebody asked for it: it is tried once, at once, past the queue.
    pub is_asked_for: bool,
    /// Which entry it repeats.
    pub redelivery_of: Option<Id<WebhookDelivery>>,
    /// When it came into the ledger.
    pub created_at: Timestamp,
    /// Where it was sent the last time, `""` before the first.
    pub url: String,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// Not tried again before.
    pub next_attempt_at: Option<Timestamp>,
    /// Every try, oldest first.
    pub attempts: Vec<Attempt>,
    /// What the last answered try was answered.
    pub response: Option<Response>,
}

impl WebhookDelivery {
    /// Tries that count against the plan: a service that ended in the middle of one tried nothing.
    pub fn tries(&self) -> usize {
        self.attempts
            .iter()
            .filter(|attempt| attempt.error.as_ref().is_none_or(|error| error.code != AttemptErrorCode::Interrupted))
            .count()
    }

    /// Notes that a try begins. One that began before and never ended was cut short by the end of the service.
    pub fn begin(&mut self, now: Timestamp) {
        for attempt in self.attempts.iter_mut().filter(|attempt| !attempt.is_over()) {
            let message = "The service ended before the endpoint answered. Whether it took the message is not known.".to_owned();
            attempt.error = Some(AttemptError { code: AttemptErrorCode::Interrupted, message });
        }
        self.attempts.push(Attempt { at: now, duration_ms: None, status: None, error: None });
        if self.attempts.len() > TRIES_KEPT {
            // The first stays: it says when the waiting began.
            self.attempts.remove(1);
        }
    }

    /// Notes how the try that began last ended.
    pub fn end(&mut self, duration_ms: u64, status: Option<u16>, error: Option<AttemptError>, response: Option<Response>) {
        if let Some(attempt) = self.attempts.last_mut() {
            (attempt.duration_ms, attempt.status, attempt.error) = (Some(duration_ms), status, error);
        }
        if response.is_some() {
            self.response = response;
        }
    }
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "WebhookDeliveryStatus")]
pub enum DeliveryStatus {
    /// To be sent, perhaps once more.
    Pending,
    /// The endpoint took it.
    Delivered,
    /// It is not tried any more.
    Failed,
}

impl DeliveryStatus {
    /// All of them.
    pub const ALL: [DeliveryStatus; 3] = [DeliveryStatus::Pending, DeliveryStatus::Delivered, DeliveryStatus::Failed];

    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            DeliveryStatus::Pending => "pending",
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Failed => "failed",
        }
    }
}

/// One try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WebhookAttempt")]
pub struct Attempt {
    /// When it began; its seconds are `webhook-timestamp`.
    pub at: Timestamp,
    /// Milliseconds until it was answered or given up; null while it is under way, or if nobody was there to see it.
    pub duration_ms: Option<u64>,
    /// The status of the answer.
    pub status: Option<u16>,
    /// Why the endpoint did not take it.
    pub error: Option<AttemptError>,
}

impl Attempt {
    fn is_over(&self) -> bool {
        self.status.is_some() || self.error.is_some()
    }
}

/// Why an endpoint did not take a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WebhookError")]
pub struct AttemptError {
    /// For programs.
    pub code: AttemptErrorCode,
    /// For people.
    pub message: String,
}

/// The kinds of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "WebhookErrorCode")]
pub enum AttemptErrorCode {
    /// It answered, but not with 2xx.
    HttpStatus,
    /// Nobody took the connection, or it broke.
    ConnectFailed,
    /// The address has no name, or leads where nothing is ever sent.
    AddressDenied,
    /// It could not prove who it is.
    TlsFailed,
    /// It did not answer in time.
    Timeout,
    /// What it answered is no HTTP.
    Protocol,
    /// The message could not be signed.
    Unsigned,
    /// The service ended in the middle.
    Interrupted,
}

/// The beginning of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WebhookResponse")]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// The first of its headers, cut.
    pub headers: Vec<Header>,
    /// The beginning of its body, as text.
    pub body: String,
    /// There was more, or more might have come.
    pub is_truncated: bool,
}

/// One header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WebhookHeader")]
pub struct Header {
    /// Its name, in lower case.
    pub name: String,
    /// Its value.
    pub value: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_that_was_cut_short_is_kept_and_does_not_count() {
        let mut delivery = WebhookDelivery {
            id: Id::from_parts(1, 1),
            organization_id: Id::from_parts(1, 2),
            webhook_id: Id::from_parts(1, 3),
            message_id: Id::from_parts(1, 4),
            kind: WebhookKind::Ping,
            sequence: 1,
            build_id: None,
            is_asked_for: false,
            redelivery_of: None,
            created_at: Timestamp(0),
            url: String::new(),
            status: DeliveryStatus::Pending,
            next_attempt_at: None,
            attempts: Vec::new(),
            response: None,
        };
        delivery.begin(Timestamp(1));
        delivery.begin(Timestamp(2));
        assert_eq!((delivery.attempts.len(), delivery.tries()), (2, 1));
        assert_eq!(delivery.attempts[0].error.as_ref().map(|error| error.code), Some(AttemptErrorCode::Interrupted));
        delivery.end(5, Some(204), None, None);
        assert_eq!((delivery.tries(), delivery.attempts[1].status), (1, Some(204)));
        for at in 3..200 {
            delivery.begin(Timestamp(at));
        }
        assert_eq!((delivery.attempts.len(), delivery.attempts[0].at), (TRIES_KEPT, Timestamp(1)));
    }
}
