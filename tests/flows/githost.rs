//! An app at a git host: connected, a repository added, a push delivered and signed, exactly that commit built; suspended,
//! disconnected, reconnected. Meanwhile nothing that is secret is seen anywhere.
//!
//! `cargo nextest run -E 'test(flows::githost)'`

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cookhouse::demo::git_server::{App, Commit, GitServer, Settings};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio_util::sync::CancellationToken;

use crate::support::client::{Ask, Reply};
use crate::support::farm::copy;
use crate::support::service::Service;

const KEY: &str = include_str!("../../fixtures/githost/app-key.pem");
const WEBHOOK_SECRET: &str = "webhook-secret-4711-of-the-flow";
pub(super) const REPOSITORY: &str = "studio/kitchen";

/// The studio's machines and the service.
pub(super) struct Flow {
    pub(super) service: Service,
    pub(super) git: GitServer,
    home: tempfile::TempDir,
    token: String,
    organization: String,
    deliveries: u32,
    /// Every answer of the service.
    answers: Vec<String>,
}

impl Flow {
    async fn open() -> Flow {
        Flow::with("").await
    }

    /// With further lines in the configuration's `[disk]`.
    pub(super) async fn with(disk: &str) -> Flow {
        let home = tempfile::tempdir().expect("a directory");
        let place = |name: &str| home.path().join(name);
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/engines"), &place("engines"));
        let mut app = App::new("Iv1.8a61f9b3a7aba766", KEY, &[(42, "studio"), (43, "guests")]).expect("an app");
        app.long_tokens = true;
        let settings = Settings { app: Some(app), ..Settings::new(place("served"), "a token that nobody uses") };
        let git = GitServer::start(settings).await.expect("a git host");
        let config = place("cookhouse.toml");
        let text = format!(
            "discover_engines = false\n[executor]\nshutdown_grace_seconds = 1\n[rate_limits]\nenabled = false\n[outbound]\nallow_loopback = true\n\
             [log]\nlevel = \"debug\"\n[disk]\nfloor_percent = 0\nfloor_bytes = \"1 MB\"\nfirst_build_bytes = \"8 MB\"\n{disk}\
             [[engines]]\nlabel = \"5.4\"\nroot = {:?}\n",
            place("engines/UE_5.4").display().to_string()
        );
        fs::write(&config, text).expect("a file");
        let service = Service::start(&place("data"), &config);
        let mut flow = Flow { service, git, home, token: String::new(), organization: String::new(), deliveries: 0, answers: Vec::new() };
        let setup = fs::read_to_string(flow.home.path().join("data/setup-token")).expect("a setup token");
        let body = json!({"setupToken": setup.trim(), "email": "ada@studio.test", "name": "Ada", "password": "correct horse battery",
            "organizationName": "Studio"});
        let signed_in = flow.send("POST", "/setup", Some(body)).await.expect(201).json();
        flow.token = signed_in["accessToken"].as_str().expect("a session").to_owned();
        flow.organization = signed_in["organization"]["id"].as_str().expect("an id").to_owned();
        flow
    }

    pub(super) async fn send(&mut self, method: &str, path: &str, body: Option<Value>) -> Reply {
        let ask = Ask::new(self.service.address, method, &format!("/v1{path}"));
        let ask = if self.token.is_empty() { ask } else { ask.bearer(&self.token) };
        let reply = match body {
            Some(body) => ask.json(&body).send().await,
            None => ask.send().await,
        };
        self.answers.push(format!("{:?} {}", reply.headers, reply.text()));
        reply
    }

    pub(super) async fn get(&mut self, path: &str) -> Value {
        self.send("GET", path, None).await.expect(200).json()
    }

    /// Of the setting that is triggered there.
    pub(super) fn workspace(&self, trigger: &str) -> std::path::PathBuf {
        let setting = trigger.rsplit('/').nth(1).expect("a setting");
        self.home.path().join("data/workspaces").join(setting)
    }

    fn integration(&self) -> String {
        format!("/organizations/{}/integrations/githost", self.organization)
    }

    pub(super) async fn connect(&mut self) -> Value {
        let body = json!({"appId": "Iv1.8a61f9b3a7aba766", "privateKeyPem": KEY, "webhookSecret": WEBHOOK_SECRET,
            "apiBaseUrl": self.git.api_base_url(), "gitBaseUrl": self.git.git_base_url()});
        let path = self.integration();
        self.send("PUT", &path, Some(body)).await.expect(200).json()
    }

    /// A commit that is pushed to main: its files are the text.
    pub(super) async fn commit(&self, text: &str) -> String {
        let files = tempfile::tempdir().expect("a directory");
        for (path, bytes) in [
            ("Game/Kitchen.uproject", r#"{"FileVersion": 3, "EngineAssociation": "5.4"}"#),
            ("Game/Content/A.umap", text),
            ("Game/Content/Pot.uasset", &format!("a large pot of {text}")),
            (".gitattributes", "*.uasset filter=lfs diff=lfs merge=lfs -text\n"),
        ] {
            let path = files.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, bytes).expect("a file");
        }
        let commit = Commit { branch: "main", message: text, author: "Ada" };
        self.git.repositories().publish(REPOSITORY, files.path(), commit).await.expect("published")
    }

