//! The settings of a binding, held against what the manifest says about them.
//!
//! A manifest describes its settings in a small part of JSON Schema, [`KEYWORDS`] and no other: a keyword that this
//! host does not know would be a promise that nobody keeps, so such a manifest is not loaded. `default` fills in what is
//! absent; a setting that is `required` has to be entered by a person all the same (its default is what a form begins
//! with), because a forgotten address must not become somebody else's.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::capability::Origin;

/// Every keyword. The first three are for people and forms.
const KEYWORDS: &[&str] = &[
    "$schema",
    "title",
    "description",
    "writeOnly",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "enum",
    "format",
    "maxLength",
    "default",
];
/// Objects in objects.
const DEEPEST: usize = 8;
/// Faults that are told at one time.
const MOST_FAULTS: usize = 10;

/// What the settings of a plugin are.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "Value")]
pub struct Schema {
    root: Node,
}

/// What one value is.
#[derive(Debug, Clone, Default)]
struct Node {
    kind: Option<Kind>,
    properties: BTreeMap<String, Node>,
    required: Vec<String>,
    is_closed: bool,
    allowed: Vec<Value>,
    is_address: bool,
    is_secret: bool,
    longest: Option<u64>,
    default: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Object,
    Text,
    Truth,
    Integer,
    Number,
}

impl TryFrom<Value> for Schema {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let root = Node::read(&value, "configSchema", 0)?;
        if root.kind != Some(Kind::Object) {
            return Err("`configSchema` has to be of the type `object`".to_owned());
        }
        Ok(Schema { root })
    }
}

impl Schema {
    /// The settings with defaults filled in.
    ///
    /// # Errors
    /// A sentence that names every setting that does not fit, without its value, which may be meant to be secret.
    pub(crate) fn complete(&self, settings: &Value) -> Result<Value, String> {
        let mut settings = if settings.is_null() { Value::Object(Map::new()) } else { settings.clone() };
        let mut faults = Vec::new();
        self.root.check(&settings, "", &mut faults);
        if !faults.is_empty() {
            faults.truncate(MOST_FAULTS);
            return Err(super::text::clean(&faults.join("; "), 2000));
        }
        self.root.fill(&mut settings);
        Ok(settings)
    }
}

impl Node {
    fn read(value: &Value, place: &str, depth: usize) -> Result<Node, String> {
        let Some(object) = value.as_object() else { return Err(format!("`{place}` has to be a JSON Schema object")) };
        if depth > DEEPEST {
            return Err(format!("`{place}` lies too deep"));
        }
        let mut node = Node::default();
        for (keyword, value) in object {
            let read = node.read_keyword(keyword, value, depth)?;
            if let Err(wanted) = read {
                return Err(match KEYWORDS.contains(&keyword.as_str()) {
                    true => format!("`{keyword}` of `{place}` has to be {wanted}"),
                    false => format!("`{place}` uses the keyword `{keyword}`; this server knows {}", KEYWORDS.join(", ")),
                });
            }
        }
        if let Some(name) = node.required.iter().find(|name| !node.properties.contains_key(*name)) {
            return Err(format!("`{place}` requires `{name}`, which is not among its properties"));
        }
        let mut faults = Vec::new();
        if let Some(default) = &node.default {
            node.check(default, place, &mut faults);
        }
        if !faults.is_empty() {
            return Err(format!("the default of `{place}` could not be entered: {}", faults.join("; ")));
        }
        Ok(node)
    }

