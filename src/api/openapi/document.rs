//! The whole document.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::operation::operation;
use super::{generator, guide};
use crate::api::endpoint::Route;
use crate::api::error::{Envelope, Problem};
use crate::app;

/// The document of these rows. What the configuration adds (platforms) is a part of it.
pub fn document(routes: &[Route], settings: &app::Settings) -> Value {
    let mut generator = generator();
    generator.subschema_for::<Envelope<'static>>();
    let shapes: Vec<_> = routes.iter().map(|route| (route.shape)(&mut generator, settings)).collect();
    let schemas = generator.take_definitions(true);
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for (route, shape) in routes.iter().zip(&shapes) {
        // The second row of a name is the other spelling of the first.
        let alias_of = seen.get(route.operation_id).copied();
        seen.entry(route.operation_id).or_insert(route.path);
        let name = if alias_of.is_some() { format!("{}Alias", route.operation_id) } else { route.operation_id.to_owned() };
        let operation = operation(route, shape, &name, alias_of, &schemas);
        paths.entry(route.path).or_default().insert(route.method.as_str().to_ascii_lowercase(), operation);
    }
    let tags: Vec<Value> = guide::TAGS.iter().map(|(name, text, _)| json!({"name": name, "description": text})).collect();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Cookhouse",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Build Unreal Engine projects from source control and keep what comes out",
            "description": guide::INTRODUCTION,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [
            {"url": "/v1", "description": "This server, version 1 of the API"},
            {"url": "/", "description": "The same without the version"},
        ],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": guide::header_parameters(),
            "headers": guide::headers(),
            "examples": examples(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": guide::BEARER},
                "session": {"type": "apiKey", "in": "cookie", "name": "session", "description": guide::SESSION},
            },
        },
    });
    tidy(&mut document);
    document
}

/// One example of the envelope for each code.
fn examples() -> Map<String, Value> {
    let example = |problem: &Problem| {
        let mut error = json!({"code": problem.code(), "message": problem.text(), "requestId": "01k7f9zq4v6m2x8c3b5n0t7h"});
        if *problem == Problem::ValidationFailed {
            error["details"] = json!([{
                "field": "buildType",
                "code": "invalid_value",
                "message": "is none of the allowed values",
                "allowed": crate::model::build_setting::BUILD_TYPES,
            }]);
        }
        (problem.code().to_owned(), json!({"summary": problem.text(), "value": {"error": error}}))
    };
    Problem::ALL.iter().map(example).collect()
}

/// Words with a sentence each come as alternatives, which generators of clients make a type of each of; as one list of words
/// they are understood by all.
fn gather_words(object: &mut Map<String, Value>) {
    let Some(alternatives) = object.get("oneOf").and_then(Value::as_array) else { return };
    let words: Option<Vec<Value>> = alternatives.iter().map(|one| one.get("const").filter(|word| word.is_string()).cloned()).collect();
    let Some(words) = words else { return };
    let sentence = |one: &Value| Some(format!("- `{}`: {}", one["const"].as_str()?, one["description"].as_str()?));
    let sentences: Vec<String> = alternatives.iter().filter_map(sentence).collect();
    let about = object.get("description").and_then(Value::as_str).unwrap_or_default();
    let about = format!("{about}\n\n{}", sentences.join("\n"));
    object.remove("oneOf");
    object.insert("type".into(), "string".into());
    object.insert("enum".into(), words.into());
    object.insert("description".into(), about.trim().into());
}

/// Takes out what only Rust's readers understand: links between items, widths of unsigned numbers.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(object) => {
            gather_words(object);
            if object.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
                object.remove("format");
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.replace("[`", "`").replace("`]", "`");
            }
            object.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