    /// The git host tells of something.
    async fn deliver(&mut self, event: &str, body: &Value) {
        let body = body.to_string();
        let mac = Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).expect("a key").chain_update(&body);
        let signature: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        self.deliveries += 1;
        let reply = Ask::new(self.service.address, "POST", "/v1/hooks/githost")
            .header("Content-Type", "application/json")
            .header("X-GitHub-Event", event)
            .header("X-GitHub-Delivery", &format!("delivery-{}", self.deliveries))
            .header("X-Hub-Signature-256", &format!("sha256={signature}"))
            .body(body)
            .send()
            .await;
        self.answers.push(reply.text());
        reply.expect(202);
    }

    async fn push(&mut self, before: &str, after: &str) {
        let body = json!({"ref": "refs/heads/main", "before": before, "after": after, "created": false, "deleted": false, "forced": false,
            "base_ref": null, "compare": "https://git.example/compare", "commits": [], "head_commit": {"id": after, "message": "m"},
            "repository": {"id": 1, "full_name": REPOSITORY}, "pusher": {"name": "ada"}, "installation": {"id": 42}});
        self.deliver("push", &body).await;
    }

    async fn installation(&mut self, action: &str, status: &str) {
        self.deliver("installation", &json!({"action": action, "installation": {"id": 42, "account": {"login": "studio"}}})).await;
        let path = format!("/organizations/{}", self.organization);
        for _ in 0..500 {
            let shown = self.get(&path).await;
            let installations = shown["integrations"]["githost"]["installations"].as_array().cloned().unwrap_or_default();
            let is_suspended = installations.iter().any(|one| one["id"] == "42" && one["suspended"] == true);
            if is_suspended == (status == "suspended") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{action} changed nothing");
    }

    /// Waits for the end of the newest build, which is the given number of them.
    pub(super) async fn finished(&mut self, count: usize) -> Value {
        for _ in 0..1500 {
            let builds = self.get("/builds").await;
            let builds = builds["items"].as_array().expect("items").clone();
            if builds.len() == count && !matches!(builds[0]["status"].as_str(), Some("pending" | "running")) {
                let id = builds[0]["id"].as_str().expect("an id").to_owned();
                return self.get(&format!("/builds/{id}")).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the build does not end")
    }

    /// Files of the service's data that hold this text.
    fn files_with(&self, text: &str) -> Vec<String> {
        let (mut found, mut waiting, mut count) = (Vec::new(), vec![self.home.path().join("data")], 0);
        while let Some(place) = waiting.pop() {
            for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
                let path = entry.path();
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => waiting.push(path),
                    Ok(kind) if kind.is_file() => {
                        count += 1;
                        let bytes = fs::read(&path).unwrap_or_default();
                        if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                            found.push(path.display().to_string());
                        }
                    }
                    _ => {}
                }
            }
        }
        assert!(count > 20, "only {count} files were looked at");
        found
    }
}

