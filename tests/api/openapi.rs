//! The API's own description: whole, the same as the code, and true of real answers.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use cookhouse::api::{Access, openapi, routes};
use cookhouse::app::Settings;
use cookhouse::model::log::LogStream;
use cookhouse::model::{Artifact, Build, Id, Organization, Status};
use cookhouse::store::Read;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{connected, hooks, members, repository, setting, streamvc_projects, with};
use crate::support::client::Reply;
use crate::support::repositories::GOOD_TOKEN;
use crate::support::schema::failures;
use crate::support::server::{Person, TestServer};
use crate::support::stream::{EventStream, web_socket};

fn document() -> Value {
    openapi::document(&routes(), &Settings::default())
}

#[test]
fn the_document_is_the_golden_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/openapi.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&document()).unwrap());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let differing = golden.lines().zip(text.lines()).enumerate().find(|(_, (old, new))| old != new);
    let place = differing.map(|(line, (old, new))| format!("line {}:\n- {old}\n+ {new}", line + 1)).unwrap_or_default();
    assert!(golden == text, "the API changed: look at it with UPDATE=1 and `git diff tests/api/openapi.json`; {place}");
}

#[test]
fn every_row_is_an_operation_and_every_operation_is_a_row() {
    let document = document();
    let rows: BTreeSet<(String, String)> =
        routes().iter().map(|route| (route.path.to_owned(), route.method.as_str().to_lowercase())).collect();
    let paths = document["paths"].as_object().unwrap();
    let operations: BTreeSet<(String, String)> =
        paths.iter().flat_map(|(path, methods)| methods.as_object().unwrap().keys().map(|method| (path.clone(), method.clone()))).collect();
    assert_eq!(rows, operations);
    let names: Vec<&Value> =
        paths.values().flat_map(|methods| methods.as_object().unwrap().values()).map(|one| &one["operationId"]).collect();
    assert_eq!(names.iter().map(|name| name.as_str().unwrap()).collect::<BTreeSet<_>>().len(), names.len(), "two operations of one name");
}

#[test]
fn everything_is_explained() {
    let mut missing = openapi::missing(&routes());
    let document = document();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for parameter in operation["parameters"].as_array().unwrap().iter().filter(|parameter| parameter.get("$ref").is_none()) {
                if parameter["description"].as_str().is_none_or(str::is_empty) {
                    missing.push(format!(
                        "{method} {path}: say what {} is, with `.about(..)` or in PATH_PARAMETERS of the guide",
                        parameter["name"]
                    ));
                }
            }
            for content in operation["requestBody"]["content"].as_object().into_iter().flat_map(|content| content.values()) {
                explained(&content["schema"], &format!("{method} {path}"), &mut missing);
            }
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        if schema["description"].as_str().is_none() && !name.ends_with("Page") {
            missing.push(format!("{name}: say what it is in a comment on its type"));
        }
        explained(schema, name, &mut missing);
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

fn explained(schema: &Value, place: &str, missing: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if property["description"].as_str().is_none() && property.get("$ref").is_none() {
            missing.push(format!("{place}: say what the field {name} is: a comment on the field of an answer, `.about(..)` for a body"));
        }
        explained(property, &format!("{place}.{name}"), missing);
        explained(&property["items"], &format!("{place}.{name}"), missing);
    }
}

#[test]
fn examples_are_what_they_are_examples_of() {
    let document = document();
    let mut wrong = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let bodies = std::iter::once(&operation["requestBody"]).chain(operation["responses"].as_object().unwrap().values());
            for content in bodies.filter_map(|body| body.pointer("/content/application~1json")) {
                let Some(example) = content.get("example") else { continue };
                wrong.extend(failures(&document, &content["schema"], example).iter().map(|failure| format!("{method} {path}: {failure}")));
            }
        }
    }
    for example in document["components"]["examples"].as_object().unwrap().values() {
        wrong.extend(failures(&document, &json!({"$ref": "#/components/schemas/Error"}), &example["value"]));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn references_lead_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str));
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let (document, mut found) = (document(), Vec::new());
    references(&document, &mut found);
    assert!(found.len() > 200);
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

