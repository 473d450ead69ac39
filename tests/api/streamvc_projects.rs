//! Projects of the version-control server.

use cookhouse::model::Organization;
use cookhouse::model::organization::StreamvcConnection;
use cookhouse::store::Read;
use serde_json::{Value, json};

use super::with;
use crate::support::server::{Person, TestServer};

const PATH: &str = "/projects/add-streamvc";

pub(super) fn stream() -> Value {
    json!({"name": "Kitchen", "depot": "Games", "streamPath": "//Games/main", "uprojectPath": "Kitchen/Kitchen.uproject"})
}

/// As if the server had taken the credentials.
pub(super) async fn connect(server: &TestServer, admin: &Person) {
    let (id, now) = (admin.user.organization_id, server.app.clock.now());
    let connection = StreamvcConnection {
        server_url: "ssl:vcs.studio.test:1666".into(),
        user_name: "builder".into(),
        ticket: None,
        checked_at: now,
        server_version: "2025.1".into(),
    };
    let change = move |change: &cookhouse::store::Change| {
        let organization: Organization = change.get(id, id)?.expect("there");
        change.put(&Organization { streamvc: Some(connection), ..organization })
    };
    server.app.store.write(change).await.expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_body_is_judged_first_and_then_credentials_are_asked_for() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let nothing = server.post(&admin, PATH, json!({})).await.expect(400);
    assert_eq!(nothing.details(), ["depot:required", "name:required", "streamPath:required", "uprojectPath:required"]);
    for (change, detail) in [
        (json!({"streamPath": "//Other/main"}), "streamPath:invalid_value"),
        (json!({"streamPath": "//Games2/main"}), "streamPath:invalid_value"),
        (json!({"streamPath": "//Games"}), "streamPath:invalid_value"),
        (json!({"streamPath": "//Games/..."}), "streamPath:invalid_value"),
        (json!({"streamPath": "//Games/main@1"}), "streamPath:invalid_value"),
        (json!({"depot": "a/b"}), "depot:invalid_value"),
        (json!({"depot": 5}), "depot:invalid_type"),
        (json!({"uprojectPath": ""}), "uprojectPath:required"),
        (json!({"uprojectPath": "../x.uproject"}), "uprojectPath:invalid_value"),
        (json!({"uprojectPath": null}), "uprojectPath:required"),
        (json!({"name": " "}), "name:invalid_value"),
    ] {
        assert_eq!(server.post(&admin, PATH, with(stream(), change)).await.expect(400).details(), [detail]);
    }
    assert_eq!(server.post(&admin, PATH, stream()).await.expect(409).code(), "streamvc_not_configured");
    assert_eq!(server.get(&admin, "/projects").await.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_credentials_a_stream_is_linked_once() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    connect(&server, &admin).await;
    let shown = server.get(&admin, &format!("/organizations/{}", admin.user.organization_id)).await.json();
    let connection = &shown["integrations"]["streamvc"];
    assert_eq!((&connection["userName"], &connection["ticketSet"]), (&json!("builder"), &json!(false)));
    assert!(connection.get("ticket").is_none());
    let ask = || server.ask("POST", PATH).bearer(&admin.token).header("Idempotency-Key", "k").json(&stream()).send();
    let reply = ask().await.expect(201);
    let project = reply.json();
    assert_eq!((&project["sourceControl"], &project["repoLink"]), (&json!("streamvc"), &json!("//Games/main")));
    assert_eq!(
        (&project["depot"], &project["streamPath"], &project["uproject"]),
        (&json!("//Games"), &json!("//Games/main"), &json!(null))
    );
    assert_eq!(server.get(&admin, reply.header("location").expect("a location")).await.expect(200).json(), project);
    assert_eq!(ask().await.expect(201).header("idempotent-replayed"), Some("true"));
    assert_eq!(server.post(&admin, PATH, with(stream(), json!({"depot": "//Games"}))).await.expect(409).code(), "project_exists");
    server.post(&admin, PATH, with(stream(), json!({"uprojectPath": "Other.uproject"}))).await.expect(201);
}
