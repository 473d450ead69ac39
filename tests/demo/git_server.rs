//! The demo's git server against git, git-lfs and an HTTP client that are not ours.

use std::path::Path;

use cookhouse::demo::git_server::{Commit, GitServer, Settings};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

const TOKEN: &str = "ghs_0123456789-token";
const LARGE: &[u8] = &[7; 300_000];

struct Studio {
    server: GitServer,
    hash: String,
    directory: TempDir,
}

/// One repository, `studio/game`, with a project, a large file, a link and two branches.
async fn studio(tree_limit: usize) -> Studio {
    let directory = TempDir::new().unwrap();
    let files = directory.path().join("files");
    for (path, bytes) in [
        ("Game/Game.uproject", &br#"{"FileVersion":3}"#[..]),
        ("Game/Content/Hero.uasset", LARGE),
        ("Game/Source/Game.cpp", b"int main() { return 0; }\n"),
        (".gitattributes", b"*.uasset filter=lfs diff=lfs merge=lfs -text\n"),
    ] {
        let path = files.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let server = GitServer::start(Settings { tree_limit, ..Settings::new(directory.path().join("served"), TOKEN) }).await.unwrap();
    let repositories = server.repositories();
    let hash =
        repositories.publish("studio/game", &files, Commit { branch: "main", message: "First\n\nbody", author: "Ada" }).await.unwrap();
    repositories.publish("studio/game", &files, Commit { branch: "feature/Ünï", message: "Side", author: "Bob" }).await.unwrap();
    Studio { server, hash, directory }
}

impl Studio {
    async fn get(&self, base: &str, path: &str, accept: &str) -> (u16, Option<String>, Vec<u8>) {
        // Another test of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.get(format!("{base}{path}")).bearer_auth(TOKEN).header("accept", accept);
        let response = request.send().await.unwrap();
        let link = response.headers().get("link").map(|link| link.to_str().unwrap().to_owned());
        (response.status().as_u16(), link, response.bytes().await.unwrap().to_vec())
    }

    async fn json(&self, base: &str, path: &str) -> Value {
        let (status, _, body) = self.get(base, path, "application/json").await;
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }

    /// git as a machine of the studio would call it, with the token in a header given by the environment.
    async fn git(&self, directory: &Path, token: &str, arguments: &[&str]) -> (bool, String) {
        use base64::Engine as _;
        let header = base64::prelude::BASE64_STANDARD.encode(format!("x-access-token:{token}"));
        let output = Command::new("git")
            .args(arguments)
            .current_dir(directory)
            .env("HOME", self.directory.path())
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_CONFIG_COUNT", "5")
            .envs([("GIT_CONFIG_KEY_0", "http.extraHeader"), ("GIT_CONFIG_VALUE_0", &format!("Authorization: Basic {header}"))])
            .envs([("GIT_CONFIG_KEY_1", "filter.lfs.process"), ("GIT_CONFIG_VALUE_1", "git-lfs filter-process")])
            .envs([("GIT_CONFIG_KEY_2", "filter.lfs.required"), ("GIT_CONFIG_VALUE_2", "true")])
            .envs([("GIT_CONFIG_KEY_3", "filter.lfs.clean"), ("GIT_CONFIG_VALUE_3", "git-lfs clean -- %f")])
            .envs([("GIT_CONFIG_KEY_4", "filter.lfs.smudge"), ("GIT_CONFIG_VALUE_4", "git-lfs smudge -- %f")])
            .output()
            .await
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[tokio::test]
async fn git_clones_with_large_files_and_fetches_a_single_commit() {
    let studio = studio(100_000).await;
    let address = format!("{}/studio/game.git", studio.server.git_base_url());
    let (ok, said) = studio.git(studio.directory.path(), TOKEN, &["clone", "--quiet", "--branch", "main", &address, "clone"]).await;
    assert!(ok, "{said}");
    assert_eq!(std::fs::read(studio.directory.path().join("clone/Game/Content/Hero.uasset")).unwrap(), LARGE);
    assert!(studio.server.bytes_sent() > LARGE.len() as u64);

    let fresh = studio.directory.path().join("fresh");
    std::fs::create_dir(&fresh).unwrap();
    studio.git(&fresh, TOKEN, &["init", "--quiet"]).await;
    let (ok, said) = studio.git(&fresh, TOKEN, &["fetch", "--quiet", "--depth=1", "--", &address, &studio.hash]).await;
    assert!(ok, "{said}");
    let (ok, _) = studio.git(&fresh, TOKEN, &["cat-file", "-e", &studio.hash]).await;
    assert!(ok);
}

#[tokio::test]
async fn nothing_opens_without_the_token_and_nothing_can_be_written() {
    let studio = studio(100_000).await;
    let address = format!("{}/studio/game.git", studio.server.git_base_url());
    let (ok, said) = studio.git(studio.directory.path(), "wrong", &["ls-remote", "--", &address]).await;
    assert!(!ok && said.contains("Authentication failed") || said.contains("could not read Username"), "{said}");

    studio.git(studio.directory.path(), TOKEN, &["clone", "--quiet", "--branch", "main", &address, "clone"]).await;
    let (ok, said) =
        studio.git(&studio.directory.path().join("clone"), TOKEN, &["push", "--quiet", "--", &address, "HEAD:refs/heads/new"]).await;
    assert!(!ok && said.contains("403"), "{said}");

    let missing = format!("{}/studio/other.git", studio.server.git_base_url());
    let (ok, said) = studio.git(studio.directory.path(), TOKEN, &["ls-remote", "--", &missing]).await;
    assert!(!ok && said.contains("not found"), "{said}");
    let oid = "0".repeat(64);
    let (status, ..) = studio.get(&studio.server.git_base_url(), &format!("/studio/game.git/info/lfs/objects/{oid}"), "*/*").await;
    assert!(status == 403 || status == 404, "{status}");
}

#[tokio::test]
async fn the_endpoints_have_the_shapes_of_api_v3() {
    let studio = studio(3).await;
    let base = studio.server.api_base_url();
    assert_eq!(studio.json(&base, "/user").await["login"], "studio");
    let repositories = studio.json(&base, "/user/repos").await;
    assert_eq!((&repositories[0]["full_name"], &repositories[0]["default_branch"]), (&"studio/game".into(), &"main".into()));

    let (_, link, body) = studio.get(&base, "/repos/studio/game/branches?per_page=1", "application/json").await;
    assert!(link.unwrap().contains("page=2>; rel=\"next\""));
    let branches: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(branches.as_array().unwrap().len(), 1);
    assert!(branches[0]["commit"]["commit"].is_null(), "a list has hashes alone");

    let branch = studio.json(&base, "/repos/studio/game/branches/feature/%C3%9Cn%C3%AF").await;
    assert_eq!(branch["commit"]["commit"]["author"]["name"], "Bob");
    let commit = studio.json(&base, &format!("/repos/studio/game/commits/{}", &studio.hash[..8])).await;
    assert_eq!((&commit["sha"], &commit["commit"]["message"]), (&studio.hash.clone().into(), &"First\n\nbody".into()));

    let whole = studio.json(&base, &format!("/repos/studio/game/git/trees/{}?recursive=1", studio.hash)).await;
    assert_eq!((&whole["truncated"], whole["tree"].as_array().unwrap().len()), (&true.into(), 3));
    let flat = studio.json(&base, &format!("/repos/studio/game/git/trees/{}", studio.hash)).await;
    assert_eq!((&flat["truncated"], flat["tree"].as_array().unwrap().len()), (&false.into(), 2));

    let file = format!("/repos/studio/game/contents/Game/Game.uproject?ref={}", studio.hash);
    let (_, _, raw) = studio.get(&base, &file, "application/vnd.github.raw+json").await;
    assert_eq!(raw, br#"{"FileVersion":3}"#);
    assert_eq!(studio.json(&base, &file).await["encoding"], "base64");
    for (path, expected) in [
        ("/repos/studio/none", 404),
        ("/repos/studio/game/branches/none", 404),
        ("/repos/studio/game/commits/ffffffff", 422),
        ("/repos/studio/game/contents/none", 404),
        ("/repos/studio/..%2F..%2Fetc", 404),
        ("/none", 404),
    ] {
        assert_eq!(studio.get(&base, path, "application/json").await.0, expected, "{path}");
    }
}

#[tokio::test]
async fn the_endpoints_have_the_shapes_of_api_v1() {
    let studio = studio(100_000).await;
    let base = studio.server.second_api_base_url();
    assert!(studio.json(&base, "/version").await["version"].is_string());
    let branches = studio.json(&base, "/repos/studio/game/branches?limit=10").await;
    assert_eq!(branches[1]["commit"]["author"]["name"], "Ada");
    let tree = studio.json(&base, &format!("/repos/studio/game/git/trees/{}?recursive=1&per_page=2", studio.hash)).await;
    assert_eq!((&tree["truncated"], &tree["page"]), (&true.into(), &1.into()));
    assert_eq!(studio.get(&base, &format!("/repos/studio/game/commits/{}", studio.hash), "*/*").await.0, 404);
    let commit = studio.json(&base, &format!("/repos/studio/game/git/commits/{}", studio.hash)).await;
    assert_eq!(commit["commit"]["author"]["name"], "Ada");
    let (_, _, raw) = studio.get(&base, "/repos/studio/game/raw/Game/Game.uproject?ref=main", "*/*").await;
    assert_eq!(raw, br#"{"FileVersion":3}"#);
}
