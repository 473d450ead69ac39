//! The git host through the API: shapes field by field, every refusal, and the real plugin on a real git host.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use cookhouse::demo::git_server::{Commit, GitServer, Settings};
use cookhouse::model::permission::{Role, Scope};
use cookhouse::seams::SourceProblem;
use serde_json::{Value, json};

use super::connected;
use crate::plugins::{Host, TOKEN};
use crate::support::repositories::UPROJECT;
use crate::support::server::{Person, TestServer};

const KITCHEN: &str = "repoFullName=studio/kitchen";

/// The model's ids are the lengths of the names.
fn kitchen() -> Value {
    json!({"id": 14, "fullName": "studio/kitchen", "private": true, "defaultBranch": "main", "uprojectDetected": true})
}

#[tokio::test(flavor = "multi_thread")]
async fn records_have_the_fields_of_the_specification_under_both_spellings() {
    let (server, admin) = connected().await;
    for word in ["gitghost", "githost"] {
        let repositories = server.get(&admin, &format!("/{word}/repos/studio")).await.expect(200).json();
        assert_eq!(repositories, json!({"items": [kitchen()], "nextCursor": null}));
        let branches = server.get(&admin, &format!("/{word}/branches/studio?{KITCHEN}")).await.expect(200).json();
        let commit = json!({"sha": "0123456789abcdef0123456789abcdef01234567", "message": "Make it better", "author": "Ada"});
        assert_eq!(branches, json!({"items": [{"name": "main", "commit": commit, "isDefault": true}]}));
        for query in [KITCHEN.to_owned(), format!("{KITCHEN}&branch=main"), format!("{KITCHEN}&branch=")] {
            let uproject = server.get(&admin, &format!("/{word}/uproject/studio?{query}")).await.expect(200).json();
            let expected = json!({
                "path": "Game/Kitchen.uproject",
                "projectName": "Kitchen",
                "engineVersion": "5.4",
                "modules": [{"name": "Demo", "type": "Runtime", "loadingPhase": "Default"}],
                "plugins": [{"name": "Extra", "enabled": true}]
            });
            assert_eq!(uproject, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repositories_come_page_by_page_and_detection_is_remembered() {
    let (server, admin) = connected().await;
    for number in 0..7 {
        let files: &[(&str, &str)] =
            if number % 2 == 0 { &[("A.uproject", UPROJECT)] } else { &[("deep/er/than/three/A.uproject", UPROJECT)] };
        server.host.add(&format!("studio/r{number}"), files);
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&admin, &format!("/gitghost/repos/studio?limit=3&cursor={cursor}")).await.expect(200).json();
        seen.extend(page["items"].as_array().expect("items").iter().map(|item| {
            (item["fullName"].as_str().expect("a name").to_owned(), item["uprojectDetected"].as_bool().expect("true or false"))
        }));
        match page["nextCursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    assert_eq!(seen.iter().map(|(name, _)| name).collect::<BTreeSet<_>>().len(), 8);
    for (name, detected) in &seen {
        let expected = name == "studio/kitchen" || name.ends_with(['0', '2', '4', '6']);
        assert_eq!(*detected, expected, "{name}");
    }
    let searches = || server.host.asked().iter().filter(|asked| asked.starts_with("find ")).count();
    assert_eq!(searches(), 8);
    server.get(&admin, "/gitghost/repos/studio?limit=100").await.expect(200);
    assert_eq!(searches(), 8, "what is known is not asked again");

    let other = server.organization("Other").await;
    let rival = server.person(other.id, Role::Admin).await;
    super::connect(&server, &rival).await;
    let page = server.get(&admin, "/gitghost/repos/studio?limit=1").await.json();
    let cursor = page["nextCursor"].as_str().expect("more");
    assert_eq!(server.get(&rival, &format!("/gitghost/repos/studio?cursor={cursor}")).await.expect(400).code(), "invalid_cursor");
    for cursor in ["x", "AA", "Li4vLi4"] {
        assert_eq!(server.get(&admin, &format!("/gitghost/repos/studio?cursor={cursor}")).await.expect(400).code(), "invalid_cursor");
    }
    // What a host that fails does not tell is not made up, and nothing of it is remembered.
    server.host.fail_with(Some(SourceProblem::Unavailable));
    assert_eq!(server.get(&admin, "/gitghost/repos/studio").await.expect(502).code(), "upstream_error");
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_are_searched_in_any_case() {
    let (server, admin) = connected().await;
    {
        let mut repositories = server.host.repositories.lock().expect("the model");
        let branches = &mut repositories.get_mut("studio/kitchen").expect("the repository").branches;
        for name in ["Feature/one", "feature/two", "release"] {
            branches.insert(name.to_owned(), "f".repeat(40));
        }
    }
    for (q, wanted) in [("FEATURE", vec!["Feature/one", "feature/two"]), ("nothing", vec![]), ("%2Fone", vec!["Feature/one"])] {
        let found = server.get(&admin, &format!("/gitghost/branches/studio?{KITCHEN}&q={q}")).await.expect(200).json();
        let names: Vec<_> = found["items"].as_array().expect("items").iter().map(|item| item["name"].as_str().expect("a name")).collect();
        assert_eq!(names, wanted, "{q}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_can_be_wrong_has_its_code() {
    let (server, admin) = connected().await;
    server.host.add("studio/empty", &[("Readme.md", "")]);
    server.host.add("studio/two", &[("B.uproject", UPROJECT), ("a/A.uproject", UPROJECT)]);
    server.host.add("studio/broken", &[("A.uproject", "no project file")]);
    for (path, status, code) in [
        ("/gitghost/repos/nobody", 404, "installation_not_found"),
        ("/gitghost/branches/nobody?repoFullName=studio/kitchen", 404, "installation_not_found"),
        ("/gitghost/uproject/nobody?repoFullName=studio/kitchen", 404, "installation_not_found"),
        ("/gitghost/branches/studio?repoFullName=studio/none", 404, "repository_not_found"),
        ("/gitghost/uproject/studio?repoFullName=studio/none", 404, "repository_not_found"),
        ("/gitghost/uproject/studio?repoFullName=studio/none&branch=main", 404, "repository_not_found"),
        ("/gitghost/uproject/studio?repoFullName=studio/kitchen&branch=gone", 404, "branch_not_found"),
        ("/gitghost/uproject/studio?repoFullName=studio/empty", 404, "uproject_not_found"),
        ("/gitghost/uproject/studio?repoFullName=studio/broken", 404, "uproject_not_found"),
        ("/gitghost/uproject/studio?repoFullName=studio/two", 409, "multiple_uprojects"),
        ("/gitghost/repos/studio?limit=0", 400, "invalid_limit"),
    ] {
        let reply = server.get(&admin, path).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{path}: {}", reply.text());
    }
    let several = server.get(&admin, "/gitghost/uproject/studio?repoFullName=studio/two").await.json();
    assert_eq!(several["error"]["details"][0]["allowed"], json!(["B.uproject", "a/A.uproject"]));
    for (query, details) in [
        ("", vec!["repoFullName:required"]),
        ("?repoFullName=", vec!["repoFullName:required"]),
        ("?repoFullName=kitchen", vec!["repoFullName:invalid_value"]),
        ("?repoFullName=studio/kitchen&repoFullName=studio/two", vec!["repoFullName:invalid_value"]),
        ("?repoFullName=../..", vec!["repoFullName:invalid_value"]),
    ] {
        for path in ["branches", "uproject"] {
            assert_eq!(server.get(&admin, &format!("/gitghost/{path}/studio{query}")).await.expect(400).details(), details, "{query}");
        }
    }
    let both = server.get(&admin, "/gitghost/uproject/studio?repoFullName=x&branch=-x").await.expect(400);
    assert_eq!(both.details(), ["branch:invalid_value", "repoFullName:invalid_value"]);

    for (problem, status, code) in [
        (SourceProblem::Unavailable, 502, "upstream_error"),
        (SourceProblem::TimedOut, 502, "upstream_error"),
        (SourceProblem::Unauthenticated, 502, "upstream_error"),
        (SourceProblem::Broken, 502, "upstream_error"),
        (SourceProblem::RateLimited, 503, "upstream_rate_limited"),
    ] {
        server.host.fail_with(Some(problem));
        for path in ["/gitghost/repos/studio", "/gitghost/branches/studio?repoFullName=a/b", "/gitghost/uproject/studio?repoFullName=a/b"] {
            let reply = server.get(&admin, path).await;
            assert_eq!((reply.status, reply.code().as_str()), (status, code), "{path} {problem:?}");
            assert_eq!(reply.header("retry-after").is_some(), status == 503);
            assert!(!reply.text().contains("the host said"), "what the host says is for the log");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_ask_and_nobody_asks_without_a_connection() {
    let (server, admin) = connected().await;
    let organization = admin.user.organization_id;
    let member = server.person(organization, Role::Member).await;
    let reader = Person { token: server.token(&member.user, &[Scope::Read]).await, ..member };
    server.get(&reader, "/gitghost/repos/studio").await.expect(200);
    let viewer = server.person(organization, Role::Viewer).await;
    assert_eq!(server.get(&viewer, "/gitghost/repos/studio").await.expect(403).code(), "forbidden");
    let trigger = Person { token: server.token(&reader.user, &[Scope::Trigger]).await, ..reader };
    assert_eq!(server.get(&trigger, "/gitghost/repos/studio").await.expect(403).code(), "insufficient_scope");

    server.delete(&admin, &format!("/organizations/{organization}/integrations/gitghost")).await.expect(204);
    for path in ["/gitghost/repos/studio", "/gitghost/branches/studio?repoFullName=a/b", "/gitghost/uproject/studio?repoFullName=a/b"] {
        assert_eq!(server.get(&admin, path).await.expect(409).code(), "githost_not_connected");
    }
}

async fn publish(host: &GitServer, name: &str, branch: &str, message: &str, files: &[(&str, &str)]) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    host.repositories().publish(name, directory.path(), Commit { branch, message, author: "Ada" }).await.expect("a commit")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_plugin_answers_from_a_real_git_host() {
    let plugins = Host::bundled();
    let git = GitServer::start(Settings::new(plugins.directory.path().join("served"), TOKEN)).await.expect("a git host");
    let head = publish(&git, "studio/game", "main", "First", &[("Game/Game.uproject", UPROJECT)]).await;
    publish(&git, "studio/game", "release/5.4", "Second", &[("A.uproject", UPROJECT), ("b/B.uproject", UPROJECT)]).await;
    publish(&git, "studio/tools", "main", "Tools", &[("Readme.md", "x")]).await;
    let server = TestServer::start_on(Arc::new(plugins.plugins.clone())).await;
    let admin = server.admin().await;
    let connection = json!({"token": TOKEN, "apiBaseUrl": git.api_base_url(), "gitBaseUrl": git.git_base_url()});
    let path = format!("/organizations/{}/integrations/gitghost", admin.user.organization_id);
    let connected = server.put(&admin, &path, connection).await.expect(200).json();
    let id = connected["installations"][0]["id"].as_str().expect("an installation").to_owned();

    let found = server.get(&admin, &format!("/gitghost/repos/{id}")).await.expect(200).json();
    let shown: Vec<_> = found["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| {
            (
                item["fullName"].as_str().expect("a name"),
                item["defaultBranch"].as_str().expect("a branch"),
                item["uprojectDetected"].clone(),
            )
        })
        .collect();
    assert_eq!(shown, [("studio/game", "main", json!(true)), ("studio/tools", "main", json!(false))]);
    assert!(found["items"][0]["id"].is_u64() && found["items"][0]["private"].is_boolean());

    let branches = server.get(&admin, &format!("/gitghost/branches/{id}?repoFullName=studio/game&q=REL")).await.expect(200).json();
    assert_eq!((&branches["items"][0]["name"], &branches["items"][0]["commit"]["message"]), (&json!("release/5.4"), &json!("Second")));
    let branches = server.get(&admin, &format!("/gitghost/branches/{id}?repoFullName=studio/game&q=main")).await.expect(200).json();
    assert_eq!(
        branches,
        json!({"items": [{"name": "main", "commit": {"sha": head, "message": "First", "author": "Ada"}, "isDefault": true}]})
    );

    let uproject = server.get(&admin, &format!("/gitghost/uproject/{id}?repoFullName=studio/game")).await.expect(200).json();
    assert_eq!((&uproject["path"], &uproject["engineVersion"]), (&json!("Game/Game.uproject"), &json!("5.4")));
    for (query, status, code) in [
        ("repoFullName=studio/game&branch=release/5.4", 409, "multiple_uprojects"),
        ("repoFullName=studio/game&branch=none", 404, "branch_not_found"),
        ("repoFullName=studio/tools", 404, "uproject_not_found"),
        ("repoFullName=studio/none", 404, "repository_not_found"),
        ("repoFullName=studio/none&branch=main", 404, "repository_not_found"),
    ] {
        let reply = server.get(&admin, &format!("/gitghost/uproject/{id}?{query}")).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{query}: {}", reply.text());
    }
    drop(git);
    assert_eq!(server.get(&admin, &format!("/gitghost/repos/{id}")).await.expect(502).code(), "upstream_error");
}
