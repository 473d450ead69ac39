//! Examples, made of the schemas: from what the fields give as their own examples.

use serde_json::{Map, Value, json};

/// Deeper than every resource; a schema that holds itself ends somewhere.
const DEEPEST: usize = 32;

/// An answer as it may look. Every field is there.
pub(super) fn of_answer(schema: &Value, components: &Map<String, Value>) -> Value {
    Maker { components, is_request: false }.make(schema, 0)
}

/// A request as people would send it: what has to be there, and what has an example of its own.
pub(super) fn of_request(schema: &Value, components: &Map<String, Value>) -> Value {
    Maker { components, is_request: true }.make(schema, 0)
}

struct Maker<'a> {
    components: &'a Map<String, Value>,
    is_request: bool,
}

impl Maker<'_> {
    fn make(&self, schema: &Value, depth: usize) -> Value {
        if let Some(example) = schema.pointer("/examples/0").or_else(|| schema.get("default")).or_else(|| schema.get("const")) {
            return example.clone();
        }
        if let Some(first) = schema.pointer("/enum/0") {
            return first.clone();
        }
        if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
            return self.components.get(name).filter(|_| depth < DEEPEST).map_or(Value::Null, |schema| self.make(schema, depth + 1));
        }
        if let Some(first) = schema.pointer("/anyOf/0").or_else(|| schema.pointer("/oneOf/0")) {
            return self.make(first, depth + 1);
        }
        match kind_of(schema) {
            "object" => {
                let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                let properties = schema["properties"].as_object().into_iter().flatten();
                let shown = properties
                    .filter(|(name, property)| !self.is_request || required.contains(&name.as_str()) || property.get("examples").is_some());
                Value::Object(shown.map(|(name, property)| (name.clone(), self.make(property, depth + 1))).collect())
            }
            "array" => schema.get("items").filter(|_| depth < DEEPEST).map_or(json!([]), |items| json!([self.make(items, depth + 1)])),
            "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(0)),
            "boolean" => json!(false),
            "null" => Value::Null,
            // What may be null and has no example says more as null than as empty text.
            _ if is_nullable(schema) => Value::Null,
            _ => json!("..."),
        }
    }
}

fn kind_of(schema: &Value) -> &str {
    let kind = &schema["type"];
    kind.as_str().or_else(|| kind.get(0)?.as_str()).unwrap_or("string")
}

fn is_nullable(schema: &Value) -> bool {
    schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "null"))
}