#[test]
fn what_needs_a_caller_says_so() {
    let document = document();
    for route in &routes() {
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        let is_public = operation["security"].as_array().unwrap().is_empty();
        assert_eq!(is_public, route.access == Access::Public, "{}", route.operation_id);
        assert!(operation["responses"].get("500").is_some(), "{}", route.operation_id);
        if !is_public {
            assert!(operation["responses"].get("401").is_some(), "{}", route.operation_id);
        }
    }
}

/// Decisions 2: an `ETag` on every single resource, and `If-Match` wherever one is changed or removed.
#[test]
fn single_resources_have_tags() {
    let document = document();
    // What the git host shows is not ours to count changes of.
    let rows = routes().into_iter().filter(|route| route.path.ends_with('}') && !route.path.ends_with("{installationId}"));
    let (mut shown, mut changed) = (0, 0);
    for route in rows {
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        match route.method.as_str() {
            "GET" => {
                assert!(operation["responses"]["200"]["headers"].get("ETag").is_some(), "{} has no ETag", route.operation_id);
                shown += 1;
            }
            "PATCH" | "DELETE" => {
                assert!(route.is_conditional && operation["responses"].get("412").is_some(), "{} takes no If-Match", route.operation_id);
                changed += 1;
            }
            _ => {}
        }
    }
    assert!(shown >= 8 && changed >= 10, "{shown} and {changed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_serves_it_as_a_file_and_as_a_page() {
    let server = TestServer::start().await;
    for path in ["/openapi.json", "/v1/openapi.json"] {
        let reply = server.ask("GET", path).send().await.expect(200);
        assert_eq!(reply.json(), openapi::document(&routes(), &server.app.settings));
    }
    let page = server.ask("GET", "/docs").header("Accept", "text/html").send().await.expect(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
    let html = page.text();
    for route in routes() {
        assert!(html.contains(&format!("id=\"{}\"", route.operation_id)), "{} is not on the page", route.operation_id);
    }
    // It asks no other server for anything, and nothing on it waits for a script.
    for word in ["src=", "http-equiv", "@import", "url(", " onclick", " style="] {
        assert!(!html.contains(word), "{word}");
    }
}

/// Asks, and holds the answer against the document.
struct Witness<'a> {
    server: &'a TestServer,
    document: Value,
    seen: BTreeSet<String>,
    wrong: Vec<String>,
}

impl Witness<'_> {
    /// `operation` is the row's method and path; `target` what is asked.
    async fn ask(
        &mut self,
        person: Option<&Person>,
        operation: &str,
        target: &str,
        body: Option<Value>,
        headers: &[(&str, &str)],
    ) -> Reply {
        let (method, path) = operation.split_once(' ').unwrap();
        let mut ask = headers.iter().fold(self.server.ask(method, target), |ask, (name, value)| ask.header(name, value));
        if let Some(person) = person {
            ask = ask.bearer(&person.token);
        }
        if let Some(body) = &body {
            ask = ask.json(body);
        }
        let reply = ask.send().await;
        let operation = &self.document["paths"][path][method.to_lowercase()];
        let name = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} is no operation")).to_owned();
        let at = format!("{name} {}", reply.status);
        match operation["responses"].get(reply.status.to_string()) {
            None => self.wrong.push(format!("{at} is not documented: {}", reply.text())),
            Some(response) => {
                for (header, about) in response["headers"].as_object().unwrap() {
                    let about = self.document.pointer(about["$ref"].as_str().unwrap().trim_start_matches('#')).unwrap();
                    if about["required"] == true && reply.header(header).is_none() {
                        self.wrong.push(format!("{at}: there is no header {header}"));
                    }
                }
                match response.pointer("/content/application~1json/schema") {
                    Some(schema) => {
                        let wrong = failures(&self.document, schema, &reply.json());
                        self.wrong.extend(wrong.iter().map(|failure| format!("{at} {failure}")));
                    }
                    None if response.get("content").is_none() && !reply.body.is_empty() => {
                        self.wrong.push(format!("{at}: there is a body"))
                    }
                    None => {}
                }
            }
        }
        if let (Some(body), true) = (&body, reply.status < 300) {
            let wrong = failures(&self.document, &operation["requestBody"]["content"]["application/json"]["schema"], body);
            self.wrong.extend(wrong.iter().map(|failure| format!("{name} took what is not documented: {failure}")));
        }
        if reply.status < 400 {
            self.seen.insert(name);
        }
        // What was made is where the answer says.
        if let (201, Some(location), Some(person)) = (reply.status, reply.header("location"), person) {
            let found = self.server.get(person, location).await.status;
            if found != 200 {
                self.wrong.push(format!("{at}: {location} answers {found}"));
            }
        }
        reply
    }
}

