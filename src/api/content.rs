//! Answering with bytes that have a length and a tag: conditional requests, ranges, and bodies that are read while they are sent.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use chrono::{DateTime, NaiveDateTime, Utc};
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};

use super::conditional;
use super::endpoint::{self, Body, Head};
use super::error::{ApiError, BoxError, Problem, Result};
use super::range::{self, Selected};

const DATE: &str = "%a, %d %b %Y %H:%M:%S GMT";
/// What is read at once. Two of these are in memory for each download: one on its way, one being read.
const READ_AHEAD: usize = 512 * 1024;

/// Something with a length that can be sent in parts.
pub(super) struct Content {
    /// In bytes.
    pub length: u64,
    /// Strong, with its quotes.
    pub tag: String,
    /// When it was last changed, if that says anything.
    pub modified: Option<SystemTime>,
    /// Sent with it.
    pub headers: Vec<(HeaderName, String)>,
}

/// The answer to a GET or HEAD: 200, 206, 304, 412 or 416. `body` gives the bytes of a range.
pub(super) fn answer(head: &Head, content: &Content, body: impl FnOnce(Range<u64>) -> Body) -> Result<Response<Body>> {
    let headers = &head.headers;
    if !conditional::holds_if_match(headers, &content.tag) || was_changed_since(headers, content) {
        return Err(Problem::PreconditionFailed.into());
    }
    let is_known = match headers.contains_key(header::IF_NONE_MATCH) {
        true => conditional::is_among(headers, header::IF_NONE_MATCH, &content.tag),
        false => is_unchanged_since(headers, content),
    };
    let selected = match range_of(head, content) {
        _ if is_known => Selected::Whole,
        Some(value) => range::select(value, content.length),
        None => Selected::Whole,
    };
    let (status, sent) = match selected {
        _ if is_known => (StatusCode::NOT_MODIFIED, 0..0),
        Selected::Whole => (StatusCode::OK, 0..content.length),
        Selected::Part(part) => (StatusCode::PARTIAL_CONTENT, part),
        Selected::Unsatisfiable => {
            let length = format!("bytes */{}", content.length);
            return Err(ApiError::from(Problem::RangeNotSatisfiable).with_header(header::CONTENT_RANGE, &length));
        }
    };
    let length = sent.end - sent.start;
    let is_part = status == StatusCode::PARTIAL_CONTENT;
    let content_range = is_part.then(|| format!("bytes {}-{}/{}", sent.start, sent.end - 1, content.length));
    // Nobody reads a file for a HEAD.
    let body = if length == 0 || head.method == Method::HEAD { endpoint::empty() } else { body(sent) };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let mut set = |name: HeaderName, value: &str| -> Result<()> {
        response.headers_mut().insert(name, HeaderValue::from_str(value).map_err(ApiError::internal)?);
        Ok(())
    };
    set(header::ETAG, &content.tag)?;
    set(header::ACCEPT_RANGES, "bytes")?;
    if let Some(modified) = content.modified {
        set(header::LAST_MODIFIED, &date(modified))?;
    }
    if let Some(content_range) = content_range {
        set(header::CONTENT_RANGE, &content_range)?;
    }
    if !is_known {
        set(header::CONTENT_LENGTH, &length.to_string())?;
    }
    for (name, value) in &content.headers {
        set(name.clone(), value)?;
    }
    Ok(response)
}

/// The one `Range` that counts: of a GET, and only if the client's part is of what we have (`If-Range`).
fn range_of<'a>(head: &'a Head, content: &Content) -> Option<&'a str> {
    let mut values = head.headers.get_all(header::RANGE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let counts = match head.headers.get(header::IF_RANGE) {
        None => true,
        // A weak tag never equals; a date has to be exactly ours.
        Some(condition) => {
            condition == content.tag.as_str() || content.modified.is_some_and(|modified| condition == date(modified).as_str())
        }
    };
    (head.method == Method::GET && counts).then(|| value.to_str().ok()).flatten()
}

