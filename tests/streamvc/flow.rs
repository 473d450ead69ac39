//! The whole way of a stream, through a real `cookhouse serve`: credentials, project, a submit that the server's script tells
//! of, and a build of exactly that changelist. All the while somebody looks for the ticket.
//!
//! `cargo nextest run -E 'test(a_submit_becomes_a_build_of_exactly_that_changelist)'`

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::client::Ask;
use crate::support::depot::{ADDRESS, FINGERPRINT, STREAM, StreamServer, TICKET, USER};
use crate::support::farm::copy;

pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// A studio: the service, a machine with `p4`, an engine.
pub(super) struct Studio {
    pub(super) server: StreamServer,
    home: TempDir,
    child: Child,
    address: SocketAddr,
    token: String,
    pub(super) organization: String,
    /// Everything that was answered, and that the service said.
    heard: Mutex<Vec<String>>,
    pub(super) said: Arc<Mutex<Vec<String>>>,
}

impl Studio {
    pub(super) async fn open(server: StreamServer) -> Studio {
        let home = tempfile::tempdir().expect("a directory");
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/engines"), &home.path().join("engines"));
        let config = home.path().join("cookhouse.toml");
        let text = format!(
            "discover_engines = false\n[[engines]]\nlabel = \"5.4\"\nroot = {:?}\n[tools]\np4 = {:?}\n[rate_limits]\nenabled = false\n\
             [outbound]\nallow_loopback = true\n[disk]\nfloor_percent = 0\nfloor_bytes = \"1 MB\"\nfirst_build_bytes = \"8 MB\"\n",
            home.path().join("engines/UE_5.4"),
            server.program()
        );
        fs::write(&config, text).expect("a file");
        let said = Arc::new(Mutex::new(Vec::new()));
        let (child, address) = serve(home.path(), said.clone());
        let heard = Mutex::default();
        let mut studio = Studio { server, home, child, address, token: String::new(), organization: String::new(), heard, said };
        let setup = fs::read_to_string(studio.data().join("setup-token")).expect("a setup token");
        let body = json!({"setupToken": setup.trim(), "email": "ada@studio.test", "name": "Ada", "password": "correct horse battery",
            "organizationName": "Studio"});
        let signed_in = studio.send("POST", "/setup", body, 201).await;
        studio.token = signed_in["accessToken"].as_str().expect("a session").to_owned();
        studio.organization = signed_in["organization"]["id"].as_str().expect("an id").to_owned();
        studio
    }

    /// As after a power cut.
    pub(super) fn restart(&mut self) {
        self.restart_after(|| {});
    }

