//! Request bodies: bounded in size, time and depth; read field by field, so that every failure is told at once.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::endpoint::Head;
use super::error::{ApiError, Problem, Result};
use super::strict_json;
use crate::model::Secret;
use crate::model::validation::{Invalid, InvalidCode};

/// The largest body of a JSON request.
pub const MAXIMUM_BODY: usize = 1024 * 1024;
/// The longest pause between two pieces of a body.
const PAUSE: Duration = Duration::from_secs(15);
/// The longest a JSON body may take as a whole.
const WHOLE: Duration = Duration::from_secs(60);

/// SHA-256 of a body as it was sent.
pub type BodyDigest = [u8; 32];

/// The body of a row.
pub trait FromBody: Sized + Send + 'static {
    /// Reads it, and says what exactly was sent.
    fn from_body(body: Incoming, head: &Head) -> impl Future<Output = Result<(Self, BodyDigest)>> + Send;
}

/// No body: whatever was sent is not read.
impl FromBody for () {
    async fn from_body(_: Incoming, _: &Head) -> Result<(Self, BodyDigest)> {
        Ok(((), Sha256::digest(b"").into()))
    }
}

/// A JSON object that must be there.
impl FromBody for Fields {
    async fn from_body(body: Incoming, head: &Head) -> Result<(Self, BodyDigest)> {
        let bytes = read(body, head).await?;
        check_content_type(head)?;
        if bytes.is_empty() {
            return Err(ApiError::new(Problem::InvalidJson, "The body is empty; send a JSON object."));
        }
        Ok((Fields::parse(&bytes, head.wants_strict())?, Sha256::digest(&bytes).into()))
    }
}

/// A JSON object that may be left out, with its content type.
pub struct OptionalFields(pub Fields);

impl FromBody for OptionalFields {
    async fn from_body(body: Incoming, head: &Head) -> Result<(Self, BodyDigest)> {
        let bytes = read(body, head).await?;
        if bytes.is_empty() {
            return Ok((OptionalFields(Fields::new(Map::new(), head.wants_strict())), Sha256::digest(b"").into()));
        }
        check_content_type(head)?;
        Ok((OptionalFields(Fields::parse(&bytes, head.wants_strict())?), Sha256::digest(&bytes).into()))
    }
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

/// What a merge patch says of a field (RFC 7396).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Change<T> {
    /// Not named: stays as it is. Also what a field that failed its check becomes; the failure is noted.
    #[default]
    Absent,
    /// `null`: cleared.
    Null,
    /// The new value.
    Value(T),
}

impl<T> Change<T> {
    /// The new value, if there is one.
    pub fn value(self) -> Option<T> {
        match self {
            Change::Value(value) => Some(value),
            Change::Absent | Change::Null => None,
        }
    }

    /// The same change with its value made into something else.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Change<U> {
        match self {
            Change::Absent => Change::Absent,
            Change::Null => Change::Null,
            Change::Value(value) => Change::Value(change(value)),
        }
    }

    /// Writes a change into a field that is always there; `null` brings its default back.
    pub fn apply_or(self, field: &mut T, default: T) {
        match self {
            Change::Absent => {}
            Change::Null => *field = default,
            Change::Value(value) => *field = value,
        }
    }

    /// Writes a change into a field that can be cleared.
    pub fn apply(self, field: &mut Option<T>) {
        match self {
            Change::Absent => {}
            Change::Null => *field = None,
            Change::Value(value) => *field = Some(value),
        }
    }
}

/// Why a value is refused.
#[derive(Debug, Clone)]
pub struct Fault {
    code: InvalidCode,
    message: String,
    allowed: Vec<String>,
}

impl Fault {
    /// Of a wrong type.
    pub fn wrong_type(expected: &str) -> Self {
        Fault { code: InvalidCode::InvalidType, message: format!("must be {expected}"), allowed: Vec::new() }
    }

    /// Of the right type, but not possible.
    pub fn invalid(message: impl Into<String>) -> Self {
        Fault { code: InvalidCode::InvalidValue, message: message.into(), allowed: Vec::new() }
    }

    /// None of a closed list.
    pub fn not_one_of(allowed: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let allowed = allowed.into_iter().map(Into::into).collect();
        Fault { code: InvalidCode::InvalidValue, message: "is none of the allowed values".into(), allowed }
    }

    /// More characters than fit.
    pub fn too_long(maximum: usize) -> Self {
        Fault { code: InvalidCode::TooLong, message: format!("must have at most {maximum} characters"), allowed: Vec::new() }
    }

    /// With the values that would have been taken.
    pub fn with_allowed(self, allowed: &[String]) -> Self {
        Fault { allowed: allowed.to_vec(), ..self }
    }

    pub(super) fn at(self, field: String) -> Invalid {
        Invalid { field, code: self.code, message: self.message, allowed: self.allowed }
    }
}

/// A JSON object that is read field by field.
#[derive(Debug)]
pub struct Fields {
    object: Map<String, Value>,
    prefix: String,
    known: BTreeSet<String>,
    invalid: Vec<Invalid>,
    is_strict: bool,
}

