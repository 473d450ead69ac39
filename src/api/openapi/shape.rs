//! What a row's types say of it: parameters, body, answers.

use hyper::StatusCode;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use crate::api::body::DescribedBody;
use crate::api::check::Schema;
use crate::api::query::Parameter;
use crate::model::Id;

/// Everything that is told of a row by the types of its handler.
#[derive(Debug)]
pub struct Shape {
    /// Path parameters, in the order of the path.
    pub path: Vec<Schema>,
    /// Query parameters, in the order in which they are read.
    pub query: Vec<Parameter>,
    /// The body.
    pub body: Option<DescribedBody>,
    /// Headers that are read with the body, by their names in `guide`.
    pub headers: &'static [&'static str],
    /// The successes.
    pub answers: Vec<Answered>,
}

/// The media type of server-sent events.
pub const EVENT_STREAM: &str = "text/event-stream";

/// One success.
#[derive(Debug)]
pub struct Answered {
    /// The status line.
    pub status: StatusCode,
    /// Media type and schema; `None`: no body.
    pub content: Option<(&'static str, Value)>,
    /// Headers besides those of every answer, and whether they are always there.
    pub headers: Vec<(&'static str, bool)>,
}

impl Answered {
    /// JSON that is a `T`.
    pub fn json<T: JsonSchema>(status: StatusCode, generator: &mut SchemaGenerator) -> Self {
        let schema = generator.subschema_for::<T>().to_value();
        Answered { status, content: Some(("application/json", schema)), headers: Vec::new() }
    }

    /// Text or bytes that are no JSON.
    pub fn text(status: StatusCode, media_type: &'static str) -> Self {
        Answered { status, content: Some((media_type, json!({"type": "string"}))), headers: Vec::new() }
    }

    /// Server-sent events; `T` is what the data of each is.
    pub fn events<T: JsonSchema>(generator: &mut SchemaGenerator) -> Self {
        let data = generator.subschema_for::<T>().to_value();
        // OpenAPI 3.1 has no words for streams; this describes each event, as its readers expect.
        let schema = json!({
            "type": "object",
            "description": "One of the server-sent events.",
            "properties": {
                "event": {"type": "string", "description": "What kind of event it is; the `type` of the data."},
                "id": {"type": "string", "description": "The position behind this event, for `Last-Event-ID` and `after`."},
                "data": {"type": "string", "description": "JSON in one line.", "contentMediaType": "application/json", "contentSchema": data},
            },
            "required": ["event", "id", "data"],
        });
        Answered { content: Some((EVENT_STREAM, schema)), ..Answered::empty(StatusCode::OK) }
    }

    /// Nothing but a status line and headers.
    pub fn empty(status: StatusCode) -> Self {
        Answered { status, content: None, headers: Vec::new() }
    }

    /// Bytes that can be asked for in parts, and that a client may have already; see `content`.
    pub fn bytes(media_type: &'static str, headers: &[&'static str]) -> Vec<Self> {
        vec![
            Answered::text(StatusCode::OK, media_type).with(headers).perhaps(&["Accept-Ranges"]),
            Answered::text(StatusCode::PARTIAL_CONTENT, media_type).with(headers).with(&["Content-Range", "Accept-Ranges"]),
            Answered::empty(StatusCode::NOT_MODIFIED).with(&["ETag"]),
        ]
    }

    /// With headers that are always there.
    pub fn with(mut self, headers: &[&'static str]) -> Self {
        self.headers.extend(headers.iter().map(|header| (*header, true)));
        self
    }

    /// With headers that may be there.
    pub fn perhaps(mut self, headers: &[&'static str]) -> Self {
        self.headers.extend(headers.iter().map(|header| (*header, false)));
        self
    }
}

/// The schema of an id, saying of what.
pub fn id_of<R: 'static>() -> Schema {
    let mut generator = super::generator();
    let schema = <Id<R> as JsonSchema>::json_schema(&mut generator);
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    schema.insert("description".into(), format!("Id of the {}.", words(std::any::type_name::<R>())).into());
    schema
}

/// `crate::model::BuildSetting` as people say it: `build setting`.
fn words(type_name: &str) -> String {
    let name = type_name.rsplit("::").next().unwrap_or_default();
    let mut words = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(character.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_type_is_read_as_words() {
        assert_eq!(words("cookhouse::model::build_setting::BuildSetting"), "build setting");
    }
}
