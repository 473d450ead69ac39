//! Two organizations on one host see nothing of one another.

use cookhouse::model::permission::Role;
use serde_json::json;

use super::{build_setting, connect, connected, project, triggered};

#[tokio::test(flavor = "multi_thread")]
async fn another_organizations_ids_are_not_found_anywhere() {
    let (server, admin) = connected().await;
    let project_path = project(&server, &admin).await;
    let setting = build_setting(&server, &admin, &project_path).await;
    let build = triggered(&server, &admin, &setting).await;
    let token = server.get(&admin, "/auth/tokens").await.json()["items"][0]["id"].as_str().expect("an id").to_owned();
    let theirs = server.organization("Rivals").await;
    let rival = server.person(theirs.id, Role::Admin).await;
    connect(&server, &rival).await;
    // The rival may link the same repository: what is unique is unique inside an organization.
    let own = project(&server, &rival).await;

    let organization = format!("/organizations/{}", admin.user.organization_id);
    let mixed = format!("{own}/build-settings/{}", setting.rsplit('/').next().expect("an id"));
    for path in [
        project_path.clone(),
        format!("{project_path}/build-settings"),
        format!("{setting}/schedule-slots"),
        setting.clone(),
        mixed.clone(),
        format!("/builds/{build}"),
        format!("/builds/{build}/log"),
        format!("/builds/{build}/log/lines"),
        format!("/builds/{build}/diagnostics"),
        format!("/builds/{build}/download"),
        organization.clone(),
    ] {
        let reply = server.get(&rival, &path).await;
        assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"), "GET {path}");
    }
    for (method, path) in [
        ("PATCH", project_path.clone()),
        ("DELETE", project_path.clone()),
        ("PATCH", setting.clone()),
        ("PATCH", mixed.clone()),
        ("DELETE", setting.clone()),
        ("DELETE", mixed.clone()),
        ("POST", format!("{project_path}/build-settings")),
        ("POST", format!("{setting}/trigger")),
        ("POST", format!("{mixed}/trigger")),
        ("POST", format!("/builds/{build}/cancel")),
        ("POST", format!("/builds/{build}/retry")),
        ("POST", format!("/builds/{build}/deploy")),
        ("PATCH", format!("/builds/{build}")),
        ("PATCH", organization.clone()),
        ("DELETE", format!("{organization}/integrations/githost")),
        ("DELETE", format!("/auth/tokens/{token}")),
        ("POST", format!("/auth/tokens/{token}/rotate")),
    ] {
        let reply = server.ask(method, &path).bearer(&rival.token).json(&super::setting()).send().await;
        assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"), "{method} {path}");
    }
    let steal = json!({ "token": crate::support::repositories::GOOD_TOKEN });
    assert_eq!(server.put(&rival, &format!("{organization}/integrations/githost"), steal).await.code(), "not_found");

    let ours = project_path.rsplit('/').next().expect("an id");
    for path in ["/projects", "/builds", "/auth/tokens", &format!("/builds?projectId={ours}")] {
        let text = server.get(&rival, path).await.expect(200).text();
        assert!(!text.contains(&admin.user.organization_id.to_string()) && !text.contains(ours) && !text.contains(&build), "{path}");
    }
    let cursor = {
        server.host.add("studio/second", &[("A.uproject", crate::support::repositories::UPROJECT)]);
        let second = super::with(super::repository(), json!({"repoFullName": "studio/second"}));
        server.post(&admin, "/projects/add-repo", second).await.expect(201);
        server.get(&admin, "/projects?limit=1").await.json()["nextCursor"].as_str().expect("more").to_owned()
    };
    assert_eq!(server.get(&rival, &format!("/projects?cursor={cursor}")).await.expect(400).code(), "invalid_cursor");
    for field in ["projectIds", "buildSettingIds"] {
        let id = if field == "projectIds" { ours } else { setting.rsplit('/').next().expect("an id") };
        let reply = server.post(&rival, "/auth/tokens", json!({"name": "x", "scopes": ["read"], field: [id]})).await;
        assert_eq!(reply.expect(400).details(), [format!("{field}:invalid_value")]);
    }
    // And nothing of it left a mark.
    assert_eq!(server.get(&admin, &format!("/builds/{build}")).await.expect(200).json()["status"], "pending");
    server.get(&admin, &setting).await.expect(200);
}
