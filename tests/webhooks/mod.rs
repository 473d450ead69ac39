//! Outbound webhooks over real connections: what arrives, in which order, and what the ledger says of it.

mod endpoint;
mod hostile;
mod managing;
mod sending;

use std::sync::Arc;
use std::time::Duration;

use cookhouse::model::{Build, Status};
use cookhouse::outbound::{self, Outbound};
use cookhouse::webhooks::Settings;
use cookhouse::webhooks::plan::Plan;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::builds::{put, waiting};
use crate::support::server::{Person, TestServer};

#[cfg_attr(not(unix), allow(unused_imports, reason = "what sends needs a whole service"))]
pub(crate) use endpoint::{Endpoint, Got, status, verify};

/// Reaches this machine, too.
fn near() -> Outbound {
    Outbound::new(&outbound::Settings { allow_loopback: true, ..Default::default() }).expect("a client")
}

/// Tries soon, a few times.
fn hasty(tries: usize) -> Settings {
    let pauses = (0..tries).map(|number| Duration::from_millis(if number == 0 { 0 } else { 20 }));
    Settings { timeout: Duration::from_millis(700), plan: Plan::new(pauses) }
}

async fn start(settings: Settings) -> (TestServer, Person) {
    let server = TestServer::start_sending(Arc::new(TempDir::new().unwrap()), near(), settings).await;
    let admin = server.admin().await;
    (server, admin)
}

/// An endpoint that wants everything: its id and its secret.
async fn webhook(server: &TestServer, admin: &Person, url: &str, change: Value) -> (String, String) {
    let mut body = json!({"url": url, "events": ["build.created", "build.started", "build.completed", "build.failed", "build.superseded",
        "deploy.succeeded", "deploy.failed", "artifact.deleted", "project.created", "project.deleted"]});
    body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    let reply = server.post(admin, "/webhooks", body).await.expect(201).json();
    (text(&reply["id"]), text(&reply["secret"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

async fn moved(server: &TestServer, build: Build, next: Status) -> Build {
    let build = build.moved_to(next, server.app.clock.now()).expect("allowed");
    put(server, &build).await;
    build
}

/// The ledger of an endpoint, oldest first, as its details have it.
async fn ledger(server: &TestServer, admin: &Person, id: &str) -> Vec<Value> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(admin, &format!("/webhooks/{id}/deliveries?limit=100{cursor}")).await.expect(200).json();
        ids.extend(page["items"].as_array().unwrap().iter().map(|item| text(&item["id"])));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let mut entries = Vec::new();
    for delivery in ids.iter().rev() {
        entries.push(server.get(admin, &format!("/webhooks/{id}/deliveries/{delivery}")).await.expect(200).json());
    }
    entries
}

/// Waits until `fits` is true of an endpoint and its ledger.
async fn until(server: &TestServer, admin: &Person, id: &str, fits: impl Fn(&Value, &[Value]) -> bool) -> (Value, Vec<Value>) {
    for _ in 0..2000 {
        let (webhook, entries) = (server.get(admin, &format!("/webhooks/{id}")).await.expect(200).json(), ledger(server, admin, id).await);
        if fits(&webhook, &entries) {
            return (webhook, entries);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never came: {:#?}", ledger(server, admin, id).await);
}

fn statuses(entries: &[Value]) -> Vec<String> {
    entries.iter().map(|entry| text(&entry["status"])).collect()
}

fn is_over(entries: &[Value]) -> bool {
    entries.iter().all(|entry| entry["status"] != "pending")
}