    /// The same; `meanwhile` something happens to what the service keeps.
    pub(super) fn restart_after(&mut self, meanwhile: impl FnOnce()) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
        meanwhile();
        (self.child, self.address) = serve(self.home.path(), self.said.clone());
    }

    pub(super) fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    pub(super) async fn send(&self, method: &str, path: &str, body: Value, status: u16) -> Value {
        let mut ask = Ask::new(self.address, method, &format!("/v1{path}"));
        if !self.token.is_empty() {
            ask = ask.bearer(&self.token);
        }
        let ask = if body.is_null() { ask } else { ask.json(&body) };
        let reply = ask.send().await.expect(status);
        self.heard.lock().unwrap().push(format!("{:?} {}", reply.headers, reply.text()));
        serde_json::from_slice(&reply.body).unwrap_or_default()
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        self.send("GET", path, Value::Null, 200).await
    }

    /// Credentials, a project and a setting of it.
    pub(super) async fn link(&self, setting: Value) -> (String, String) {
        let address = if self.server.is_encrypted() { format!("ssl:{ADDRESS}") } else { ADDRESS.to_owned() };
        let credentials = json!({"serverUrl": address, "userName": USER, "ticket": TICKET});
        self.send("PATCH", &format!("/organizations/{}/streamvc", self.organization), credentials, 200).await;
        let project = json!({"name": "Kitchen", "depot": "Games", "streamPath": STREAM, "uprojectPath": "Game/Kitchen.uproject"});
        let project = self.send("POST", "/projects/add-streamvc", project, 201).await["id"].as_str().expect("an id").to_owned();
        let mut body = json!({"platform": "Linux", "buildType": "Development", "ueVersion": "5.4", "streamPath": STREAM});
        body.as_object_mut().unwrap().extend(setting.as_object().unwrap().clone());
        let setting = self.send("POST", &format!("/projects/{project}/build-settings"), body, 201).await;
        (project, setting["id"].as_str().expect("an id").to_owned())
    }

    /// Waits for the newest build to end.
    pub(super) async fn newest(&self, count: usize) -> Value {
        let began = Instant::now();
        loop {
            let builds = self.get("/builds").await;
            let items = builds["items"].as_array().expect("builds");
            let is_over = |build: &&Value| !matches!(build["status"].as_str(), Some("pending" | "running"));
            if items.len() >= count
                && let Some(build) = items.first().filter(is_over)
            {
                return self.get(&format!("/builds/{}", build["id"].as_str().unwrap())).await;
            }
            assert!(began.elapsed() < PATIENCE, "{builds:#} {:#?}", self.said.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Nowhere: not on the disk, not in an answer, not in what the service said.
    fn assert_nowhere(&self, secret: &str, what: &str) {
        let bytes = secret.as_bytes();
        let mut waiting = vec![self.data()];
        while let Some(path) = waiting.pop() {
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            if found.is_dir() {
                waiting.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
            } else if found.is_file() {
                let content = fs::read(&path).unwrap_or_default();
                assert!(!content.windows(bytes.len()).any(|window| window == bytes), "{what} is in {}", path.display());
            }
        }
        for text in self.heard.lock().unwrap().iter().chain(self.said.lock().unwrap().iter()) {
            assert!(!text.contains(secret), "{what} is in {text}");
        }
    }
}

fn serve(home: &Path, said: Arc<Mutex<Vec<String>>>) -> (Child, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cookhouse"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(home.join("data"));
    command.arg("--config").arg(home.join("cookhouse.toml"));
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    for name in ["PATH", "HOME", "LANG"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    let mut child = command.spawn().expect("the service starts");
    let errors = BufReader::new(child.stderr.take().expect("piped"));
    let (sender, ready) = mpsc::channel();
    std::thread::spawn(move || {
        for line in errors.lines().map_while(Result::ok) {
            let address = line.split("ready on http://").nth(1).and_then(|address| address.trim().parse::<SocketAddr>().ok());
            said.lock().unwrap().push(line);
            address.map(|address| sender.send(address));
        }
    });
    (child, ready.recv_timeout(Duration::from_secs(60)).expect("the service is ready"))
}

impl Drop for Studio {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads every command line of the machine again and again, as any user of it can.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<(BTreeSet<String>, usize)>>,
}

impl Watch {
    fn begin(secret: &'static str) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut found, mut seen) = (BTreeSet::new(), 0);
            while !stopped.load(Ordering::Relaxed) {
                for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
                    let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                    let line = String::from_utf8_lossy(&line).replace('\0', " ");
                    seen += usize::from(line.contains("p4 "));
                    if line.contains(secret) {
                        found.insert(line);
                    }
                }
            }
            (found, seen)
        });
        Watch { stop, thread: Some(thread) }
    }

    fn end(mut self) -> (BTreeSet<String>, usize) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

pub(super) fn project_files(server: &StreamServer) -> u64 {
    server.submit(
        "Serve the soup",
        &[("Game/Kitchen.uproject", Some(br#"{"FileVersion": 3, "EngineAssociation": "5.4"}"#)), ("Game/Content/A.umap", Some(b"a map"))],
    )
}

/// The script that an administrator installs, as the server runs it for a submit.
fn submitted(url: &str, token_file: &Path, changelist: &str) -> Duration {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/streamvc-trigger.sh");
    let began = Instant::now();
    let output = Command::new("sh").arg(script).args([url, &token_file.display().to_string(), changelist]).output().expect("sh starts");
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    began.elapsed()
}

fn token_file(directory: &Path, token: &str) -> PathBuf {
    let path = directory.join("cookhouse.token");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path).expect("a file");
    writeln!(file, "{token}").expect("written");
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_submit_becomes_a_build_of_exactly_that_changelist() {
    let server = StreamServer::start_with(|server| server.fingerprint = Some(FINGERPRINT.into()));
    project_files(&server);
    let studio = Studio::open(server).await;
    let watch = Watch::begin(TICKET);
    let (project, setting) = studio.link(json!({"trigger": "push"})).await;
    let organization = studio.get(&format!("/organizations/{}", studio.organization)).await;
    assert_eq!(organization["integrations"]["streamvc"]["fingerprint"], FINGERPRINT);
    let token = json!({"name": "vcs", "scopes": ["trigger"], "buildSettingIds": [setting]});
    let token = studio.send("POST", "/auth/tokens", token, 201).await["token"].as_str().unwrap().to_owned();
    studio.heard.lock().unwrap().clear();
    let file = token_file(studio.home.path(), &token);
    let url = format!("http://{}/v1/projects/{project}/build-settings/{setting}/trigger", studio.address);

    let wanted = studio.server.submit("Salt it", &[("Game/Content/A.umap", Some(b"a salted map"))]);
    let took = submitted(&url, &file, &wanted.to_string());
    assert!(took < Duration::from_secs(5), "a submit was held up for {took:?}");
    // Submitted before the build begins, and no part of it.
    studio.server.submit("Burn it", &[("Game/Content/A.umap", Some(b"a burnt map"))]);
    let build = studio.newest(1).await;
    assert_eq!(build["status"], "complete", "{build:#}");
    assert_eq!((&build["changelist"], &build["commit"]), (&json!(wanted.to_string()), &json!(wanted.to_string())));
    assert_eq!((&build["commitMessage"], &build["branch"]), (&json!("Salt it"), &json!(STREAM)));
    assert!(build["triggeredBy"].as_str().unwrap().starts_with("api_token:"), "{build:#}");
    let map = studio.data().join("workspaces").join(&setting).join("source/Game/Content/A.umap");
    assert_eq!(fs::read_to_string(map).unwrap(), "a salted map");

    // Told twice, built once; what is no changelist is not told of at all.
    submitted(&url, &file, &wanted.to_string());
    submitted(&url, &file, "12; touch x");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(studio.get("/builds").await["items"].as_array().unwrap().len(), 1);

    // A changelist of another stream: what the stream was at that time.
    let elsewhere = studio.server.submit_all("elsewhere", &[("//Libs/zip/zip.h", "text", Some(b"x"))]);
    submitted(&url, &file, &elsewhere.to_string());
    let build = studio.newest(2).await;
    assert_eq!((&build["status"], &build["commitMessage"]), (&json!("complete"), &json!("Burn it")), "{build:#}");

    let (lines, seen) = watch.end();
    assert!(lines.is_empty(), "the ticket stood in {lines:?}");
    println!("p4 was seen {seen} times in the list of processes");
    studio.assert_nowhere(TICKET, "the ticket");
    studio.assert_nowhere(&token, "the trigger's token");
    assert!(!file.with_extension("token.log").exists(), "{:?}", fs::read_to_string(file.with_extension("token.log")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_submit_that_nobody_told_of_is_found_at_the_next_start() {
    let mut studio = Studio::open(StreamServer::start()).await;
    project_files(&studio.server);
    studio.link(json!({"trigger": "push"})).await;
    // What was there before somebody looked for the first time is nothing new.
    let looked = async |studio: &Studio| {
        let began = Instant::now();
        while !studio.server.commands().iter().any(|line| line.starts_with("changes -l -m1 -s submitted //Games/main/...")) {
            assert!(began.elapsed() < PATIENCE, "nobody looked");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    studio.server.forget();
    studio.restart();
    looked(&studio).await;
    assert_eq!(studio.get("/builds").await["items"], json!([]));
    let missed = studio.server.submit("Nobody told", &[("Game/Content/A.umap", Some(b"new"))]);
    studio.restart();
    let build = studio.newest(1).await;
    assert_eq!((&build["triggeredBy"], &build["changelist"]), (&json!(format!("push:{missed}")), &json!(missed.to_string())), "{build:#}");
    assert_eq!(build["status"], "complete", "{build:#}");
    studio.server.forget();
    studio.restart();
    looked(&studio).await;
    assert_eq!(studio.get("/builds").await["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn builds_by_hand_and_again_and_what_cannot_be_built() {
    let studio = Studio::open(StreamServer::start()).await;
    let first = project_files(&studio.server);
    let (project, setting) = studio.link(json!({"trigger": "manual"})).await;
    let trigger = format!("/projects/{project}/build-settings/{setting}/trigger");
    studio.send("POST", &trigger, json!({}), 201).await;
    let build = studio.newest(1).await;
    assert_eq!((&build["status"], &build["changelist"]), (&json!("complete"), &json!(first.to_string())), "{build:#}");
    let second = studio.server.submit("More", &[("Game/Content/B.umap", Some(b"b"))]);
    // The same again is the same changelist.
    studio.send("POST", &format!("/builds/{}/retry", build["id"].as_str().unwrap()), Value::Null, 201).await;
    let build = studio.newest(2).await;
    assert_eq!((&build["status"], &build["changelist"]), (&json!("complete"), &json!(first.to_string())), "{build:#}");
    studio.send("POST", &trigger, json!({"changelist": second.to_string()}), 201).await;
    let build = studio.newest(3).await;
    assert_eq!((&build["status"], &build["changelist"]), (&json!("complete"), &json!(second.to_string())), "{build:#}");
    for body in [json!({"branch": "main"}), json!({"commit": "0123456789"}), json!({"changelist": "now"}), json!({"changelist": "@5"})] {
        studio.send("POST", &trigger, body, 400).await;
    }
    let elsewhere = studio.server.submit_all("elsewhere", &[("//Libs/zip/zip.h", "text", Some(b"x"))]);
    let mut count = 3;
    for (changelist, words) in [("4711", "does not exist"), (elsewhere.to_string().as_str(), "changes nothing in //Games/main")] {
        studio.send("POST", &trigger, json!({"changelist": changelist}), 201).await;
        count += 1;
        let build = studio.newest(count).await;
        assert_eq!((&build["status"], &build["failure"]["code"]), (&json!("failed"), &json!("source_unavailable")), "{build:#}");
        assert!(build["failure"]["message"].as_str().unwrap().contains(words), "{build:#}");
    }
    // A ticket that ends in the middle.
    studio.server.change_server(|server| server.users.get_mut(USER).unwrap().seconds = 0);
    studio.send("POST", &trigger, json!({}), 201).await;
    let build = studio.newest(count + 1).await;
    assert_eq!(build["failure"]["code"], "source_unavailable");
    assert!(build["failure"]["message"].as_str().unwrap().contains("ticket has expired"), "{build:#}");
    studio.assert_nowhere(TICKET, "the ticket");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_trigger_script_never_holds_up_a_submit_and_says_what_went_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("cookhouse.token.log");
    let said = async || {
        let began = Instant::now();
        while !log.exists() && began.elapsed() < Duration::from_secs(30) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let text = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(&log);
        text
    };
    let file = token_file(directory.path(), "ckh_0123456789");
    let url = "http://127.0.0.1:9/v1/x".to_owned();
    // A server that takes the connection and says nothing.
    let (silent, elsewhere) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), tempfile::tempdir().unwrap());
    let address = format!("http://{}/v1/x", silent.local_addr().unwrap());
    assert!(submitted(&address, &token_file(elsewhere.path(), "ckh_0123456789"), "5") < Duration::from_secs(5));
    submitted("file:///etc/passwd", &file, "5");
    assert!(said().await.contains("no address"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    submitted(&url, &file, "5");
    assert!(said().await.contains("can be read by others"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&file, "not\"a token\nheader = \"X: y\"\n").unwrap();
    submitted(&url, &file, "5");
    assert!(said().await.contains("holds no token"));
    let refusing = crate::support::scripted::Scripted::start(|_| b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".to_vec()).await;
    token_file(directory.path(), "ckh_0123456789");
    submitted(&refusing.base(), &file, "5");
    let text = said().await;
    assert!(text.contains("changelist 5") && text.contains("403") && !text.contains("ckh_0123456789"), "{text}");
    let asked = refusing.requests();
    assert_eq!(asked, ["POST / HTTP/1.1"]);
}
