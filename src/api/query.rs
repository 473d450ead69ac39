//! Query parameters: read once, every failure told at once. As with bodies (`fields`), the same reading done with
//! [`Query::describing`] notes what the documentation says of each parameter.

use serde_json::{Value, json};

use super::check::{self, Check, Schema};
use super::error::{ApiError, Problem, Result};
use crate::model::page::{DEFAULT_LIMIT, MAXIMUM_LIMIT};
use crate::model::validation::{Invalid, InvalidCode};

/// The decoded pairs of a query, in order.
pub type Pairs = Vec<(String, String)>;

/// Query parameters of a row.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no set of query parameters: neither how it is read nor how it is documented is known",
    note = "implement `FromQuery` and read every parameter with the methods of `Query`"
)]
pub trait FromQuery: Sized + Send + 'static {
    /// Reads every parameter, always all of them: the documentation is made by the same reading. `None` only after a
    /// failure was noted.
    fn read(query: &mut Query) -> Result<Option<Self>>;

    /// From the decoded pairs.
    fn from_query(pairs: Pairs) -> Result<Self> {
        let mut query = Query::new(pairs);
        let value = Self::read(&mut query)?;
        query.finish()?;
        value.ok_or_else(|| ApiError::validation(Vec::new()))
    }
}

impl FromQuery for () {
    fn read(_: &mut Query) -> Result<Option<Self>> {
        Ok(Some(()))
    }
}

/// What the documentation says of one parameter.
#[derive(Debug)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What it means.
    pub description: String,
    /// Whether it has to be there.
    pub is_required: bool,
    /// Which values it takes.
    pub schema: Schema,
}

/// Reads parameters one by one. Unknown ones are ignored, repeated ones refused: two readers could disagree on which counts.
pub struct Query {
    pairs: Pairs,
    invalid: Vec<Invalid>,
    described: Option<Vec<Parameter>>,
}

impl Query {
    /// Over these pairs.
    pub fn new(pairs: Pairs) -> Self {
        Query { pairs, invalid: Vec::new(), described: None }
    }

    /// Reads nothing: every parameter counts as absent, and is noted.
    pub fn describing() -> Self {
        Query { described: Some(Vec::new()), ..Query::new(Vec::new()) }
    }

    /// What was noted.
    pub fn parameters(self) -> Vec<Parameter> {
        self.described.unwrap_or_default()
    }

    fn note(&mut self, name: &str, mut schema: Schema) {
        if let Some(described) = &mut self.described {
            let description = schema.remove("description").and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default();
            described.push(Parameter { name: name.to_owned(), description, is_required: false, schema });
        }
    }

    /// The parameter's text as it is; an empty one counts as absent. `about` is for the documentation.
    pub fn text(&mut self, name: &str, about: &str) -> Option<String> {
        self.note(name, Schema::from_iter([("type".to_owned(), json!("string")), ("description".to_owned(), json!(about))]));
        self.raw(name)
    }

