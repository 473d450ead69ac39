//! gzip of large JSON and of pages, for clients that take it.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Body as _;
use hyper::header::{self, HeaderMap, HeaderValue};

use super::conditional;
use super::endpoint::{self, Body};
use super::error::{ApiError, Result};

/// Less than this fits into the packet that is sent anyway.
const WORTH_IT: u64 = 1400;
/// From here on a thread that may be busy does it.
const LONG: u64 = 64 * 1024;
/// What is compressed at once at the most; larger answers go out as they are.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Whether the client takes gzip (RFC 9110, 12.5.3).
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let (mut named, mut any) = (None, None);
    for coding in values.flat_map(|value| value.split(',')) {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = parameters.trim().strip_prefix("q=").and_then(|weight| weight.trim().parse::<f32>().ok()).unwrap_or(1.0);
        match name.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => named = Some(weight > 0.0),
            "*" => any = Some(weight > 0.0),
            _ => {}
        }
    }
    named.or(any).unwrap_or(false)
}

/// Compresses an answer to a GET that is JSON or a page, and large enough. What else is said of it stays true: `Vary`, and a tag of
/// its own for the compressed form.
pub(super) async fn compress(response: Response<Body>, takes_gzip: bool) -> Result<Response<Body>> {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_text = kind == "application/json" || kind.starts_with("text/html");
    let length = response.body().size_hint().exact().filter(|length| (WORTH_IT..=LARGEST).contains(length));
    let (true, Some(length), false) = (is_text, length, response.headers().contains_key(header::CONTENT_ENCODING)) else {
        return Ok(response);
    };
    let (mut parts, body) = response.into_parts();
    parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if !takes_gzip {
        return Ok(Response::from_parts(parts, body));
    }
    let bytes = body.collect().await.map_err(ApiError::internal)?.to_bytes();
    let work = move || gzip(&bytes);
    let compressed = match length < LONG {
        true => work(),
        false => tokio::task::spawn_blocking(work).await.map_err(ApiError::internal)?,
    };
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.remove(header::CONTENT_LENGTH);
    if let Some(tag) = parts.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(conditional::compressed_tag) {
        parts.headers.insert(header::ETAG, HeaderValue::from_str(&tag).map_err(ApiError::internal)?);
    }
    Ok(Response::from_parts(parts, endpoint::full(compressed.map_err(ApiError::internal)?)))
}

/// The bytes as gzip, made fast.
pub(super) fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_and_wildcards_are_understood() {
        let takes = |value: &'static str| takes_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]));
        assert!(takes("gzip") && takes("br, GZIP;q=0.1") && takes("*") && takes("identity, *;q=0.5") && takes("x-gzip"));
        assert!(!takes("") && !takes("br") && !takes("gzip;q=0") && !takes("gzip; q=0.0, *") && !takes("*;q=0"));
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
