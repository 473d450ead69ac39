//! Request bodies: bounded in size, time and depth.

use std::marker::PhantomData;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header;
use serde_json::Map;
use sha2::{Digest, Sha256};

use super::check::Schema;
use super::endpoint::Head;
use super::error::{ApiError, Problem, Result};
use crate::app;

pub use super::check::{Check, Fault, boolean, list, name, number, one_of, prose, secret, text};
pub use super::fields::{Change, Fields};

/// The largest body of a JSON request.
pub const MAXIMUM_BODY: usize = 1024 * 1024;
const JSON: &str = "application/json";
/// The longest pause between two pieces of a body.
const PAUSE: Duration = Duration::from_secs(15);
/// The longest a JSON body may take as a whole.
const WHOLE: Duration = Duration::from_secs(60);

/// SHA-256 of a body as it was sent.
pub type BodyDigest = [u8; 32];

/// The body of a row.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no body of a row: neither how it is read nor how it is documented is known",
    note = "implement `ReadFields` for a body that its fields alone decide; take `Later<{Self}>` and implement `ReadLater` for one that a handler judges with more knowledge"
)]
pub trait FromBody: Sized + Send + 'static {
    /// Reads it, and says what exactly was sent.
    fn from_body(body: Incoming, head: &Head) -> impl Future<Output = Result<(Self, BodyDigest)>> + Send;

    /// For the documentation; `None`: nothing is read.
    fn describe(settings: &app::Settings) -> Option<DescribedBody>;

    /// Headers that are read with it, by their names in `openapi::guide`.
    fn headers() -> &'static [&'static str] {
        &[]
    }
}

/// What the documentation says of a body.
#[derive(Debug)]
pub struct DescribedBody {
    /// Whether it has to be there.
    pub is_required: bool,
    /// How it is sent.
    pub media_type: &'static str,
    /// What it may be.
    pub schema: Schema,
}

/// No body: whatever was sent is not read.
impl FromBody for () {
    async fn from_body(_: Incoming, _: &Head) -> Result<(Self, BodyDigest)> {
        Ok(((), Sha256::digest(b"").into()))
    }

    fn describe(_: &app::Settings) -> Option<DescribedBody> {
        None
    }
}

/// A body that is a JSON object of known fields.
pub trait ReadFields: Sized + Send + 'static {
    /// Whether the body may be left out, with its content type.
    const IS_OPTIONAL: bool = false;

    /// Reads every field, always all of them and in the same order: the documentation is made by the same reading. `None`
    /// only after a failure was noted.
    fn read(fields: &mut Fields) -> Option<Self>;
}

impl<T: ReadFields> FromBody for T {
    async fn from_body(body: Incoming, head: &Head) -> Result<(Self, BodyDigest)> {
        let (mut fields, digest) = read_fields(body, head, T::IS_OPTIONAL).await?;
        let value = T::read(&mut fields);
        fields.finish()?;
        Ok((value.ok_or_else(|| ApiError::validation(Vec::new()))?, digest))
    }

    fn describe(_: &app::Settings) -> Option<DescribedBody> {
        let mut fields = Fields::describing();
        T::read(&mut fields);
        Some(DescribedBody { is_required: !T::IS_OPTIONAL, media_type: JSON, schema: fields.schema() })
    }
}

/// A JSON object whose fields a handler reads as a `T`, with what it knows besides.
pub struct Later<T> {
    /// Not read yet.
    pub fields: Fields,
    kind: PhantomData<fn() -> T>,
}

/// A body that is read by its handler.
pub trait ReadLater: 'static {
    /// Reads every field as the handler will, to note them.
    fn describe(fields: Fields, settings: &app::Settings) -> Fields;
}

impl<T: ReadLater> FromBody for Later<T> {
    async fn from_body(body: Incoming, head: &Head) -> Result<(Self, BodyDigest)> {
        let (fields, digest) = read_fields(body, head, false).await?;
        Ok((Later { fields, kind: PhantomData }, digest))
    }

    fn describe(settings: &app::Settings) -> Option<DescribedBody> {
        let schema = T::describe(Fields::describing(), settings).schema();
        Some(DescribedBody { is_required: true, media_type: JSON, schema })
    }
}

async fn read_fields(body: Incoming, head: &Head, is_optional: bool) -> Result<(Fields, BodyDigest)> {
    let bytes = read(body, head).await?;
    if is_optional && bytes.is_empty() {
        return Ok((Fields::new(Map::new(), head.wants_strict()), Sha256::digest(b"").into()));
    }
    check_content_type(head)?;
    if bytes.is_empty() {
        return Err(ApiError::new(Problem::InvalidJson, "The body is empty; send a JSON object."));
    }
    Ok((Fields::parse(&bytes, head.wants_strict())?, Sha256::digest(&bytes).into()))
}

fn check_content_type(head: &Head) -> Result<()> {
    let essence = head.text(header::CONTENT_TYPE).and_then(|value| value.split(';').next()).unwrap_or("").trim();
    let charset = head.text(header::CONTENT_TYPE).and_then(|value| {
        let (name, charset) = value.split(';').skip(1).find_map(|parameter| parameter.split_once('='))?;
        name.trim().eq_ignore_ascii_case("charset").then(|| charset.trim().trim_matches('"').to_ascii_lowercase())
    });
    let is_json = essence.eq_ignore_ascii_case("application/json")
        || (head.method == hyper::Method::PATCH && essence.eq_ignore_ascii_case("application/merge-patch+json"));
    let is_utf8 = charset.is_none_or(|charset| matches!(charset.as_str(), "utf-8" | "utf8" | "us-ascii"));
    match (is_json && is_utf8, head.headers.contains_key(header::CONTENT_ENCODING)) {
        (true, false) => Ok(()),
        (true, true) => Err(ApiError::new(Problem::UnsupportedMediaType, "Compressed request bodies are not taken.")),
        (false, _) => Err(Problem::UnsupportedMediaType.into()),
    }
}

/// The bytes of a body within the limits.
async fn read(body: Incoming, head: &Head) -> Result<Bytes> {
    read_up_to(body, MAXIMUM_BODY, head).await
}

/// The bytes of a body of at most `maximum` bytes.
pub(super) async fn read_up_to(mut body: Incoming, maximum: usize, head: &Head) -> Result<Bytes> {
    // Refused before `100 Continue` is sent: the client need not send what it announces.
    if body.size_hint().lower() > maximum as u64 {
        return Err(Problem::PayloadTooLarge.into());
    }
    let started = tokio::time::Instant::now();
    let mut bytes = BytesMut::new();
    loop {
        let until = (started + WHOLE).min(tokio::time::Instant::now() + PAUSE);
        let frame = match tokio::time::timeout_at(until, body.frame()).await {
            Err(_) => return Err(Problem::RequestTimeout.into()),
            Ok(None) => return Ok(bytes.freeze()),
            Ok(Some(Err(error))) => {
                let message = "The body ended early or was not sent as announced.";
                return Err(ApiError::new(Problem::InvalidJson, message).because(error));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > maximum {
                return Err(Problem::PayloadTooLarge.into());
            }
            bytes.extend_from_slice(data);
        } else {
            tracing::debug!(request_id = head.request_id, "trailers ignored");
        }
    }
}
