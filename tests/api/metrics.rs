//! What monitoring is told.

use std::collections::BTreeMap;

use serde_json::json;

use super::{build_setting, connected, project, triggered};
use crate::support::server::TestServer;

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
