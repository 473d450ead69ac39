//! Bytes that move, and nothing that moves any more.
//!
//! A request may take hours as long as bytes move; it ends when none did for its idle timeout. What counts as moved is
//! a piece of the request's body taken by the connection, the head of the answer, and every piece of the answer's body.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;

use super::BodyStream;
use super::error::BodyError;

/// A larger piece is cut, so that a slow connection shows its progress.
const PIECE_BYTES: usize = 64 * 1024;

/// After so many bytes an upload that never has to wait pauses. Without that the connection learns of an early answer
/// (413, then a reset) only from the failure of its next write, and the answer is lost. The operating system's buffer
/// keeps the wire busy meanwhile. Receivers refuse early: after the beginning pauses are rare, and cost no speed.
const BYTES_BETWEEN_FIRST_PAUSES: usize = 512 * 1024;
const BYTES_BETWEEN_LATER_PAUSES: usize = 16 * 1024 * 1024;
/// How many pauses an upload begins with.
const FIRST_PAUSES: u32 = 16;

async fn pause() {
    tokio::time::sleep(Duration::from_millis(1)).await;
    // And now the runtime looks at its sockets once more.
    tokio::task::yield_now().await;
}

/// Where the request's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    Goes,
    Done,
    Broken,
}

/// Shared by the body that is sent and whoever waits.
#[derive(Debug)]
pub(super) struct Progress {
    last: Mutex<Instant>,
    sending: watch::Sender<Sending>,
    idle: Duration,
    end: Option<Instant>,
}

/// No byte moved for too long (or all of it took too long).
#[derive(Debug)]
pub(super) struct Stalled;

impl Progress {
    pub(super) fn new(idle: Duration, total: Option<Duration>) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Progress { last: Mutex::new(now), sending: watch::Sender::new(Sending::Goes), idle, end: total.map(|total| now + total) })
    }

    pub(super) fn moved(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(super) fn set(&self, sending: Sending) {
        self.sending.send_if_modified(|now| *now == Sending::Goes && std::mem::replace(now, sending) != sending);
    }

    /// Waits until the body was handed over completely, or never will be.
    pub(super) async fn sent(&self) -> Sending {
        let mut sending = self.sending.subscribe();
        sending.wait_for(|sending| *sending != Sending::Goes).await.map_or(Sending::Broken, |sending| *sending)
    }

    fn deadline(&self) -> Instant {
        let idle = *self.last.lock().unwrap_or_else(PoisonError::into_inner) + self.idle;
        self.end.map_or(idle, |end| end.min(idle))
    }

    /// Waits for `work` as long as bytes move.
    pub(super) async fn watch<T>(&self, work: impl Future<Output = T>) -> Result<T, Stalled> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return Ok(result),
                () = tokio::time::sleep_until(self.deadline()) => {}
            }
            if self.deadline() <= Instant::now() {
                return Err(Stalled);
            }
        }
    }
}

/// The request's body on its way: counted, cut into pieces, and exactly as long as was announced.
pub(super) struct Sent {
    source: BodyStream,
    rest: Bytes,
    left: Option<u64>,
    progress: Arc<Progress>,
    /// To be waited for before the next piece.
    pause: Option<BoxFuture<'static, ()>>,
    since_pause: usize,
    pauses: u32,
}

impl Sent {
    pub(super) fn new(source: BodyStream, length: Option<u64>, progress: Arc<Progress>) -> Self {
        if length == Some(0) {
            // The client never asks for nothing.
            progress.set(Sending::Done);
        }
        Sent { source, rest: Bytes::new(), left: length, progress, pause: None, since_pause: 0, pauses: 0 }
    }

    fn fail(&self, reason: impl Into<String>) -> Poll<Option<Result<Bytes, BodyError>>> {
        self.progress.set(Sending::Broken);
        Poll::Ready(Some(Err(BodyError(reason.into()))))
    }
}

impl Stream for Sent {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(pause) = &mut self.pause {
            std::task::ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        while self.rest.is_empty() {
            // The client stops asking once the announced length is reached: the end has to be noticed here.
            match self.source.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(piece))) => self.rest = piece,
                Poll::Ready(Some(Err(error))) => return self.fail(error.to_string()),
                Poll::Ready(None) if self.left.is_some_and(|left| left > 0) => return self.fail("it is shorter than announced"),
                Poll::Ready(None) => {
                    self.progress.set(Sending::Done);
                    return Poll::Ready(None);
                }
            }
        }
        let count = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(count);
        if let Some(left) = self.left {
            match left.checked_sub(u64::try_from(count).unwrap_or(u64::MAX)) {
                None => return self.fail("it is longer than announced"),
                Some(0) => {
                    self.left = Some(0);
                    self.progress.set(Sending::Done);
                }
                left => self.left = left,
            }
        }
        self.since_pause += count;
        let between = if self.pauses < FIRST_PAUSES { BYTES_BETWEEN_FIRST_PAUSES } else { BYTES_BETWEEN_LATER_PAUSES };
        if self.since_pause >= between {
            self.since_pause = 0;
            self.pauses = self.pauses.saturating_add(1);
            self.pause = Some(Box::pin(pause()));
        }
        self.progress.moved();
        Poll::Ready(Some(Ok(piece)))
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        // Only the connection holds this: it is gone.
        self.progress.set(Sending::Broken);
    }
}