    /// The inner error says what the keyword's value has to be, the outer one is about something below it.
    fn read_keyword(&mut self, keyword: &str, value: &Value, depth: usize) -> Result<Result<(), &'static str>, String> {
        match keyword {
            "$schema" | "title" | "description" => {}
            "type" => match value.as_str() {
                Some("object") => self.kind = Some(Kind::Object),
                Some("string") => self.kind = Some(Kind::Text),
                Some("boolean") => self.kind = Some(Kind::Truth),
                Some("integer") => self.kind = Some(Kind::Integer),
                Some("number") => self.kind = Some(Kind::Number),
                _ => return Ok(Err("object, string, boolean, integer or number")),
            },
            "properties" => {
                let Some(properties) = value.as_object() else { return Ok(Err("an object")) };
                for (name, value) in properties {
                    self.properties.insert(name.clone(), Node::read(value, name, depth + 1)?);
                }
            }
            "required" => match serde_json::from_value(value.clone()) {
                Ok(names) => self.required = names,
                Err(_) => return Ok(Err("a list of names")),
            },
            "additionalProperties" => match value.as_bool() {
                Some(is_open) => self.is_closed = !is_open,
                None => return Ok(Err("true or false")),
            },
            "enum" => match value.as_array().filter(|values| !values.is_empty()) {
                Some(values) => self.allowed.clone_from(values),
                None => return Ok(Err("a list with at least one value")),
            },
            "format" => match value.as_str() {
                Some("uri") => self.is_address = true,
                Some("secret") => self.is_secret = true,
                _ => return Ok(Err("`uri` or `secret`")),
            },
            "writeOnly" => match value.as_bool() {
                Some(is_secret) => self.is_secret |= is_secret,
                None => return Ok(Err("true or false")),
            },
            "maxLength" => match value.as_u64() {
                Some(longest) => self.longest = Some(longest),
                None => return Ok(Err("a number of characters")),
            },
            "default" => self.default = Some(value.clone()),
            _ => return Ok(Err("known")),
        }
        Ok(Ok(()))
    }

    fn check(&self, value: &Value, place: &str, faults: &mut Vec<String>) {
        let shown = if place.is_empty() { "the whole" } else { place };
        if self.is_secret {
            faults.push(format!("`{shown}` is a secret and is not stored among the settings"));
            return;
        }
        if let Some(kind) = self.kind.filter(|kind| !kind.fits(value)) {
            faults.push(format!("`{shown}` has to be {}", kind.name()));
            return;
        }
        if !self.allowed.is_empty() && !self.allowed.contains(value) {
            let allowed: Vec<String> = self.allowed.iter().map(Value::to_string).collect();
            faults.push(format!("`{shown}` has to be one of {}", allowed.join(", ")));
        }
        if let Some(text) = value.as_str() {
            if self.longest.is_some_and(|longest| text.chars().count() as u64 > longest) {
                faults.push(format!("`{shown}` is too long"));
            } else if self.is_address && Origin::parse(text).is_none() {
                faults.push(format!("`{shown}` has to be an address that begins with https:// or http://"));
            }
        }
        let Some(object) = value.as_object() else { return };
        let below = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
        for name in self.required.iter().filter(|name| object.get(*name).is_none_or(Value::is_null)) {
            faults.push(format!("`{}` is missing", below(name)));
        }
        for (name, value) in object {
            match self.properties.get(name) {
                // As good as absent.
                Some(_) if value.is_null() => {}
                Some(node) => node.check(value, &below(name), faults),
                None if self.is_closed => faults.push(format!("`{}` is no setting of it", below(name))),
                None => {}
            }
        }
    }

    fn fill(&self, value: &mut Value) {
        let Some(object) = value.as_object_mut() else { return };
        for (name, node) in &self.properties {
            if object.get(name).is_none_or(Value::is_null) {
                match &node.default {
                    Some(default) => object.insert(name.clone(), default.clone()),
                    None => object.remove(name),
                };
            }
            if let Some(value) = object.get_mut(name) {
                node.fill(value);
            }
        }
    }
}

impl Kind {
    fn fits(self, value: &Value) -> bool {
        match self {
            Kind::Object => value.is_object(),
            Kind::Text => value.is_string(),
            Kind::Truth => value.is_boolean(),
            Kind::Integer => value.is_i64() || value.is_u64(),
            Kind::Number => value.is_number(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Object => "an object",
            Kind::Text => "a text",
            Kind::Truth => "true or false",
            Kind::Integer => "a whole number",
            Kind::Number => "a number",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        serde_json::from_value(json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "T", "type": "object", "additionalProperties": false,
            "required": ["url", "kind"],
            "properties": {
                "url": {"type": "string", "format": "uri", "maxLength": 40, "default": "https://default.example"},
                "kind": {"type": "string", "enum": ["a", "b"]},
                "count": {"type": "integer", "default": 3},
                "share": {"type": "number"},
                "quiet": {"type": "boolean", "description": "d"},
                "token": {"type": "string", "writeOnly": true, "format": "secret"},
                "inner": {"type": "object", "required": ["x"], "default": {"x": 1}, "properties": {"x": {}, "y": {"type": "string", "default": "why"}}}
            }
        }))
        .unwrap()
    }