impl Fields {
    fn new(object: Map<String, Value>, is_strict: bool) -> Self {
        Fields { object, prefix: String::new(), known: BTreeSet::new(), invalid: Vec::new(), is_strict }
    }

    fn parse(bytes: &[u8], is_strict: bool) -> Result<Self> {
        match strict_json::parse(bytes) {
            Ok(Value::Object(object)) => Ok(Fields::new(object, is_strict)),
            Ok(_) => Err(ApiError::new(Problem::InvalidJson, "The body must be a JSON object.")),
            Err(error) => Err(ApiError::new(Problem::InvalidJson, format!("The body is not valid JSON: {error}."))),
        }
    }

    fn name(&self, field: &str) -> String {
        if self.prefix.is_empty() { field.to_owned() } else { format!("{}.{field}", self.prefix) }
    }

    /// Notes a failure of a field.
    pub fn refuse(&mut self, field: &str, code: InvalidCode, message: impl Into<String>) {
        let field = self.name(field);
        self.invalid.push(Invalid::new(field, code, message));
    }

    /// Notes a failure that a later check found.
    pub fn refuse_because(&mut self, field: &str, fault: Fault) {
        let field = self.name(field);
        self.invalid.push(fault.at(field));
    }

    /// Whether a field is named, `null` included.
    pub fn has(&self, field: &str) -> bool {
        self.object.contains_key(field)
    }

    /// Keys that exist but cannot be written: ignored, also in strict mode.
    pub fn read_only(&mut self, fields: &[&str]) {
        self.known.extend(fields.iter().map(|field| (*field).to_owned()));
    }

    /// A field that may be absent or cleared.
    pub fn change<T>(&mut self, field: &str, check: impl FnOnce(Value) -> std::result::Result<T, Fault>) -> Change<T> {
        self.known.insert(field.to_owned());
        match self.object.remove(field) {
            None => Change::Absent,
            Some(Value::Null) => Change::Null,
            Some(value) => match check(value) {
                Ok(value) => Change::Value(value),
                Err(fault) => {
                    self.refuse_because(field, fault);
                    Change::Absent
                }
            },
        }
    }

    /// A field that may be absent, but not `null`.
    pub fn optional<T>(&mut self, field: &str, check: impl FnOnce(Value) -> std::result::Result<T, Fault>) -> Option<T> {
        match self.change(field, check) {
            Change::Absent => None,
            Change::Value(value) => Some(value),
            Change::Null => {
                self.refuse(field, InvalidCode::InvalidType, "cannot be null");
                None
            }
        }
    }

    /// A field that must be there. `None` only after a failure was noted.
    pub fn required<T>(&mut self, field: &str, check: impl FnOnce(Value) -> std::result::Result<T, Fault>) -> Option<T> {
        let failures = self.invalid.len();
        let value = self.change(field, check).value();
        if value.is_none() && self.invalid.len() == failures {
            self.refuse(field, InvalidCode::Required, "is required");
        }
        value
    }

    /// An object inside this one; give it back with [`Fields::absorb`].
    pub fn nested(&mut self, field: &str) -> Change<Fields> {
        let (prefix, is_strict) = (self.name(field), self.is_strict);
        self.change(field, |value| match value {
            Value::Object(object) => Ok(Fields { prefix, ..Fields::new(object, is_strict) }),
            _ => Err(Fault::wrong_type("an object")),
        })
    }

    /// Takes over the failures of a nested object.
    pub fn absorb(&mut self, mut nested: Fields) {
        nested.note_unknown();
        self.invalid.append(&mut nested.invalid);
    }

    fn note_unknown(&mut self) {
        if self.is_strict {
            let unknown: Vec<_> = self.object.keys().filter(|key| !self.known.contains(*key)).cloned().collect();
            for key in unknown {
                // What the client calls its keys is echoed shortened.
                let shown: String = key.chars().take(80).collect();
                self.refuse(&shown, InvalidCode::UnknownField, "is no field of this request");
            }
        }
    }

    /// Whether this field, or something inside it, failed already: a later check need not say it again.
    pub fn has_failed_on(&self, field: &str) -> bool {
        let is_inside = |name: &str| name.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.invalid.iter().any(|invalid| is_inside(&invalid.field))
    }

    /// Fails with everything that was wrong.
    pub fn finish(mut self) -> Result<()> {
        self.note_unknown();
        if self.invalid.is_empty() { Ok(()) } else { Err(ApiError::validation(self.invalid)) }
    }
}

/// `true` or `false`.
pub fn boolean(value: Value) -> std::result::Result<bool, Fault> {
    value.as_bool().ok_or_else(|| Fault::wrong_type("true or false"))
}

/// A whole number within bounds.
pub fn number(minimum: u32, maximum: u32) -> impl Fn(Value) -> std::result::Result<u32, Fault> {
    move |value| {
        if !value.is_number() {
            return Err(Fault::wrong_type("a whole number"));
        }
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|number| (minimum..=maximum).contains(number));
        number.ok_or_else(|| Fault::invalid(format!("must be a whole number from {minimum} to {maximum}")))
    }
}

