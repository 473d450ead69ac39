//! Every endpoint of the stand-in git host answers in the shapes that GitHub publishes, in good and in bad cases.
//!
//! The published description is not part of this repository, nor is the validator. With npm and pip: `npm pack @octokit/openapi &&
//! tar xzf octokit-openapi-*.tgz && pip install jsonschema`, then
//! `COOKHOUSE_GITHOST_DESCRIPTION=package/generated/api.github.com.json cargo nextest run --no-capture -E 'test(published_shapes)'`
//! (`ghes-3.19.json` beside it: the same for GitHub Enterprise Server).

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use cookhouse::demo::git_server::{App, Commit, GitServer, Settings};
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

const KEY: &str = include_str!("../../fixtures/githost/app-key.pem");
const APP: &str = "Iv1.8a61f9b3a7aba766";
const TOKEN: &str = "ght_of-the-walk";

/// The app's own token, signed as GitHub's documentation says.
fn app_token() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let part = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(json!({"alg": "RS256"})), part(json!({"iat": now - 60, "exp": now + 500, "iss": APP})));
    let pair = match PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap() {
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()).unwrap(),
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap(),
        _ => panic!("no RSA key"),
    };
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &ring::rand::SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
    format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

/// Asks, and writes down what was answered to which published operation.
struct Walk {
    server: GitServer,
    client: reqwest::Client,
    recorded: Vec<String>,
}

impl Walk {
    /// `operation`: method and path as published; `path`: what is asked for it.
    async fn ask(&mut self, what: &str, operation: &str, path: &str, token: &str, body: Option<Value>, status: u16) -> Value {
        let (method, template) = operation.split_once(' ').unwrap();
        let address = format!("{}{path}", self.server.api_base_url());
        let mut request = self.client.request(method.parse().unwrap(), address).header("accept", "application/vnd.github+json");
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
            None => request,
        };
        let answer = request.send().await.unwrap();
        let got = answer.status().as_u16();
        let bytes = answer.bytes().await.unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(got, status, "{what}: {operation} {path}: {text}");
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_else(|_| panic!("{what}: no JSON: {text}"));
        let line = json!({"method": method.to_lowercase(), "path": template, "status": got, "what": what, "body": body});
        self.recorded.push(line.to_string());
        body
    }

    async fn get(&mut self, what: &str, template: &str, path: &str, status: u16) -> Value {
        self.ask(what, &format!("GET {template}"), path, TOKEN, None, status).await
    }
}

const REPOSITORY: &str = "/repos/{owner}/{repo}";
const BRANCHES: &str = "/repos/{owner}/{repo}/branches";
const BRANCH: &str = "/repos/{owner}/{repo}/branches/{branch}";
const COMMIT: &str = "/repos/{owner}/{repo}/commits/{ref}";
const TREE: &str = "/repos/{owner}/{repo}/git/trees/{tree_sha}";
const CONTENTS: &str = "/repos/{owner}/{repo}/contents/{path}";
const TOKENS: &str = "POST /app/installations/{installation_id}/access_tokens";

