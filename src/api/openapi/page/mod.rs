//! The document as a page to read: made here, without scripts of others, and readable without any script at all.

mod sample;

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");
/// How deep the fields of fields are shown; deeper ones are named by their schema.
const DEEPEST: usize = 6;
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The page, and the policy that lets it do nothing but show itself.
pub fn html(document: &Value) -> (String, String) {
    let mut page = Page { document, out: String::with_capacity(512 * 1024) };
    page.write();
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    (page.out, policy)
}

/// Fields of what is sent may be left out; those of what comes back are there.
#[derive(Clone, Copy)]
enum Side {
    Request,
    Answer,
}

struct Page<'a> {
    document: &'a Value,
    out: String,
}

impl<'a> Page<'a> {
    fn write(&mut self) {
        let info = &self.document["info"];
        self.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">");
        self.raw(&format!("<title>{} API</title><style>{STYLE}</style></head><body>", escaped(text(&info["title"]))));
        self.raw("<a class=\"skip\" href=\"#content\">Skip to the content</a>");
        self.navigation();
        self.raw("<main id=\"content\" tabindex=\"-1\"><header class=\"top\">");
        self.raw(&format!("<h1>{} API <small>{}</small></h1>", escaped(text(&info["title"])), escaped(text(&info["version"]))));
        self.raw(&format!("<p class=\"lead\">{}.</p>", escaped(text(&info["summary"]))));
        let count = self.document["paths"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(_, methods)| methods.as_object())
            .map(serde_json::Map::len);
        self.raw(&format!(
            "<p>{} operations, OpenAPI {}. For programs and generators of clients: <a href=\"openapi.json\">openapi.json</a></p></header><section class=\"intro\">",
            count.sum::<usize>(),
            escaped(text(&self.document["openapi"])),
        ));
        self.markdown(text(&info["description"]), 2);
        self.raw("</section>");
        for tag in items(&self.document["tags"]) {
            self.section(tag);
        }
        self.schemas();
        self.raw(&format!("</main><script>{SCRIPT}</script></body></html>\n"));
    }

    fn raw(&mut self, html: &str) {
        self.out.push_str(html);
    }

    /// The operations of a section, by path.
    fn operations(&self, tag: &str) -> Vec<(&'a str, &'a str, &'a Value)> {
        let paths = self.document["paths"].as_object().into_iter().flatten();
        let all =
            paths.flat_map(|(path, methods)| METHODS.iter().filter_map(move |method| Some((*method, path.as_str(), methods.get(method)?))));
        all.filter(|(_, _, operation)| operation["tags"][0] == tag).collect()
    }

    fn navigation(&mut self) {
        self.raw("<nav aria-label=\"Operations\"><div class=\"bar\"><p class=\"brand\">Cookhouse</p><button id=\"theme\" type=\"button\" hidden></button></div>");
        self.raw("<label class=\"filter\" hidden><span>Search</span> <kbd>/</kbd><input type=\"search\" id=\"filter\" autocomplete=\"off\" spellcheck=\"false\" placeholder=\"trigger, 409, cursor ...\"></label><p id=\"count\" role=\"status\"></p>");
        for tag in items(&self.document["tags"]) {
            let name = text(&tag["name"]);
            let operations = self.operations(name);
            if operations.is_empty() {
                continue;
            }
            self.raw(&format!("<div class=\"group\"><a class=\"group-name\" href=\"#{}\">{}</a><ul>", anchor(name), escaped(name)));
            for (method, path, operation) in operations {
                let (id, summary) = (text(&operation["operationId"]), escaped(text(&operation["summary"])));
                let path = escaped(path);
                self.raw(&format!("<li data-for=\"{id}\"><a href=\"#{id}\" title=\"{path}\"><b class=\"method {method}\">{}</b> <span>{summary}</span></a></li>", short(method)));
            }
            self.raw("</ul></div>");
        }
        self.raw("<div class=\"group\"><a class=\"group-name\" href=\"#schemas\">Schemas</a></div>");
        self.raw("<p class=\"keys\" hidden><kbd>/</kbd> search <kbd>Enter</kbd> first hit <kbd>j</kbd> <kbd>k</kbd> next, previous <kbd>t</kbd> light, dark</p></nav>");
    }

    fn section(&mut self, tag: &'a Value) {
        let name = text(&tag["name"]);
        let operations = self.operations(name);
        if operations.is_empty() {
            return;
        }
        self.raw(&format!("<section class=\"tag\"><h2 id=\"{}\">{}</h2>", anchor(name), escaped(name)));
        self.markdown(text(&tag["description"]), 3);
        for (method, path, operation) in operations {
            self.operation(method, path, operation);
        }
        self.raw("</section>");
    }

    fn operation(&mut self, method: &str, path: &str, operation: &'a Value) {
        let (id, summary) = (text(&operation["operationId"]), escaped(text(&operation["summary"])));
        let spelled = escaped(path).replace('{', "<i>{").replace('}', "}</i>");
        self.raw(&format!("<article class=\"operation\" id=\"{id}\" tabindex=\"-1\"><h3><a href=\"#{id}\">{summary}</a></h3>"));
        self.raw(&format!(
            "<p class=\"line\"><b class=\"method {method}\">{method}</b> <code>{spelled}</code> <span class=\"id\">{id}</span></p>"
        ));
        self.badges(operation);
        self.raw("<div class=\"columns\"><div class=\"words\">");
        self.markdown(text(&operation["description"]), 4);
        let parameters: Vec<&'a Value> = items(&operation["parameters"]).map(|parameter| self.resolved(parameter)).collect();
        self.parameters(&parameters);
        for (media_type, content) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
            let is_required = operation["requestBody"]["required"] == true;
            let media_type = escaped(media_type);
            self.raw(&format!("<h4>Body <small>{media_type}{}</small></h4>", if is_required { "" } else { ", may be left out" }));
            self.fields(&content["schema"], Side::Request, 0);
        }
        self.answers(operation);
        self.raw("</div><div class=\"samples\">");
        self.sample("Request", &sample::call(method, path, operation, &parameters));
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            let example = &response["content"]["application/json"]["example"];
            if status.starts_with('2') && !example.is_null() {
                self.sample(&format!("Answer {status}"), &sample::json(example));
            }
        }
        self.raw("</div></div></article>");
    }

    /// Who may, and what else holds for the whole operation.
    fn badges(&mut self, operation: &'a Value) {
        let mut badges = Vec::new();
        match (operation["x-required-role"].as_str(), operation["x-required-scope"].as_str()) {
            (None, _) => badges.push(("open", "no token needed".to_owned())),
            (Some(role), scope) => {
                badges.push(("role", format!("role <b>{}</b>", escaped(role))));
                badges.push(("role", scope.map_or_else(|| "any scope".to_owned(), |scope| format!("scope <b>{}</b>", escaped(scope)))));
            }
        }
        let names: Vec<&str> = items(&operation["parameters"]).map(|parameter| text(&self.resolved(parameter)["name"])).collect();
        badges.extend(names.contains(&"Idempotency-Key").then(|| ("trait", "safe to repeat".to_owned())));
        badges.extend(names.contains(&"If-Match").then(|| ("trait", "If-Match".to_owned())));
        badges.extend(names.contains(&"cursor").then(|| ("trait", "pages".to_owned())));
        badges.extend(names.contains(&"ticket").then(|| ("trait", "stream".to_owned())));
        badges.extend((operation["deprecated"] == true).then(|| ("going", "deprecated".to_owned())));
        let badges: Vec<String> = badges.iter().map(|(class, text)| format!("<li class=\"{class}\">{text}</li>")).collect();
        self.raw(&format!("<ul class=\"badges\" aria-label=\"In short\">{}</ul>", badges.concat()));
    }

    fn sample(&mut self, title: &str, html: &str) {
        self.raw(&format!(
            "<figure class=\"sample\"><figcaption>{title}</figcaption><pre tabindex=\"0\" aria-label=\"{title}\"><code>{html}</code></pre></figure>"
        ));
    }

    fn parameters(&mut self, parameters: &[&'a Value]) {
        if parameters.is_empty() {
            return;
        }
        self.raw("<h4>Parameters</h4><dl class=\"fields\">");
        for parameter in parameters {
            let place = text(&parameter["in"]);
            let required = if parameter["required"] == true { " <em class=\"required\">required</em>" } else { "" };
            let name = escaped(text(&parameter["name"]));
            let kind = self.kind(&parameter["schema"]);
            self.raw(&format!("<dt><code>{name}</code> <span class=\"kind\">{kind} in {place}</span>{required}</dt><dd>"));
            self.markdown(text(&parameter["description"]), 5);
            self.limits(&parameter["schema"]);
            self.raw("</dd>");
        }
        self.raw("</dl>");
    }

    fn answers(&mut self, operation: &'a Value) {
        self.raw("<h4>Answers</h4><div class=\"answers\">");
        let mut failures = Vec::new();
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            let codes = response["content"]["application/json"]["examples"].as_object();
            let is_failure = status.starts_with(['4', '5']);
            if !is_failure || codes.is_none() {
                self.success(status, response, is_failure);
            }
            let codes = codes.into_iter().flatten().map(|(code, _)| code.as_str());
            failures.extend(codes.map(|code| (status.as_str(), code, &self.document["components"]["examples"][code]["summary"])));
        }
        let mut statuses: Vec<&str> = failures.iter().map(|(status, _, _)| *status).collect();
        statuses.dedup();
        self.raw(&format!("<details class=\"bad\"><summary><b>Errors</b> {}</summary><table>", statuses.join(" ")));
        self.raw("<thead><tr><th>Status</th><th>Code</th><th>What it says</th></tr></thead><tbody>");
        for (status, code, sentence) in failures {
            self.raw(&format!("<tr><td>{status}</td><td><code>{code}</code></td><td>{}</td></tr>", inline(text(sentence))));
        }
        self.raw("</tbody></table></details></div>");
    }

    fn success(&mut self, status: &str, response: &'a Value, is_failure: bool) {
        let first = text(&response["description"]).lines().next().unwrap_or_default();
        let class = if is_failure { "bad" } else { "good" };
        self.raw(&format!("<details class=\"{class}\"><summary><b>{status}</b> {}</summary>", inline(first)));
        let headers: Vec<String> =
            response["headers"].as_object().into_iter().flatten().map(|(name, _)| format!("<code>{}</code>", escaped(name))).collect();
        self.raw(&format!("<p class=\"headers\">Headers: {}</p>", headers.join(" ")));
        for (media_type, content) in response["content"].as_object().into_iter().flatten() {
            let data = &content["schema"]["properties"]["data"]["contentSchema"];
            let named = if data.is_null() { &content["schema"] } else { data };
            let kind = named["$ref"].as_str().map(|_| format!(", {}", self.kind(named))).unwrap_or_default();
            self.raw(&format!("<p class=\"media\">{}{kind}</p>", escaped(media_type)));
            self.fields(&content["schema"], Side::Answer, 0);
        }
        self.raw("</details>");
    }

    fn schemas(&mut self) {
        self.raw("<section class=\"tag\"><h2 id=\"schemas\">Schemas</h2><p>The resources that answers are made of.</p>");
        for (name, schema) in self.document["components"]["schemas"].as_object().into_iter().flatten() {
            self.raw(&format!("<details class=\"schema\" id=\"schema-{0}\"><summary><code>{0}</code></summary>", escaped(name)));
            self.markdown(text(&schema["description"]), 4);
            if schema["anyOf"].is_array() {
                let kind = self.kind(schema);
                self.raw(&format!("<p class=\"limits\">{kind}</p>"));
            }
            self.fields(schema, Side::Answer, 0);
            self.limits(schema);
            self.raw("</details>");
        }
        self.raw("</section>");
    }

    /// The fields of an object, or of the objects in a list.
    fn fields(&mut self, schema: &'a Value, side: Side, depth: usize) {
        let schema = self.object_in(schema);
        let alternatives: Vec<&Value> = items(&schema["oneOf"]).filter(|one| one["properties"].is_object()).collect();
        if let Some(properties) = schema["properties"].as_object() {
            self.list(schema, properties, side, depth);
        }
        for (number, one) in alternatives.into_iter().enumerate() {
            self.raw(&format!("<p class=\"limits\">{}</p>", if number == 0 { "Either:" } else { "Or:" }));
            self.markdown(text(&one["description"]), 5);
            self.fields(one, side, depth + 1);
        }
    }

    fn list(&mut self, schema: &'a Value, properties: &'a serde_json::Map<String, Value>, side: Side, depth: usize) {
        let required: Vec<&str> = items(&schema["required"]).filter_map(Value::as_str).collect();
        let first = required.iter().filter_map(|name| properties.get_key_value(*name));
        let rest = properties.iter().filter(|(name, _)| !required.contains(&name.as_str()));
        self.raw("<dl class=\"fields\">");
        for (name, property) in first.chain(rest) {
            let mark = match (side, required.contains(&name.as_str())) {
                (Side::Request, true) => " <em class=\"required\">required</em>",
                (Side::Answer, false) => " <em class=\"required\">not always there</em>",
                (Side::Request, false) | (Side::Answer, true) => "",
            };
            let kind = self.kind(property);
            self.raw(&format!("<dt><code>{}</code> <span class=\"kind\">{kind}</span>{mark}</dt><dd>", escaped(name)));
            let about = if property["description"].is_string() { property } else { self.resolved(property) };
            self.markdown(text(&about["description"]), 5);
            self.limits(property);
            if depth < DEEPEST && self.object_in(property)["properties"].is_object() {
                self.raw("<details class=\"inner\"><summary>Fields</summary>");
                self.fields(property, side, depth + 1);
                self.raw("</details>");
            }
            self.raw("</dd>");
        }
        self.raw("</dl>");
    }

    fn resolved(&self, value: &'a Value) -> &'a Value {
        let path = value["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
        path.and_then(|path| self.document.pointer(path)).unwrap_or(value)
    }

    /// Behind references, nullability and lists: the object that is meant.
    fn object_in(&self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        for _ in 0..4 {
            schema = self.resolved(schema);
            schema = match (schema["anyOf"].as_array().map(Vec::as_slice), &schema["items"]) {
                (Some([one, null] | [null, one]), _) if null["type"] == "null" => one,
                (Some(_), _) | (None, Value::Null) => return schema,
                (None, items) => items,
            };
        }
        schema
    }

    fn kind(&self, schema: &'a Value) -> String {
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            return format!("<a href=\"#schema-{0}\">{0}</a>", escaped(name));
        }
        if let Some(any) = schema["anyOf"].as_array() {
            return any.iter().map(|schema| self.kind(schema)).collect::<Vec<_>>().join(" or ");
        }
        if schema["type"] == "array" || schema["type"][0] == "array" {
            let null = if schema["type"].is_array() { " or null" } else { "" };
            return format!("list of {}{null}", self.kind(&schema["items"]));
        }
        let kinds: Vec<&str> = match &schema["type"] {
            Value::String(kind) => vec![kind.as_str()],
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => vec!["anything"],
        };
        escaped(&kinds.join(" or "))
    }

    fn limits(&mut self, schema: &Value) {
        let mut limits = Vec::new();
        let mut words = schema["enum"].as_array().cloned().unwrap_or_default();
        words.extend([&schema["const"]].into_iter().chain(items(&schema["oneOf"]).map(|one| &one["const"])).cloned());
        let words: Vec<String> = words
            .iter()
            .filter(|word| !word.is_null())
            .map(|word| format!("<code>{}</code>", escaped(word.as_str().unwrap_or_default())))
            .collect();
        if !words.is_empty() {
            limits.push(format!("One of {}", words.join(" ")));
        }
        let lengths = (schema["minLength"].as_u64(), schema["maxLength"].as_u64());
        let is_exact = lengths.0.is_some() && lengths.0 == lengths.1;
        limits.extend(lengths.0.filter(|_| is_exact).map(|length| format!("{length} characters")));
        for (word, before, after) in [
            ("minimum", "at least", ""),
            ("maximum", "at most", ""),
            ("minLength", "at least", " characters"),
            ("maxLength", "at most", " characters"),
            ("maxItems", "at most", " items"),
        ] {
            if let Some(number) = schema[word].as_u64().filter(|_| !is_exact) {
                limits.push(format!("{before} {number}{after}"));
            }
        }
        if !schema["default"].is_null() {
            limits.push(format!("default <code>{}</code>", escaped(&schema["default"].to_string())));
        }
        if !limits.is_empty() {
            self.raw(&format!("<p class=\"limits\">{}</p>", limits.join(", ")));
        }
    }

    /// The little Markdown that the guide uses: paragraphs, headings, lists, code, bold.
    fn markdown(&mut self, source: &str, level: usize) {
        for block in source.split("\n\n").filter(|block| !block.trim().is_empty()) {
            let numbered = block.lines().all(|line| line.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok()));
            if let Some(heading) = block.strip_prefix("## ") {
                let _ = write!(self.out, "<h{level}>{}</h{level}>", inline(heading));
            } else if block.starts_with("- ") || numbered {
                let tag = if numbered { "ol" } else { "ul" };
                let items = block
                    .lines()
                    .map(|line| line.trim_start_matches("- ").trim_start_matches(|c: char| numbered && (c.is_ascii_digit() || c == '.')));
                let items: Vec<String> = items.map(|item| format!("<li>{}</li>", inline(item.trim()))).collect();
                let _ = write!(self.out, "<{tag}>{}</{tag}>", items.concat());
            } else {
                let _ = write!(self.out, "<p>{}</p>", inline(block));
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn anchor(name: &str) -> String {
    name.to_lowercase().replace(' ', "-")
}

/// As the list of operations has it.
fn short(method: &str) -> &str {
    if method == "delete" { "del" } else { method }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Code and bold inside a line.
fn inline(line: &str) -> String {
    let mut html = String::new();
    for (index, part) in line.split('`').enumerate() {
        let part = escaped(part);
        match index % 2 {
            1 => html.push_str(&format!("<code>{part}</code>")),
            _ => {
                for (index, part) in part.split("**").enumerate() {
                    html.push_str(&if index % 2 == 1 { format!("<strong>{part}</strong>") } else { part.to_owned() });
                }
            }
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_cannot_become_markup() {
        assert_eq!(inline("a **b** `<c>` & \"d\""), "a <strong>b</strong> <code>&lt;c&gt;</code> &amp; &quot;d&quot;");
    }
}
