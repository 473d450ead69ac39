//! How one value of a request is checked. A check carries the schema that says the same, so that reading a field and
//! documenting it are one line of code (see `openapi`).

use serde_json::{Map, Value, json};

use crate::model::Secret;
use crate::model::validation::{Invalid, InvalidCode};

/// Neither C0 nor C1: what [`char::is_control`] refuses.
const NO_CONTROL: &str = "^[^\\x00-\\x1f\\x7f-\\x9f]*$";
/// The same, with tab and line ends.
const NO_CONTROL_BUT_LINES: &str = "^[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]*$";
/// Something else than blanks, and no control characters.
const NOT_BLANK: &str = "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$";

/// A JSON schema under construction.
pub type Schema = Map<String, Value>;

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

/// From a value to a `T`, or why not; and the schema of the values that it takes.
pub struct Check<'a, T> {
    schema: Schema,
    judge: Box<dyn Fn(Value) -> Result<T, Fault> + Send + 'a>,
}

impl<'a, T: 'a> Check<'a, T> {
    /// A check that no other is made of. `schema` is an object of JSON Schema.
    pub fn new(schema: Value, judge: impl Fn(Value) -> Result<T, Fault> + Send + 'a) -> Self {
        let schema = if let Value::Object(schema) = schema { schema } else { Schema::new() };
        Check { schema, judge: Box::new(judge) }
    }

    /// Judges a value.
    pub fn check(&self, value: Value) -> Result<T, Fault> {
        (self.judge)(value)
    }

    /// The same check with a further step. Narrow the schema with [`Check::with`] where JSON Schema has a word for the step.
    pub fn and<U: 'a>(self, next: impl Fn(T) -> Result<U, Fault> + Send + 'a) -> Check<'a, U> {
        let Check { schema, judge } = self;
        Check { schema, judge: Box::new(move |value| judge(value).and_then(&next)) }
    }

    /// What the documentation says of the value.
    pub fn about(self, text: &str) -> Self {
        self.with("description", text)
    }

    /// A value as people would send it.
    pub fn example(self, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.with("examples", json!([value]))
    }

    /// What an absent value counts as.
    pub fn default_is(self, value: impl Into<Value>) -> Self {
        self.with("default", value)
    }

    /// Another word of the schema.
    pub fn with(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.schema.insert(keyword.to_owned(), value.into());
        self
    }

    /// The schema of what is taken.
    pub fn schema(&self) -> Schema {
        self.schema.clone()
    }
}

/// `true` or `false`.
pub fn boolean() -> Check<'static, bool> {
    Check::new(json!({"type": "boolean"}), |value| value.as_bool().ok_or_else(|| Fault::wrong_type("true or false")))
}

/// A whole number within bounds.
pub fn number(minimum: u32, maximum: u32) -> Check<'static, u32> {
    Check::new(json!({"type": "integer", "minimum": minimum, "maximum": maximum}), move |value| {
        if !value.is_number() {
            return Err(Fault::wrong_type("a whole number"));
        }
        // `5.0` is the same number, whatever wrote it.
        let whole = value
            .as_u64()
            .or_else(|| value.as_f64().filter(|number| number.fract() == 0.0).and_then(|number| format!("{number}").parse().ok()));
        let number = whole.and_then(|number| u32::try_from(number).ok()).filter(|number| (minimum..=maximum).contains(number));
        number.ok_or_else(|| Fault::invalid(format!("must be a whole number from {minimum} to {maximum}")))
    })
}

/// Text as it is, up to `maximum` characters and without control characters (tab and line ends are taken in `prose`).
pub fn text(maximum: usize) -> Check<'static, String> {
    bounded(maximum, NO_CONTROL, |character| !character.is_control())
}

/// Text of several lines.
pub fn prose(maximum: usize) -> Check<'static, String> {
    bounded(maximum, NO_CONTROL_BUT_LINES, |character| !character.is_control() || matches!(character, '\n' | '\r' | '\t'))
}

fn bounded(maximum: usize, pattern: &str, is_taken: impl Fn(char) -> bool + Send + 'static) -> Check<'static, String> {
    Check::new(json!({"type": "string", "maxLength": maximum, "pattern": pattern}), move |value| {
        let Value::String(text) = value else { return Err(Fault::wrong_type("a string")) };
        if text.chars().count() > maximum {
            return Err(Fault::too_long(maximum));
        }
        match text.chars().all(&is_taken) {
            true => Ok(text),
            false => Err(Fault::invalid("must not contain control characters")),
        }
    })
}

/// A name: not blank, and without blanks around it.
pub fn name(maximum: usize) -> Check<'static, String> {
    let check = text(maximum).and(|text| {
        let name = text.trim().to_owned();
        if name.is_empty() { Err(Fault::invalid("must not be blank")) } else { Ok(name) }
    });
    check.with("minLength", 1).with("pattern", NOT_BLANK)
}

/// A secret: any text up to `maximum` characters; never echoed.
pub fn secret(maximum: usize) -> Check<'static, Secret> {
    let schema = json!({"type": "string", "format": "password", "writeOnly": true, "maxLength": maximum});
    Check::new(schema, move |value| match value {
        Value::String(text) if text.chars().count() > maximum => Err(Fault::too_long(maximum)),
        Value::String(text) => Ok(Secret::new(text)),
        _ => Err(Fault::wrong_type("a string")),
    })
}

/// One of a closed list of words.
pub fn one_of<'a, W: AsRef<str>>(allowed: impl IntoIterator<Item = W>) -> Check<'a, String> {
    let allowed: Vec<String> = allowed.into_iter().map(|word| word.as_ref().to_owned()).collect();
    Check::new(json!({"type": "string", "enum": allowed}), move |value| match value {
        Value::String(text) if allowed.contains(&text) => Ok(text),
        Value::String(_) => Err(Fault::not_one_of(&allowed)),
        _ => Err(Fault::wrong_type("a string")),
    })
}

/// A list of at most `maximum` items, each checked.
pub fn list<'a, T: 'a>(maximum: usize, item: Check<'a, T>) -> Check<'a, Vec<T>> {
    Check::new(json!({"type": "array", "maxItems": maximum, "items": item.schema()}), move |value| {
        let Value::Array(items) = value else { return Err(Fault::wrong_type("a list")) };
        if items.len() > maximum {
            return Err(Fault { code: InvalidCode::TooLong, message: format!("must have at most {maximum} items"), allowed: Vec::new() });
        }
        let number_items = items.into_iter().enumerate();
        number_items
            .map(|(index, value)| item.check(value).map_err(|fault| Fault { message: format!("item {index}: {}", fault.message), ..fault }))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_as_long_as_their_schema_says_in_characters() {
        let check = secret(4);
        assert_eq!(check.schema()["maxLength"], 4);
        assert!(check.check(json!("\u{e4}\u{1f372}bc")).is_ok());
        assert!(matches!(check.check(json!("abcde")), Err(Fault { code: InvalidCode::TooLong, .. })));
    }
}
