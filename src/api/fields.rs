//! A JSON object that is read field by field, so that every failure is told at once. The same reading, done with
//! [`Fields::describing`], notes the schema of every field instead of reading it: what is documented is what is read.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::check::{Check, Fault, Schema};
use super::error::{ApiError, Problem, Result};
use super::strict_json;
use crate::model::validation::{Invalid, InvalidCode};

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

/// A JSON object that is read field by field.
#[derive(Debug)]
pub struct Fields {
    object: Map<String, Value>,
    prefix: String,
    known: BTreeSet<String>,
    invalid: Vec<Invalid>,
    is_strict: bool,
    described: Option<Described>,
}

/// What was noted instead of read.
#[derive(Debug, Default)]
struct Described {
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl Fields {
    pub(super) fn new(object: Map<String, Value>, is_strict: bool) -> Self {
        Fields { object, prefix: String::new(), known: BTreeSet::new(), invalid: Vec::new(), is_strict, described: None }
    }

    /// Reads nothing: every field counts as absent, and is noted for [`Fields::schema`].
    pub fn describing() -> Self {
        Fields { described: Some(Described::default()), ..Fields::new(Map::new(), false) }
    }

    /// The schema of what was noted.
    pub fn schema(self) -> Schema {
        let Described { properties, required } = self.described.unwrap_or_default();
        let mut schema = Schema::from_iter([("type".to_owned(), json!("object")), ("properties".to_owned(), properties.into())]);
        if !required.is_empty() {
            schema.insert("required".into(), required.into());
        }
        schema
    }

    fn note(&mut self, field: &str, schema: Schema) {
        if let Some(described) = &mut self.described {
            described.properties.insert(field.to_owned(), schema.into());
        }
    }

    /// For the documentation: these fields have to be there, and cannot be null.
    pub fn must_have(&mut self, fields: &[&str]) {
        self.never_null(fields);
        if let Some(described) = &mut self.described {
            described.required.extend(fields.iter().map(|field| (*field).to_owned()));
        }
    }

    /// For the documentation: these fields cannot be null.
    pub fn never_null(&mut self, fields: &[&str]) {
        let Some(described) = &mut self.described else { return };
        for field in fields {
            if let Some(Value::Object(schema)) = described.properties.get_mut(*field) {
                set_nullable(schema, false);
            }
        }
    }

    pub(super) fn parse(bytes: &[u8], is_strict: bool) -> Result<Self> {
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
    pub fn change<T>(&mut self, field: &str, check: Check<'_, T>) -> Change<T> {
        if self.described.is_some() {
            let mut schema = check.schema();
            set_nullable(&mut schema, true);
            self.note(field, schema);
        }
        self.read(field, |value| check.check(value))
    }

    fn read<T>(&mut self, field: &str, check: impl FnOnce(Value) -> std::result::Result<T, Fault>) -> Change<T> {
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
    pub fn optional<T>(&mut self, field: &str, check: Check<'_, T>) -> Option<T> {
        let change = self.change(field, check);
        self.never_null(&[field]);
        match change {
            Change::Absent => None,
            Change::Value(value) => Some(value),
            Change::Null => {
                self.refuse(field, InvalidCode::InvalidType, "cannot be null");
                None
            }
        }
    }

    /// A field that must be there. `None` only after a failure was noted.
    pub fn required<T>(&mut self, field: &str, check: Check<'_, T>) -> Option<T> {
        let failures = self.invalid.len();
        let value = self.change(field, check).value();
        self.must_have(&[field]);
        if value.is_none() && self.invalid.len() == failures {
            self.refuse(field, InvalidCode::Required, "is required");
        }
        value
    }

    /// An object inside this one, for the documentation `about` something; give it back with [`Fields::absorb`].
    pub fn nested(&mut self, field: &str, about: &str) -> Change<Fields> {
        let (prefix, is_strict) = (self.name(field), self.is_strict);
        if self.described.is_some() {
            self.note(field, Schema::from_iter([("description".to_owned(), json!(about))]));
            return Change::Value(Fields { prefix, ..Fields::describing() });
        }
        self.read(field, |value| match value {
            Value::Object(object) => Ok(Fields { prefix, ..Fields::new(object, is_strict) }),
            _ => Err(Fault::wrong_type("an object")),
        })
    }

    /// Takes over the failures of a nested object.
    pub fn absorb(&mut self, mut nested: Fields) {
        if let Some(described) = &mut self.described {
            let field = nested.prefix.rsplit('.').next().unwrap_or_default().to_owned();
            let mut schema = nested.schema();
            set_nullable(&mut schema, true);
            if let Some(Value::Object(noted)) = described.properties.get_mut(&field) {
                noted.append(&mut schema);
            }
            return;
        }
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

/// `null` beside what a schema takes, or not.
fn set_nullable(schema: &mut Schema, is_nullable: bool) {
    let Some(kind) = schema.get("type").and_then(|kind| kind.as_str().or_else(|| kind.get(0)?.as_str())).map(str::to_owned) else { return };
    schema.insert("type".into(), if is_nullable { json!([kind, "null"]) } else { kind.into() });
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.retain(|word| !word.is_null());
        words.extend(is_nullable.then_some(Value::Null));
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{boolean, name, number, text};
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
        assert_eq!(fields.optional("flag", boolean()), None);
        assert_eq!(fields.optional("long", text(5)), None);
        assert_eq!(fields.optional("n", number(1, 9)), None);
        let Change::Value(mut deep) = fields.nested("deep", "") else { panic!("an object") };
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

    #[test]
    fn reading_describes_itself() {
        let mut fields = Fields::describing();
        assert_eq!(fields.required("name", name(5).about("A name.")), None);
        assert_eq!(fields.change("n", number(1, 9)), Change::Absent);
        assert_eq!(fields.optional("word", super::super::check::one_of(["a", "b"])), None);
        let Change::Value(mut deep) = fields.nested("deep", "Inside.") else { panic!("an object") };
        deep.required("flag", boolean());
        fields.absorb(deep);
        let schema = Value::Object(fields.schema());
        assert_eq!(schema["required"], json!(["name"]));
        assert_eq!(schema["properties"]["name"]["maxLength"], 5);
        assert_eq!(schema["properties"]["n"], json!({"type": ["integer", "null"], "minimum": 1, "maximum": 9}));
        assert_eq!(schema["properties"]["word"], json!({"type": "string", "enum": ["a", "b"]}));
        assert_eq!(
            schema["properties"]["deep"],
            json!({"description": "Inside.", "type": ["object", "null"], "properties": {"flag": {"type": "boolean"}}, "required": ["flag"]})
        );
    }
}
