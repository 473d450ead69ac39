//! Samples: a call as one types it, and JSON with its parts told apart.

use serde_json::Value;

use super::{escaped, items, text};

/// A call of an operation with curl, as HTML.
pub(super) fn call(method: &str, path: &str, operation: &Value, parameters: &[&Value]) -> String {
    let example = |parameter: &Value| {
        let schema = &parameter["schema"];
        let value = [&schema["examples"][0], &schema["enum"][0], &schema["default"]].into_iter().find(|value| !value.is_null());
        value.map_or_else(
            || format!("<{}>", text(&parameter["name"])),
            |value| value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        )
    };
    let of = |place: &'static str| parameters.iter().filter(move |parameter| parameter["in"] == place && parameter["required"] == true);
    let path =
        of("path").fold(path.to_owned(), |path, parameter| path.replace(&format!("{{{}}}", text(&parameter["name"])), &example(parameter)));
    let query: Vec<String> = of("query").map(|parameter| format!("{}={}", text(&parameter["name"]), example(parameter))).collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let method = if method == "get" { String::new() } else { format!("-X {} ", method.to_uppercase()) };
    let mut lines = vec![format!("curl {method}\"$COOKHOUSE/v1{path}{query}\"")];
    if items(&operation["security"]).next().is_some() {
        lines.push("-H \"Authorization: Bearer $TOKEN\"".to_owned());
    }
    lines.extend(of("header").map(|parameter| format!("-H \"{}: {}\"", text(&parameter["name"]), example(parameter))));
    let body = &operation["requestBody"]["content"]["application/json"]["example"];
    if !body.is_null() {
        lines.push("-H \"Content-Type: application/json\"".to_owned());
        // An apostrophe ends what the shell takes as it is.
        lines.push(format!("-d '{}'", serde_json::to_string_pretty(body).unwrap_or_default().replace('\'', "'\\''")));
    }
    escaped(&lines.join(" \\\n  "))
}

/// JSON as HTML: names, texts and the rest in colours of their own.
pub(super) fn json(value: &Value) -> String {
    let mut html = String::new();
    write(value, 0, &mut html);
    html
}

fn write(value: &Value, depth: usize, html: &mut String) {
    let (indent, outdent) = ("  ".repeat(depth + 1), "  ".repeat(depth));
    let quoted = |text: &str| escaped(&Value::from(text).to_string());
    match value {
        Value::Object(object) if !object.is_empty() => {
            html.push_str("{\n");
            for (index, (name, value)) in object.iter().enumerate() {
                html.push_str(&format!("{indent}<span class=\"n\">{}</span>: ", quoted(name)));
                write(value, depth + 1, html);
                html.push_str(if index + 1 < object.len() { ",\n" } else { "\n" });
            }
            html.push_str(&format!("{outdent}}}"));
        }
        Value::Array(list) if !list.is_empty() => {
            html.push_str("[\n");
            for (index, value) in list.iter().enumerate() {
                html.push_str(&indent);
                write(value, depth + 1, html);
                html.push_str(if index + 1 < list.len() { ",\n" } else { "\n" });
            }
            html.push_str(&format!("{outdent}]"));
        }
        Value::String(text) => html.push_str(&format!("<span class=\"s\">{}</span>", quoted(text))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            html.push_str(&format!("<span class=\"v\">{value}</span>"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_told_apart_and_cannot_become_markup() {
        assert_eq!(
            json(&json!({"a": "<b>"})),
            "{\n  <span class=\"n\">&quot;a&quot;</span>: <span class=\"s\">&quot;&lt;b&gt;&quot;</span>\n}"
        );
        assert_eq!(json(&json!([null, {}])), "[\n  <span class=\"v\">null</span>,\n  <span class=\"v\">{}</span>\n]");
    }

    #[test]
    fn a_call_has_what_has_to_be_there() {
        let id = json!({"name": "id", "in": "path", "required": true, "schema": {"examples": ["01k7"]}});
        let not_needed = json!({"name": "limit", "in": "query", "required": false, "schema": {}});
        let operation = json!({
            "security": [{"bearer": []}],
            "requestBody": {"content": {"application/json": {"example": {"name": "Cook's"}}}},
        });
        let call = call("patch", "/things/{id}", &operation, &[&id, &not_needed]);
        assert!(
            call.starts_with("curl -X PATCH &quot;$COOKHOUSE/v1/things/01k7&quot; \\\n  -H &quot;Authorization: Bearer $TOKEN&quot;"),
            "{call}"
        );
        assert!(call.contains("Cook'\\''s"), "{call}");
    }
}