impl Witness<'_> {
    /// Notes a success that was seen otherwise than by asking for it.
    fn hold(&mut self, operation: &str, status: &str, media_type: Option<&str>, head: &str) {
        let (method, path) = operation.split_once(' ').unwrap();
        let operation = &self.document["paths"][path][method.to_lowercase()];
        let response = &operation["responses"][status];
        let documented = response["content"].as_object().and_then(|content| content.keys().next()).map(String::as_str);
        let is_so = media_type.is_none_or(|media_type| head.contains(&format!("content-type: {media_type}")));
        if response.is_null() || documented != media_type || !is_so {
            self.wrong.push(format!("{path} {status} is not documented so: {head}"));
        }
        self.seen.insert(operation["operationId"].as_str().unwrap().to_owned());
    }
}

/// Ends a build as an executor would, with an artifact and a log.
async fn complete(server: &TestServer, organization: Id<Organization>, build: &str) {
    let id = build.parse().unwrap();
    let source = server.directory.path().join("out");
    std::fs::create_dir_all(&source).unwrap();
    std::fs::write(source.join("game.pak"), "a game").unwrap();
    let staged = server.app.artifacts.package(source, id, CancellationToken::new(), |_, _| {}).await.unwrap();
    let artifact = Artifact {
        size_bytes: staged.size_bytes,
        checksum_md5: staged.md5.clone(),
        checksum_sha256: staged.sha256.clone(),
        expires_at: None,
        deleted_at: None,
        deleted_reason: None,
    };
    staged.publish().await.unwrap();
    let now = server.app.clock.now();
    let pending: Build = server.read(|snapshot| snapshot.get(organization, id)).expect("the build");
    let running = pending.moved_to(Status::Running, now).unwrap();
    let complete = Build { artifact: Some(artifact), ..running.moved_to(Status::Complete, now.plus(Duration::from_secs(5))).unwrap() };
    server.app.store.write(move |change| change.put(&complete)).await.unwrap();
    let writer = server.app.logs.writer(id).await.unwrap();
    writer.output(LogStream::Stdout, b"one\ntwo\n").await;
    writer.flush().await.unwrap();
}

