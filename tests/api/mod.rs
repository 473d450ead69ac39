//! The API from outside, over a real listener.

mod audit;
mod bad_inputs;
mod build_logs;
mod build_settings;
mod builds;
mod canary;
mod conversation;
mod downloads;
mod every_route;
mod githost_proxy;
mod golden;
mod hook_examples;
mod hooks;
mod hostile;
mod integration_settings;
mod isolation;
mod limits;
mod members;
mod metrics;
mod notifications;
mod openapi;
mod organizations;
mod people;
mod projects;
mod queue;
mod repositories;
mod representations;
mod streamvc_projects;
mod tls;
mod tokens;

use serde_json::{Value, json};

use crate::support::repositories::{GOOD_TOKEN, UPROJECT};
use crate::support::server::{Person, TestServer};

/// A server with an organization that is connected to a git host with the repository `studio/kitchen`.
async fn connected() -> (TestServer, Person) {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    server.host.add("studio/kitchen", &[("Game/Kitchen.uproject", UPROJECT), ("Readme.md", "Cook")]);
    connect(&server, &admin).await;
    (server, admin)
}

async fn connect(server: &TestServer, admin: &Person) {
    let path = format!("/organizations/{}/integrations/githost", admin.user.organization_id);
    server.put(admin, &path, json!({ "token": GOOD_TOKEN })).await.expect(200);
}

fn repository() -> Value {
    json!({"name": "Kitchen", "installationId": "studio", "repoFullName": "studio/kitchen", "defaultBranch": "main"})
}

/// Links the repository; the project's address.
async fn project(server: &TestServer, person: &Person) -> String {
    server.post(person, "/projects/add-repo", repository()).await.expect(201).header("location").expect("a location").to_owned()
}

fn setting() -> Value {
    json!({"platform": "Win64", "buildType": "Development", "ueVersion": "5.4", "trigger": "manual", "branch": "main"})
}

/// A body with some fields changed; null takes one out.
fn with(mut body: Value, changes: Value) -> Value {
    for (key, value) in changes.as_object().expect("an object") {
        body[key] = value.clone();
    }
    body
}

/// Makes a build setting in a project; its address.
async fn build_setting(server: &TestServer, person: &Person, project: &str) -> String {
    let reply = server.post(person, &format!("{project}/build-settings"), setting()).await.expect(201);
    reply.header("location").expect("a location").to_owned()
}

/// Starts a build; its id.
async fn triggered(server: &TestServer, person: &Person, setting: &str) -> String {
    let reply = server.post(person, &format!("{setting}/trigger"), json!({})).await.expect(201).json();
    reply["buildId"].as_str().expect("an id").to_owned()
}
