//! JSON as hostile clients send it: a key given twice, or nesting without end, is refused instead of guessed at.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Deeper than any body of the API.
const MAXIMUM_DEPTH: usize = 32;

/// Reads one document, UTF-8, without anything behind it. The error names line and column and shows no content.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict { depth: 0 }.deserialize(&mut reader).map_err(|error| describe(&error))?;
    reader.end().map_err(|error| describe(&error))?;
    Ok(value)
}

fn describe(error: &serde_json::Error) -> String {
    // serde_json's own texts quote no input; ours below quote none either.
    error.to_string()
}

struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: Error>(&self) -> Result<Strict, E> {
        match self.depth + 1 {
            depth if depth <= MAXIMUM_DEPTH => Ok(Strict { depth }),
            _ => Err(E::custom(format_args!("nested deeper than {MAXIMUM_DEPTH} levels"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element_seed(self.deeper()?)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(self.deeper()?)?;
            if object.insert(key, value).is_some() {
                return Err(A::Error::custom("a key is given twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_documents_read_as_they_are() {
        let text = r#"{"a": [1, -2, 3.5, true, null, "ä\u00e4"], "b": {}}"#;
        assert_eq!(parse(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn ambiguous_deep_and_broken_documents_are_refused() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for text in
            [r#"{"a":1,"a":2}"#, r#"{"a":{"b":1,"\u0062":2}}"#, "{} {}", "{", "", "nul", "{'a':1}", "[1,]", &deep, "1e999", "\u{feff}{}"]
        {
            assert!(parse(text.as_bytes()).is_err(), "{text:.40}");
        }
        assert!(parse(b"\"\xff\"").is_err());
        let allowed = format!("{}{}", "[".repeat(MAXIMUM_DEPTH), "]".repeat(MAXIMUM_DEPTH));
        assert!(parse(allowed.as_bytes()).is_ok());
    }
}
