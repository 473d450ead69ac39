//! One row as an operation of the document.

use std::collections::BTreeMap;

use hyper::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::shape::{Answered, Shape};
use super::{example, guide, problems};
use crate::api::endpoint::{Access, Route};
use crate::api::error::Problem;

/// The operation. `name` differs from the row's when the row is another's alias.
pub(super) fn operation(route: &Route, shape: &Shape, name: &str, alias_of: Option<&str>, components: &Map<String, Value>) -> Value {
    let mut operation = json!({
        "operationId": name,
        "summary": route.summary,
        "description": description(route, alias_of),
        "tags": [guide::tag_of(route.path).unwrap_or_default()],
        "parameters": parameters(route, shape),
        "responses": responses(route, shape, components),
        "security": match route.access {
            Access::Public => json!([]),
            Access::Needs(_) => json!([{"bearer": []}, {"session": []}]),
        },
    });
    if let Access::Needs(permission) = route.access {
        let (role, scope) = permission.needs();
        operation["x-required-role"] = role.as_str().into();
        operation["x-required-scope"] = scope.map_or(Value::Null, |scope| scope.as_str().into());
    }
    if route.deprecation.is_some() {
        operation["deprecated"] = true.into();
    }
    if let Some(body) = &shape.body {
        let schema = Value::Object(body.schema.clone());
        let mut content = json!({"schema": schema});
        if body.media_type == "application/json" {
            content["example"] = example::of_request(&schema, components);
        }
        operation["requestBody"] = json!({"required": body.is_required, "content": {body.media_type: content}});
    }
    operation
}

fn description(route: &Route, alias_of: Option<&str>) -> String {
    let mut text = match alias_of {
        Some(path) => format!("The same as `{path}`: the two spellings are served by the same code."),
        None => guide::text_of(route.operation_id).unwrap_or_default().to_owned(),
    };
    if let Access::Needs(permission) = route.access {
        let (role, scope) = permission.needs();
        let scope = scope.map_or_else(|| "a token of any scope".to_owned(), |scope| format!("a token with the scope `{}`", scope.as_str()));
        text.push_str(&format!("\n\nNeeds the role `{}` or a higher one; scripts need {scope}.", role.as_str()));
    } else {
        text.push_str("\n\nNeeds no token.");
    }
    text
}

fn parameters(route: &Route, shape: &Shape) -> Vec<Value> {
    let names = route.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    let in_path = names.zip(&shape.path).map(|(name, schema)| {
        let mut schema = schema.clone();
        let own = schema.remove("description").and_then(|text| text.as_str().map(str::to_owned));
        let known = guide::path_parameter(name);
        if let Some((_, example)) = known.filter(|_| !schema.contains_key("examples")) {
            schema.insert("examples".into(), json!([example]));
        }
        let description = own.or_else(|| known.map(|(text, _)| text.to_owned())).unwrap_or_default();
        json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema})
    });
    let in_query = shape.query.iter().map(|parameter| {
        let mut described = json!({
            "name": parameter.name,
            "in": "query",
            "required": parameter.is_required,
            "description": parameter.description,
            "schema": parameter.schema,
        });
        if !parameter.is_required {
            // It counts as absent.
            described["allowEmptyValue"] = true.into();
        }
        described
    });
    let has = |status: StatusCode| shape.answers.iter().any(|answer| answer.status == status);
    let headers = [
        ("IfNoneMatch", route.method == Method::GET && has(StatusCode::NOT_MODIFIED)),
        ("Range", has(StatusCode::PARTIAL_CONTENT)),
        ("LastEventId", shape.query.iter().any(|parameter| parameter.name == "after") && route.is_stream),
        ("Ticket", route.is_stream),
        ("IfMatch", route.is_conditional),
        ("IdempotencyKey", route.is_idempotent),
        ("Prefer", shape.headers.is_empty() && shape.body.as_ref().is_some_and(|body| body.media_type == "application/json")),
    ];
    let headers = headers.into_iter().filter(|(_, is_taken)| *is_taken);
    let in_headers = headers
        .map(|(name, _)| name)
        .chain(shape.headers.iter().copied())
        .map(|name| json!({"$ref": format!("#/components/parameters/{name}")}));
    in_path.chain(in_query).chain(in_headers).collect()
}

