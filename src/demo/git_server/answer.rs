//! Answers and their bodies.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};

/// What a request is answered with.
pub(super) type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

const CHUNK: usize = 128 * 1024;

/// Bytes of a type.
pub(super) fn bytes(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).map_err(|never| match never {}).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// A JSON document.
pub(super) fn document(value: &Value) -> Answer {
    bytes(StatusCode::OK, "application/json; charset=utf-8", value.to_string())
}

/// Where refusals say that more is to be read.
const DOCUMENTATION: &str = "https://docs.github.com/rest";

/// A refusal in the form that git hosts use.
pub(super) fn message(status: StatusCode, text: &str) -> Answer {
    let body = json!({ "message": text, "documentation_url": DOCUMENTATION, "status": status.as_str() });
    bytes(status, "application/json; charset=utf-8", body.to_string())
}

/// A failure of this server; the details are of no use to a client.
pub(super) fn internal(error: &io::Error) -> Answer {
    tracing::warn!(%error, "the git server could not answer");
    message(StatusCode::INTERNAL_SERVER_ERROR, "Server Error")
}

/// A body read from somewhere while it is sent. `held` lives as long as the body, `sent` counts its bytes.
pub(super) fn streamed<R, H>(reader: R, held: H, sent: Arc<AtomicU64>) -> Answer
where
    R: AsyncRead + Unpin + Send + 'static,
    H: Send + 'static,
{
    let frames = stream::unfold((reader, held, sent), |(mut reader, held, sent)| async move {
        let mut chunk = vec![0; CHUNK];
        let outcome = reader.read(&mut chunk).await;
        match outcome {
            Ok(0) => None,
            Ok(count) => {
                chunk.truncate(count);
                sent.fetch_add(count as u64, Ordering::Relaxed);
                Some((Ok(Frame::data(Bytes::from(chunk))), (reader, held, sent)))
            }
            Err(error) => Some((Err(error), (reader, held, sent))),
        }
    });
    Response::new(StreamBody::new(frames).boxed_unsync())
}
