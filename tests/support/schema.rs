//! The part of JSON Schema that the API's document uses, to hold real answers against it. It is stricter than the standard in
//! one way: a key that the schema does not name is a failure, because whatever is served has to be documented.

use serde_json::{Map, Value};

/// Everything about `value` that `schema` does not allow; references are looked up in `document`.
pub fn failures(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    failures_beside(document, schema, value, &[])
}

/// The same; `beside` are keys that the schema around this one names.
fn failures_beside(document: &Value, schema: &Value, value: &Value, beside: &[&str]) -> Vec<String> {
    let mut checker = Checker { document, beside, failures: Vec::new() };
    checker.check(schema, value, "");
    checker.failures
}

/// The keys that a schema names.
fn named<'a>(words: &'a Map<String, Value>, also: &str) -> impl Iterator<Item = &'a str> {
    let alternatives = words.get(also).and_then(Value::as_array).into_iter().flatten().filter_map(|one| one.get("properties"));
    words
        .get("properties")
        .into_iter()
        .chain(alternatives)
        .filter_map(Value::as_object)
        .flat_map(|object| object.keys())
        .map(String::as_str)
}

struct Checker<'a> {
    document: &'a Value,
    beside: &'a [&'a str],
    failures: Vec<String>,
}

const KNOWN: [&str; 25] = [
    "$ref",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "maxProperties",
    "items",
    "maxItems",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "format",
    "writeOnly",
    "description",
    "examples",
    "default",
    "title",
    "readOnly",
    "minItems",
];

impl<'a> Checker<'a> {
    fn fail(&mut self, place: &str, reason: impl std::fmt::Display) {
        self.failures.push(format!("{}: {reason}", if place.is_empty() { "/" } else { place }));
    }

    fn check(&mut self, schema: &'a Value, value: &Value, place: &str) {
        let Value::Object(words) = schema else {
            if schema != &Value::Bool(true) {
                self.fail(place, format!("nothing is allowed here, by {schema}"));
            }
            return;
        };
        for word in words.keys() {
            assert!(KNOWN.contains(&word.as_str()), "{place}: teach tests/support/schema.rs the word `{word}`");
        }
        if let Some(path) = words.get("$ref").and_then(Value::as_str) {
            let target = self.document.pointer(path.trim_start_matches('#')).unwrap_or_else(|| panic!("{place}: {path} leads nowhere"));
            self.check(target, value, place);
        }
        for word in ["anyOf", "oneOf"] {
            let Some(Value::Array(schemas)) = words.get(word) else { continue };
            let beside: Vec<&str> = named(words, "").collect();
            let passing = schemas.iter().filter(|schema| failures_beside(self.document, schema, value, &beside).is_empty()).count();
            if passing == 0 || (word == "oneOf" && passing > 1) {
                self.fail(place, format!("{value} fits {passing} of {} schemas of {word}", schemas.len()));
            }
        }
        self.check_value(words, value, place);
        match value {
            Value::String(text) => self.check_text(words, text, place),
            Value::Number(number) => {
                let number = number.as_f64().expect("a number");
                if words.get("minimum").and_then(Value::as_f64).is_some_and(|minimum| number < minimum)
                    || words.get("maximum").and_then(Value::as_f64).is_some_and(|maximum| number > maximum)
                {
                    self.fail(place, format!("{number} is out of bounds"));
                }
            }
            Value::Array(items) => {
                if words.get("maxItems").and_then(Value::as_u64).is_some_and(|maximum| items.len() as u64 > maximum) {
                    self.fail(place, format!("{} items are too many", items.len()));
                }
                let Some(schema) = words.get("items") else { return };
                for (index, item) in items.iter().enumerate() {
                    self.check(schema, item, &format!("{place}/{index}"));
                }
            }
            Value::Object(object) => self.check_object(words, object, place),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_value(&mut self, words: &Map<String, Value>, value: &Value, place: &str) {
        let kinds: Vec<&str> = match words.get("type") {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let fits = |kind: &&str| match *kind {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "null" => value.is_null(),
            other => panic!("{place}: `{other}` is no type of JSON Schema"),
        };
        if !kinds.is_empty() && !kinds.iter().any(fits) {
            self.fail(place, format!("{value} is no {}", kinds.join(" or ")));
        }
        if words.get("enum").and_then(Value::as_array).is_some_and(|allowed| !allowed.contains(value)) {
            self.fail(place, format!("{value} is none of {}", words["enum"]));
        }
        if words.get("const").is_some_and(|only| only != value) {
            self.fail(place, format!("{value} is not {}", words["const"]));
        }
    }

    fn check_text(&mut self, words: &Map<String, Value>, text: &str, place: &str) {
        let length = text.chars().count() as u64;
        if words.get("minLength").and_then(Value::as_u64).is_some_and(|minimum| length < minimum)
            || words.get("maxLength").and_then(Value::as_u64).is_some_and(|maximum| length > maximum)
        {
            self.fail(place, format!("{length} characters are too few or too many"));
        }
        // Patterns that look ahead are judged by the fuzzer and by the code itself.
        let pattern = words.get("pattern").and_then(Value::as_str).filter(|pattern| !pattern.contains("(?!"));
        if let Some(pattern) = pattern {
            let regex = regex_lite::Regex::new(pattern).unwrap_or_else(|error| panic!("{place}: {pattern}: {error}"));
            if !regex.is_match(text) {
                self.fail(place, format!("{text:?} does not match {pattern}"));
            }
        }
    }

    fn check_object(&mut self, words: &'a Map<String, Value>, object: &Map<String, Value>, place: &str) {
        for name in words.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                self.fail(place, format!("{name} is missing"));
            }
        }
        let Some(properties) = words.get("properties").and_then(Value::as_object) else { return };
        for (name, value) in object {
            match properties.get(name).or_else(|| words.get("additionalProperties")) {
                Some(schema) => self.check(schema, value, &format!("{place}/{name}")),
                None if self.beside.contains(&name.as_str()) || named(words, "oneOf").any(|known| known == name) => {}
                None => self.fail(place, format!("{name} is not documented")),
            }
        }
    }
}

#[test]
fn what_is_missing_wrong_or_unknown_is_found() {
    use serde_json::json;
    let document = json!({"components": {"schemas": {"Id": {"type": "string", "pattern": "^[a-z]{2}$"}}}});
    let schema = json!({
        "type": "object",
        "properties": {
            "id": {"$ref": "#/components/schemas/Id"},
            "or": {"anyOf": [{"$ref": "#/components/schemas/Id"}, {"type": "null"}]},
            "many": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 1}, "maxItems": 2},
        },
        "required": ["id", "or"],
    });
    let failures = |value: Value| failures(&document, &schema, &value).len();
    assert_eq!(failures(json!({"id": "ab", "or": null})), 0);
    assert_eq!(failures(json!({"id": "ab", "or": "cd", "many": [1, 2]})), 0);
    for (bad, count) in [
        (json!([]), 1),
        (json!({"id": "ab"}), 1),
        (json!({"id": "abc", "or": 5}), 2),
        (json!({"id": "ab", "or": null, "new": 1}), 1),
        (json!({"id": "ab", "or": null, "many": [0, 1.5, 3]}), 3),
    ] {
        assert_eq!(failures(bad.clone()), count, "{bad}");
    }
}