/// The whole way from a repository to a download, then all of it away again; each answer is held against the document.
#[tokio::test(flavor = "multi_thread")]
async fn real_answers_are_as_documented() {
    let (server, admin) = connected().await;
    let mut witness =
        Witness { server: &server, document: openapi::document(&routes(), &server.app.settings), seen: BTreeSet::new(), wrong: Vec::new() };
    let organization = format!("/organizations/{}", admin.user.organization_id);
    let some = Some(&admin);
    for path in ["/healthz", "/version", "/openapi.json", "/docs", "/metrics", "/readyz"] {
        witness.ask(None, &format!("GET {path}"), path, None, &[]).await;
    }
    witness.ask(some, "GET /auth/me", "/auth/me", None, &[]).await.expect(200);
    witness.ask(None, "GET /auth/me", "/auth/me", None, &[]).await.expect(401);
    witness
        .ask(None, "POST /auth/login", "/auth/login", Some(json!({"email": "a@example.com", "password": "wrong"})), &[])
        .await
        .expect(401);
    let known = witness.ask(some, "GET /organizations/{id}", &organization, None, &[]).await.expect(200);
    let tag = known.header("etag").unwrap().to_owned();
    witness.ask(some, "GET /organizations/{id}", &organization, None, &[("If-None-Match", &tag)]).await.expect(304);
    let defaults =
        json!({"name": "Kitchen Studio", "defaultProjectSettings": {"platform": "Linux", "ueVersion": null, "supersede": "running"}});
    witness.ask(some, "PATCH /organizations/{id}", &organization, Some(defaults), &[("If-Match", &tag)]).await.expect(200);
    witness.ask(some, "PATCH /organizations/{id}", &organization, Some(json!({"name": "X"})), &[("If-Match", &tag)]).await.expect(412);
    for path in ["repos", "branches", "uproject"] {
        let query = if path == "repos" { "?limit=1" } else { "?repoFullName=studio/kitchen" };
        witness
            .ask(some, &format!("GET /gitghost/{path}/{{installationId}}"), &format!("/gitghost/{path}/studio{query}"), None, &[])
            .await
            .expect(200);
        witness
            .ask(some, &format!("GET /githost/{path}/{{installationId}}"), &format!("/githost/{path}/other{query}"), None, &[])
            .await
            .expect(404);
    }
    witness.ask(some, "GET /queue", "/queue", None, &[]).await.expect(200);
    witness.ask(some, "POST /queue/pause", "/queue/pause", None, &[]).await.expect(200);
    witness.ask(some, "POST /queue/resume", "/queue/resume", None, &[]).await.expect(200);
    witness.ask(some, "GET /platforms", "/platforms", None, &[]).await.expect(200);
    let test = format!("{organization}/notifications/test");
    witness.ask(some, "POST /organizations/{id}/notifications/test", &test, None, &[]).await.expect(200);

    let hook = json!({"url": "https://hooks.studio.example/builds", "events": ["build.failed", "ping"], "description": "calendar"});
    let made = witness.ask(some, "POST /webhooks", "/webhooks", Some(hook), &[("Idempotency-Key", "hook-1")]).await.expect(201);
    let (hook, tag) = (made.header("location").unwrap().to_owned(), made.header("etag").unwrap().to_owned());
    witness.ask(some, "POST /webhooks", "/webhooks", Some(json!({"url": "https://127.0.0.1:x/"})), &[]).await.expect(400);
    witness.ask(some, "GET /webhooks", "/webhooks?limit=1", None, &[]).await.expect(200);
    witness.ask(some, "GET /webhooks/{id}", &hook, None, &[]).await.expect(200);
    witness.ask(some, "GET /webhooks/{id}", &hook, None, &[("If-None-Match", &tag)]).await;
    let change = json!({"enabled": false, "projectIds": null});
    witness.ask(some, "PATCH /webhooks/{id}", &hook, Some(change.clone()), &[("If-Match", &tag)]).await.expect(200);
    witness.ask(some, "PATCH /webhooks/{id}", &hook, Some(change), &[("If-Match", &tag)]).await.expect(412);
    let rotate = "POST /webhooks/{id}/rotate-secret";
    witness.ask(some, rotate, &format!("{hook}/rotate-secret"), Some(json!({"overlapHours": 1})), &[]).await.expect(201);
    witness.ask(some, "POST /webhooks/{id}/ping", &format!("{hook}/ping"), None, &[]).await.expect(202);
    let ledger = format!("{hook}/deliveries");
    let listed = witness.ask(some, "GET /webhooks/{id}/deliveries", &format!("{ledger}?status=pending"), None, &[]).await.expect(200);
    let entry = format!("{ledger}/{}", listed.json()["items"][0]["id"].as_str().unwrap());
    witness.ask(some, "GET /webhooks/{id}/deliveries/{deliveryId}", &entry, None, &[]).await.expect(200);
    let again = "POST /webhooks/{id}/deliveries/{deliveryId}/redeliver";
    witness.ask(some, again, &format!("{entry}/redeliver"), None, &[]).await.expect(202);
    witness.ask(some, "DELETE /webhooks/{id}", &hook, None, &[]).await.expect(204);
    witness.ask(some, "GET /webhooks/{id}", &hook, None, &[]).await.expect(404);

    let key = [("Idempotency-Key", "linking-1")];
    let made = witness.ask(some, "POST /projects/add-repo", "/projects/add-repo", Some(repository()), &key).await.expect(201);
    witness.ask(some, "POST /projects/add-repo", "/projects/add-repo", Some(repository()), &key).await.expect(201);
    witness
        .ask(some, "POST /projects/add-repo", "/projects/add-repo", Some(with(repository(), json!({"name": "Y"}))), &key)
        .await
        .expect(422);
    witness.ask(some, "POST /projects/add-repo", "/projects/add-repo", Some(repository()), &[]).await.expect(409);
    witness.ask(some, "POST /projects/add-repo", "/projects/add-repo", Some(json!({"name": 5})), &[]).await.expect(400);
    let project = made.header("location").unwrap().to_owned();
    witness.ask(some, "GET /projects", "/projects?sourceControl=githost&limit=1", None, &[]).await.expect(200);
    witness.ask(some, "GET /projects", "/projects?limit=0", None, &[]).await.expect(400);
    witness.ask(some, "GET /projects/{id}", &project, None, &[]).await.expect(200);
    witness.ask(some, "PATCH /projects/{id}", &project, Some(json!({"description": "Soup\nand bread"})), &[]).await.expect(200);

    let settings = format!("{project}/build-settings");
    let (list, one) = ("/projects/{id}/build-settings", "/projects/{id}/build-settings/{settingId}");
    let full = with(
        setting(),
        json!({
            "name": "Nightly", "targetType": "Client", "trigger": "scheduled", "autoDeploy": true, "notifyOnComplete": true,
            "schedule": {"cron": "0 3 * * *", "timezone": "Europe/Stockholm", "enabled": true, "onlyIfChanged": true, "catchUp": false},
            "uploadBuildUrl": "https://drop.example/upload", "uploadBuildAuthHeader": "Bearer x", "timeoutMinutes": 60, "cleanBuild": true,
            "supersede": "off", "extraUatArgs": ["-compressed"], "uprojectPath": "Game/Kitchen.uproject",
            "deployTargets": [{"plugin": "custom-deploy", "config": {"url": "https://drop.example/other"}, "secrets": {"authorization": "Bearer y"}}],
        }),
    );
    let made = witness.ask(some, &format!("POST {list}"), &settings, Some(full), &[]).await.expect(201);
    let nightly = made.header("location").unwrap().to_owned();
    witness.ask(some, &format!("GET {list}"), &settings, None, &[]).await.expect(200);
    witness.ask(some, &format!("GET {one}"), &nightly, None, &[]).await.expect(200);
    let slots = format!("{nightly}/schedule-slots");
    witness.ask(some, &format!("GET {one}/schedule-slots"), &slots, None, &[]).await.expect(200);
    let change = json!({"trigger": "manual", "schedule": null, "uploadBuildAuthHeader": null, "deployTargets": [], "timeoutMinutes": null});
    witness.ask(some, &format!("PATCH {one}"), &nightly, Some(change), &[]).await.expect(200);
    witness.ask(some, &format!("PATCH {one}"), &nightly, Some(json!({"streamPath": "//a/b"})), &[]).await.expect(400);

    let trigger = format!("POST {one}/trigger");
    let started = witness.ask(some, &trigger, &format!("{nightly}/trigger"), None, &[]).await.expect(201).json();
    let build = started["buildId"].as_str().unwrap().to_owned();
    witness.ask(some, "GET /builds", "/builds?status=pending&platform=Win64&limit=1", None, &[]).await.expect(200);
    let path = format!("/builds/{build}");
    witness.ask(some, "GET /builds/{id}", &path, None, &[]).await.expect(200);
    witness.ask(some, "GET /builds/{id}/download", &format!("{path}/download"), None, &[]).await.expect(404);
    witness.ask(some, "POST /builds/{id}/retry", &format!("{path}/retry"), None, &[]).await.expect(409);
    complete(&server, admin.user.organization_id, &build).await;
    witness.ask(some, "GET /builds/{id}", &path, None, &[]).await.expect(200);
    witness.ask(some, "PATCH /builds/{id}", &path, Some(json!({"pinned": true})), &[]).await.expect(200);
    witness.ask(some, "GET /builds/{id}/log", &format!("{path}/log"), None, &[]).await.expect(200);
    witness.ask(some, "GET /builds/{id}/log", &format!("{path}/log"), None, &[("Range", "bytes=-3")]).await.expect(206);
    witness.ask(some, "GET /builds/{id}/log", &format!("{path}/log"), None, &[("Range", "bytes=900-")]).await.expect(416);
    witness.ask(some, "GET /builds/{id}/log/lines", &format!("{path}/log/lines?after=1&limit=1"), None, &[]).await.expect(200);
    witness.ask(some, "GET /builds/{id}/diagnostics", &format!("{path}/diagnostics"), None, &[]).await.expect(200);
    witness.ask(some, "GET /builds/{id}/notifications", &format!("{path}/notifications"), None, &[]).await.expect(200);
    let download = witness.ask(some, "GET /builds/{id}/download", &format!("{path}/download"), None, &[]).await.expect(200).json();
    let url = download["url"].as_str().unwrap();
    let link = &url[url.find("/artifacts").unwrap()..];
    witness.ask(None, "GET /artifacts/{file}", link, None, &[]).await.expect(200);
    witness.ask(None, "GET /artifacts/{file}", link, None, &[("Range", "bytes=0-1")]).await.expect(206);
    witness.ask(None, "GET /artifacts/{file}", &link.replace("expires=", "expires=9"), None, &[]).await.expect(403);
    witness.ask(some, "POST /builds/{id}/cancel", &format!("{path}/cancel"), None, &[]).await.expect(409);
    witness.ask(some, "POST /builds/{id}/deploy", &format!("{path}/deploy"), None, &[]).await.expect(202);
    witness.ask(some, "GET /builds/{id}/deploys", &format!("{path}/deploys"), None, &[]).await.expect(200);
    let retried = witness.ask(some, "POST /builds/{id}/retry", &format!("{path}/retry"), None, &[]).await.expect(201).json();
    let retried = format!("/builds/{}", retried["id"].as_str().unwrap());
    witness.ask(some, "POST /builds/{id}/cancel", &format!("{retried}/cancel"), None, &[]).await.expect(202);

    let token = json!({"name": "script", "scopes": ["read", "trigger"], "projectIds": null, "expiresAt": "2999-01-01T00:00:00.000Z"});
    let made = witness.ask(some, "POST /auth/tokens", "/auth/tokens", Some(token), &[]).await.expect(201).json();
    let token = format!("/auth/tokens/{}", made["id"].as_str().unwrap());
    witness.ask(some, "GET /auth/tokens", "/auth/tokens", None, &[]).await.expect(200);
    witness.ask(some, "GET /auth/tokens/{id}", &token, None, &[]).await.expect(200);
    witness.ask(some, "POST /auth/tokens/{id}/rotate", &format!("{token}/rotate"), None, &[]).await.expect(201);
    witness.ask(some, "DELETE /auth/tokens/{id}", &token, None, &[]).await.expect(204);
    witness.ask(some, "DELETE /auth/tokens/{id}", &token, None, &[]).await.expect(404);
    witness.ask(some, "POST /auth/logout", "/auth/logout", None, &[]).await.expect(403);

    witness.ask(some, &format!("DELETE {one}"), &nightly, None, &[]).await.expect(204);
    witness.ask(some, "DELETE /projects/{id}", &project, None, &[]).await.expect(204);
    let githost = format!("{organization}/integrations/gitghost");
    witness.ask(some, "DELETE /organizations/{id}/integrations/gitghost", &githost, None, &[]).await.expect(204);
    let token = json!({"token": GOOD_TOKEN, "webhookSecret": hooks::SECRET});
    witness.ask(some, "PUT /organizations/{id}/integrations/gitghost", &githost, Some(token), &[]).await.expect(200);
    members_are_as_documented(&mut witness, &admin).await;
    deliveries_are_as_documented(&mut witness, &admin).await;
    streams_are_as_documented(&mut witness, &admin, &path).await;
    streamvc_projects::connect(&server, &admin).await;
    let path = streamvc_projects::path(&admin);
    witness.ask(some, "PATCH /organizations/{id}/streamvc", &path, Some(streamvc_projects::credentials()), &[]).await.expect(200);
    let stream = streamvc_projects::stream();
    witness.ask(some, "POST /projects/add-streamvc", "/projects/add-streamvc", Some(stream), &[]).await.expect(201);
    witness.ask(some, "GET /storage", "/storage", None, &[]).await.expect(200);
    witness.ask(some, "GET /audit", "/audit?outcome=done&limit=100", None, &[]).await.expect(200);
    assert!(witness.wrong.is_empty(), "{}", witness.wrong.join("\n"));
    // Whoever adds a row takes it along here, or says why a test of its own does.
    let elsewhere = ["setUp", "logIn", "logOut", "getReadiness"];
    let names: BTreeSet<String> = routes().iter().map(|route| route.operation_id.to_owned()).collect();
    let unseen: Vec<_> = names.iter().filter(|name| !witness.seen.contains(*name) && !elsewhere.contains(&name.as_str())).collect();
    assert!(unseen.is_empty(), "hold a success of these against the document, too: {unseen:?}");
}

