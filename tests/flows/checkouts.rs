//! What a build has to wait for, is warned of, or fails over while its code is fetched: limits of the git host, paths that not
//! every machine can tell apart, more code than the host allows.

use std::fs;

use cookhouse::demo::git_server::Commit;
use serde_json::{Value, json};

use super::githost::{Flow, REPOSITORY};

const PROJECT: &str = r#"{"FileVersion": 3, "EngineAssociation": "5.4"}"#;

/// A project of one commit, and where its setting is triggered.
async fn linked(flow: &mut Flow, files: &[(&str, &[u8])]) -> (String, String) {
    let hash = publish(flow, files).await;
    flow.connect().await;
    let project = json!({"name": "Kitchen", "installationId": "42", "repoFullName": REPOSITORY, "defaultBranch": "main"});
    let project = flow.send("POST", "/projects/add-repo", Some(project)).await.expect(201).json();
    let settings = format!("/projects/{}/build-settings", project["id"].as_str().expect("an id"));
    let setting = json!({"platform": "Linux", "buildType": "Development", "ueVersion": "5.4", "branch": "main", "trigger": "manual"});
    let setting = flow.send("POST", &settings, Some(setting)).await.expect(201).json()["id"].as_str().expect("an id").to_owned();
    (hash, format!("{settings}/{setting}/trigger"))
}

async fn publish(flow: &Flow, files: &[(&str, &[u8])]) -> String {
    let place = tempfile::tempdir().expect("a directory");
    for (path, bytes) in [("Game/Kitchen.uproject", PROJECT.as_bytes())].iter().chain(files) {
        let path = place.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }
    let commit = Commit { branch: "main", message: "m", author: "Ada" };
    flow.git.repositories().publish(REPOSITORY, place.path(), commit).await.expect("published")
}

async fn log(flow: &mut Flow, build: &Value) -> String {
    let path = format!("/builds/{}/log", build["id"].as_str().expect("an id"));
    flow.send("GET", &path, None).await.expect(200).text()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_waits_for_the_git_hosts_limit_and_goes_on_or_fails_when_that_takes_too_long() {
    let mut flow = Flow::with("").await;
    let (hash, trigger) = linked(&mut flow, &[]).await;
    flow.git.limit(1, 4);
    flow.send("POST", &trigger, Some(json!({}))).await.expect(201);
    let build = flow.finished(1).await;
    assert_eq!((&build["status"], &build["commit"]), (&json!("complete"), &json!(hash)), "{build:#}");
    let said = log(&mut flow, &build).await;
    assert!(said.contains("The server allows no more requests for now; going on in "), "{said}");
    assert!(build["durationMs"].as_u64().expect("a time") >= 3000, "{build:#}");

    // The next hour is too far away: it fails at once, and says when there will be room again.
    flow.git.exhaust(1, 3 * 3600);
    flow.send("POST", &trigger, Some(json!({}))).await.expect(201);
    let build = flow.finished(2).await;
    assert_eq!(
        (&build["status"], &build["failure"]["code"], &build["failure"]["step"]),
        (&json!("failed"), &json!("source_unavailable"), &json!("sync"))
    );
    let message = build["failure"]["message"].as_str().expect("a sentence");
    assert!(message.contains("allows no more requests for now") && message.contains("seconds"), "{message}");
    assert_eq!(flow.service.terminate(), Some(0));
}

// Where the file system keeps both.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_that_differ_in_case_only_are_named_in_the_log_of_the_build() {
    let mut flow = Flow::with("").await;
    let (_, trigger) =
        linked(&mut flow, &[("Game/Content/Soup.umap", b"one"), ("Game/Content/soup.umap", b"another"), ("Game/content/x", b"x")]).await;
    flow.send("POST", &trigger, Some(json!({}))).await.expect(201);
    let build = flow.finished(1).await;
    assert_eq!(build["status"], "complete", "{build:#}");
    let said = log(&mut flow, &build).await;
    assert!(said.contains("Of paths that differ in case only, Windows and macOS keep one: Game/Content/soup.umap"), "{said}");
    assert_eq!(flow.service.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_is_larger_than_the_host_allows_fails_the_build_and_leaves_nothing_behind() {
    let mut flow = Flow::with("checkout_bytes = \"8 MB\"\n").await;
    // Little to fetch, much to write: git packs it to some kilobytes. (Of zeros it would leave holes, which take nothing.)
    let bomb = vec![b'x'; 48 << 20];
    let (_, trigger) = linked(&mut flow, &[("Game/Content/A.umap", b"small")]).await;
    flow.send("POST", &trigger, Some(json!({}))).await.expect(201);
    let build = flow.finished(1).await;
    assert_eq!(build["status"], "complete", "{build:#}");

    publish(&flow, &[("Game/Content/A.umap", &bomb)]).await;
    flow.send("POST", &trigger, Some(json!({}))).await.expect(201);
    let build = flow.finished(2).await;
    assert_eq!(
        (&build["status"], &build["failure"]["code"], &build["failure"]["step"]),
        (&json!("failed"), &json!("source_unavailable"), &json!("sync"))
    );
    let message = build["failure"]["message"].as_str().expect("a sentence");
    assert!(message.contains("more than the 8000000 bytes that disk.checkout_bytes allows"), "{message}");
    assert!(log(&mut flow, &build).await.contains("disk.checkout_bytes"));
    let left = flow.workspace(&trigger).join("source");
    assert!(!left.exists(), "{} is still there", left.display());

    // Somebody takes it out again.
    publish(&flow, &[("Game/Content/A.umap", b"small again")]).await;
    flow.send("POST", &trigger, Some(json!({}))).await.expect(201);
    assert_eq!(flow.finished(3).await["status"], "complete");
    assert_eq!(flow.service.terminate(), Some(0));
}
