//! A studio around a real `cookhouse serve`: a git host, a receiver, engines, and the means to kill the server.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cookhouse::demo::git_server::{Commit, GitServer, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::client::{self, Reply};
use crate::support::farm::copy;
use crate::support::service::Service;
use crate::support::stream::EventStream;

pub(crate) const ADMIN: &str = "ada@studio.test";
pub(crate) const PASSWORD: &str = "correct horse battery";
const GIT_TOKEN: &str = "git-token-of-the-kill-driver";

/// Everything. Servers come and go; the data stays.
pub(crate) struct Site {
    pub(crate) data: PathBuf,
    /// Two that are triggered, then those that the clock starts.
    pub(crate) settings: Vec<String>,
    /// The clock's settings, with when each is due first.
    pub(crate) scheduled: Vec<(String, String)>,
    project: String,
    organization: String,
    token: String,
    serving: Option<Service>,
    receiver: Receiver,
    config: PathBuf,
    _git: GitServer,
    _repositories: TempDir,
    _home: TempDir,
}

/// Takes what is deployed to it, slowly, and remembers for which builds.
pub(crate) struct Receiver {
    pub(crate) deliveries: Arc<Mutex<BTreeMap<String, usize>>>,
    url: String,
}

impl Receiver {
    async fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/upload", listener.local_addr().expect("an address"));
        let deliveries = Arc::new(Mutex::new(BTreeMap::new()));
        let kept = deliveries.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(receive(stream, kept.clone()));
            }
        });
        Receiver { deliveries, url }
    }
}

/// One whole request counts as a delivery; what was cut off does not.
async fn receive(mut stream: TcpStream, deliveries: Arc<Mutex<BTreeMap<String, usize>>>) -> Option<()> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    let wanted = loop {
        match stream.read(&mut piece).await.ok()? {
            0 => return None,
            count => bytes.extend_from_slice(&piece[..count]),
        }
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok())?;
        break end + 4 + length;
    };
    let head: Vec<u8> = bytes.iter().copied().take(64 * 1024).collect();
    let mut received = bytes.len();
    while received < wanted {
        match stream.read(&mut piece).await.ok()? {
            0 => return None,
            count => received += count,
        }
        // Long enough that a kill can come in the middle.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let text = String::from_utf8_lossy(&head);
    let build: String = text.split("\"buildId\"").nth(1)?.chars().skip_while(|letter| !letter.is_ascii_alphanumeric()).take(24).collect();
    *deliveries.lock().unwrap_or_else(PoisonError::into_inner).entry(build).or_default() += 1;
    tokio::time::sleep(Duration::from_millis(100)).await;
    stream.write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await.ok()
}

impl Site {
    /// The running build, once enough of its `lines` are there that a kill comes in their middle, and unless it was killed before.
    pub(super) async fn to_be_killed(&self, killed: &[String], lines: usize) -> Option<String> {
        let builds = self.get("/builds?status=running").await;
        let id = super::text(builds["items"].as_array()?.first()?, "id").to_owned();
        let detail = self.get(&format!("/builds/{id}")).await;
        let share = if killed.is_empty() { 3 } else { 2 };
        let is_in_the_middle = detail["logLines"].as_u64() >= Some((lines / share) as u64);
        (is_in_the_middle && !killed.contains(&id)).then_some(id)
    }

