//! The envelope for requests that are none. hyper itself answers a head that it cannot read, with a bare status line, and
//! closes the connection; [`EnvelopeIo`] stands between hyper and the connection, and says it in the words of all other answers.
//!
//! What hyper says by itself is told from what the router said by the books that [`Owed`] keeps: while no request is owed an
//! answer, and everything that was owed has left, nobody but hyper has anything to say. Where the books do not balance, as with
//! requests that were sent without waiting for answers, hyper's own words go out.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::endpoint::Body;
use super::error::{ApiError, BoxError, Problem};
use super::router::{Connection, Router, finish};

/// The answers that a connection owes.
#[derive(Clone, Default)]
pub(super) struct Owed(Arc<Books>);

#[derive(Default)]
struct Books {
    begun: AtomicUsize,
    open: AtomicUsize,
}

impl Owed {
    /// A request has reached the router.
    pub(super) fn begin(&self) -> Debt {
        self.0.begun.fetch_add(1, Ordering::AcqRel);
        self.0.open.fetch_add(1, Ordering::AcqRel);
        Debt(self.0.clone())
    }
}

/// One answer that is owed until this is gone.
pub(super) struct Debt(Arc<Books>);

impl Debt {
    /// Paid when hyper has taken the last of the answer.
    pub(super) fn paid_by(self, answer: Response<Body>) -> Response<OwedBody> {
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            // What follows is no HTTP, and never hyper's.
            self.0.open.fetch_add(1, Ordering::AcqRel);
        }
        answer.map(|body| OwedBody { body, _debt: self })
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The body of an answer that is owed.
pub(super) struct OwedBody {
    body: Body,
    _debt: Debt,
}

impl hyper::body::Body for OwedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The stream that puts hyper's own answers into the envelope.
pub(super) struct EnvelopeIo<S, F> {
    stream: S,
    owed: Owed,
    /// As many requests had begun when everything that was owed had left.
    settled: usize,
    answer: F,
    /// What is said in hyper's place; all that hyper writes from then on is dropped.
    ours: Option<Bytes>,
}

impl<S, F> EnvelopeIo<S, F>
where
    S: AsyncWrite + Unpin,
    F: Fn(StatusCode) -> Bytes + Unpin,
{
    /// `answer` makes the whole answer of the status that hyper would give.
    pub(super) fn new(stream: S, owed: Owed, answer: F) -> Self {
        EnvelopeIo { stream, owed, settled: 0, answer, ours: None }
    }

    fn is_hypers(&self) -> bool {
        let books = &self.owed.0;
        books.open.load(Ordering::Acquire) == 0 && books.begun.load(Ordering::Acquire) == self.settled
    }

    /// Whether what hyper writes is dropped.
    fn speaks_instead(&mut self, bytes: &[u8]) -> bool {
        if self.ours.is_none()
            && self.is_hypers()
            && let Some(status) = status_of(bytes)
        {
            self.ours = Some((self.answer)(status));
        }
        self.ours.is_some()
    }

    fn poll_ours(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.ours.as_mut().filter(|rest| rest.has_remaining()) {
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                taken => rest.advance(taken),
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The status of an answer that begins like this.
fn status_of(bytes: &[u8]) -> Option<StatusCode> {
    let rest = bytes.strip_prefix(b"HTTP/1.1 ").or_else(|| bytes.strip_prefix(b"HTTP/1.0 "))?;
    StatusCode::from_bytes(rest.get(..3)?).ok()
}

impl<S: AsyncRead + Unpin, F: Unpin> AsyncRead for EnvelopeIo<S, F> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S, F> AsyncWrite for EnvelopeIo<S, F>
where
    S: AsyncWrite + Unpin,
    F: Fn(StatusCode) -> Bytes + Unpin,
{
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.speaks_instead(bytes) {
            true => Poll::Ready(Ok(bytes.len())),
            false => Pin::new(&mut self.stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let first = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
        match self.speaks_instead(first) {
            true => Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum())),
            false => Pin::new(&mut self.stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_ours(context))?;
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        // hyper flushes when it has handed over all that it has.
        let books = self.owed.0.clone();
        if books.open.load(Ordering::Acquire) == 0 {
            self.settled = books.begun.load(Ordering::Acquire);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_ours(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Router {
    /// The whole answer to a head that could not be read; the connection ends with it.
    pub(super) fn answer_unread(&self, status: StatusCode, connection: &Connection) -> Bytes {
        let refusal = match status {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE | StatusCode::URI_TOO_LONG => Problem::HeadersTooLarge.into(),
            _ => ApiError::new(Problem::ValidationFailed, "The head of the request cannot be read as HTTP/1.1."),
        };
        let request_id = self.new_request_id();
        let mut response = refusal.into_response(&request_id);
        finish(response.headers_mut(), &request_id);
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        let (parts, body) = response.into_parts();
        // The envelope is at hand: nothing is waited for.
        let body = body.collect().now_or_never().and_then(Result::ok).map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let date = self.date();
        let mut bytes = format!("HTTP/1.1 {}\r\ndate: {date}\r\ncontent-length: {}\r\n", parts.status, body.len()).into_bytes();
        for (name, value) in &parts.headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                bytes.extend_from_slice(part);
            }
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&body);
        self.note_unread(parts.status, &request_id, connection);
        bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::endpoint;
    use super::*;

    const BARE: &[u8] = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n";

    fn ours(status: StatusCode) -> Bytes {
        Bytes::from(format!("ours {}", status.as_u16()))
    }

    /// What arrives when `write` is done with the stream.
    async fn arrives(write: impl AsyncFnOnce(&mut EnvelopeIo<tokio::io::DuplexStream, fn(StatusCode) -> Bytes>, &Owed)) -> String {
        let (near, mut far) = tokio::io::duplex(64);
        let owed = Owed::default();
        let mut stream = EnvelopeIo::new(near, owed.clone(), ours as fn(StatusCode) -> Bytes);
        let mut text = String::new();
        tokio::join!(
            async {
                write(&mut stream, &owed).await;
                stream.shutdown().await.unwrap();
                drop(stream);
            },
            async { far.read_to_string(&mut text).await.unwrap() }
        );
        text
    }

    #[tokio::test]
    async fn what_nobody_asked_for_is_said_in_our_words() {
        let said = arrives(async |stream, _| {
            stream.write_all(&BARE[..20]).await.unwrap();
            stream.write_all(&BARE[20..]).await.unwrap();
        });
        assert_eq!(said.await, "ours 431");
    }

    #[tokio::test]
    async fn answers_go_out_as_they_are_whatever_they_look_like() {
        let said = arrives(async |stream, owed| {
            let answer = owed.begin().paid_by(Response::new(endpoint::full("x")));
            // The last of it is handed over before any of it has left.
            drop(answer);
            stream.write_all(BARE).await.unwrap();
            stream.flush().await.unwrap();
            let slow = owed.begin();
            stream.flush().await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            drop(slow);
            stream.write_all(b"HTTP/1.1 400 in a body").await.unwrap();
            stream.flush().await.unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        });
        let bare = String::from_utf8_lossy(BARE);
        assert_eq!(said.await, format!("{bare}HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 400 in a bodyours 400"));
    }

    #[tokio::test]
    async fn after_an_upgrade_nothing_is_hypers() {
        let said = arrives(async |stream, owed| {
            let mut answer = Response::new(endpoint::empty());
            *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            drop(owed.begin().paid_by(answer));
            stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").await.unwrap();
            stream.flush().await.unwrap();
            stream.write_all(b"HTTP/1.1 400 is a text like any other").await.unwrap();
        });
        assert!(said.await.ends_with("like any other"));
    }
}
