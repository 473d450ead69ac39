//! The plugin host with real guests: limits, capabilities, tools, and the bundled plugins.

mod abuse;
mod compile_cache;
mod deploy;
mod githost;
mod hostile_repository;
mod http;
#[cfg(target_os = "linux")]
mod https_git;
mod pinning;
mod signing;
mod streaming;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cookhouse::clock::Clock;
use cookhouse::demo::certificate::Authority;
use cookhouse::model::Secret;
use cookhouse::model::log::LogStream;
use cookhouse::outbound::{self, Outbound};
use cookhouse::plugins::{Plugins, Settings};
use cookhouse::seams::{CallContext, LogSink, Materialised, PluginBinding, ServerDescription, SourceControl, SourceError};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The guest that misbehaves; built by `build.rs` beside the bundled ones.
pub const ABUSE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/abuse.wasm"));
pub const KEY: [u8; 32] = [7; 32];
pub const TOKEN: &str = "token-0123456789-abcdef";

/// Keeps everything that a call said.
#[derive(Default)]
pub struct Recorder {
    pub lines: Mutex<Vec<String>>,
    pub masked: Mutex<Vec<String>>,
    pub phases: Mutex<Vec<String>>,
}

impl Recorder {
    pub fn text(&self) -> String {
        [self.lines.lock().unwrap().join("\n"), self.phases.lock().unwrap().join("\n")].join("\n")
    }
}

impl LogSink for Recorder {
    fn line(&self, _: LogStream, text: &str) {
        self.lines.lock().unwrap().push(text.to_owned());
    }

    fn mask(&self, secret: &str) {
        self.masked.lock().unwrap().push(secret.to_owned());
    }

    fn progress(&self, phase: &str, done: u64, total: Option<u64>) {
        self.phases.lock().unwrap().push(format!("{phase} {done}/{total:?}"));
    }
}

/// A host with the abuse guest (or the bundled ones) and what a test wants to see of it.
pub struct Host {
    pub plugins: Plugins,
    pub directory: TempDir,
    pub log: Arc<Recorder>,
    pub cancel: CancellationToken,
    pub wall: Duration,
}

pub fn which(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|directory| directory.join(name)).find(|path| path.is_file())
}

pub fn settings(directory: &Path) -> Settings {
    Settings {
        directory: directory.join("plugins"),
        git: which("git"),
        git_lfs: which("git-lfs"),
        p4: None,
        askpass: env!("CARGO_BIN_EXE_cookhouse").into(),
        ca_certificates: Vec::new(),
        proxy: None,
        cpu: Duration::from_secs(60),
        memory: 64 << 20,
        wall: Duration::from_secs(3600),
    }
}

pub fn outbound() -> Outbound {
    Outbound::new(&outbound::Settings { allow_loopback: true, ..outbound::Settings::default() }).unwrap()
}

impl Host {
    pub fn abuse() -> Host {
        Host::with(|directory| Plugins::open_with(settings(directory), outbound(), KEY, vec![ABUSE.into()]).unwrap())
    }

    pub fn bundled() -> Host {
        Host::with(|directory| Plugins::open(settings(directory), outbound(), KEY).unwrap())
    }

    pub fn with(open: impl FnOnce(&Path) -> Plugins) -> Host {
        let directory = TempDir::new().unwrap();
        let plugins = open(directory.path());
        Host { plugins, directory, log: Arc::default(), cancel: CancellationToken::new(), wall: Duration::from_secs(120) }
    }

    pub fn call(&self) -> CallContext {
        CallContext { log: self.log.clone(), cancel: self.cancel.clone(), wall: self.wall, process_marker: self.marker() }
    }

    /// Names this host's processes and no other test's.
    pub fn marker(&self) -> String {
        let name = self.directory.path().file_name().unwrap().to_string_lossy().into_owned();
        format!("test/{}", name.trim_start_matches('.'))
    }

    pub fn binding(&self, plugin: &str, config: Value) -> PluginBinding {
        PluginBinding {
            plugin: plugin.to_owned(),
            organization: Clock::default().new_id(),
            config,
            secrets: [("token".to_owned(), Secret::new(TOKEN.to_owned()))].into(),
        }
    }

    /// Has the abuse guest do something; its answer, or the host's.
    pub async fn misbehave(&self, config: Value) -> Result<String, SourceError> {
        let binding = self.binding("abuse", config);
        self.plugins.check(&binding, self.call()).await.map(|ServerDescription { product, .. }| product)
    }

    /// The same with a workspace.
    pub async fn misbehave_in(&self, workspace: &Path, config: Value) -> Result<String, SourceError> {
        let binding = self.binding("abuse", config);
        let done = self.plugins.materialise(&binding, "a/b", "main", "0", workspace.to_owned(), false, self.call()).await;
        done.map(|Materialised { revision, .. }| revision.message)
    }

    pub fn workspace(&self) -> PathBuf {
        let path = self.directory.path().join("workspace");
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// The processes of this host that are alive, by their environment.
    #[cfg(target_os = "linux")]
    pub fn processes(&self) -> usize {
        let marker = format!("COOKHOUSE_PROCESS={}", self.marker());
        let directories = std::fs::read_dir("/proc").unwrap().flatten();
        let alive = directories.filter(|entry| {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(marker.as_bytes()))
        });
        alive.count()
    }

    /// Waits until no process of this host is left.
    #[cfg(target_os = "linux")]
    pub async fn until_quiet(&self) {
        let quiet = async {
            while self.processes() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), quiet).await.expect("a process was left behind");
    }
}

/// A host that trusts this authority besides the machine's own.
pub fn trusting(authority: &Authority) -> Host {
    Host::with(|directory| {
        let place = directory.join("authority.pem");
        std::fs::write(&place, &authority.pem).unwrap();
        let ca_certificates = vec![place];
        let outbound = outbound::Settings { allow_loopback: true, ca_certificates: ca_certificates.clone(), proxy: None };
        let settings = Settings { ca_certificates, ..settings(directory) };
        Plugins::open(settings, Outbound::new(&outbound).unwrap(), KEY).unwrap()
    })
}
