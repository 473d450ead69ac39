//! [`DeployTarget`] by guests of the deploy worlds.

use std::sync::PoisonError;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::bindings::deploy::exports::cookhouse::plugin::deploy_target as contract;
use super::bindings::types::{self, ErrorCode};
use super::host::artifacts::Artifact;
use super::registry::Linked;
use super::{PluginError, Plugins};
use crate::model::deploy::DeployFailureCode;
use crate::seams::{ArtifactFile, CallContext, DeployMetadata, DeployOutcome, DeployProblem, DeployTarget, PluginBinding};

/// Longest text that is kept of an answer.
const LONGEST: usize = 2000;
/// Deploys whose attempts are remembered.
const MOST_REMEMBERED: usize = 64;

/// What is kept of the attempts of one deploy, for the next one.
#[derive(Default, Clone)]
pub(super) struct Attempts {
    number: u32,
    checkpoint: Option<Vec<u8>>,
}

impl DeployTarget for Plugins {
    fn deploy<'a>(
        &'a self,
        binding: &'a PluginBinding,
        build: DeployMetadata,
        artifact: ArtifactFile,
        call: CallContext,
    ) -> BoxFuture<'a, Result<DeployOutcome, DeployProblem>> {
        self.deploy_once(binding, build, artifact, call).boxed()
    }
}

impl Plugins {
    async fn deploy_once(
        &self,
        binding: &PluginBinding,
        build: DeployMetadata,
        artifact: ArtifactFile,
        call: CallContext,
    ) -> Result<DeployOutcome, DeployProblem> {
        let plugin = self.plugin(&binding.plugin).map_err(broken)?;
        let Linked::Deploy(pre) = plugin.linked().await.map_err(broken)? else {
            return Err(broken(PluginError::WrongKind { plugin: binding.plugin.clone(), wanted: "deploy" }));
        };
        let opened = tokio::task::spawn_blocking(move || Artifact::open(artifact)).await;
        let artifact = opened.unwrap_or_else(|_| Err(std::io::Error::other("given up"))).map_err(|error| {
            tracing::warn!(%error, "an artifact cannot be opened");
            problem(DeployFailureCode::ArtifactMissing, None, "the artifact is not there any more".to_owned())
        })?;
        let key = format!("{}/{}", binding.plugin, build.build_id);
        let memory = self.next_attempt(&key);
        let state = self.begin(plugin, binding, call).map_err(broken)?;
        let redactor = state.redactor.clone();
        let attempt =
            contract::Attempt { number: memory.number, idempotency_key: key.clone(), checkpoint: memory.checkpoint, extra: Vec::new() };
        let build = contract::Build {
            build_id: build.build_id,
            project_id: build.project_id,
            platform: build.platform,
            build_type: build.build_type,
            ue_version: build.ue_version,
            branch: build.branch,
            commit: build.commit,
        };
        let plugins = self.clone();
        let work = self.inner.runtime.call(state, move |store| {
            async move {
                let handle = store.data_mut().table.push(artifact)?;
                let guest = pre.instantiate_async(&mut *store).await?;
                let done = guest.cookhouse_plugin_deploy_target().call_deploy(&mut *store, &build, handle, &attempt).await;
                plugins.remember(&key, store.data_mut().checkpoint.take(), matches!(done, Ok(Ok(_))));
                done
            }
            .boxed()
        });
        let shown = |text: String| super::text::clean(&redactor.redact(&text), LONGEST);
        match work.await.map_err(broken)? {
            Ok(outcome) => Ok(DeployOutcome {
                remote_id: outcome.remote_id.map(shown),
                remote_url: outcome.remote_url.map(shown),
                message: outcome.message.map(shown),
            }),
            Err(error) => Err(said(&error, shown(error.message.clone()))),
        }
    }

    fn next_attempt(&self, key: &str) -> Attempts {
        let mut attempts = self.inner.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if attempts.len() >= MOST_REMEMBERED && !attempts.contains_key(key) {
            // Memory of attempts is a help, not a promise: it is lost at a restart too.
            attempts.clear();
        }
        let memory = attempts.entry(key.to_owned()).or_default();
        memory.number += 1;
        memory.clone()
    }

    fn remember(&self, key: &str, checkpoint: Option<Vec<u8>>, is_done: bool) {
        let mut attempts = self.inner.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if is_done {
            attempts.remove(key);
        } else if let (Some(memory), Some(checkpoint)) = (attempts.get_mut(key), checkpoint) {
            memory.checkpoint = Some(checkpoint);
        }
    }
}

fn problem(code: DeployFailureCode, http_status: Option<u16>, message: String) -> DeployProblem {
    DeployProblem { code, http_status, message }
}

/// The host ended the call.
fn broken(error: PluginError) -> DeployProblem {
    let code = match &error {
        PluginError::TimedOut { .. } => DeployFailureCode::Timeout,
        PluginError::Cancelled(_) => DeployFailureCode::Interrupted,
        PluginError::NotInstalled(_)
        | PluginError::Unusable { .. }
        | PluginError::WrongKind { .. }
        | PluginError::Settings { .. }
        | PluginError::OutOfTime { .. }
        | PluginError::OutOfMemory { .. }
        | PluginError::Trapped { .. } => DeployFailureCode::PluginError,
    };
    problem(code, None, error.to_string())
}

/// The guest answered with an error: its reason says which, its code where there is no reason.
fn said(error: &types::Error, message: String) -> DeployProblem {
    let reason = error.reason.as_deref().unwrap_or_default();
    let status: Option<u16> = reason.strip_prefix("http-status-").and_then(|status| status.parse().ok());
    let code = match reason {
        _ if status.is_some() => DeployFailureCode::HttpStatus,
        "connect" | "dns" | "address-denied" | "reset" => DeployFailureCode::ConnectFailed,
        _ if reason == "tls" || reason.starts_with("tls.") => DeployFailureCode::TlsFailed,
        "timeout" => DeployFailureCode::Timeout,
        "cancelled" => DeployFailureCode::Interrupted,
        "body" => DeployFailureCode::ArtifactMissing,
        _ => match error.code {
            ErrorCode::TimedOut => DeployFailureCode::Timeout,
            ErrorCode::Cancelled => DeployFailureCode::Interrupted,
            ErrorCode::Unavailable => DeployFailureCode::ConnectFailed,
            _ => DeployFailureCode::PluginError,
        },
    };
    problem(code, status, message)
}
