//! The bundled githost plugin against a git host behind TLS whose certificate is of the studio's own authority.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use cookhouse::demo::certificate::Authority;
use cookhouse::demo::git_server::{Commit, GitServer, Settings};
use cookhouse::seams::{PluginBinding, SourceControl, SourceProblem};
use futures_util::FutureExt as _;
use serde_json::json;
use tokio_util::sync::DropGuard;

use super::{Host, TOKEN, trusting};
use crate::support::front::{Front, Gate};

const REPOSITORY: &str = "studio/game";
const LARGE: &[u8] = &[7; 300_000];

/// A git host behind TLS.
struct Secure {
    server: GitServer,
    base: String,
    _front: DropGuard,
}

impl Secure {
    async fn start(authority: &Authority, directory: &Path, gate: Gate) -> Secure {
        let front = Front::bind(authority.acceptor.clone()).await;
        let base = front.base();
        let settings = Settings { base: Some(base.clone()), ..Settings::new(directory.join("served"), TOKEN) };
        let server = GitServer::start(settings).await.unwrap();
        let _front = front.serve(server.address(), gate);
        Secure { server, base, _front }
    }

    fn binding(&self, host: &Host) -> PluginBinding {
        host.binding("githost", json!({"mode": "token", "apiBaseUrl": format!("{}/api/v3", self.base), "gitBaseUrl": self.base}))
    }

    /// A commit with a large file.
    async fn publish(&self) -> String {
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("Hero.uasset"), LARGE).unwrap();
        std::fs::write(files.path().join(".gitattributes"), "*.uasset filter=lfs diff=lfs merge=lfs -text\n").unwrap();
        let commit = Commit { branch: "main", message: "First", author: "Ada" };
        self.server.repositories().publish(REPOSITORY, files.path(), commit).await.unwrap()
    }
}

/// Looks at every command line of the machine, again and again.
struct Lines {
    seen: Arc<Mutex<BTreeSet<Vec<u8>>>>,
    rounds: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Lines {
    fn watch() -> Lines {
        let lines = Lines { seen: Arc::default(), rounds: Arc::default(), is_over: Arc::default() };
        let (seen, rounds, is_over) = (lines.seen.clone(), lines.rounds.clone(), lines.is_over.clone());
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let found = std::fs::read_dir("/proc").unwrap().flatten();
                let found = found.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
                seen.lock().unwrap().extend(found.collect::<Vec<_>>());
                rounds.fetch_add(1, Ordering::Release);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        lines
    }

    /// Lets a connection go on when whoever opened it was looked at.
    fn gate(&self) -> Gate {
        let rounds = self.rounds.clone();
        Arc::new(move || {
            let rounds = rounds.clone();
            async move {
                let now = rounds.load(Ordering::Acquire);
                // The round that is under way may have passed it by.
                while rounds.load(Ordering::Acquire) < now + 2 {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
            .boxed()
        })
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files_below(&entry.path())),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_studios_authority_is_believed_and_the_token_is_seen_nowhere() {
    let authority = Authority::new().unwrap();
    let host = trusting(&authority);
    let lines = Lines::watch();
    let secure = Secure::start(&authority, host.directory.path(), lines.gate()).await;
    let hash = secure.publish().await;
    let binding = secure.binding(&host);
    assert_eq!(host.plugins.resolve_head(&binding, REPOSITORY, "main", host.call()).await.unwrap().id, hash);
    let workspace = host.workspace();
    host.plugins.materialise(&binding, REPOSITORY, "main", &hash, workspace.clone(), false, host.call()).await.unwrap();
    assert!(std::fs::read(workspace.join("Hero.uasset")).unwrap() == LARGE);

    let pair = BASE64_STANDARD.encode(format!("x-access-token:{TOKEN}"));
    let holds = |bytes: &[u8]| [TOKEN, &pair].iter().any(|form| bytes.windows(form.len()).any(|window| window == form.as_bytes()));
    let seen = lines.seen.lock().unwrap().clone();
    for program in ["fetch", "remote-https", "git-lfs"] {
        let is_it = |line: &[u8]| line.windows(program.len()).any(|window| window == program.as_bytes());
        assert!(seen.iter().any(|line| is_it(line)), "{program} was not looked at");
    }
    for line in seen.iter() {
        assert!(!holds(line), "{}", String::from_utf8_lossy(line));
    }
    let files = files_below(host.directory.path());
    assert!(files.len() > 20, "{files:?}");
    for file in files {
        assert!(!holds(&std::fs::read(&file).unwrap()), "{}", file.display());
    }
    assert!(!host.log.text().is_empty() && !holds(host.log.text().as_bytes()), "{}", host.log.text());
    host.until_quiet().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_that_nobody_trusts_is_named_as_the_cause() {
    let authority = Authority::new().unwrap();
    // It trusts one, but not this one.
    let host = trusting(&Authority::new().unwrap());
    let secure = Secure::start(&authority, host.directory.path(), Arc::new(|| std::future::ready(()).boxed())).await;
    let hash = secure.publish().await;
    let binding = secure.binding(&host);
    let errors = [
        host.plugins.resolve_head(&binding, REPOSITORY, "main", host.call()).await.unwrap_err(),
        host.plugins.materialise(&binding, REPOSITORY, "main", &hash, host.workspace(), false, host.call()).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.problem, error.reason.as_deref()), (SourceProblem::Unavailable, Some("tls")), "{error}");
        assert!(error.message.contains("outbound.ca_certificates"), "{error}");
        let place = host.directory.path().to_string_lossy();
        assert!(!error.message.contains(&*place) && !host.log.text().contains(&*place), "{error}");
    }
    assert!(secure.server.requests().is_empty(), "the token was sent to a stranger");
}
