//! The plugin host: guests in a sandbox, each call in a store of its own. No other module names wasmtime.
//!
//! | file | holds |
//! |---|---|
//! | `manifest.rs`, `schema.rs`, `capability.rs` | what a plugin asks for; what its settings are; what it may reach (the one place that says yes) |
//! | `registry.rs`, `cache.rs` | installed plugins, compiled in the background and kept compiled |
//! | `runtime.rs` | the engine, its clock, the limits, one call |
//! | `host/` | what guests can call: one file per interface of `wit/` |
//! | `git/`, `askpass.rs`, `p4/` | the tools git and p4, hardened |
//! | `deploy_target.rs`, `source_control.rs` | the seams, answered by guests |

pub mod askpass;
mod bindings;
mod cache;
mod capability;
mod deploy_target;
mod error;
mod git;
mod host;
pub mod manifest;
mod p4;
mod redaction;
mod registry;
mod runtime;
mod schema;
mod source_control;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use wasmtime::component::ResourceTable;

pub use error::PluginError;
pub use host::digest::can_sign;
pub use p4::server::Server as StreamServerAddress;
pub use registry::{Component, PluginState, PluginSummary};

use crate::outbound::Outbound;
use crate::seams::{CallContext, PluginBinding};
use capability::{Grants, Policy};
use git::profile::Profile;
use host::CallState;
use registry::Plugin;
use runtime::Runtime;

/// How the host is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Private directory for compiled plugins and for the tools' homes; made if missing.
    pub directory: PathBuf,
    /// Absolute path of git; without it source-control plugins that need it are told so.
    pub git: Option<PathBuf>,
    /// Absolute path of git-lfs.
    pub git_lfs: Option<PathBuf>,
    /// Absolute path of p4, for stream-based servers.
    pub p4: Option<PathBuf>,
    /// This program, which git calls to ask for a password.
    pub askpass: PathBuf,
    /// Certificates (PEM) that tools trust besides the machine's own.
    pub ca_certificates: Vec<PathBuf>,
    /// Proxy for tools.
    pub proxy: Option<String>,
    /// Processor time of one call.
    pub cpu: Duration,
    /// Sum of the memories of one call, bytes.
    pub memory: usize,
    /// Longest call, whatever its caller allows.
    pub wall: Duration,
}

/// The installed plugins.
#[derive(Clone)]
pub struct Plugins {
    inner: Arc<Inner>,
}

struct Inner {
    runtime: Arc<Runtime>,
    plugins: BTreeMap<String, Plugin>,
    policy: Policy,
    wall: Duration,
    outbound: Outbound,
    tools: Arc<host::command::Tools>,
    caches: host::cache::Caches,
    attempts: Mutex<HashMap<String, deploy_target::Attempts>>,
}

impl Plugins {
    /// Opens the host with the plugins that are part of this program. Returns at once: they are compiled, or read
    /// from the cache, in the background. `mac_key` protects the cache of compiled code.
    ///
    /// # Errors
    /// When the private directory cannot be made, or this machine has no code generator.
    pub fn open(settings: Settings, outbound: Outbound, mac_key: [u8; 32]) -> Result<Plugins, PluginError> {
        Plugins::open_with(settings, outbound, mac_key, bundled())
    }

    /// The same with these components instead.
    ///
    /// # Errors
    /// As [`Plugins::open`], and for a component without a usable manifest.
    pub fn open_with(
        settings: Settings,
        outbound: Outbound,
        mac_key: [u8; 32],
        components: Vec<Component>,
    ) -> Result<Plugins, PluginError> {
        let failed = |reason: String| PluginError::Unusable { plugin: "*".to_owned(), reason };
        let io = |error: std::io::Error| failed(format!("the directory {} cannot be used: {error}", settings.directory.display()));
        let cache = cache::CompileCache::open(&settings.directory, mac_key).map_err(io)?;
        let p4 = p4_profile(&settings, &mac_key).map_err(io)?;
        let tools = Arc::new(host::command::Tools { git: git_profile(&settings).map_err(io)?, p4, ..Default::default() });
        let runtime = Arc::new(Runtime::start().map_err(|error| failed(error.to_string()))?);
        let plugins = registry::load(&runtime, cache, components)?;
        let policy = Policy { tools: tools.names().collect(), memory: settings.memory, cpu: settings.cpu };
        let inner = Inner {
            runtime,
            plugins,
            policy,
            wall: settings.wall,
            outbound,
            tools,
            caches: host::cache::Caches::default(),
            attempts: Mutex::default(),
        };
        Ok(Plugins { inner: Arc::new(inner) })
    }