fn is_unchanged_since(headers: &HeaderMap, content: &Content) -> bool {
    match (content.modified, date_in(headers, header::IF_MODIFIED_SINCE)) {
        (Some(modified), Some(known)) => seconds(modified) <= known,
        _ => false,
    }
}

fn was_changed_since(headers: &HeaderMap, content: &Content) -> bool {
    match (content.modified, date_in(headers, header::IF_UNMODIFIED_SINCE)) {
        (Some(modified), Some(known)) if !headers.contains_key(header::IF_MATCH) => seconds(modified) > known,
        _ => false,
    }
}

fn date_in(headers: &HeaderMap, name: HeaderName) -> Option<i64> {
    let text = headers.get(name)?.to_str().ok()?;
    NaiveDateTime::parse_from_str(text, DATE).ok().map(|time| time.and_utc().timestamp())
}

fn date(time: SystemTime) -> String {
    DateTime::<Utc>::from_timestamp(seconds(time), 0).unwrap_or_default().format(DATE).to_string()
}

fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// The bytes of a file, read ahead of what is sent. The file stays readable when it is deleted meanwhile.
pub(super) fn file(mut file: File, bytes: Range<u64>) -> Body {
    let start = bytes.start;
    let mut is_placed = false;
    pieces(bytes, move |_, limit| {
        if !is_placed {
            file.seek(SeekFrom::Start(start))?;
            is_placed = true;
        }
        let mut piece = Vec::with_capacity(limit);
        (&mut file).take(limit as u64).read_to_end(&mut piece)?;
        Ok(piece)
    })
}

/// Bytes of a length that nobody knows before; an empty piece ends them.
pub(super) fn stream(mut next: impl FnMut() -> io::Result<Vec<u8>> + Send + 'static) -> Body {
    let reading = begin(Box::new(move |_, _| next()), 0, u64::MAX);
    Pieces { next: 0, remaining: u64::MAX, is_exact: false, reading: Some(reading) }.boxed_unsync()
}

/// Bytes that `read(offset, limit)` gives piece by piece, on a thread that may wait for the disk; in order, none twice.
pub(super) fn pieces(bytes: Range<u64>, read: impl FnMut(u64, usize) -> io::Result<Vec<u8>> + Send + 'static) -> Body {
    let (next, remaining) = (bytes.start, bytes.end - bytes.start);
    Pieces { next, remaining, is_exact: true, reading: Some(begin(Box::new(read), next, remaining)) }.boxed_unsync()
}

type Reader = Box<dyn FnMut(u64, usize) -> io::Result<Vec<u8>> + Send>;
type Reading = BoxFuture<'static, io::Result<(Reader, Vec<u8>)>>;

struct Pieces {
    next: u64,
    remaining: u64,
    is_exact: bool,
    /// The next piece, begun when the one before it was handed out.
    reading: Option<Reading>,
}

fn begin(mut read: Reader, offset: u64, remaining: u64) -> Reading {
    let limit = usize::try_from(remaining).unwrap_or(READ_AHEAD).min(READ_AHEAD);
    // Begins at once, not when it is first polled.
    let work = tokio::task::spawn_blocking(move || {
        let piece = read(offset, limit)?;
        Ok((read, piece))
    });
    Box::pin(async move { work.await.map_err(io::Error::other)? })
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<std::result::Result<Frame<Bytes>, BoxError>>> {
        let Some(reading) = self.reading.as_mut() else { return Poll::Ready(None) };
        let result = ready!(reading.as_mut().poll(context));
        self.reading = None;
        let (read, piece) = match result {
            Ok(read) => read,
            Err(error) => return Poll::Ready(Some(Err(error.into()))),
        };
        if piece.is_empty() && !self.is_exact {
            return Poll::Ready(None);
        }
        if piece.is_empty() {
            // The promised length cannot be kept; ending the connection tells the client.
            return Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into())));
        }
        self.next += piece.len() as u64;
        self.remaining = self.remaining.saturating_sub(piece.len() as u64);
        if self.remaining > 0 {
            self.reading = Some(begin(read, self.next, self.remaining));
        }
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_exact { SizeHint::with_exact(self.remaining) } else { SizeHint::new() }
    }
}