    fn raw(&mut self, name: &str) -> Option<String> {
        let mut values = self.pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value);
        let value = values.next()?.clone();
        if values.next().is_some() {
            self.invalid.push(Invalid::new(name, InvalidCode::InvalidValue, "may be given once only"));
            return None;
        }
        (!value.is_empty()).then_some(value)
    }

    /// The parameter's text as `check` makes it of a string.
    pub fn checked<T>(&mut self, name: &str, check: Check<'_, T>) -> Option<T> {
        self.note(name, check.schema());
        match check.check(Value::String(self.raw(name)?)) {
            Ok(value) => Some(value),
            Err(fault) => {
                self.invalid.push(fault.at(name.to_owned()));
                None
            }
        }
    }

    /// As [`Query::checked`], of a parameter that must be there. `None` only after a failure was noted.
    pub fn required<T>(&mut self, name: &str, check: Check<'_, T>) -> Option<T> {
        let failures = self.invalid.len();
        let value = self.checked(name, check);
        if let Some(parameter) = self.described.as_mut().and_then(|described| described.last_mut()) {
            parameter.is_required = true;
        }
        if value.is_none() && self.invalid.len() == failures {
            self.invalid.push(Invalid::new(name, InvalidCode::Required, "is required"));
        }
        value
    }

    /// One of a closed list of words.
    pub fn one_of<W: AsRef<str>>(&mut self, name: &str, allowed: impl IntoIterator<Item = W>, about: &str) -> Option<String> {
        self.checked(name, check::one_of(allowed).about(about))
    }

    /// A whole number within bounds.
    pub fn number(&mut self, name: &str, minimum: u64, maximum: u64, about: &str) -> Option<u64> {
        let words = [("type", json!("integer")), ("minimum", json!(minimum)), ("maximum", json!(maximum)), ("description", json!(about))];
        self.note(name, words.into_iter().map(|(word, value)| (word.to_owned(), value)).collect());
        let value = self.raw(name)?;
        match value.parse::<u64>() {
            Ok(number) if (minimum..=maximum).contains(&number) => Some(number),
            _ => {
                let message = format!("must be a whole number from {minimum} to {maximum}");
                self.invalid.push(Invalid::new(name, InvalidCode::InvalidValue, message));
                None
            }
        }
    }

    /// `limit`: absent 25, above 100 clamped, below 1 or no number refused.
    pub fn limit(&mut self) -> Result<usize> {
        self.limit_up_to(DEFAULT_LIMIT, MAXIMUM_LIMIT)
    }

    /// `limit` of a list with other bounds.
    pub fn limit_up_to(&mut self, default: usize, maximum: usize) -> Result<usize> {
        let about = format!("How many items at the most; more than {maximum} counts as {maximum}.");
        let words = [("type", json!("integer")), ("minimum", json!(1)), ("default", json!(default)), ("description", json!(about))];
        self.note("limit", words.into_iter().map(|(word, value)| (word.to_owned(), value)).collect());
        let Some(text) = self.raw("limit") else { return Ok(default) };
        // Digits only: `+5` and ` 5` are no integers of JSON's kind either.
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.trim_start_matches('0').len() {
            0 => Err(Problem::InvalidLimit.into()),
            _ if !is_number => Err(Problem::InvalidLimit.into()),
            // More digits than fit are more than the maximum.
            _ => Ok(text.parse::<usize>().unwrap_or(maximum).min(maximum)),
        }
    }

    /// `cursor`, as it was given in `nextCursor`.
    pub fn cursor(&mut self) -> Option<String> {
        self.text("cursor", "`nextCursor` of the page before, with the same filters. Opaque; absent: the first page.")
    }

    /// Every pair as it was sent, but decoded; for what is signed as a whole.
    pub fn all(&self) -> String {
        self.pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    }

    /// For the documentation: a text that has to be there, and is read through [`Query::all`].
    pub fn needs(&mut self, name: &str, about: &str) {
        if let Some(described) = &mut self.described {
            let schema = Schema::from_iter([("type".to_owned(), json!("string"))]);
            described.push(Parameter { name: name.to_owned(), description: about.to_owned(), is_required: true, schema });
        }
    }

    /// Fails with everything that was wrong.
    pub fn finish(self) -> Result<()> {
        if self.invalid.is_empty() { Ok(()) } else { Err(ApiError::validation(self.invalid)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(text: &str) -> Option<usize> {
        Query::new(vec![("limit".into(), text.into())]).limit().ok()
    }

    #[test]
    fn limits_are_clamped_above_and_refused_below() {
        assert_eq!(
            [limit(""), limit("1"), limit("100"), limit("101"), limit("99999999999999999999999")],
            [Some(25), Some(1), Some(100), Some(100), Some(100)]
        );
        for refused in ["0", "-1", "+5", "1.5", "ten", " 5", "00"] {
            assert_eq!(limit(refused), None, "{refused}");
        }
    }

    #[test]
    fn repeated_and_unknown_words_are_refused_together() {
        let mut query = Query::new(vec![("a".into(), "1".into()), ("a".into(), "2".into()), ("b".into(), "no".into())]);
        assert_eq!((query.text("a", ""), query.one_of("b", ["yes"], "")), (None, None));
        assert_eq!(query.finish().unwrap_err().details.len(), 2);
    }
}