    /// Sets everything up, up to a project with two settings: one that deploys, and one on another engine.
    pub(crate) async fn open(mischief: &str) -> Site {
        let (home, repositories) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        copy(&fixtures.join("engines"), &home.path().join("engines"));
        let files = repositories.path().join("files");
        fs::create_dir_all(files.join("Game/Config")).expect("directories");
        fs::create_dir_all(files.join("Game/Content")).expect("directories");
        fs::write(files.join("Game/Kitchen.uproject"), r#"{"FileVersion": 3, "EngineAssociation": "5.4"}"#).expect("a file");
        fs::write(files.join("Game/Content/A.umap"), "a map").expect("a file");
        fs::write(files.join("Game/Config/StandIn.ini"), mischief).expect("a file");
        let git = GitServer::start(Settings::new(repositories.path().join("bare"), GIT_TOKEN)).await.expect("a git server");
        let commit = Commit { branch: "main", message: "Serve the soup", author: "Ada" };
        git.repositories().publish("studio/kitchen", &files, commit).await.expect("published");
        let config = home.path().join("cookhouse.toml");
        let engine = |label: &str, name: &str| {
            format!("[[engines]]\nlabel = {label:?}\nroot = {:?}\n", home.path().join("engines").join(name).display().to_string())
        };
        let text = format!(
            "discover_engines = false\n[executor]\nslots = 2\nshutdown_grace_seconds = 1\n[rate_limits]\nenabled = false\n[outbound]\nallow_loopback = true\n\
             [disk]\nfloor_percent = 0\nfloor_bytes = \"1 MB\"\nfirst_build_bytes = \"8 MB\"\n{}{}",
            engine("5.4", "UE_5.4"),
            engine("4.27", "UE_4.27")
        );
        fs::write(&config, text).expect("a file");
        let data = home.path().join("data");
        let mut site = Site {
            data,
            settings: Vec::new(),
            scheduled: Vec::new(),
            project: String::new(),
            organization: String::new(),
            token: String::new(),
            serving: None,
            receiver: Receiver::start().await,
            config,
            _git: git,
            _repositories: repositories,
            _home: home,
        };
        site.start();
        site.fill().await;
        site
    }

    async fn fill(&mut self) {
        let setup_token = fs::read_to_string(self.data.join("setup-token")).expect("a setup token");
        let body = json!({"setupToken": setup_token.trim(), "email": ADMIN, "name": "Ada",
            "password": PASSWORD, "organizationName": "Studio"});
        let signed_in = self.post("/setup", &body).await;
        self.token = signed_in["accessToken"].as_str().expect("a session").to_owned();
        let organization = signed_in["organization"]["id"].as_str().expect("an id").to_owned();
        self.organization.clone_from(&organization);
        let git = json!({"token": GIT_TOKEN, "apiBaseUrl": self._git.api_base_url(), "gitBaseUrl": self._git.git_base_url()});
        let connected = self.send("PUT", &format!("/organizations/{organization}/integrations/githost"), Some(&git)).await;
        let connected = expect(connected, 200);
        let githost = if connected["installations"].is_array() { &connected } else { &connected["integrations"]["githost"] };
        let installation = githost["installations"][0]["id"].clone();
        let project = json!({"name": "Kitchen", "installationId": installation, "repoFullName": "studio/kitchen", "defaultBranch": "main"});
        self.project = self.post("/projects/add-repo", &project).await["id"].as_str().expect("an id").to_owned();
        let common = json!({"platform": "Linux", "buildType": "Development", "branch": "main", "trigger": "manual"});
        for more in [json!({"ueVersion": "5.4", "autoDeploy": true, "uploadBuildUrl": self.receiver.url}), json!({"ueVersion": "4.27"})] {
            let mut body = common.clone();
            let fields = more.as_object().expect("an object").clone();
            body.as_object_mut().expect("an object").extend(fields);
            let setting = self.post(&format!("/projects/{}/build-settings", self.project), &body).await;
            self.settings.push(setting["id"].as_str().expect("an id").to_owned());
        }
        // Some minute of every five belongs to each, so that every minute something is due.
        for minute in 0..5 {
            let mut body = common.clone();
            body["ueVersion"] = json!(["5.4", "4.27"][minute % 2]);
            body["trigger"] = json!("scheduled");
            body["schedule"] = json!({"cron": format!("{minute}-59/5 * * * *")});
            let setting = self.post(&format!("/projects/{}/build-settings", self.project), &body).await;
            let id = setting["id"].as_str().expect("an id").to_owned();
            self.scheduled.push((id.clone(), setting["schedule"]["nextRunAt"].as_str().expect("a time").to_owned()));
            self.settings.push(id);
        }
        let token = self.post("/auth/tokens", &json!({"name": "driver", "scopes": ["admin"]})).await;
        self.token = token["token"].as_str().expect("a token").to_owned();
    }

    /// The two settings that are triggered tell of their builds, as these `integrationSettings` say.
    pub(crate) async fn tell(&self, integration_settings: &Value) {
        let body = json!({"integrationSettings": integration_settings});
        expect(self.send("PATCH", &format!("/organizations/{}", self.organization), Some(&body)).await, 200);
        for setting in &self.settings[..2] {
            let path = format!("/projects/{}/build-settings/{setting}", self.project);
            expect(self.send("PATCH", &path, Some(&json!({"notifyOnComplete": true}))).await, 200);
        }
    }

    /// Starts a server on the data and waits until it is ready.
    pub(crate) fn start(&mut self) {
        self.serving = Some(Service::start(&self.data, &self.config));
    }

    /// As a power cut would.
    pub(crate) fn kill(&mut self) {
        self.serving.take().expect("it runs").kill();
    }

    /// As a service manager would. The exit code.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        self.serving.take().expect("it runs").terminate()
    }