fn responses(route: &Route, shape: &Shape, components: &Map<String, Value>) -> Value {
    let mut responses: BTreeMap<String, Value> = BTreeMap::new();
    for answer in &shape.answers {
        responses.insert(answer.status.as_u16().to_string(), success(route, answer, components));
    }
    let mut failures: BTreeMap<u16, Vec<Problem>> = BTreeMap::new();
    for problem in problems::of(route, shape) {
        failures.entry(problem.status().as_u16()).or_default().push(problem);
    }
    for (status, problems) in failures {
        let failure = failure(&problems);
        match responses.get_mut(&status.to_string()) {
            None => drop(responses.insert(status.to_string(), failure)),
            // A status that is an answer and a problem (not ready, or not able to say): one body or the other.
            Some(answer) => {
                let schema = answer.pointer("/content/application~1json/schema").cloned().unwrap_or_default();
                answer["content"]["application/json"] = json!({"schema": {"anyOf": [schema, {"$ref": "#/components/schemas/Error"}]}});
                let text = format!(
                    "{}\n{}",
                    answer["description"].as_str().unwrap_or_default(),
                    failure["description"].as_str().unwrap_or_default()
                );
                answer["description"] = text.into();
            }
        }
    }
    json!(responses)
}

fn success(route: &Route, answer: &Answered, components: &Map<String, Value>) -> Value {
    let text = match answer.status {
        StatusCode::SWITCHING_PROTOCOLS => "The connection speaks WebSocket from here on.",
        StatusCode::OK => "What was asked for.",
        StatusCode::CREATED => "It was made, and is on disk; `Location` says where it is.",
        StatusCode::ACCEPTED => "It was accepted, and goes on after this answer.",
        StatusCode::NO_CONTENT => "Done; there is nothing to say.",
        StatusCode::PARTIAL_CONTENT => "The bytes that `Range` asked for.",
        StatusCode::NOT_MODIFIED => "You have it already: `If-None-Match` names what would be sent.",
        StatusCode::SERVICE_UNAVAILABLE => "Not now; the body says why.",
        _ => "",
    };
    let text = if route.operation_id == "setUp" { "The organization and its admin exist now; the admin is signed in." } else { text };
    let mut success = json!({"description": text, "headers": headers(&answer.headers)});
    if let Some((media_type, schema)) = &answer.content {
        let mut content = json!({"schema": schema});
        if *media_type == "application/json" {
            content["example"] = example::of_answer(schema, components);
        }
        success["content"] = json!({*media_type: content});
    }
    success
}

fn failure(problems: &[Problem]) -> Value {
    let sentences: Vec<String> = problems.iter().map(|problem| format!("- `{}`: {}", problem.code(), problem.text())).collect();
    let examples: Map<String, Value> = problems
        .iter()
        .map(|problem| (problem.code().to_owned(), json!({"$ref": format!("#/components/examples/{}", problem.code())})))
        .collect();
    let own: &[(&str, bool)] = match problems.first().map(|problem| problem.status()) {
        Some(StatusCode::UNAUTHORIZED) => &[("WWW-Authenticate", true)],
        Some(StatusCode::TOO_MANY_REQUESTS) => &[("Retry-After", true)],
        Some(StatusCode::SERVICE_UNAVAILABLE | StatusCode::CONFLICT) => &[("Retry-After", false)],
        Some(StatusCode::UPGRADE_REQUIRED) => &[("Upgrade", true), ("Sec-WebSocket-Version", true)],
        Some(StatusCode::RANGE_NOT_SATISFIABLE) => &[("Content-Range", true)],
        _ => &[],
    };
    json!({
        "description": sentences.join("\n"),
        "headers": headers(own),
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}, "examples": examples}},
    })
}

/// Those of every answer, and some more. Limits are told unless they are off. One that is not always there is another component: `required` is a part of it.
fn headers(own: &[(&str, bool)]) -> Value {
    let always = [("X-Request-Id", true), ("API-Version", true), ("RateLimit-Policy", false), ("RateLimit", false)];
    let all = always.iter().chain(own);
    let of = |(name, is_always): &(&str, bool)| {
        let reference = if *is_always { (*name).to_owned() } else { format!("{name}-sometimes") };
        ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{reference}")}))
    };
    Value::Object(all.map(of).collect())
}