    /// Every installed plugin, by name.
    pub fn list(&self) -> Vec<PluginSummary> {
        self.inner.plugins.values().map(Plugin::summary).collect()
    }

    /// What one call works with. Bundled plugins are granted what their manifests ask for.
    fn begin(&self, plugin: &Plugin, binding: &PluginBinding, mut call: CallContext) -> Result<CallState, PluginError> {
        let inner = &*self.inner;
        let config = plugin.manifest.config_schema.complete(&binding.config);
        let config = config.map_err(|reason| PluginError::Settings { plugin: plugin.manifest.id.clone(), reason })?;
        let grants = Grants::of(&plugin.manifest, &plugin.manifest.permissions, &inner.policy, &config);
        let redactor = redaction::Redactor::default();
        for secret in binding.secrets.values() {
            redactor.add(secret.reveal());
            call.log.mask(secret.reveal());
        }
        call.wall = call.wall.min(inner.wall);
        let now = Instant::now();
        Ok(CallState {
            table: ResourceTable::new(),
            limiter: runtime::MemoryLimiter::new(grants.memory),
            ticks: 0,
            grants: Arc::new(grants),
            deadline: now + call.wall,
            started: now,
            plugin: plugin.manifest.id.as_str().into(),
            redactor,
            config: Arc::new(config),
            secrets: Arc::new(binding.secrets.clone()),
            cache: inner.caches.of(identity(binding)),
            outbound: inner.outbound.clone(),
            tools: inner.tools.clone(),
            meter: host::log::Meter::new(now),
            progress: Arc::new(host::progress::Throttle::new(call.log.clone())),
            checkpoint: None,
            held: Arc::new(AtomicUsize::new(0)),
            written: host::workspaces::Quota::default(),
            live_exchanges: host::Slots::new(host::http::LIVE_EXCHANGES, "requests"),
            live_processes: host::Slots::new(host::command::LIVE_PROCESSES, "processes"),
            has_run_git: false,
            renewal: None,
            has_run_p4: false,
            call,
        })
    }

    fn plugin(&self, name: &str) -> Result<&Plugin, PluginError> {
        self.inner.plugins.get(name).ok_or_else(|| PluginError::NotInstalled(text::clean(name, 64)))
    }
}

/// The guests that `build.rs` built.
fn bundled() -> Vec<Component> {
    vec![
        include_bytes!(concat!(env!("OUT_DIR"), "/custom-deploy.wasm")).as_slice().into(),
        include_bytes!(concat!(env!("OUT_DIR"), "/githost.wasm")).as_slice().into(),
        include_bytes!(concat!(env!("OUT_DIR"), "/streamvc.wasm")).as_slice().into(),
    ]
}

/// Who a binding is, for its cache: a changed secret or setting is another binding.
fn identity(binding: &PluginBinding) -> [u8; 32] {
    let mut digest = Sha256::new();
    let mut add = |bytes: &[u8]| {
        digest.update((bytes.len() as u64).to_be_bytes());
        digest.update(bytes);
    };
    add(binding.plugin.as_bytes());
    add(binding.organization.to_string().as_bytes());
    add(binding.config.to_string().as_bytes());
    for (name, secret) in &binding.secrets {
        add(name.as_bytes());
        add(secret.reveal().as_bytes());
    }
    digest.finalize().into()
}

fn p4_profile(settings: &Settings, key: &[u8; 32]) -> std::io::Result<Option<p4::profile::Profile>> {
    let Some(program) = settings.p4.clone() else { return Ok(None) };
    // p4 works in other directories than this process.
    let home = std::path::absolute(settings.directory.join("p4"))?;
    let installation = Sha256::new().chain_update(b"p4 installation").chain_update(key).finalize();
    let installation = installation.iter().map(|byte| format!("{byte:02x}")).collect();
    let profile = p4::profile::Profile { p4: program, home, installation };
    profile.prepare()?;
    Ok(Some(profile))
}

fn git_profile(settings: &Settings) -> std::io::Result<Option<Profile>> {
    let Some(git) = settings.git.clone() else { return Ok(None) };
    // git works in other directories than this process.
    let home = std::path::absolute(settings.directory.join("git"))?;
    crate::platform::files::create_private_directory(&home)?;
    let profile = Profile {
        git,
        git_lfs: settings.git_lfs.clone(),
        askpass: settings.askpass.clone(),
        certificates: git::certificates::bundle(&home, &settings.ca_certificates)?,
        home,
        proxy: settings.proxy.clone(),
    };
    profile.prepare()?;
    Ok(Some(profile))
}
