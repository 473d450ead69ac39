//! The installed plugins: known at once, compiled in the background, linked once.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::watch;

use super::bindings::{deploy, source};
use super::cache::CompileCache;
use super::error::PluginError;
use super::host::CallState;
use super::manifest::{Manifest, Permissions, PluginKind};
use super::runtime::Runtime;

/// One installed plugin, as an administrator sees it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginSummary {
    /// Its name in bindings.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it is for.
    pub kind: PluginKind,
    /// What it asks for and was granted.
    pub permissions: Permissions,
    /// Whether it can be called.
    pub state: PluginState,
}

/// Whether a plugin can be called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum PluginState {
    /// Being compiled; calls wait for it.
    Loading,
    /// Yes.
    Ready,
    /// No.
    Failed {
        /// For the administrator.
        reason: String,
    },
}

/// A plugin that is linked and ready to be instantiated.
#[derive(Clone)]
pub(crate) enum Linked {
    /// A deploy target.
    Deploy(Arc<deploy::DeployCommandPluginPre<CallState>>),
    /// A source-control adapter.
    Source(Arc<source::SourceControlPluginPre<CallState>>),
}

#[derive(Clone)]
enum Progress {
    Loading,
    Ready(Linked),
    Failed(String),
}

/// A plugin and how far it is.
pub(crate) struct Plugin {
    pub(crate) manifest: Manifest,
    progress: watch::Receiver<Progress>,
}

impl Plugin {
    /// The linked component, once it is compiled.
    pub(crate) async fn linked(&self) -> Result<Linked, PluginError> {
        let mut progress = self.progress.clone();
        let done = progress.wait_for(|progress| !matches!(progress, Progress::Loading)).await.map(|progress| progress.clone());
        let unusable = |reason: String| PluginError::Unusable { plugin: self.manifest.id.clone(), reason };
        match done {
            Ok(Progress::Ready(linked)) => Ok(linked),
            Ok(Progress::Failed(reason)) => Err(unusable(reason)),
            Ok(Progress::Loading) | Err(_) => Err(unusable("it was not loaded".to_owned())),
        }
    }

    pub(crate) fn summary(&self) -> PluginSummary {
        let state = match &*self.progress.borrow() {
            Progress::Loading => PluginState::Loading,
            Progress::Ready(_) => PluginState::Ready,
            Progress::Failed(reason) => PluginState::Failed { reason: reason.clone() },
        };
        PluginSummary {
            id: self.manifest.id.clone(),
            name: self.manifest.name.clone(),
            version: self.manifest.version.clone(),
            kind: self.manifest.world.kind(),
            permissions: self.manifest.permissions.clone(),
            state,
        }
    }
}

/// A component, embedded or read.
pub type Component = Cow<'static, [u8]>;

/// Reads the manifests now and compiles on a thread of its own, so that the start of the server does not wait.
///
/// # Errors
/// A component without a usable manifest has no name to be reported under.
pub(crate) fn load(
    runtime: &Arc<Runtime>,
    cache: CompileCache,
    components: Vec<Component>,
) -> Result<BTreeMap<String, Plugin>, PluginError> {
    let mut plugins = BTreeMap::new();
    let mut waiting = Vec::new();
    for component in components {
        let unusable = |error: super::manifest::ManifestError| PluginError::Unusable { plugin: "?".to_owned(), reason: error.to_string() };
        let manifest = Manifest::of_component(&component).map_err(unusable)?;
        let (sender, progress) = watch::channel(Progress::Loading);
        waiting.push((manifest.world.kind(), component, sender));
        plugins.insert(manifest.id.clone(), Plugin { manifest, progress });
    }
    let runtime = runtime.clone();
    let work = move || {
        for (kind, component, sender) in &waiting {
            let progress = link(&runtime, &cache, *kind, component);
            if let Progress::Failed(reason) = &progress {
                tracing::error!(reason, "a plugin cannot be loaded");
            }
            sender.send_replace(progress);
        }
        let known: Vec<&[u8]> = waiting.iter().map(|(_, component, _)| &**component).collect();
        if let Err(error) = cache.sweep(&runtime.engine, &known) {
            tracing::warn!(%error, "old compiled plugins cannot be removed");
        }
    };
    let started = std::thread::Builder::new().name("plugin-compiler".into()).spawn(work);
    started.map_err(|error| PluginError::Unusable { plugin: "?".to_owned(), reason: error.to_string() })?;
    Ok(plugins)
}

fn link(runtime: &Runtime, cache: &CompileCache, kind: PluginKind, component: &[u8]) -> Progress {
    let linked = cache.component(&runtime.engine, component).and_then(|component| {
        Ok(match kind {
            PluginKind::DeployTarget => Linked::Deploy(Arc::new(runtime.link_deploy(&component)?)),
            PluginKind::SourceControl => Linked::Source(Arc::new(runtime.link_source(&component)?)),
        })
    });
    match linked {
        Ok(linked) => Progress::Ready(linked),
        Err(error) => Progress::Failed(super::text::clean(&format!("{error:#}"), 2000)),
    }
}
