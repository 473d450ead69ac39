//! A build's log as plain text. Its lines as JSON are part of the build's detail.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::{Response, header};

use super::content::{self, Content};
use super::endpoint::{Body, Call};
use super::error::{ApiError, Problem, Result};
use crate::builds::logs::LogReader;
use crate::model::{Build, Id};
use crate::store::Read;

/// What is compressed at once.
const PIECE: usize = 512 * 1024;

/// `GET /builds/{id}/log`: every line and a line feed, nothing else. While the build runs the text grows at its end only, so
/// `Range: bytes=N-` continues where a reader stopped.
pub(super) async fn text(call: Call<Id<Build>>) -> Result<Response<Body>> {
    let organization = call.caller.organization();
    let build = call.app.store.read(|snapshot| snapshot.get::<Build>(organization, call.path))?;
    let build = build.filter(|build| call.caller.may_see(build)).ok_or(Problem::NotFound)?;
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
    if length > 0 && !call.head.headers.contains_key(header::RANGE) && takes_gzip(&call.head) {
        headers.push((header::CONTENT_ENCODING, "gzip".to_owned()));
        let content = Content { length, tag: format!("\"{tag}-gzip\""), modified: None, headers };
        let mut response = content::answer(&call.head, &content, |_| content::stream(compressed(reader)))?;
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().remove(header::ACCEPT_RANGES);
        return Ok(response);
    }
    let content = Content { length, tag: format!("\"{tag}\""), modified: None, headers };
    content::answer(&call.head, &content, |bytes| {
        let end = bytes.end;
        content::pieces(bytes, move |offset, limit| {
            let wanted = usize::try_from(end - offset).unwrap_or(limit).min(limit);
            reader.text_now(offset, wanted)
        })
    })
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

fn takes_gzip(head: &super::endpoint::Head) -> bool {
    let values = head.headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused =
            parameters.trim().strip_prefix("q=").is_some_and(|weight| weight.trim().parse::<f32>().is_ok_and(|weight| weight <= 0.0));
        matches!(name.trim().to_ascii_lowercase().as_str(), "gzip" | "x-gzip") && !is_refused
    })
}