/// The command lines of every process of this machine, from now on.
fn watch_command_lines(stop: &CancellationToken) -> Arc<Mutex<BTreeSet<String>>> {
    let (seen, stop) = (Arc::new(Mutex::new(BTreeSet::new())), stop.clone());
    let kept = seen.clone();
    std::thread::spawn(move || {
        while !stop.is_cancelled() {
            for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
                let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                kept.lock().expect("the lines").insert(String::from_utf8_lossy(&line).replace('\0', " "));
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    });
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_is_connected_its_pushes_are_built_and_nothing_secret_is_seen() {
    let stop = CancellationToken::new();
    let command_lines = watch_command_lines(&stop);
    let mut flow = Flow::open().await;
    let first = flow.commit("carrots").await;

    let connected = flow.connect().await;
    assert_eq!((&connected["status"], &connected["appId"]), (&json!("connected"), &json!("Iv1.8a61f9b3a7aba766")));
    assert_eq!(connected["installations"][0], json!({"id": "42", "account": "studio", "repositorySelection": "all", "suspended": false}));
    let repositories = flow.get("/gitghost/repos/42").await;
    assert_eq!(repositories["items"][0]["fullName"], REPOSITORY);
    assert_eq!(repositories["items"][0]["uprojectDetected"], true);
    let branches = flow.get(&format!("/gitghost/branches/42?repoFullName={REPOSITORY}&q=MAI")).await;
    assert_eq!((&branches["items"][0]["name"], &branches["items"][0]["commit"]["sha"]), (&json!("main"), &json!(first)));

    let project = json!({"name": "Kitchen", "installationId": "42", "repoFullName": REPOSITORY, "defaultBranch": "main"});
    let project = flow.send("POST", "/projects/add-repo", Some(project)).await.expect(201).json();
    assert_eq!(project["uproject"]["path"], "Game/Kitchen.uproject");
    let settings = format!("/projects/{}/build-settings", project["id"].as_str().expect("an id"));
    let setting = json!({"platform": "Linux", "buildType": "Development", "ueVersion": "5.4", "branch": "main", "trigger": "push"});
    let setting = flow.send("POST", &settings, Some(setting)).await.expect(201).json()["id"].as_str().expect("an id").to_owned();

    // The branch is further than the push that is told of: what was pushed is what is built.
    let second = flow.commit("leeks").await;
    flow.commit("onions").await;
    flow.push(&first, &second).await;
    let build = flow.finished(1).await;
    assert_eq!((&build["status"], &build["failure"]), (&json!("complete"), &json!(null)), "{build:#}");
    assert_eq!(
        (&build["commit"], &build["commitMessage"], &build["triggeredBy"]),
        (&json!(second), &json!("leeks"), &json!(format!("push:{second}")))
    );
    let source = flow.home.path().join("data/workspaces").join(&setting).join("source/Game/Content");
    assert_eq!(fs::read_to_string(source.join("A.umap")).expect("the map"), "leeks");
    assert_eq!(fs::read_to_string(source.join("Pot.uasset")).expect("the large file"), "a large pot of leeks");
    // Delivered once more, by another name: nothing more is built. Then a new one, into the same workspace.
    flow.push(&first, &second).await;
    let third = flow.commit("garlic").await;
    flow.push(&second, &third).await;
    let build = flow.finished(2).await;
    assert_eq!((&build["status"], &build["commit"]), (&json!("complete"), &json!(third)), "{build:#}");
    assert_eq!(fs::read_to_string(source.join("Pot.uasset")).expect("the large file"), "a large pot of garlic");
    flow.get(&format!("/builds/{}/log/lines?limit=1000", build["id"].as_str().expect("an id"))).await;

    // Suspended, which nobody told us of: the git host says it. Then told.
    let trigger = format!("{settings}/{setting}/trigger");
    flow.git.suspend(42, true);
    flow.send("POST", &trigger, Some(json!({}))).await.expect(201);
    let build = flow.finished(3).await;
    assert_eq!((&build["status"], &build["failure"]["code"]), (&json!("failed"), &json!("integration_disconnected")), "{build:#}");
    flow.installation("suspend", "suspended").await;
    flow.send("POST", &trigger, Some(json!({}))).await.expect(201);
    assert_eq!(flow.finished(4).await["failure"]["code"], "integration_disconnected");
    flow.git.suspend(42, false);
    flow.installation("unsuspend", "connected").await;
    flow.send("POST", &trigger, Some(json!({}))).await.expect(201);
    assert_eq!(flow.finished(5).await["status"], "complete");

    // Disconnected, and connected again.
    let path = flow.integration().replace("githost", "gitghost");
    flow.send("DELETE", &path, None).await.expect(204);
    flow.send("POST", &trigger, Some(json!({}))).await.expect(201);
    assert_eq!(flow.finished(6).await["failure"]["code"], "integration_disconnected");
    assert_eq!(flow.send("GET", "/gitghost/repos/42", None).await.expect(409).code(), "githost_not_connected");
    flow.connect().await;
    flow.commit("basil").await;
    flow.git.repositories().rename(REPOSITORY, "studio/bistro").await.expect("renamed");
    flow.send("POST", &trigger, Some(json!({}))).await.expect(201);
    assert_eq!(flow.finished(7).await["status"], "complete");
    let project = flow.get(&format!("/projects/{}", project["id"].as_str().expect("an id"))).await;
    assert_eq!(project["repoLink"], "studio/bistro", "the project follows its repository");
    flow.get("/audit").await;
    flow.get("/hooks/deliveries").await;

    stop.cancel();
    let key_line = KEY.lines().nth(5).expect("a line of the key").to_owned();
    let mut secrets = vec![key_line, WEBHOOK_SECRET.to_owned(), "eyJhbGciOiJSUzI1NiI".to_owned()];
    let tokens = flow.git.issued_tokens();
    assert!(tokens.len() >= 3 && tokens.iter().all(|token| token.len() > 400), "{}", tokens.len());
    secrets.extend(tokens);
    let command_lines = command_lines.lock().expect("the lines").clone();
    assert!(
        command_lines.iter().any(|line| line.contains("git ")) && command_lines.iter().any(|line| line.contains("lfs")),
        "{command_lines:?}"
    );
    let said = flow.service.said();
    assert!(said.len() > 20 && flow.answers.len() > 30);
    for secret in &secrets {
        let holds = |text: &&String| text.contains(secret.as_str());
        assert_eq!(command_lines.iter().find(holds), None, "a command line");
        assert_eq!(said.iter().find(holds), None, "the log of the service");
        assert_eq!(flow.answers.iter().find(holds), None, "an answer");
        assert_eq!(flow.files_with(secret), Vec::<String>::new(), "a file of the data directory");
    }
    assert_eq!(flow.service.terminate(), Some(0));
}
