//! Where a stream goes: the body of an answer, or a WebSocket. It takes a few messages in advance; who sends has to wait for
//! the reader, and a reader who is waited for too long is cut off.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Frame;
use tokio::sync::mpsc;

use super::super::endpoint::Body;
use super::super::error::BoxError;
use super::super::link::Link;
use super::message::Message;

/// Messages that wait for the connection, at most 64 lines or somewhat more than 64 KiB each.
pub(super) const WAITING: usize = 4;

/// Why a stream ended before its end.
#[derive(Debug)]
pub(super) enum Ended {
    /// The reader went away.
    Left,
    /// The service stops.
    Stopping,
    /// The reader does not read.
    TooSlow,
    /// What the reader showed does not hold any more.
    Refused(super::super::error::ApiError),
    /// The disk, or the store.
    Failed,
}

/// How messages are written.
#[derive(Debug, Clone)]
enum Form {
    ServerSent,
    /// On this channel of a WebSocket.
    WebSocket(String),
}

/// One stream's way out.
#[derive(Debug, Clone)]
pub(super) struct Outlet {
    sender: mpsc::Sender<Bytes>,
    form: Form,
    pub(super) link: Link,
}

impl Outlet {
    /// Into the body of an answer, which begins with `first`.
    pub(super) fn server_sent(link: Link, first: &'static str) -> (Outlet, Body) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let body = Stream { first: Some(Bytes::from_static(first.as_bytes())), receiver };
        (Outlet { sender, form: Form::ServerSent, link }, body.boxed_unsync())
    }

    /// Onto a channel of a WebSocket.
    pub(super) fn web_socket(link: Link, channel: &str, sender: mpsc::Sender<Bytes>) -> Outlet {
        Outlet { sender, form: Form::WebSocket(channel.to_owned()), link }
    }

    /// Sends when the reader has room. `overdue` ends the wait: the reader is cut off.
    pub(super) async fn send(&self, message: &Message, overdue: impl Future<Output = ()>) -> Result<(), Ended> {
        let bytes = self.written(message);
        let bytes = match self.sender.try_send(bytes) {
            Ok(()) => return Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(Ended::Left),
            Err(mpsc::error::TrySendError::Full(bytes)) => bytes,
        };
        tokio::select! {
            sent = self.sender.send(bytes) => sent.map_err(|_| Ended::Left),
            () = self.link.stop.cancelled() => Err(Ended::Stopping),
            () = overdue => Err(Ended::TooSlow),
        }
    }

    /// Says that the stream lives, and where it is by now; not if there is something to read anyway.
    pub(super) fn ping(&self, id: &str) {
        if let Form::ServerSent = self.form {
            let _ = self.sender.try_send(format!(": ping\nid: {id}\n\n").into());
        }
    }

    /// Waits until the reader went away.
    pub(super) async fn left(&self) {
        self.sender.closed().await;
    }

    /// What is to be done when a stream ended too early.
    pub(super) fn finish(&self, ended: Ended, channel: &str, id: &str) {
        match (&ended, &self.form) {
            (Ended::Stopping, Form::ServerSent) => {
                let _ = self.sender.try_send(format!(": stopping; resume behind {id}\nid: {id}\n\n").into());
            }
            // An answer that waits to be sent would keep the connection for a minute.
            (Ended::TooSlow, _) => self.link.cut.cancel(),
            (Ended::Refused(error), Form::WebSocket(_)) => {
                let _ = self.sender.try_send(refusal(Some(channel), error));
            }
            _ => {}
        }
        tracing::debug!(channel, position = id, ?ended, "a stream ended early");
    }

    fn written(&self, message: &Message) -> Bytes {
        let Message { name, id, data } = message;
        let (before, after) = match &self.form {
            Form::ServerSent => (format!("id: {id}\nevent: {name}\ndata: "), "\n\n"),
            Form::WebSocket(channel) => (format!("{{\"channel\":\"{channel}\",\"id\":\"{id}\",\"event\":\"{name}\",\"data\":"), "}"),
        };
        [before.as_bytes(), data, after.as_bytes()].concat().into()
    }
}

/// A WebSocket's message that something was refused.
pub(super) fn refusal(channel: Option<&str>, error: &super::super::error::ApiError) -> Bytes {
    let error = serde_json::json!({"type": "error", "code": error.problem.code(), "message": error.message});
    let message = match channel {
        Some(channel) => serde_json::json!({"channel": channel, "event": "error", "data": error}),
        None => serde_json::json!({"event": "error", "data": error}),
    };
    message.to_string().into()
}

struct Stream {
    first: Option<Bytes>,
    receiver: mpsc::Receiver<Bytes>,
}

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        self.receiver.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
