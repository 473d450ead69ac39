//! A build's log: as plain text, and line by line (decisions 9).

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use super::builds::find;
use super::compress::takes_gzip;
use super::content::{self, Content};
use super::endpoint::{Call, Custom, CustomAnswer, Ok200};
use super::error::{ApiError, Result};
use super::openapi::shape::Answered;
use super::query::{FromQuery, Query};
use crate::builds::logs::LogReader;
use crate::model::log::LogLine;
use crate::model::{Build, Id};

/// The largest whole number that every client can write: more lines than any log has.
const LAST_LINE: u64 = (1 << 53) - 1;
/// What is compressed at once.
const PIECE: usize = 512 * 1024;

/// A log as text.
pub(super) struct LogText;

impl CustomAnswer for LogText {
    fn describe(_: &mut SchemaGenerator) -> Vec<Answered> {
        Answered::bytes("text/plain; charset=utf-8", &["ETag", "Content-Disposition"])
    }
}

/// `GET /builds/{id}/log`: every line and a line feed, nothing else. While the build runs the text grows at its end only, so
/// `Range: bytes=N-` continues where a reader stopped.
pub(super) async fn text(call: Call<Id<Build>>) -> Result<Custom<LogText>> {
    let build = call.app.store.read(|snapshot| find(snapshot, &call.caller, call.path))?;
    let reader = call.app.logs.reader(build.id).await.map_err(ApiError::internal)?;
    let length = reader.text_length();
    let tag = format!("{}-{length}", build.id);
    let mut headers = vec![
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, format!("inline; filename=\"{}.log\"", build.id)),
        (header::CACHE_CONTROL, "private, no-cache".to_owned()),
        (header::VARY, "Accept-Encoding".to_owned()),
    ];
    // A range counts bytes of the text, so a part is never compressed.
    if length > 0 && !call.head.headers.contains_key(header::RANGE) && takes_gzip(&call.head.headers) {
        headers.push((header::CONTENT_ENCODING, "gzip".to_owned()));
        let content = Content { length, tag: format!("\"{tag}-gzip\""), modified: None, headers };
        let mut response = content::answer(&call.head, &content, |_| content::stream(compressed(reader)))?;
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().remove(header::ACCEPT_RANGES);
        return Ok(response.into());
    }
    let content = Content { length, tag: format!("\"{tag}\""), modified: None, headers };
    let response = content::answer(&call.head, &content, |bytes| {
        let end = bytes.end;
        content::pieces(bytes, move |offset, limit| {
            let wanted = usize::try_from(end - offset).unwrap_or(limit).min(limit);
            reader.text_now(offset, wanted)
        })
    });
    response.map(Custom::from)
}

/// GET `/builds/:id/log/lines`
pub(super) struct Lines {
    after: u64,
    limit: usize,
}

impl FromQuery for Lines {
    fn read(query: &mut Query) -> Result<Option<Self>> {
        let after = query.number("after", 0, LAST_LINE, "Lines behind the one with this `seq`; absent: from the first.");
        Ok(Some(Lines { after: after.unwrap_or(0), limit: query.limit_up_to(200, 1000)? }))
    }
}

/// Lines behind a position.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogPage {
    /// Oldest first.
    items: Vec<LogLine>,
    /// `after` of the next page; null when these are the last for now.
    next_after: Option<u64>,
    /// All there are for now.
    log_lines: u64,
}

/// Some lines as JSON.
pub(super) async fn lines(call: Call<Id<Build>, Lines>) -> Result<Ok200<LogPage>> {
    let build = call.app.store.read(|snapshot| find(snapshot, &call.caller, call.path))?;
    let log = call.app.logs.reader(build.id).await.map_err(ApiError::internal)?;
    let log_lines = log.line_count();
    let items = log.lines(call.query.after, call.query.limit).await.map_err(ApiError::internal)?;
    let next_after = items.last().map(|line| line.seq).filter(|last| *last < log_lines);
    Ok(Ok200(LogPage { items, next_after, log_lines }))
}

/// The text compressed piece by piece, each given out when it is asked for.
fn compressed(reader: LogReader) -> impl FnMut() -> std::io::Result<Vec<u8>> + Send {
    let mut encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut offset = 0;
    move || {
        while let Some(mut gzip) = encoder.take() {
            let text = reader.text_now(offset, PIECE)?;
            if text.is_empty() {
                return gzip.finish();
            }
            offset += text.len() as u64;
            gzip.write_all(&text)?;
            let ready = std::mem::take(gzip.get_mut());
            encoder = Some(gzip);
            if !ready.is_empty() {
                return Ok(ready);
            }
        }
        Ok(Vec::new())
    }
}
