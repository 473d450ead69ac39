//! The organization, its defaults and its git host.

use cookhouse::model::Organization;
use cookhouse::model::permission::Role;
use cookhouse::seams::SourceProblem;
use cookhouse::store::Read;
use serde_json::json;

use super::{build_setting, connect, connected, project};
use crate::support::repositories::GOOD_TOKEN;
use crate::support::server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn name_and_defaults_change_and_the_rest_does_not() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let path = format!("/organizations/{}", admin.user.organization_id);
    let shown = server.get(&admin, &path).await.expect(200).json();
    assert_eq!(shown["plan"], "self-hosted");
    assert_eq!(
        shown["defaultProjectSettings"],
        json!({
            "ueVersion": "", "platform": "Win64", "buildType": "Development", "timeoutMinutes": 360, "artifactRetentionDays": 30, "keepLastArtifacts": 3,
            "notifyOnComplete": false, "supersede": "pending"
        })
    );
    assert_eq!((&shown["integrations"]["githost"]["status"], &shown["integrations"]["streamvc"]), (&json!("disconnected"), &json!(null)));
    let body = json!({"name": "New", "slug": "other", "plan": "gold", "defaultProjectSettings": {"timeoutMinutes": 60, "supersede": "off", "notifyOnComplete": true}});
    let changed = server.patch(&admin, &path, body).await.expect(200).json();
    assert_eq!((&changed["name"], &changed["slug"], &changed["plan"]), (&json!("New"), &shown["slug"], &json!("self-hosted")));
    let defaults = &changed["defaultProjectSettings"];
    assert_eq!((&defaults["timeoutMinutes"], &defaults["supersede"], &defaults["platform"]), (&json!(60), &json!("off"), &json!("Win64")));
    assert_eq!(
        server.patch(&admin, &path, json!({"defaultProjectSettings": {"timeoutMinutes": null}})).await.json()["defaultProjectSettings"]["timeoutMinutes"],
        360
    );
    let reply = server
        .patch(
            &admin,
            &path,
            json!({"name": "", "defaultProjectSettings": {"platform": "x", "timeoutMinutes": 1, "keepLastArtifacts": "3"}}),
        )
        .await;
    assert_eq!(
        reply.expect(400).details(),
        [
            "defaultProjectSettings.keepLastArtifacts:invalid_type",
            "defaultProjectSettings.platform:invalid_value",
            "defaultProjectSettings.timeoutMinutes:invalid_value",
            "name:invalid_value"
        ]
    );
    let member = server.person(admin.user.organization_id, Role::Member).await;
    server.get(&member, &path).await.expect(200);
    assert_eq!(server.patch(&member, &path, json!({"name": "x"})).await.code(), "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_settings_begin_with_the_organizations_defaults() {
    let (server, admin) = connected().await;
    let path = format!("/organizations/{}", admin.user.organization_id);
    server.patch(&admin, &path, json!({"defaultProjectSettings": {"supersede": "off", "notifyOnComplete": true}})).await.expect(200);
    let project = project(&server, &admin).await;
    let setting = build_setting(&server, &admin, &project).await;
    let shown = server.get(&admin, &setting).await.json();
    assert_eq!((&shown["supersede"], &shown["notifyOnComplete"]), (&json!("off"), &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_git_host_is_verified_before_it_is_stored() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let path = format!("/organizations/{}/integrations/githost", admin.user.organization_id);
    let put = |body| server.put(&admin, &path, body);
    for (body, details) in [
        (json!({}), vec!["token:required"]),
        (json!({"token": "wrong"}), vec!["token:invalid_value"]),
        (json!({"token": "a b"}), vec!["token:invalid_value"]),
        (json!({"token": GOOD_TOKEN, "apiBaseUrl": "http://git.example/"}), vec!["apiBaseUrl:invalid_value"]),
        (json!({"token": GOOD_TOKEN, "gitBaseUrl": "https://git.example/"}), vec!["apiBaseUrl:required"]),
        (
            json!({"token": 5, "apiBaseUrl": "file:///etc/passwd", "gitBaseUrl": []}),
            vec!["apiBaseUrl:invalid_value", "gitBaseUrl:invalid_type", "token:invalid_type"],
        ),
    ] {
        assert_eq!(put(body.clone()).await.expect(400).details(), details, "{body}");
    }
    server.host.fail_with(Some(SourceProblem::Unavailable));
    assert_eq!(put(json!({"token": GOOD_TOKEN})).await.expect(502).code(), "upstream_error");
    server.host.fail_with(None);
    let organization = |server: &TestServer| {
        server.read(|snapshot| snapshot.get::<Organization>(admin.user.organization_id, admin.user.organization_id)).expect("one")
    };
    assert_eq!(organization(&server).githost, None);

    let connection = put(json!({"token": GOOD_TOKEN, "apiBaseUrl": "https://git.example/api/v3/"})).await.expect(200).json();
    assert_eq!((&connection["status"], &connection["gitBaseUrl"]), (&json!("connected"), &json!("https://git.example")));
    assert_eq!(
        connection["installations"],
        json!([{"id": "studio", "account": "studio", "repositorySelection": "all", "suspended": false}])
    );
    assert!(!connection.to_string().contains(GOOD_TOKEN));
    assert!(!format!("{:?}", organization(&server)).contains(GOOD_TOKEN));
    // A worse token does not take the place of a good one.
    put(json!({"token": "wrong"})).await.expect(400);
    let shown = server.get(&admin, &format!("/organizations/{}", admin.user.organization_id)).await.json();
    assert_eq!(shown["integrations"]["githost"]["status"], "connected");
    let directory = server.stop().await;
    let bytes = std::fs::read(directory.path().join("store.redb")).expect("the store");
    assert!(!bytes.windows(GOOD_TOKEN.len()).any(|window| window == GOOD_TOKEN.as_bytes()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnected_host_is_gone_with_its_token_and_can_come_back() {
    for spelling in ["githost", "gitghost"] {
        let (server, admin) = connected().await;
        let path = format!("/organizations/{}/integrations/{spelling}", admin.user.organization_id);
        server.delete(&admin, &path).await.expect(204);
        assert_eq!(server.delete(&admin, &path).await.code(), "not_found");
        let stored =
            server.read(|snapshot| snapshot.get::<Organization>(admin.user.organization_id, admin.user.organization_id)).expect("one");
        assert!(stored.githost.is_some_and(|connection| connection.token.is_none()));
        assert_eq!(server.post(&admin, "/projects/add-repo", super::repository()).await.expect(409).code(), "githost_not_connected");
        connect(&server, &admin).await;
        project(&server, &admin).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_engines_says_so_for_every_platform() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let platforms = server.get(&admin, "/platforms").await.expect(200).json();
    let items = platforms["items"].as_array().expect("items");
    assert_eq!(items.len(), 8);
    assert!(
        items.iter().all(|platform| platform["available"] == false && platform["reason"].is_string() && platform["engines"] == json!([]))
    );
}