async fn of_repositories(walk: &mut Walk, hash: &str) {
    walk.get("a user", "/user", "/user", 200).await;
    walk.get("repositories", "/user/repos", "/user/repos?per_page=2", 200).await;
    walk.get("a repository", REPOSITORY, "/repos/studio/game", 200).await;
    walk.get("an empty repository", REPOSITORY, "/repos/studio/empty", 200).await;
    walk.get("a renamed repository", REPOSITORY, "/repos/studio/old", 301).await;
    walk.get("no repository", REPOSITORY, "/repos/studio/none", 404).await;
    walk.get("branches", BRANCHES, "/repos/studio/game/branches?per_page=1", 200).await;
    walk.get("no branches", BRANCHES, "/repos/studio/empty/branches", 200).await;
    walk.get("branches of nothing", BRANCHES, "/repos/studio/none/branches", 404).await;
    walk.get("a branch", BRANCH, "/repos/studio/game/branches/feature/%C3%9Cn%C3%AF", 200).await;
    walk.get("no branch", BRANCH, "/repos/studio/game/branches/none", 404).await;
    walk.get("a moved branch", BRANCH, "/repos/studio/old/branches/main", 301).await;
    walk.get("a commit", COMMIT, &format!("/repos/studio/game/commits/{hash}"), 200).await;
    walk.get("a shortened commit", COMMIT, &format!("/repos/studio/game/commits/{}", &hash[..8]), 200).await;
    walk.get("no commit", COMMIT, &format!("/repos/studio/game/commits/{}", "f".repeat(40)), 422).await;
    walk.get("a commit of an empty repository", COMMIT, "/repos/studio/empty/commits/main", 409).await;
    walk.get("a commit of nothing", COMMIT, "/repos/studio/none/commits/main", 404).await;
    walk.get("a tree", TREE, &format!("/repos/studio/game/git/trees/{hash}"), 200).await;
    let whole = walk.get("a whole tree", TREE, &format!("/repos/studio/game/git/trees/{hash}?recursive=1"), 200).await;
    assert_eq!(whole["truncated"], false);
    let kinds: Vec<&Value> = whole["tree"].as_array().unwrap().iter().map(|entry| &entry["mode"]).collect();
    assert!(["100644", "120000", "160000", "040000"].iter().all(|mode| kinds.contains(&&json!(mode))), "{kinds:?}");
    walk.get("no tree", TREE, &format!("/repos/studio/game/git/trees/{}", "f".repeat(40)), 404).await;
    walk.get("a tree of an empty repository", TREE, "/repos/studio/empty/git/trees/main", 409).await;
    for (what, path, kind) in
        [("a file", "Game/Game.uproject", "file"), ("a link", "link", "symlink"), ("a submodule", "module", "submodule")]
    {
        let found = walk.get(what, CONTENTS, &format!("/repos/studio/game/contents/{path}?ref={hash}"), 200).await;
        assert_eq!(found["type"], kind, "{found}");
    }
    let found = walk.get("a directory", CONTENTS, &format!("/repos/studio/game/contents/Game?ref={hash}"), 200).await;
    assert_eq!(found[0]["path"], "Game/Game.uproject");
    walk.get("a large file", CONTENTS, &format!("/repos/studio/game/contents/large?ref={hash}"), 200).await;
    walk.get("no file", CONTENTS, &format!("/repos/studio/game/contents/none?ref={hash}"), 404).await;
    // By its number, which is where a renamed one leads; published under the name alone.
    let number = walk.get("a repository", REPOSITORY, "/repos/studio/game", 200).await["id"].clone();
    walk.get("a repository by number", REPOSITORY, &format!("/repositories/{number}"), 200).await;
    walk.get("branches by number", BRANCHES, &format!("/repositories/{number}/branches"), 200).await;
}

