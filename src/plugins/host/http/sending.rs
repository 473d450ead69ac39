//! One request on its way, over its redirects, to the head of the answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::super::super::bindings::types::ErrorCode;
use super::super::super::capability::{Grants, Origin};
use super::super::progress::Throttle;
use super::super::{CallState, Failure};
use super::body::Body;
use super::request::{Content, Header, Request, check_method};
use super::response::Response;
use crate::outbound::{Outbound, OutboundBody, OutboundError, OutboundErrorKind, OutboundRequest};

/// Bytes that a guest writes while they are sent.
pub(super) type Written = BoxStream<'static, std::io::Result<Bytes>>;

/// Everything an exchange needs; it does not borrow the call's state, so that it can run beside the guest.
pub(super) struct Sending {
    outbound: Outbound,
    grants: Arc<Grants>,
    progress: Arc<Throttle>,
    permit: OwnedSemaphorePermit,
    method: String,
    url: String,
    headers: Vec<Header>,
    body: Source,
    idle: Duration,
    deadline: Instant,
    redirects: u8,
    phase: Option<String>,
}

enum Source {
    Known(Body),
    Written(Option<Written>, Option<u64>),
}

impl CallState {
    pub(super) fn sending(&mut self, request: Request, written: Option<Written>) -> Result<Sending, Failure> {
        check_method(&request.method)?;
        let body = match (request.content, written) {
            (Content::Known(body), _) => Source::Known(body),
            (Content::Streamed(length), Some(written)) => Source::Written(Some(written), length),
            (Content::Streamed(_), None) => {
                return Err(Failure::said(ErrorCode::InvalidArgument, "a request with a streamed body is begun with `start`"));
            }
        };
        Ok(Sending {
            outbound: self.outbound.clone(),
            grants: self.grants.clone(),
            progress: self.progress.clone(),
            permit: self.live_exchanges.take()?,
            method: request.method,
            url: request.url,
            headers: request.headers,
            body,
            idle: request.idle,
            deadline: self.deadline,
            redirects: request.redirects,
            phase: request.phase,
        })
    }
}

impl Sending {
    /// Sends, and follows redirects as far as was asked for and granted.
    pub(super) async fn run(mut self) -> Result<Response, Failure> {
        loop {
            if !self.grants.allows_url(&self.url) {
                let origin = Origin::parse(&self.url).map_or_else(|| "this address".to_owned(), |origin| origin.to_string());
                return Err(
                    Failure::said(ErrorCode::Denied, format!("the plugin was not granted to reach {origin}")).reason("origin-not-granted")
                );
            }
            let broken = Arc::new(Mutex::new(None));
            let body = self.open_body(&broken)?;
            let request = OutboundRequest {
                method: self.method.clone(),
                url: self.url.clone(),
                headers: self.headers.iter().map(|header| (header.name.clone(), header.value.clone())).collect(),
                body,
                idle_timeout: self.idle,
                total_timeout: Some(self.deadline.saturating_duration_since(Instant::now())),
            };
            let answer = match self.outbound.send(request).await {
                Ok(answer) => answer,
                // Our own end broke: the network's error is only its echo.
                Err(error) => {
                    return Err(broken.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_else(|| from_outbound(&error)));
                }
            };
            let location = answer.header("location").map(str::to_owned);
            match (answer.status, location) {
                (301 | 302 | 303 | 307 | 308, Some(location)) if self.redirects > 0 => self.redirect(answer.status, &location)?,
                _ => return Ok(Response::new(answer, self.permit)),
            }
        }
    }

    /// `broken` is told why our own side could not go on.
    fn open_body(&mut self, broken: &Arc<Mutex<Option<Failure>>>) -> Result<OutboundBody, Failure> {
        let (stream, length): (Written, Option<u64>) = match &mut self.body {
            Source::Known(body) if body.length() == 0 && matches!(self.method.as_str(), "GET" | "HEAD" | "DELETE" | "OPTIONS") => {
                return Ok(OutboundBody::Empty);
            }
            Source::Known(body) => {
                let (progress, phase, length) = (self.progress.clone(), self.phase.clone(), body.length());
                let report = move |sent| {
                    if let Some(phase) = &phase {
                        progress.report(phase, sent, Some(length));
                    }
                };
                (body.stream(report).boxed(), Some(length))
            }
            Source::Written(written, length) => match written.take() {
                Some(written) => (written, *length),
                None => return Err(Failure::said(ErrorCode::Unsupported, "a streamed body cannot be sent again")),
            },
        };
        let broken = broken.clone();
        let stream = stream.inspect_err(move |error| {
            let failure = Failure::io(error, "the body of the request").reason("body");
            *broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        });
        Ok(OutboundBody::Stream { stream: stream.boxed(), length })
    }