    #[test]
    fn what_is_absent_is_filled_in_and_what_is_there_is_kept() {
        let complete = schema().complete(&json!({"url": "http://nas.lan:8080/x", "kind": "b", "quiet": true, "share": null})).unwrap();
        let wanted = json!({"url": "http://nas.lan:8080/x", "kind": "b", "count": 3, "quiet": true, "inner": {"x": 1, "y": "why"}});
        assert_eq!(complete, wanted);
        let own = json!({"url": "https://a.example", "kind": "a", "count": -4, "share": 0.5, "inner": {"x": "any", "y": "z", "more": []}});
        assert_eq!(schema().complete(&own).unwrap(), own);
        assert_eq!(Schema::default().complete(&json!({"any": [1]})).unwrap(), json!({"any": [1]}));
        assert_eq!(Schema::default().complete(&Value::Null).unwrap(), json!({}));
    }

    #[test]
    fn each_setting_that_does_not_fit_is_named_without_its_value() {
        let secret = "hunter2";
        for (settings, words) in [
            (json!({}), "`url` is missing; `kind` is missing"),
            (json!({"url": null, "kind": "a"}), "`url` is missing"),
            (json!({"url": secret, "kind": "a"}), "`url` has to be an address"),
            (json!({"url": "ftp://a.example", "kind": "a"}), "`url` has to be an address"),
            (json!({"url": format!("https://a.example/{}", "x".repeat(40)), "kind": "a"}), "`url` is too long"),
            (json!({"url": 7, "kind": "a"}), "`url` has to be a text"),
            (json!({"url": "https://a.example", "kind": secret}), "`kind` has to be one of \"a\", \"b\""),
            (json!({"url": "https://a.example", "kind": "a", "count": 1.5}), "`count` has to be a whole number"),
            (json!({"url": "https://a.example", "kind": "a", "quiet": "yes"}), "`quiet` has to be true or false"),
            (json!({"url": "https://a.example", "kind": "a", "token": secret}), "`token` is a secret"),
            (json!({"url": "https://a.example", "kind": "a", "inner": {"y": 1}}), "`inner.x` is missing; `inner.y` has to be a text"),
            (json!({"url": "https://a.example", "kind": "a", "colour": secret}), "`colour` is no setting of it"),
            (json!([secret]), "`the whole` has to be an object"),
        ] {
            let said = schema().complete(&settings).unwrap_err();
            assert!(said.contains(words) && !said.contains(secret), "{settings}: {said}");
        }
    }

    #[test]
    fn schemas_that_promise_what_nobody_keeps_are_refused() {
        for (schema, words) in [
            (json!({"type": "object", "properties": {"a": {"pattern": "^x"}}}), "`a` uses the keyword `pattern`"),
            (json!({"type": "object", "oneOf": []}), "`oneOf`"),
            (json!({"type": "string"}), "type `object`"),
            (json!({}), "type `object`"),
            (json!([]), "JSON Schema object"),
            (json!({"type": ["object", "null"]}), "`type`"),
            (json!({"type": "object", "properties": {"a": {"type": "array"}}}), "`type` of `a`"),
            (json!({"type": "object", "properties": {"a": {"format": "email"}}}), "`format` of `a`"),
            (json!({"type": "object", "additionalProperties": {"type": "string"}}), "`additionalProperties`"),
            (json!({"type": "object", "required": ["a"]}), "requires `a`"),
            (json!({"type": "object", "properties": {"a": {"enum": []}}}), "`enum` of `a`"),
            (json!({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}), "default of `a`"),
            (json!({"type": "object", "properties": {"a": {"writeOnly": true, "default": "x"}}}), "default of `a`"),
        ] {
            let said = serde_json::from_value::<Schema>(schema.clone()).unwrap_err().to_string();
            assert!(said.contains(words), "{schema}: {said}");
        }
        let mut deep = json!({"type": "object"});
        for _ in 0..20 {
            deep = json!({"type": "object", "properties": {"a": deep}});
        }
        assert!(serde_json::from_value::<Schema>(deep).unwrap_err().to_string().contains("too deep"));
    }
}
