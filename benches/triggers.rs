//! How fast a trigger is: durable triggers per second with 64 clients, and the time from a trigger to the first
//! instruction of its build command, over HTTP against the whole service on this machine's disk.
//!
//! `cargo bench --bench triggers`, or with `--profile dev`; `CLIENTS`, `SECONDS` and `BUILDS` change how much.
//! The latency counts everything between: the request, the durable record, a checkout of one small file from a directory,
//! the engine's check, and the start of a process whose first line notes the time.

#![allow(clippy::print_stdout, reason = "this is what it is for")]
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "what the tests share is more than this needs"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cookhouse::appliance::{Appliance, Seams};
use cookhouse::builds::connections::githost_token_place;
use cookhouse::config::{Config, Engine, Sources};
use cookhouse::model::permission::{Role, Scope};
use cookhouse::model::{BuildSetting, Status, Timestamp, TriggeredBy, User};
use cookhouse::people::{NewToken, Reach};
use cookhouse::store::{Read, StoreError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use support::farm::{DirectorySource, Receiver};
use support::studio::{self, Kind};

/// The build command: notes the time first of all, where a build may write in its engine.
const COMMAND: &str = "#!/bin/bash\necho \"$EPOCHREALTIME\" > \"${0%/*}/../../Saved/began\"\nexit 1\n";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

struct Site {
    appliance: Appliance,
    paths: Vec<String>,
    token: String,
    /// Where the command notes when it began.
    began: std::path::PathBuf,
    records: studio::Records,
}

async fn start(home: &Path, clients: usize) -> Site {
    let engine = home.join("engines/UE_5.4");
    support::farm::copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/engines/UE_5.4"), &engine);
    let engine_root = engine.clone();
    let batch_files = engine.join("Engine/Build/BatchFiles");
    fs::write(batch_files.join("RunUAT.sh"), COMMAND).expect("written");
    let source = home.join("source");
    fs::create_dir_all(source.join("Game")).expect("directories");
    fs::write(source.join("Game/Kitchen.uproject"), r#"{"FileVersion": 3, "EngineAssociation": "5.4"}"#).expect("written");

    let mut config = Config::load(&Sources::default()).expect("the defaults").config;
    config.data_dir = home.join("data");
    config.listen = "127.0.0.1:0".into();
    config.discover_engines = false;
    config.engines = vec![Engine { label: "5.4".into(), root: engine, platforms: Vec::new() }];
    config.rate_limits.enabled = false;
    (config.disk.floor_percent, config.disk.floor_bytes) = (0, 0);
    let source =
        DirectorySource { directory: source, failure: Default::default(), gate: Default::default(), checkouts: Default::default() };
    let seams = Seams { source_control: Arc::new(source), deploy_target: Arc::new(Receiver::default()) };
    let appliance = Appliance::start_with(&config, Some(seams)).await.expect("started");

    let app = appliance.app().clone();
    let mut records = studio::records(&app.clock, Kind::Githost);
    let place = githost_token_place(records.organization.id);
    records.organization.githost.as_mut().expect("connected").token = Some(app.vault.seal(&place, "token").expect("sealed"));
    let now = app.clock.now();
    let user = User {
        id: app.clock.new_id(),
        organization_id: records.organization.id,
        email: "bench@studio.example".into(),
        name: "bench".into(),
        role: Role::Admin,
        password_hash: "$argon2id$none".into(),
        created_at: now,
        sessions_valid_from: Timestamp(0),
        invitation: None,
        version: 0,
    };
    let settings: Vec<BuildSetting> =
        std::iter::repeat_with(|| studio::setting(&app.clock, &records.project, Kind::Githost)).take(clients).collect();
    let paths = settings.iter().map(|setting| format!("/v1/projects/{}/build-settings/{}/trigger", setting.project_id, setting.id));
    let paths = paths.collect();
    let (stored, owner) = (records.clone(), user.clone());
    let put = move |tx: &cookhouse::store::Change| {
        tx.put(&stored.organization)?;
        tx.put(&stored.project)?;
        tx.put(&owner)?;
        settings.iter().try_for_each(|setting| tx.put(setting))
    };
    app.store.write::<(), StoreError>(put).await.expect("stored");
    let new = NewToken { name: "bench".into(), scopes: vec![Scope::Write], project_ids: None, build_setting_ids: None, expires_at: None };
    let (_, token) = app.people.create_token(&Reach { user, token: None }, new).await.expect("a token");
    Site { appliance, paths, token: token.reveal().clone(), began: engine_root.join("Engine/Saved/began"), records }
}

/// One connection that is kept.
struct Client {
    stream: TcpStream,
    head: String,
}

impl Client {
    async fn connect(address: SocketAddr, path: &str, token: &str) -> Client {
        let stream = TcpStream::connect(address).await.expect("connected");
        stream.set_nodelay(true).expect("set");
        let head = format!("POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n");
        Client { stream, head }
    }

    /// Triggers and reads the answer to its end; the build's id.
    async fn trigger(&mut self) -> String {
        self.stream.write_all(self.head.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        loop {
            self.stream.read_buf(&mut answer).await.expect("read");
            let text = String::from_utf8_lossy(&answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok());
            if body.len() < length.expect("a length") {
                continue;
            }
            assert!(head.starts_with("HTTP/1.1 201"), "{text}");
            let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
            return body["buildId"].as_str().expect("an id").to_owned();
        }
    }
}

fn quantile(sorted: &[Duration], part: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

fn say(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let milliseconds = |part| quantile(&times, part).as_secs_f64() * 1000.0;
    println!(
        "{what}: p50 {:.1} ms, p95 {:.1} ms, p99 {:.1} ms, of {}",
        milliseconds(0.5),
        milliseconds(0.95),
        milliseconds(0.99),
        times.len()
    );
}

async fn latency(site: &Site, builds: u64) {
    let app = site.appliance.app();
    let mut client = Client::connect(site.appliance.address(), &site.paths[0], &site.token).await;
    let (mut to_answer, mut to_instruction) = (Vec::new(), Vec::new());
    let mut parts: [Vec<Duration>; 4] = Default::default();
    for _ in 0..builds {
        let _ = fs::remove_file(&site.began);
        let sent = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let clock = Instant::now();
        let id = client.trigger().await.parse().expect("an id");
        to_answer.push(clock.elapsed());
        // The next one begins on an idle service.
        let ended = loop {
            let build: Option<cookhouse::model::Build> =
                app.store.read::<_, StoreError>(|snapshot| snapshot.get(site.records.organization.id, id)).expect("read");
            if let Some(build) = build.filter(|build| build.status == Status::Failed && !app.builds.is_busy()) {
                break build;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        let began = fs::read_to_string(&site.began).expect("the command began");
        let began = Duration::from_secs_f64(began.trim().replace(',', ".").parse().expect("a time"));
        to_instruction.push(began.saturating_sub(sent));
        let steps = ended.steps.iter().map(|step| Duration::from_millis(step.started_at.0.unsigned_abs()));
        let times: Vec<Duration> = [sent].into_iter().chain(steps.take(3)).chain([began]).collect();
        for (part, pair) in parts.iter_mut().zip(times.windows(2)) {
            part.push(pair[1].saturating_sub(pair[0]));
        }
    }
    say("trigger to durable answer, idle service", to_answer);
    say("trigger to first instruction, idle service", to_instruction);
    for (what, times) in ["until the claim", "log and sync", "prepare", "start"].into_iter().zip(parts) {
        say(&format!("  of it {what}"), times);
    }
}

async fn throughput(site: &Site, seconds: u64) {
    let app = site.appliance.app();
    // Nothing is started: what is measured is the accepting.
    app.builds.pause(site.records.organization.id, TriggeredBy::User(app.clock.new_id())).await.expect("paused");
    let over = Arc::new(AtomicBool::new(false));
    let mut work = Vec::new();
    for path in &site.paths {
        let mut client = Client::connect(site.appliance.address(), path, &site.token).await;
        let over = over.clone();
        work.push(tokio::spawn(async move {
            let mut times = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let clock = Instant::now();
                client.trigger().await;
                times.push(clock.elapsed());
            }
            times
        }));
    }
    let clock = Instant::now();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    over.store(true, Ordering::Relaxed);
    let mut times = Vec::new();
    for work in work {
        times.extend(work.await.expect("a client"));
    }
    let rate = times.len() as f64 / clock.elapsed().as_secs_f64();
    println!("{} clients: {rate:.0} durable triggers/s", site.paths.len());
    say("trigger to durable answer, all clients at once", times);
}

#[tokio::main]
async fn main() {
    // Not among the files of others in /tmp: a service has a place of its own.
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let site = start(home.path(), usize::try_from(number("CLIENTS", 64)).expect("a number")).await;
    latency(&site, number("BUILDS", 100)).await;
    throughput(&site, number("SECONDS", 5)).await;
    site.appliance.stop().await;
}