    fn redirect(&mut self, status: u16, location: &str) -> Result<(), Failure> {
        self.redirects -= 1;
        let invalid = || Failure::said(ErrorCode::Protocol, "the server redirects to something that is no address");
        let next = join(&self.url, location).ok_or_else(invalid)?;
        let (here, there) = (Origin::parse(&self.url), Origin::parse(&next).ok_or_else(invalid)?);
        let is_elsewhere = here.as_ref() != Some(&there);
        if here.is_some_and(|here| here.is_secure()) && !there.is_secure() {
            return Err(Failure::said(ErrorCode::Denied, "the server redirects from https to http").reason("redirect-denied"));
        }
        if is_elsewhere {
            self.headers.retain(|header| !header.is_secret);
        }
        let becomes_get = status == 303 || (matches!(status, 301 | 302) && self.method == "POST");
        if becomes_get && self.method != "HEAD" {
            self.method = "GET".to_owned();
            self.body = Source::Known(Body::default());
            self.headers.retain(|header| !header.name.starts_with("content-"));
        } else if is_elsewhere && !matches!(&self.body, Source::Known(body) if body.length() == 0) {
            return Err(Failure::said(ErrorCode::Denied, "the server redirects an upload to another origin").reason("redirect-denied"));
        }
        self.url = next;
        Ok(())
    }
}

/// Network errors in the contract's words.
pub(in super::super) fn from_outbound(error: &OutboundError) -> Failure {
    let (code, reason, retryable) = match error.kind {
        OutboundErrorKind::Dns => (ErrorCode::Unavailable, "dns", true),
        OutboundErrorKind::AddressDenied => (ErrorCode::Denied, "address-denied", false),
        OutboundErrorKind::Connect => (ErrorCode::Unavailable, "connect", true),
        OutboundErrorKind::Tls => (ErrorCode::Unavailable, "tls", false),
        OutboundErrorKind::Timeout => (ErrorCode::TimedOut, "timeout", true),
        OutboundErrorKind::Reset => (ErrorCode::Unavailable, "reset", true),
        OutboundErrorKind::Protocol => (ErrorCode::Protocol, "protocol", false),
        OutboundErrorKind::InvalidUrl => (ErrorCode::InvalidArgument, "invalid-url", false),
        OutboundErrorKind::InvalidRequest => (ErrorCode::InvalidArgument, "invalid-request", false),
        OutboundErrorKind::TooLarge => (ErrorCode::TooLarge, "too-large", false),
    };
    let failure = Failure::said(code, error.message.clone()).reason(reason);
    if retryable { failure.retryable() } else { failure }
}

/// Where a `Location` leads, seen from `base`. What comes out is checked like any other URL.
fn join(base: &str, location: &str) -> Option<String> {
    let location = location.split('#').next()?;
    if Origin::parse(location).is_some() {
        return Some(location.to_owned());
    }
    let (scheme, rest) = base.split_once("://")?;
    let path_at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(path_at);
    let path = path.split(['?', '#']).next()?;
    Some(match location {
        _ if location.starts_with("//") => format!("{scheme}:{location}"),
        _ if location.starts_with('/') => format!("{scheme}://{authority}{location}"),
        _ if location.starts_with('?') => format!("{scheme}://{authority}{path}{location}"),
        _ => format!("{scheme}://{authority}{}/{location}", path.rsplit_once('/').map_or("", |(folder, _)| folder)),
    })
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn locations_are_joined_as_they_are_meant() {
        let base = "https://a.example:8443/one/two?x#y";
        for (location, url) in [
            ("https://b.example/z", "https://b.example/z"),
            ("//b.example/z", "https://b.example/z"),
            ("/z?q#f", "https://a.example:8443/z?q"),
            ("z", "https://a.example:8443/one/z"),
            ("?q", "https://a.example:8443/one/two?q"),
        ] {
            assert_eq!(join(base, location).as_deref(), Some(url), "{location}");
        }
        assert_eq!(join("https://a.example", "z").as_deref(), Some("https://a.example/z"));
    }
}
