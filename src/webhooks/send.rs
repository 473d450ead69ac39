//! One try of one message. The endpoint is somebody else's: what it answers is bounded in size and time.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Webhooks;
use super::plan::retry_after;
use super::record::Claim;
use super::signature::sign;
use crate::model::places::webhook_secret;
use crate::model::webhook::delivery::{AttemptError, AttemptErrorCode, Header, Response};
use crate::outbound::{OutboundBody, OutboundError, OutboundErrorKind, OutboundRequest, OutboundResponse};

/// Bytes of an answer's body that the ledger keeps.
const KEPT_BODY: usize = 1024;
/// Headers of an answer that the ledger keeps, and characters of each.
const KEPT_HEADERS: usize = 16;
const KEPT_VALUE: usize = 160;
/// How long the body of an answer may take: what it says changes nothing.
const BODY_PATIENCE: Duration = Duration::from_secs(2);

/// What came of a try.
pub(super) struct Sent {
    pub(super) duration_ms: u64,
    pub(super) status: Option<u16>,
    pub(super) error: Option<AttemptError>,
    pub(super) response: Option<Response>,
    /// What the endpoint asks for.
    pub(super) retry_after: Option<Duration>,
}

impl Sent {
    fn without_answer(started: Instant, code: AttemptErrorCode, message: impl Into<String>) -> Sent {
        let error = Some(AttemptError { code, message: message.into() });
        Sent { duration_ms: milliseconds(started), status: None, error, response: None, retry_after: None }
    }
}

fn milliseconds(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl Webhooks {
    /// Sends a message once. Cut off by `give_up` it counts as interrupted.
    pub(super) async fn send(&self, claim: &Claim, give_up: &CancellationToken) -> Sent {
        let started = Instant::now();
        let request = match self.request(claim) {
            Ok(request) => request,
            Err(message) => return Sent::without_answer(started, AttemptErrorCode::Unsigned, message),
        };
        let sent = tokio::select! {
            sent = self.0.parts.outbound.send(request) => sent,
            () = give_up.cancelled() => {
                let message = "The service stopped before the endpoint answered. Whether it took the message is not known.";
                return Sent::without_answer(started, AttemptErrorCode::Interrupted, message);
            }
        };
        let mut answer = match sent {
            Ok(answer) => answer,
            Err(error) => return failed(started, error),
        };
        let status = answer.status;
        let now = self.0.parts.clock.now().seconds();
        let asked = answer.header("retry-after").and_then(|value| retry_after(value, now));
        let error = (!(200..300).contains(&status)).then(|| {
            let message = match status {
                300..400 => format!("It answered {status}; redirects are not followed. Give the address that it leads to."),
                410 => "It answered 410: it wants nothing more.".to_owned(),
                _ => format!("It answered {status}."),
            };
            AttemptError { code: AttemptErrorCode::HttpStatus, message }
        });
        let duration_ms = milliseconds(started);
        let response = tokio::select! {
            response = beginning(&mut answer) => response,
            () = give_up.cancelled() => beginning_of(&answer, &[], true),
        };
        Sent { duration_ms, status: Some(status), error, response: Some(response), retry_after: asked }
    }

    fn request(&self, claim: &Claim) -> Result<OutboundRequest, String> {
        let (webhook, message) = (&claim.webhook, &claim.message);
        let place = webhook_secret(webhook.id);
        let secrets: Vec<_> = webhook.secrets(claim.began).map(|sealed| self.0.parts.vault.open_sealed(&place, sealed)).collect();
        // A former secret that does not open is no reason to send nothing.
        let (mut opened, mut problem) = (Vec::new(), None);
        for secret in secrets {
            match secret {
                Ok(secret) => opened.push(secret),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        let mend = || "Its secret cannot be read; give it a new one with POST /webhooks/:id/rotate-secret.".to_owned();
        if opened.is_empty() {
            tracing::error!(webhook.id = %webhook.id, error = problem.map(tracing::field::display), "the secret of a webhook cannot be read");
            return Err(mend());
        }
        let (id, timestamp) = (message.id.as_str(), claim.began.seconds());
        let signature = sign(&opened, id, timestamp, message.body.as_bytes()).ok_or_else(mend)?;
        let mut request = OutboundRequest::new("POST", webhook.url.clone());
        request.headers = vec![
            ("content-type".into(), "application/json".into()),
            ("webhook-id".into(), id.to_owned()),
            ("webhook-timestamp".into(), timestamp.to_string()),
            ("webhook-signature".into(), signature),
        ];
        request.body = OutboundBody::Bytes(Bytes::from(message.body.clone()));
        request.idle_timeout = self.0.settings.timeout;
        request.total_timeout = Some(self.0.settings.timeout);
        Ok(request)
    }
}

fn failed(started: Instant, error: OutboundError) -> Sent {
    let code = match error.kind {
        OutboundErrorKind::InvalidUrl | OutboundErrorKind::Dns | OutboundErrorKind::AddressDenied => AttemptErrorCode::AddressDenied,
        OutboundErrorKind::Connect | OutboundErrorKind::Reset => AttemptErrorCode::ConnectFailed,
        OutboundErrorKind::Tls => AttemptErrorCode::TlsFailed,
        OutboundErrorKind::Timeout => AttemptErrorCode::Timeout,
        OutboundErrorKind::Protocol | OutboundErrorKind::InvalidRequest | OutboundErrorKind::TooLarge => AttemptErrorCode::Protocol,
    };
    Sent::without_answer(started, code, error.message)
}

/// Reads the beginning of an answer; the rest is not waited for.
async fn beginning(answer: &mut OutboundResponse) -> Response {
    let until = Instant::now() + BODY_PATIENCE;
    let (mut body, mut is_truncated) = (Vec::new(), true);
    while body.len() <= KEPT_BODY {
        match tokio::time::timeout_at(until, answer.chunk()).await {
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk[..chunk.len().min(KEPT_BODY + 1)]),
            Ok(Ok(None)) => {
                is_truncated = false;
                break;
            }
            Ok(Err(_)) | Err(_) => break,
        }
    }
    is_truncated |= body.len() > KEPT_BODY;
    body.truncate(KEPT_BODY);
    beginning_of(answer, &body, is_truncated)
}

fn beginning_of(answer: &OutboundResponse, body: &[u8], is_truncated: bool) -> Response {
    let cut = |text: &str| text.chars().take(KEPT_VALUE).collect::<String>();
    let headers = answer.headers.iter().take(KEPT_HEADERS).map(|(name, value)| Header { name: cut(name), value: cut(value) }).collect();
    Response { status: answer.status, headers, body: String::from_utf8_lossy(body).into_owned(), is_truncated }
}