async fn members_are_as_documented(witness: &mut Witness<'_>, admin: &Person) {
    let some = Some(admin);
    let grace = json!({"email": "grace@example.com", "name": "Grace", "role": "member"});
    let made = witness.ask(some, "POST /members", "/members", Some(grace), &[]).await.expect(201).json();
    let path = format!("/members/{}", made["id"].as_str().unwrap());
    let body = json!({"token": members::token_of(&made), "name": null, "password": "correct horse battery"});
    let accept = "/auth/accept-invitation";
    witness.ask(None, &format!("POST {accept}"), accept, Some(body.clone()), &[]).await.expect(200);
    witness.ask(None, &format!("POST {accept}"), accept, Some(body), &[]).await.expect(401);
    witness.ask(some, "GET /members", "/members", None, &[]).await.expect(200);
    witness.ask(some, "GET /members/{userId}", &path, None, &[]).await.expect(200);
    witness.ask(some, "PATCH /members/{userId}", &path, Some(json!({"role": "viewer"})), &[]).await.expect(200);
    let own = format!("/members/{}", admin.user.id);
    witness.ask(some, "DELETE /members/{userId}", &own, None, &[]).await.expect(409);
    witness.ask(some, "DELETE /members/{userId}", &path, None, &[]).await.expect(204);
}

