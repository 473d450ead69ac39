//! Lines of `-ztag -Mj`, read strictly: what is none of the three kinds is an error, not something to guess at.

use std::collections::BTreeMap;

use guest_support::text::excerpt;
use guest_support::{Code, Problem};
use serde_json::Value;

/// Most fields of one record; p4 numbers the entries of lists.
const MOST_FIELDS: usize = 100_000;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A record: a changelist, a file, a stream.
    Record(Record),
    /// A warning or an error.
    Message(Message),
    /// Something for people.
    Text(String),
}

/// A record's fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record(BTreeMap<String, String>);

/// A warning or an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// 2: warning, 3: failed, 4: fatal.
    pub severity: u64,
    /// What kind of thing is wrong.
    pub generic: u64,
    /// For people.
    pub text: String,
}

impl Record {
    /// A field; empty where there is none.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    /// The entries of a list: `View0`, `View1`, ...
    pub fn list<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        (0..MOST_FIELDS).map_while(move |at| self.0.get(&format!("{name}{at}")).map(String::as_str))
    }

    /// A field that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name).parse().ok()
    }
}

/// Reads one line.
pub fn read(line: &str) -> Result<Line, Problem> {
    let nonsense = || Problem::new(Code::Protocol, format!("p4 printed something that makes no sense: {}", excerpt(line.as_bytes(), 200)));
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(line) else { return Err(nonsense()) };
    if fields.len() > MOST_FIELDS {
        return Err(nonsense());
    }
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(|text| text.trim_end().to_owned());
    if let Some(severity) = fields.get("severity") {
        let severity = number(severity).ok_or_else(nonsense)?;
        let generic = fields.get("generic").and_then(number).unwrap_or(0);
        let text = text("data").ok_or_else(nonsense)?;
        return Ok(if severity < 2 { Line::Text(text) } else { Line::Message(Message { severity, generic, text }) });
    }
    let is_text = fields.contains_key("data") && fields.keys().all(|key| matches!(key.as_str(), "data" | "level"));
    if is_text {
        return Ok(Line::Text(text("data").ok_or_else(nonsense)?));
    }
    let mut record = BTreeMap::new();
    for (name, value) in fields {
        let value = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            _ => return Err(nonsense()),
        };
        record.insert(name, value);
    }
    Ok(Line::Record(Record(record)))
}

/// Numbers come as numbers; some versions write them as texts.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_kinds_are_told_apart() {
        let Line::Record(record) =
            read(r#"{"change":"2","desc":"Salt\n","View0":"a","View1":"b","path":"//game/*","severityx":"3"}"#).unwrap()
        else {
            panic!("no record");
        };
        assert_eq!((record.number("change"), record.get("desc"), record.get("none")), (Some(2), "Salt\n", ""));
        assert_eq!(record.list("View").collect::<Vec<_>>(), ["a", "b"]);
        let message = Message { severity: 3, generic: 36, text: "Perforce password (P4PASSWD) invalid or unset.".into() };
        let line = r#"{"data":"Perforce password (P4PASSWD) invalid or unset.\n","generic":36,"severity":3}"#;
        assert_eq!(read(line).unwrap(), Line::Message(message));
        assert_eq!(read(r#"{"data":"Client x saved.","level":0}"#).unwrap(), Line::Text("Client x saved.".into()));
        assert_eq!(read(r#"{"data":"all is well","generic":0,"severity":1}"#).unwrap(), Line::Text("all is well".into()));
    }

    #[test]
    fn garbage_is_an_error() {
        let deep = "[".repeat(10_000);
        for line in [
            "",
            "x",
            "[]",
            "1",
            "null",
            "{",
            r#"{"a":[1]}"#,
            r#"{"a":{"b":1}}"#,
            r#"{"a":true}"#,
            r#"{"severity":"x","data":"a"}"#,
            r#"{"severity":3}"#,
            "<html>",
            &deep,
        ] {
            assert_eq!(read(line).unwrap_err().code, Code::Protocol, "{line}");
        }
    }
}