/// Text as it is, up to `maximum` characters and without control characters (tab and line ends are taken in `prose`).
pub fn text(maximum: usize) -> impl Fn(Value) -> std::result::Result<String, Fault> {
    move |value| {
        let Value::String(text) = value else { return Err(Fault::wrong_type("a string")) };
        if text.chars().count() > maximum {
            return Err(Fault::too_long(maximum));
        }
        match text.chars().any(char::is_control) {
            true => Err(Fault::invalid("must not contain control characters")),
            false => Ok(text),
        }
    }
}

/// Text of several lines.
pub fn prose(maximum: usize) -> impl Fn(Value) -> std::result::Result<String, Fault> {
    move |value| {
        let Value::String(text) = value else { return Err(Fault::wrong_type("a string")) };
        if text.chars().count() > maximum {
            return Err(Fault::too_long(maximum));
        }
        match text.chars().any(|character| character.is_control() && !matches!(character, '\n' | '\r' | '\t')) {
            true => Err(Fault::invalid("must not contain control characters")),
            false => Ok(text),
        }
    }
}

/// A name: not blank, and without blanks around it.
pub fn name(maximum: usize) -> impl Fn(Value) -> std::result::Result<String, Fault> {
    move |value| {
        let name = text(maximum)(value)?.trim().to_owned();
        if name.is_empty() { Err(Fault::invalid("must not be blank")) } else { Ok(name) }
    }
}

/// A secret: any text up to `maximum` bytes; never echoed.
pub fn secret(maximum: usize) -> impl Fn(Value) -> std::result::Result<Secret, Fault> {
    move |value| match value {
        Value::String(text) if text.len() > maximum => Err(Fault::too_long(maximum)),
        Value::String(text) => Ok(Secret::new(text)),
        _ => Err(Fault::wrong_type("a string")),
    }
}

/// One of a closed list of words.
pub fn one_of<'a>(allowed: &'a [&'a str]) -> impl Fn(Value) -> std::result::Result<String, Fault> + 'a {
    move |value| match value {
        Value::String(text) if allowed.contains(&text.as_str()) => Ok(text),
        Value::String(_) => Err(Fault::not_one_of(allowed.iter().copied())),
        _ => Err(Fault::wrong_type("a string")),
    }
}

/// A list of at most `maximum` items, each checked.
pub fn list<T>(
    maximum: usize,
    check: impl Fn(Value) -> std::result::Result<T, Fault>,
) -> impl Fn(Value) -> std::result::Result<Vec<T>, Fault> {
    move |value| {
        let Value::Array(items) = value else { return Err(Fault::wrong_type("a list")) };
        if items.len() > maximum {
            return Err(Fault { code: InvalidCode::TooLong, message: format!("must have at most {maximum} items"), allowed: Vec::new() });
        }
        let number_items = items.into_iter().enumerate();
        number_items
            .map(|(index, item)| check(item).map_err(|fault| Fault { message: format!("item {index}: {}", fault.message), ..fault }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str, strict: bool) -> Fields {
        Fields::parse(text.as_bytes(), strict).unwrap()
    }

    #[test]
    fn absent_null_and_a_value_are_three_things() {
        let mut fields = fields(r#"{"b": null, "c": "x"}"#, false);
        assert_eq!(fields.change("a", text(5)), Change::Absent);
        assert_eq!(fields.change("b", text(5)), Change::Null);
        assert_eq!(fields.change("c", text(5)), Change::Value("x".to_owned()));
        assert!(fields.finish().is_ok());
    }

    #[test]
    fn all_failures_come_at_once_and_name_their_fields() {
        let mut fields = fields(r#"{"name": 5, "flag": "yes", "deep": {"cron": []}, "long": "abcdef", "n": 1.5}"#, false);
        assert_eq!(fields.required("name", name(5)), None);
        assert_eq!(fields.required("missing", name(5)), None);
        assert_eq!(fields.optional("flag", boolean), None);
        assert_eq!(fields.optional("long", text(5)), None);
        assert_eq!(fields.optional("n", number(1, 9)), None);
        let Change::Value(mut deep) = fields.nested("deep") else { panic!("an object") };
        deep.required("cron", text(9));
        fields.absorb(deep);
        let details = fields.finish().unwrap_err().details;
        let seen: Vec<_> = details.iter().map(|detail| (detail.field.as_str(), detail.code)).collect();
        assert_eq!(
            seen,
            [
                ("name", InvalidCode::InvalidType),
                ("missing", InvalidCode::Required),
                ("flag", InvalidCode::InvalidType),
                ("long", InvalidCode::TooLong),
                ("n", InvalidCode::InvalidValue),
                ("deep.cron", InvalidCode::InvalidType),
            ]
        );
    }

    #[test]
    fn unknown_keys_are_an_error_only_when_strictness_was_asked_for() {
        for (strict, failures) in [(false, 0), (true, 1)] {
            let mut fields = fields(r#"{"id": "x", "surprise": 1}"#, strict);
            fields.read_only(&["id"]);
            assert_eq!(fields.finish().map_or_else(|error| error.details.len(), |()| 0), failures);
        }
    }
}
