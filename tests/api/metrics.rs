//! What monitoring is told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cookhouse::model::Notification;
use cookhouse::model::notification::{Destination, NotificationState};
use cookhouse::outbound::{self, Outbound};
use cookhouse::store::StoreError;
use cookhouse::webhooks;
use cookhouse::webhooks::plan::Plan;
use serde_json::json;
use tempfile::TempDir;

use super::{build_setting, connect, connected, project, triggered};
use crate::support::repositories::UPROJECT;
use crate::support::server::TestServer;
use crate::webhooks::{Endpoint, status};

/// Figures by name with labels. Panics on what Prometheus would not read.
async fn figures(server: &TestServer) -> BTreeMap<String, f64> {
    let reply = server.ask("GET", "/metrics").send().await.expect(200);
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = reply.text();
    let mut described = std::collections::BTreeSet::new();
    let mut figures = BTreeMap::new();
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a name and a kind");
            assert!(matches!(kind, "gauge" | "counter" | "histogram") && described.insert(name.to_owned()), "{line}");
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            let family = name.split('{').next().unwrap_or(name);
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| family.strip_suffix(end))
                .filter(|name| described.contains(*name))
                .unwrap_or(family);
            assert!(described.contains(family), "{line} has no type");
            assert!(figures.insert(name.to_owned(), value.parse().expect("a number")).is_none(), "{line} twice");
        }
    }
    figures
}

#[tokio::test(flavor = "multi_thread")]
async fn builds_requests_writes_and_the_disk_are_counted() {
    let (server, admin) = connected().await;
    let project = project(&server, &admin).await;
    let setting = build_setting(&server, &admin, &project).await;
    let first = triggered(&server, &admin, &setting).await;
    for _ in 0..2 {
        triggered(&server, &admin, &setting).await;
    }
    server.post(&admin, &format!("/builds/{first}/cancel"), json!({})).await.expect(202);
    server.ask("GET", "/builds").send().await.expect(401);
    let found = figures(&server).await;
    let of = |name: &str| found.get(name).copied().unwrap_or_else(|| panic!("{name} is missing"));
    assert_eq!(of("cookhouse_builds{status=\"pending\"}"), 2.0);
    assert_eq!(of("cookhouse_builds{status=\"failed\"}"), 1.0);
    assert_eq!((of("cookhouse_queue_length"), of("cookhouse_builds_running")), (2.0, 0.0));
    assert_eq!((of("cookhouse_artifacts"), of("cookhouse_artifact_bytes")), (0.0, 0.0));
    assert_eq!(of("cookhouse_http_requests_total{operation=\"triggerBuild\",status=\"201\"}"), 3.0);
    assert_eq!(of("cookhouse_http_requests_total{operation=\"listBuilds\",status=\"401\"}"), 1.0);
    assert_eq!(of("cookhouse_http_request_seconds_count{operation=\"triggerBuild\"}"), 3.0);
    assert_eq!(of("cookhouse_http_request_seconds_bucket{operation=\"triggerBuild\",le=\"+Inf\"}"), 3.0);
    assert!(of("cookhouse_store_write_seconds_count") >= 6.0 && of("cookhouse_store_write_seconds_sum") > 0.0);
    assert!(of("cookhouse_disk_free_bytes") > 0.0 && of("cookhouse_disk_size_bytes") >= of("cookhouse_disk_free_bytes"));
    assert!(server.app.store.check().expect("readable").is_empty());
    // What clients make up becomes no label.
    for number in 0..20 {
        server.ask("GET", &format!("/made/up/{number}")).send().await.expect(404);
    }
    let found = figures(&server).await;
    assert_eq!(found["cookhouse_http_requests_total{operation=\"none\",status=\"404\"}"], 20.0);
    assert!(!found.keys().any(|name| name.contains("made")));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_wait_and_tries_that_failed_are_counted() {
    let settings = webhooks::Settings { timeout: Duration::from_secs(5), plan: Plan::new([Duration::ZERO, Duration::from_secs(600)]) };
    let near = Outbound::new(&outbound::Settings { allow_loopback: true, ..Default::default() }).expect("a client");
    let server = TestServer::start_sending(Arc::new(TempDir::new().expect("a directory")), near, settings).await;
    let admin = server.admin().await;
    let (taking, refusing) = (Endpoint::taking().await, Endpoint::answering(|_, _| Some(status(503))).await);
    for (url, is_on) in [(taking.url(), true), (refusing.url(), true), ("https://hooks.example/x".to_owned(), false)] {
        let body = json!({"url": url, "events": ["project.created"], "enabled": is_on});
        server.post(&admin, "/webhooks", body).await.expect(201);
    }
    connect(&server, &admin).await;
    server.host.add("studio/kitchen", &[("Game/Kitchen.uproject", UPROJECT)]);
    project(&server, &admin).await;
    let tries = |outcome: &str| format!("cookhouse_webhook_tries_total{{outcome=\"{outcome}\"}}");
    let mut found = figures(&server).await;
    for _ in 0..1000 {
        if found[&tries("delivered")] + found[&tries("failed")] >= 2.0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        found = figures(&server).await;
    }
    assert_eq!((found[&tries("delivered")], found[&tries("failed")]), (1.0, 1.0));
    assert_eq!(found["cookhouse_webhook_messages_waiting"], 1.0);
    assert!((0.0..600.0).contains(&found["cookhouse_webhook_oldest_waiting_seconds"]));
    let endpoints = ["on", "off", "disabled"].map(|state| found[&format!("cookhouse_webhook_endpoints{{state=\"{state}\"}}")]);
    assert_eq!(endpoints, [2.0, 1.0, 0.0]);
    // Nobody sends notifications here: one that is due waits.
    let now = server.app.clock.now();
    let waiting = Notification {
        id: server.app.clock.new_id(),
        organization_id: admin.user.organization_id,
        build_id: server.app.clock.new_id(),
        project_id: server.app.clock.new_id(),
        project_name: "Kitchen".into(),
        destination: Destination::Slack,
        is_failure: false,
        is_held: false,
        state: NotificationState::Pending,
        created_at: now,
        due_at: now.minus(Duration::from_secs(90)),
        attempts: 0,
        finished_at: None,
        error: None,
    };
    server.app.store.write::<(), StoreError>(move |tx| tx.put(&waiting)).await.expect("stored");
    let found = figures(&server).await;
    assert_eq!(found["cookhouse_notifications_waiting"], 1.0);
    assert!(found["cookhouse_notification_overdue_seconds"] >= 90.0);
    for channel in ["email", "slack", "discord", "teams"] {
        for outcome in ["sent", "failed"] {
            assert_eq!(found[&format!("cookhouse_notification_tries_total{{channel=\"{channel}\",outcome=\"{outcome}\"}}")], 0.0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_machines_are_told_only_if_the_configuration_says_so() {
    let server = TestServer::start().await;
    // A proxy on this machine that nobody declared makes everybody look local.
    for (name, value) in
        [("X-Forwarded-For", "192.0.2.1"), ("Forwarded", "for=192.0.2.1"), ("Via", "1.1 proxy"), ("X-Forwarded-For", "127.0.0.1")]
    {
        let reply = server.ask("GET", "/metrics").header(name, value).send().await;
        assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"), "{name}");
    }
    let public = TestServer::start_api(|settings, _| settings.metrics_are_public = true).await;
    public.ask("GET", "/metrics").header("X-Forwarded-For", "192.0.2.1").send().await.expect(200);
}