async fn of_the_app(walk: &mut Walk) {
    let token = app_token();
    walk.ask("the app", "GET /app", "/app", &token, None, 200).await;
    walk.ask("another's token", "GET /app", "/app", "x.y.z", None, 401).await;
    walk.ask("installations", "GET /app/installations", "/app/installations?per_page=1", &token, None, 200).await;
    let buy = |what: &'static str, installation: u64, body: Value, status: u16| {
        (what, format!("/app/installations/{installation}/access_tokens"), body, status)
    };
    let narrow = json!({"repositories": ["game"], "permissions": {"contents": "read", "metadata": "read"}});
    let mut bought = String::new();
    for (what, path, body, status) in [
        buy("a narrow token", 42, narrow.clone(), 201),
        buy("a token of nothing", 42, json!({"repositories": ["none"]}), 422),
        buy("a token of no installation", 77, json!({}), 404),
        buy("a wide token", 42, json!({}), 201),
    ] {
        let answer = walk.ask(what, TOKENS, &path, &token, Some(body), status).await;
        bought = answer["token"].as_str().unwrap_or_default().to_owned();
    }
    walk.ask("a forged token", TOKENS, "/app/installations/42/access_tokens", "x.y.z", Some(narrow.clone()), 401).await;
    walk.ask("what it reaches", "GET /installation/repositories", "/installation/repositories?per_page=1", &bought, None, 200).await;
    walk.server.suspend(42, true);
    walk.ask("suspended", TOKENS, "/app/installations/42/access_tokens", &token, Some(narrow), 403).await;
    walk.ask("a suspended one", "GET /app/installations", "/app/installations", &token, None, 200).await;
    walk.ask("of a suspended one", "GET /installation/repositories", "/installation/repositories", &bought, None, 401).await;
    walk.server.suspend(42, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_of_the_stand_in_has_its_published_shape() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = directory.path().join("files");
    std::fs::create_dir_all(files.join("Game")).expect("a folder");
    std::fs::write(files.join("Game/Game.uproject"), r#"{"FileVersion":3}"#).expect("a file");
    std::fs::write(files.join("large"), vec![b'x'; 2 << 20]).expect("a file");
    let app = App::new(APP, KEY, &[(42, "studio"), (43, "guests")]).expect("an app");
    let settings = Settings { app: Some(app), ..Settings::new(directory.path().join("served"), TOKEN) };
    let server = GitServer::start(settings).await.expect("a git host");
    let repositories = server.repositories();
    let commit = |branch| Commit { branch, message: "First\n\nbody", author: "Ada" };
    repositories.publish("studio/old", &files, commit("main")).await.expect("published");
    repositories.rename("studio/old", "studio/renamed").await.expect("renamed");
    repositories.create("studio/empty").await.expect("created");
    repositories.publish("studio/game", &files, commit("feature/Ünï")).await.expect("published");
    let first = repositories.publish("studio/game", &files, commit("main")).await.expect("published");
    let hash = with_link_and_submodule(&repositories.directory_of("studio/game").expect("there"), &first);

    // Another test of this process may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
    let mut walk = Walk { server, client, recorded: Vec::new() };
    of_repositories(&mut walk, &hash).await;
    of_the_app(&mut walk).await;
    walk.ask("nobody", "GET /user", "/user", "", None, 401).await;
    walk.ask("a stranger", &format!("GET {REPOSITORY}"), "/repos/studio/game", "wrong", None, 401).await;
    walk.server.limit(1, 7);
    walk.get("too many at once", "/user", "/user", 403).await;
    walk.server.exhaust(1, 7);
    walk.get("too many in an hour", REPOSITORY, "/repos/studio/game", 403).await;

    let Some(description) = std::env::var_os("COOKHOUSE_GITHOST_DESCRIPTION") else {
        println!("COOKHOUSE_GITHOST_DESCRIPTION is not set: {} answers are not held against what is published", walk.recorded.len());
        return;
    };
    let answers = directory.path().join("answers");
    std::fs::write(&answers, walk.recorded.join("\n")).expect("a file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/published_shapes.py");
    let checked = std::process::Command::new("python3").arg(script).arg("check").args([Path::new(&description), &answers]).output();
    let checked = checked.expect("python3 starts");
    println!("{}{}", String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
    assert!(checked.status.success());
}

/// The same commit with what no directory of files could give it.
fn with_link_and_submodule(repository: &Path, commit: &str) -> String {
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.arg("--git-dir").arg(repository).args(arguments);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Ada").env(format!("GIT_{who}_EMAIL"), "ada@example.com");
        }
        let output = command.output().expect("git starts");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    };
    git(&["read-tree", commit]);
    let file = git(&["rev-parse", &format!("{commit}:Game/Game.uproject")]);
    git(&["update-index", "--add", "--cacheinfo", &format!("120000,{file},link")]);
    git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},module")]);
    let hash = git(&["commit-tree", &git(&["write-tree"]), "-p", commit, "-m", "more"]);
    git(&["update-ref", "refs/heads/main", &hash]);
    hash
}
