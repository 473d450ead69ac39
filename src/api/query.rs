//! Query parameters: read once, every failure told at once.

use serde_json::Value;

use super::body::Fault;
use super::error::{ApiError, Problem, Result};
use crate::model::page::{DEFAULT_LIMIT, MAXIMUM_LIMIT};
use crate::model::validation::{Invalid, InvalidCode};

/// The decoded pairs of a query, in order.
pub type Pairs = Vec<(String, String)>;

/// Query parameters of a row.
pub trait FromQuery: Sized + Send + 'static {
    /// From the decoded pairs.
    fn from_query(pairs: Pairs) -> Result<Self>;
}

impl FromQuery for () {
    fn from_query(_: Pairs) -> Result<Self> {
        Ok(())
    }
}

impl FromQuery for Pairs {
    fn from_query(pairs: Pairs) -> Result<Self> {
        Ok(pairs)
    }
}

/// Reads parameters one by one. Unknown ones are ignored, repeated ones refused: two readers could disagree on which counts.
pub struct Query {
    pairs: Pairs,
    invalid: Vec<Invalid>,
}

impl Query {
    /// Over these pairs.
    pub fn new(pairs: Pairs) -> Self {
        Query { pairs, invalid: Vec::new() }
    }

    /// The parameter's text; an empty one counts as absent.
    pub fn text(&mut self, name: &str) -> Option<String> {
        let mut values = self.pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value);
        let value = values.next()?.clone();
        if values.next().is_some() {
            self.invalid.push(Invalid::new(name, InvalidCode::InvalidValue, "may be given once only"));
            return None;
        }
        (!value.is_empty()).then_some(value)
    }

    /// The parameter's text as `check` makes it of a string.
    pub fn checked<T>(&mut self, name: &str, check: impl FnOnce(Value) -> std::result::Result<T, Fault>) -> Option<T> {
        let value = self.text(name)?;
        match check(Value::String(value)) {
            Ok(value) => Some(value),
            Err(fault) => {
                self.invalid.push(fault.at(name.to_owned()));
                None
            }
        }
    }

    /// As [`Query::checked`], of a parameter that must be there. `None` only after a failure was noted.
    pub fn required<T>(&mut self, name: &str, check: impl FnOnce(Value) -> std::result::Result<T, Fault>) -> Option<T> {
        let failures = self.invalid.len();
        let value = self.checked(name, check);
        if value.is_none() && self.invalid.len() == failures {
            self.invalid.push(Invalid::new(name, InvalidCode::Required, "is required"));
        }
        value
    }

    /// One of a closed list of words.
    pub fn one_of(&mut self, name: &str, allowed: &[&str]) -> Option<String> {
        let value = self.text(name)?;
        if allowed.contains(&value.as_str()) {
            return Some(value);
        }
        self.invalid.push(Invalid {
            allowed: allowed.iter().map(|word| (*word).to_owned()).collect(),
            ..Invalid::new(name, InvalidCode::InvalidValue, "is none of the allowed values")
        });
        None
    }

    /// A whole number within bounds.
    pub fn number(&mut self, name: &str, minimum: u64, maximum: u64) -> Option<u64> {
        let value = self.text(name)?;
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
        let Some(text) = self.text("limit") else { return Ok(default) };
        // Digits only: `+5` and ` 5` are no integers of JSON's kind either.
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.trim_start_matches('0').len() {
            0 => Err(Problem::InvalidLimit.into()),
            _ if !is_number => Err(Problem::InvalidLimit.into()),
            // More digits than fit are more than the maximum.
            _ => Ok(text.parse::<usize>().unwrap_or(maximum).min(maximum)),
        }
    }

    /// Notes a failure of a parameter.
    pub fn refuse(&mut self, name: &str, code: InvalidCode, message: impl Into<String>) {
        self.invalid.push(Invalid::new(name, code, message));
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
        assert_eq!((query.text("a"), query.one_of("b", &["yes"])), (None, None));
        assert_eq!(query.finish().unwrap_err().details.len(), 2);
    }
}