async fn deliveries_are_as_documented(witness: &mut Witness<'_>, admin: &Person) {
    let some = Some(admin);
    let push = hooks::push("refs/heads/main", &"1".repeat(40), &"2".repeat(40));
    let signature = format!("sha256={}", hooks::signed(hooks::SECRET, push.to_string().as_bytes()));
    let headers = [("X-GitHub-Event", "push"), ("X-GitHub-Delivery", "one"), ("X-Hub-Signature-256", signature.as_str())];
    witness.ask(None, "POST /hooks/githost", "/hooks/githost", Some(push.clone()), &headers).await.expect(202);
    witness.ask(None, "POST /hooks/githost", "/hooks/githost", Some(push), &headers[..2]).await.expect(403);
    hooks::settle(witness.server).await;
    let list = witness.ask(some, "GET /hooks/deliveries", "/hooks/deliveries", None, &[]).await.expect(200).json();
    let replay = format!("/hooks/deliveries/{}/replay", list["items"][0]["id"].as_str().unwrap());
    witness.ask(some, "POST /hooks/deliveries/{id}/replay", &replay, None, &[]).await.expect(202);
}

/// Streams have no end to wait for; their handshakes are held against the document.
async fn streams_are_as_documented(witness: &mut Witness<'_>, admin: &Person, build: &str) {
    let (address, bearer) = (witness.server.address, format!("Bearer {}", admin.token));
    let authorized = [("Authorization", bearer.as_str())];
    for (operation, path) in [("GET /builds/{id}/events", format!("{build}/events")), ("GET /events", "/events?types=status,deploy".into())]
    {
        let mut stream = EventStream::open(address, &path, &authorized).await.unwrap();
        witness.hold(operation, "200", Some("text/event-stream"), &stream.head);
        let mut names: BTreeSet<String> = BTreeSet::new();
        // The artifact is still to be handed on here, so neither stream has an end.
        let wanted: &[&str] = if operation == "GET /events" { &["hello"] } else { &["hello", "status", "log"] };
        while !wanted.iter().all(|name| names.contains(*name)) {
            let event = tokio::time::timeout(Duration::from_secs(20), stream.next())
                .await
                .unwrap_or_else(|_| panic!("only {names:?} came"))
                .unwrap();
            let wrong = failures(&witness.document, &json!({"$ref": "#/components/schemas/StreamMessage"}), &event.data);
            witness.wrong.extend(wrong.iter().map(|failure| format!("{operation} said {}: {failure}", event.data)));
            names.insert(event.event);
        }
        witness.ask(Some(admin), operation, &format!("{}?after=nowhere", path.split('?').next().unwrap()), None, &[]).await.expect(400);
    }
    let ticket = witness.ask(Some(admin), "POST /auth/stream-ticket", "/auth/stream-ticket", None, &[]).await.expect(200).json();
    let path = format!("/live?ticket={}", ticket["ticket"].as_str().unwrap());
    web_socket(address, &path, &[]).await.unwrap();
    witness.hold("GET /live", "101", None, "");
    witness.ask(Some(admin), "GET /live", "/live", None, &[]).await.expect(426);
}