    pub(crate) fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Where requests go at present; a copy can be used while the server is killed.
    pub(crate) fn caller(&self) -> Caller {
        Caller { address: self.serving.as_ref().expect("it runs").address, token: self.token.clone(), project: self.project.clone() }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        self.caller().send(method, path, body).await.expect("an answer")
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        expect(self.send("POST", path, Some(body)).await, 201)
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        expect(self.send("GET", path, None).await, 200)
    }

    /// Every build there is, newest first.
    pub(crate) async fn builds(&self) -> Vec<Value> {
        let mut builds = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("/builds?limit=100{cursor}")).await;
            builds.extend(page["items"].as_array().expect("items").iter().cloned());
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return builds,
            }
        }
    }
}

/// What a request needs; requests may fail, because the server may be killed under them.
#[derive(Clone)]
pub(crate) struct Caller {
    address: SocketAddr,
    token: String,
    project: String,
}

impl Caller {
    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Reply> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let authorization = if self.token.is_empty() { String::new() } else { format!("Authorization: Bearer {}\r\n", self.token) };
        let request = format!(
            "{method} /v1{path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{authorization}Content-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.exchange(request.as_bytes()).await
    }

    /// The same with more rights.
    pub(crate) async fn admin(mut self) -> Caller {
        let body = json!({"email": ADMIN, "password": PASSWORD});
        let signed_in = expect(self.send("POST", "/auth/login", Some(&body)).await.expect("an answer"), 200);
        self.token = signed_in["accessToken"].as_str().expect("a session").to_owned();
        self
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same, of the server as it runs now.
    pub(crate) fn at(mut self, other: &Caller) -> Caller {
        self.address = other.address;
        self
    }

    /// A build's stream, from behind a position.
    pub(crate) async fn follow_build(&self, build: &str, after: &str) -> Result<EventStream, String> {
        let authorization = format!("Bearer {}", self.token);
        let mut headers = vec![("Authorization", authorization.as_str())];
        if !after.is_empty() {
            headers.push(("Last-Event-ID", after));
        }
        EventStream::open(self.address, &format!("/v1/builds/{build}/events"), &headers).await
    }

    /// A signed link, as a browser follows it: without a token.
    pub(crate) async fn follow(&self, link: &str) -> io::Result<Reply> {
        let path = link.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..])).unwrap_or(link);
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        self.exchange(request.as_bytes()).await
    }

    async fn exchange(&self, request: &[u8]) -> io::Result<Reply> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(request).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        client::parse(&answer, false).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    }

    /// The id of the build, if its acceptance was answered.
    pub(crate) async fn trigger(&self, setting: &str) -> Option<String> {
        let path = format!("/projects/{}/build-settings/{setting}/trigger", self.project);
        let reply = self.send("POST", &path, Some(&json!({}))).await.ok().filter(|reply| reply.status == 201)?;
        let body: Value = serde_json::from_slice(&reply.body).ok()?;
        body["buildId"].as_str().map(str::to_owned)
    }
}

#[track_caller]
fn expect(reply: Reply, status: u16) -> Value {
    reply.expect(status).json()
}

/// A process, not to be mistaken for a later one of the same number.
pub(crate) type Process = (u32, u64);

/// Every process whose environment names the data directory: builds and what they left behind, git, helpers.
pub(crate) fn processes(data: &Path) -> Vec<Process> {
    let needle = data.as_os_str().as_encoded_bytes();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let start = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok());
        if let (true, Some(start)) = (environment.windows(needle.len()).any(|window| window == needle), start) {
            found.push((pid, start));
        }
    }
    found
}
