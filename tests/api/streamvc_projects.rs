//! Projects of the version-control server.

use cookhouse::model::permission::Role;
use cookhouse::seams::SourceProblem;
use serde_json::{Value, json};

use super::with;
use crate::support::repositories::GOOD_TOKEN;
use crate::support::server::{Person, TestServer};

const PATH: &str = "/projects/add-streamvc";

pub(super) fn stream() -> Value {
    json!({"name": "Kitchen", "depot": "Games", "streamPath": "//Games/main", "uprojectPath": "Kitchen/Kitchen.uproject"})
}

/// Stores credentials that the model of a server takes, which has the stream.
pub(super) async fn connect(server: &TestServer, admin: &Person) {
    let file = r#"{"FileVersion": 3, "EngineAssociation": "5.4"}"#;
    server.host.add("//Games/main", &[("Kitchen/Kitchen.uproject", file), ("Other.uproject", file)]);
    server.patch(admin, &path(admin), credentials()).await.expect(200);
}

pub(super) fn path(admin: &Person) -> String {
    format!("/organizations/{}/streamvc", admin.user.organization_id)
}

pub(super) fn credentials() -> Value {
    json!({"serverUrl": "ssl:vcs.studio.test:1666", "userName": "builder", "ticket": GOOD_TOKEN})
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
    assert_eq!((&connection["userName"], &connection["ticketSet"]), (&json!("builder"), &json!(true)));
    assert!(connection.get("ticket").is_none());
    let ask = || server.ask("POST", PATH).bearer(&admin.token).header("Idempotency-Key", "k").json(&stream()).send();
    let reply = ask().await.expect(201);
    let project = reply.json();
    assert_eq!((&project["sourceControl"], &project["repoLink"]), (&json!("streamvc"), &json!("//Games/main")));
    assert_eq!(
        (&project["depot"], &project["streamPath"], &project["uproject"]["engineVersion"]),
        (&json!("//Games"), &json!("//Games/main"), &json!("5.4"))
    );
    assert_eq!(server.get(&admin, reply.header("location").expect("a location")).await.expect(200).json(), project);
    assert_eq!(ask().await.expect(201).header("idempotent-replayed"), Some("true"));
    assert_eq!(server.post(&admin, PATH, with(stream(), json!({"depot": "//Games"}))).await.expect(409).code(), "project_exists");
    server.post(&admin, PATH, with(stream(), json!({"uprojectPath": "Other.uproject"}))).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_does_not_have_is_not_linked() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    connect(&server, &admin).await;
    let missing = server.post(&admin, PATH, with(stream(), json!({"uprojectPath": "None.uproject"}))).await.expect(404);
    assert_eq!(missing.code(), "uproject_not_found");
    server.host.add("//Games/broken", &[("Kitchen/Kitchen.uproject", "no project at all")]);
    let broken = server.post(&admin, PATH, with(stream(), json!({"streamPath": "//Games/broken"}))).await.expect(400);
    assert_eq!(broken.details(), ["uprojectPath:invalid_value"]);
    server.host.fail_with(Some(SourceProblem::Unauthenticated));
    assert_eq!(server.post(&admin, PATH, stream()).await.expect(502).code(), "upstream_error");
    assert_eq!(server.get(&admin, "/projects").await.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_tried_before_anything_is_stored() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let path = path(&admin);
    let nothing = server.patch(&admin, &path, json!({})).await.expect(400);
    assert_eq!(nothing.details(), ["serverUrl:required", "userName:required"]);
    for (change, detail) in [
        (json!({"serverUrl": "rsh:sh -c x"}), "serverUrl:invalid_value"),
        (json!({"serverUrl": "1666"}), "serverUrl:invalid_value"),
        (json!({"serverUrl": null}), "serverUrl:required"),
        (json!({"userName": "a b"}), "userName:invalid_value"),
        (json!({"userName": "-x"}), "userName:invalid_value"),
        (json!({"ticket": ""}), "ticket:invalid_value"),
        (json!({"ticket": 5}), "ticket:invalid_type"),
        (json!({"fingerprint": "50:A3"}), "fingerprint:invalid_value"),
    ] {
        let reply = server.patch(&admin, &path, with(credentials(), change)).await.expect(400);
        assert_eq!(reply.details().len(), 1, "{detail}");
        assert_eq!(reply.details()[0].split(':').next(), detail.split(':').next());
    }
    let refused = server.patch(&admin, &path, with(credentials(), json!({"ticket": "wrong"}))).await.expect(400);
    assert_eq!((refused.code(), refused.details()), ("streamvc_check_failed".into(), vec!["ticket:auth_failed".to_owned()]));
    for (problem, detail) in [
        (SourceProblem::Forbidden, "ticket:auth_failed"),
        (SourceProblem::Unavailable, "serverUrl:unreachable"),
        (SourceProblem::TimedOut, "serverUrl:unreachable"),
    ] {
        server.host.fail_with(Some(problem));
        let refused = server.patch(&admin, &path, credentials()).await.expect(400);
        assert_eq!((refused.code(), refused.details()), ("streamvc_check_failed".into(), vec![detail.to_owned()]));
    }
    server.host.fail_with(Some(SourceProblem::Broken));
    assert_eq!(server.patch(&admin, &path, credentials()).await.expect(502).code(), "upstream_error");
    server.host.fail_with(None);
    let organization = format!("/organizations/{}", admin.user.organization_id);
    assert_eq!(server.get(&admin, &organization).await.json()["integrations"]["streamvc"], json!(null));

    let stored = server.patch(&admin, &path, credentials()).await.expect(200).json();
    assert_eq!((&stored["serverUrl"], &stored["ticketSet"]), (&json!("ssl:vcs.studio.test:1666"), &json!(true)));
    assert_eq!(server.get(&admin, &organization).await.json()["integrations"]["streamvc"], stored);
    // Nothing new is needed while the destination stays.
    server.patch(&admin, &path, json!({"serverUrl": "SSL:vcs.studio.test:1666"})).await.expect(200);
    // A ticket goes nowhere but where it was given for.
    for change in [json!({"serverUrl": "ssl:evil.test:1666"}), json!({"userName": "other"}), json!({"ticket": null})] {
        assert_eq!(server.patch(&admin, &path, change).await.expect(400).code(), "streamvc_check_failed");
    }
    let stranger = server.person(admin.user.organization_id, Role::Member).await;
    server.patch(&stranger, &path, credentials()).await.expect(403);
    let audit = server.get(&admin, "/audit").await.json().to_string();
    assert!(audit.contains("connectStreamvc") && !audit.contains(GOOD_TOKEN), "{audit}");
}
