//! A request and its answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::progress::Progress;
use super::{BodyStream, OutboundError, OutboundErrorKind, error, stalled};

/// What to send.
pub struct OutboundRequest {
    /// In capitals.
    pub method: String,
    /// See [`super::Outbound::check_url`].
    pub url: String,
    /// Without those about the connection and the length. A value of the caller's replaces our `User-Agent`.
    pub headers: Vec<(String, String)>,
    /// Nothing by default.
    pub body: OutboundBody,
    /// The longest time in which no byte moves, in either direction. The wait for the head of the answer counts as one.
    pub idle_timeout: Duration,
    /// The longest time for everything, the answer's body included.
    pub total_timeout: Option<Duration>,
}

/// The body of a request.
pub enum OutboundBody {
    /// None at all.
    Empty,
    /// All of it.
    Bytes(Bytes),
    /// As it becomes known; pulled only as fast as the connection takes it.
    Stream {
        /// The bytes.
        stream: BodyStream,
        /// Exactly how many; sent in chunks when it is not known. A stream of another length ends the request.
        length: Option<u64>,
    },
}

impl OutboundRequest {
    /// Without headers and body; a minute of idle time, no bound on the whole.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        OutboundRequest {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: OutboundBody::Empty,
            idle_timeout: Duration::from_secs(60),
            total_timeout: None,
        }
    }
}

impl fmt::Debug for OutboundRequest {
    /// Without values that may be secret: the query, the headers, the body.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundRequest")
            .field("method", &self.method)
            .field("url", &self.url.split(['?', '#']).next())
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// The answer: its head, and its body as it comes.
pub struct OutboundResponse {
    /// 200 to 999.
    pub status: u16,
    /// As the other side sent them, names in lower case. Values are lossy text.
    pub headers: Vec<(String, String)>,
    inner: reqwest::Response,
    place: String,
    progress: Arc<Progress>,
}

impl OutboundResponse {
    pub(super) fn new(inner: reqwest::Response, place: String, progress: Arc<Progress>) -> Self {
        let headers = inner
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        OutboundResponse { status: inner.status().as_u16(), headers, inner, place, progress }
    }

    /// The first header of this name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The next bytes of the body, nothing at its end. May be cancelled without losing any.
    ///
    /// # Errors
    /// `Timeout`, `Reset` (also when it ends before its announced length), `Protocol`.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, OutboundError> {
        let received = self.progress.watch(self.inner.chunk()).await.map_err(|_| stalled(&self.place))?;
        let chunk = received.map_err(|error| error::classify(&error, &self.place))?;
        self.progress.moved();
        Ok(chunk)
    }

    /// The rest of the body.
    ///
    /// # Errors
    /// As [`OutboundResponse::chunk`], and `TooLarge` above `limit` bytes.
    pub async fn read_all(&mut self, limit: usize) -> Result<Vec<u8>, OutboundError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if chunk.len() > limit - body.len() {
                return Err(OutboundError::new(
                    OutboundErrorKind::TooLarge,
                    format!("{} answered with more than {limit} bytes", self.place),
                ));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

impl fmt::Debug for OutboundResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundResponse").field("status", &self.status).field("place", &self.place).finish_non_exhaustive()
    }
}