/// The session's three rows need a service without accounts.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_as_documented_from_its_setup_to_its_end() {
    let server = TestServer::start().await;
    let mut witness =
        Witness { server: &server, document: openapi::document(&routes(), &server.app.settings), seen: BTreeSet::new(), wrong: Vec::new() };
    let password = "correct horse battery staple";
    let setup = json!({
        "setupToken": server.setup_token.as_ref().expect("a setup token").reveal().clone(), "email": "ada@example.com", "name": "Ada", "password": password, "organizationName": "Kitchen",
    });
    witness.ask(None, "POST /setup", "/setup", Some(with(setup.clone(), json!({"setupToken": "wrong"}))), &[]).await.expect(401);
    witness.ask(None, "POST /setup", "/setup", Some(setup.clone()), &[]).await.expect(201);
    witness.ask(None, "POST /setup", "/setup", Some(setup), &[]).await.expect(404);
    let login = json!({"email": "ada@example.com", "password": password});
    let session = witness.ask(None, "POST /auth/login", "/auth/login", Some(login), &[]).await.expect(200).json();
    let bearer = format!("Bearer {}", session["accessToken"].as_str().unwrap());
    witness.ask(None, "POST /auth/logout", "/auth/logout", None, &[("Authorization", &bearer)]).await.expect(204);
    assert!(witness.wrong.is_empty(), "{}", witness.wrong.join("\n"));
}
