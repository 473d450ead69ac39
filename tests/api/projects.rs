//! Projects: linking a repository, lists, changes, removal.

use cookhouse::model::permission::Role;
use cookhouse::model::{BuildSetting, Project};
use cookhouse::seams::SourceProblem;
use serde_json::json;

use super::{build_setting, connected, project, repository, triggered, with};
use crate::support::repositories::{FakeRepository, UPROJECT};
use crate::support::server::{Person, TestServer};

fn count(server: &TestServer, person: &Person) -> usize {
    use cookhouse::store::{Order, Read};
    server.read(|snapshot| Ok(snapshot.page::<Project>(person.user.organization_id, None, None, Order::OldestFirst, 100)?.items.len()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_linked_repository_shows_everything_about_itself() {
    let (server, admin) = connected().await;
    let reply = server.post(&admin, "/projects/add-repo", repository()).await.expect(201);
    let created = reply.json();
    assert_eq!(reply.header("location"), Some(format!("/v1/projects/{}", created["id"].as_str().expect("an id")).as_str()));
    let mut rest = created.as_object().cloned().expect("an object");
    for field in ["id", "createdAt", "updatedAt"] {
        assert!(rest.remove(field).is_some_and(|value| value.is_string()), "{field}");
    }
    assert_eq!(
        serde_json::Value::Object(rest),
        json!({
            "name": "Kitchen", "description": "", "sourceControl": "githost", "repoLink": "studio/kitchen", "lastBuildAt": null,
            "lastBuildStatus": null, "uprojectPath": "Game/Kitchen.uproject", "buildSettings": [], "installationId": "studio",
            "defaultBranch": "main", "depot": null, "streamPath": null,
            "uproject": {
                "path": "Game/Kitchen.uproject", "projectName": "Kitchen", "engineVersion": "5.4",
                "modules": [{"name": "Demo", "type": "Runtime", "loadingPhase": "Default"}], "plugins": [{"name": "Extra", "enabled": true}]
            }
        })
    );
    let path = reply.header("location").expect("a location").to_owned();
    let shown = server.get(&admin, &path).await.expect(200);
    assert_eq!((shown.json(), shown.header("etag")), (created, reply.header("etag")));
    assert_eq!(server.get(&admin, &path.replace("/v1", "")).await.expect(200).json(), shown.json());
    let known = server.ask("GET", &path).bearer(&admin.token).header("If-None-Match", shown.header("etag").expect("a tag")).send().await;
    assert_eq!((known.status, known.body.len()), (304, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_linked_is_told_and_nothing_is_stored() {
    let (server, admin) = connected().await;
    server.host.add("studio/empty", &[("Readme.md", "x"), ("a/b/c/d/Deep.uproject", UPROJECT)]);
    server.host.add("studio/several", &[("A.uproject", UPROJECT), ("Games/B.UPROJECT", UPROJECT)]);
    server.host.add("studio/broken", &[("A.uproject", "{\"Modules\": 5}")]);
    server.host.add("studio/pointer", &[("A.uproject", "version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\nsize 12\n")]);
    let link = |changes| server.post(&admin, "/projects/add-repo", with(repository(), changes));
    for (changes, status, code) in [
        (json!({"installationId": "other"}), 404, "installation_not_found"),
        (json!({"repoFullName": "studio/nothing"}), 404, "repository_not_found"),
        (json!({"defaultBranch": "nothing"}), 404, "branch_not_found"),
        (json!({"uprojectPath": "Game/Other.uproject"}), 404, "uproject_not_found"),
        (json!({"repoFullName": "studio/empty"}), 404, "uproject_not_found"),
        (json!({"repoFullName": "studio/several"}), 409, "multiple_uprojects"),
        (json!({"repoFullName": "studio/broken"}), 400, "validation_failed"),
        (json!({"repoFullName": "studio/pointer"}), 400, "validation_failed"),
    ] {
        let reply = link(changes.clone()).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{changes}");
    }
    let several = link(json!({"repoFullName": "studio/several"})).await.json();
    assert_eq!(several["error"]["details"][0]["allowed"], json!(["A.uproject", "Games/B.UPROJECT"]));
    for (problem, status, code) in [
        (SourceProblem::Unavailable, 502, "upstream_error"),
        (SourceProblem::TimedOut, 502, "upstream_error"),
        (SourceProblem::Broken, 502, "upstream_error"),
        (SourceProblem::Unauthenticated, 502, "upstream_error"),
        (SourceProblem::RateLimited, 503, "upstream_rate_limited"),
        (SourceProblem::StorageFull, 503, "storage_full"),
    ] {
        server.host.fail_with(Some(problem));
        let reply = link(json!({})).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code));
        assert!(!reply.text().contains("the host said"), "{}", reply.text());
    }
    server.host.fail_with(None);
    assert_eq!(count(&server, &admin), 0);
    link(json!({"repoFullName": "studio/several", "uprojectPath": "Games/B.UPROJECT"})).await.expect(201);
    assert_eq!(count(&server, &admin), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_wrong_field_is_named_and_the_host_is_not_asked() {
    let (server, admin) = connected().await;
    let before = server.host.asked().len();
    let reply = server.post(&admin, "/projects/add-repo", json!({})).await;
    assert_eq!(reply.details(), ["defaultBranch:required", "installationId:required", "name:required", "repoFullName:required"]);
    for (field, value) in [
        ("defaultBranch", json!("--upload-pack=touch /tmp/x")),
        ("defaultBranch", json!("--upload-pack=x")),
        ("defaultBranch", json!("refs/heads/-x")),
        ("defaultBranch", json!("-x")),
        ("defaultBranch", json!("a..b")),
        ("defaultBranch", json!("")),
        ("repoFullName", json!("studio")),
        ("repoFullName", json!("studio/../x")),
        ("repoFullName", json!("studio/x/y")),
        ("repoFullName", json!("-studio/x")),
        ("repoFullName", json!("studio/x.git")),
        ("repoFullName", json!("https://git.example/studio/x")),
        ("uprojectPath", json!("../Kitchen.uproject")),
        ("uprojectPath", json!("/etc/Kitchen.uproject")),
        ("uprojectPath", json!("Game\\Kitchen.uproject")),
        ("uprojectPath", json!("Game/Kitchen.txt")),
        ("uprojectPath", json!(".git/Kitchen.uproject")),
        ("uprojectPath", json!("C:/Kitchen.uproject")),
        ("name", json!("a\u{0}b")),
        ("name", json!("   ")),
    ] {
        let reply = server.post(&admin, "/projects/add-repo", with(repository(), json!({field: value}))).await;
        assert_eq!(reply.expect(400).details(), [format!("{field}:invalid_value")], "{value}");
    }
    let reply =
        server.post(&admin, "/projects/add-repo", with(repository(), json!({"name": "x".repeat(101), "uprojectPath": ["a"]}))).await;
    assert_eq!(reply.details(), ["name:too_long", "uprojectPath:invalid_type"]);
    assert_eq!(server.host.asked().len(), before);
    assert_eq!(count(&server, &admin), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_codebase_is_linked_once_whatever_the_name() {
    let (server, admin) = connected().await;
    project(&server, &admin).await;
    for changes in [json!({"name": "Other"}), json!({"repoFullName": "Studio/Kitchen"})] {
        let full_name = changes["repoFullName"].as_str().unwrap_or("studio/kitchen").to_owned();
        server.host.add(&full_name, &[("Game/Kitchen.uproject", UPROJECT)]);
        assert_eq!(server.post(&admin, "/projects/add-repo", with(repository(), changes)).await.expect(409).code(), "project_exists");
    }
    server.host.add("studio/second", &[("Kitchen.uproject", UPROJECT)]);
    server.post(&admin, "/projects/add-repo", with(repository(), json!({"repoFullName": "studio/second"}))).await.expect(201);
    // At the same time only one of them.
    server.host.add("studio/third", &[("Kitchen.uproject", UPROJECT)]);
    let body = with(repository(), json!({"repoFullName": "studio/third"}));
    let asks = (0..8).map(|_| server.post(&admin, "/projects/add-repo", body.clone()));
    let replies = futures_util::future::join_all(asks).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 1);
    assert!(replies.iter().all(|reply| reply.status == 201 || reply.code() == "project_exists"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_connection_nothing_can_be_linked() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    assert_eq!(server.post(&admin, "/projects/add-repo", repository()).await.expect(409).code(), "githost_not_connected");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_go_page_by_page_and_lose_nothing_when_projects_come_and_go() {
    let (server, admin) = connected().await;
    let mut paths = Vec::new();
    for number in 0..5 {
        let full_name = format!("studio/game{number}");
        server.host.add(&full_name, &[("Game.uproject", UPROJECT)]);
        let body = with(repository(), json!({"name": number.to_string(), "repoFullName": full_name}));
        paths.push(server.post(&admin, "/projects/add-repo", body).await.expect(201).header("location").expect("a location").to_owned());
    }
    let first = server.get(&admin, "/projects?limit=2").await.expect(200).json();
    let cursor = first["nextCursor"].as_str().expect("more").to_owned();
    assert_eq!([&first["items"][0]["name"], &first["items"][1]["name"]], ["0", "1"]);
    assert_eq!(
        first["items"][0].as_object().map(|item| item.keys().cloned().collect::<Vec<_>>()).expect("an object"),
        ["description", "id", "lastBuildAt", "lastBuildStatus", "name", "repoLink", "sourceControl"]
    );
    // The anchor of the cursor goes; the next page is the same.
    server.delete(&admin, &paths[1]).await.expect(204);
    let second = server.get(&admin, &format!("/projects?limit=2&cursor={cursor}")).await.expect(200).json();
    assert_eq!([&second["items"][0]["name"], &second["items"][1]["name"]], ["2", "3"]);
    let cursor = second["nextCursor"].as_str().expect("more").to_owned();
    let third = server.get(&admin, &format!("/projects?cursor={cursor}")).await.expect(200).json();
    assert_eq!((third["items"].as_array().map(Vec::len), &third["nextCursor"]), (Some(1), &json!(null)));

    assert_eq!(server.get(&admin, "/projects?sourceControl=streamvc").await.json()["items"], json!([]));
    assert_eq!(server.get(&admin, "/projects?sourceControl=githost").await.json()["items"].as_array().map(Vec::len), Some(4));
    assert_eq!(server.get(&admin, "/projects?sourceControl=svn").await.expect(400).details(), ["sourceControl:invalid_value"]);
    let changed = format!("{}{}", &cursor[..cursor.len() - 1], if cursor.ends_with('A') { 'E' } else { 'A' });
    for query in [format!("sourceControl=githost&cursor={cursor}"), "cursor=abc".into(), format!("cursor={changed}")] {
        assert_eq!(server.get(&admin, &format!("/projects?{query}")).await.expect(400).code(), "invalid_cursor", "{query}");
    }
    assert_eq!(server.get(&admin, &format!("/builds?cursor={cursor}")).await.code(), "invalid_cursor");
    for (limit, count) in [("", Some(4)), ("1", Some(1)), ("999", Some(4))] {
        let reply = server.get(&admin, &format!("/projects?limit={limit}")).await.expect(200).json();
        assert_eq!(reply["items"].as_array().map(Vec::len), count);
    }
    for limit in ["0", "-1", "x", "1.5"] {
        assert_eq!(server.get(&admin, &format!("/projects?limit={limit}")).await.expect(400).code(), "invalid_limit");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn name_and_description_change_and_the_link_does_not() {
    let (server, admin) = connected().await;
    let path = project(&server, &admin).await;
    let old = server.get(&admin, &path).await.expect(200);
    let tag = old.header("etag").expect("a tag").to_owned();
    let reply = server
        .patch(&admin, &path, json!({"name": " New ", "description": "Line\nline", "repoLink": "x/y", "unknown": 1}))
        .await
        .expect(200);
    let new = reply.json();
    assert_eq!((&new["name"], &new["description"], &new["repoLink"]), (&json!("New"), &json!("Line\nline"), &json!("studio/kitchen")));
    assert_eq!(server.get(&admin, &path).await.json(), new);
    assert_eq!(server.patch(&admin, &path, json!({"description": null})).await.expect(200).json()["description"], "");
    let stale = server.ask("PATCH", &path).bearer(&admin.token).header("If-Match", &tag).json(&json!({"name": "Late"})).send().await;
    assert_eq!((stale.status, stale.code().as_str()), (412, "precondition_failed"));
    for (body, detail) in [
        (json!({"name": null}), "name:invalid_type"),
        (json!({"name": ""}), "name:invalid_value"),
        (json!({"description": 1}), "description:invalid_type"),
    ] {
        assert_eq!(server.patch(&admin, &path, body).await.expect(400).details(), [detail]);
    }
    let strict = server.ask("PATCH", &path).bearer(&admin.token).header("Prefer", "handling=strict");
    assert_eq!(strict.json(&json!({"repoLink": "a/b", "nmae": "x"})).send().await.expect(400).details(), ["nmae:unknown_field"]);
    assert_eq!(server.get(&admin, &path).await.json()["name"], "New");
}

#[tokio::test(flavor = "multi_thread")]
async fn removal_takes_the_settings_ends_what_waits_and_keeps_the_builds() {
    use cookhouse::store::{Order, Read};
    let (server, admin) = connected().await;
    let member = server.person(admin.user.organization_id, Role::Member).await;
    let path = project(&server, &member).await;
    let setting = build_setting(&server, &member, &path).await;
    let build = triggered(&server, &member, &setting).await;
    assert_eq!(server.delete(&member, &path).await.expect(403).code(), "forbidden");
    let stale = server.ask("DELETE", &path).bearer(&admin.token).header("If-Match", "\"99-x\"").send().await;
    assert_eq!(stale.status, 412);
    server.delete(&admin, &path).await.expect(204);
    assert_eq!(server.delete(&admin, &path).await.code(), "not_found");
    for gone in [&path, &setting, &format!("{path}/build-settings")] {
        assert_eq!(server.get(&admin, gone).await.code(), "not_found");
    }
    let left = server
        .read(|snapshot| Ok(snapshot.page::<BuildSetting>(admin.user.organization_id, None, None, Order::OldestFirst, 9)?.items.len()));
    assert_eq!(left, 0);
    let shown = server.get(&admin, &format!("/builds/{build}")).await.expect(200).json();
    assert_eq!((&shown["status"], &shown["failure"]["code"]), (&json!("failed"), &json!("cancelled")));
    project(&server, &admin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_links_once_and_asks_the_host_once() {
    let (server, admin) = connected().await;
    let ask = || server.ask("POST", "/projects/add-repo").bearer(&admin.token).header("Idempotency-Key", "k").json(&repository());
    let first = ask().send().await.expect(201);
    let asked = server.host.asked().len();
    let again = ask().send().await.expect(201);
    assert_eq!((&first.body, first.header("etag"), again.header("idempotent-replayed")), (&again.body, again.header("etag"), Some("true")));
    assert_eq!((server.host.asked().len(), count(&server, &admin)), (asked, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_host_cannot_break_the_answer() {
    let (server, admin) = connected().await;
    let huge = format!("{{\"Modules\": [{}]}}", "{\"Name\": \"x\"},".repeat(100_000).trim_end_matches(','));
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    for (number, text) in [huge.as_str(), deep.as_str(), "", "\u{feff}", "null", "{"].into_iter().enumerate() {
        let name = format!("evil/r{number}");
        server.host.add(&name, &[("A.uproject", text)]);
        let reply = server.post(&admin, "/projects/add-repo", with(repository(), json!({"repoFullName": name}))).await;
        assert_eq!((reply.status, reply.details()), (400, vec!["uprojectPath:invalid_value".to_owned()]), "{number}");
    }
    let many = FakeRepository { files: (0..5000).map(|number| (format!("{number}.uproject"), Vec::new())).collect(), ..one() };
    server.host.repositories.lock().expect("unpoisoned").insert("evil/many".into(), many);
    let reply = server.post(&admin, "/projects/add-repo", with(repository(), json!({"repoFullName": "evil/many"}))).await.expect(409);
    assert!(reply.json()["error"]["details"][0]["allowed"].as_array().is_some_and(|paths| paths.len() <= 100));
    assert_eq!(count(&server, &admin), 0);
}

fn one() -> FakeRepository {
    let branches = [("main".to_owned(), "0123456789abcdef0123456789abcdef01234567".to_owned())].into();
    FakeRepository { default_branch: "main".into(), branches, ..FakeRepository::default() }
}
