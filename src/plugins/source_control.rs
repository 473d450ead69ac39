//! [`SourceControl`] by guests of the source-control worlds.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use wasmtime::Store;
use wasmtime::component::Resource;

use super::bindings::source::exports::cookhouse::plugin::source_control as contract;
use super::bindings::source::{SourceControlPlugin, SourceControlPluginPre};
use super::bindings::types::{self, ErrorCode};
use super::git::desk::Renewed;
use super::host::workspaces::Workspace;
use super::host::{CallState, RemoteRenewal, secrets};
use super::manifest::SecretUse;
use super::redaction::Redactor;
use super::registry::Linked;
use super::{PluginError, Plugins};
use crate::model::Secret;
use crate::model::organization::Installation;
use crate::seams::{
    Branch, BranchPage, CallContext, Materialised, PluginBinding, Repository, RepositoryPage, Revision, ServerDescription, SourceControl,
    SourceError, SourceProblem,
};

/// Longest text of a message or a name that is kept of an answer.
const LONGEST: usize = 4096;
/// Most further facts about a server.
const MOST_FACTS: usize = 100;
/// Longest answer list, whatever the guest says.
const MOST_ITEMS: usize = 10_000;

impl Plugins {
    /// One call of a source-control guest, in the seam's words.
    async fn source<T: Send + 'static>(
        &self,
        binding: &PluginBinding,
        call: CallContext,
        work: impl for<'a> FnOnce(&'a mut Store<CallState>, SourceControlPlugin) -> BoxFuture<'a, wasmtime::Result<Result<T, types::Error>>>
        + Send
        + 'static,
    ) -> Result<T, SourceError> {
        let plugin = self.plugin(&binding.plugin).map_err(broken)?;
        let Linked::Source(pre) = plugin.linked().await.map_err(broken)? else {
            return Err(broken(PluginError::WrongKind { plugin: binding.plugin.clone(), wanted: "source-control" }));
        };
        let mut state = self.begin(plugin, binding, call).map_err(broken)?;
        let redactor = state.redactor.clone();
        state.renewal = Some(self.renewal(binding, &state));
        let done = self.inner.runtime.call(state, move |store| instantiated(pre, store, work).boxed()).await.map_err(broken)?;
        done.map_err(|error| said(&error, &redactor))
    }
}

/// The optional export that renews what tools sign in with.
const CREDENTIALS: &str = "cookhouse:plugin/credentials@1.0.0";

impl Plugins {
    /// For a call's tools: another instance of the same guest says what signs in at a remote now. Nothing where it does not export
    /// that, or cannot tell.
    fn renewal(&self, binding: &PluginBinding, state: &CallState) -> RemoteRenewal {
        let (plugins, binding, call, redactor, deadline) =
            (self.clone(), binding.clone(), state.call.clone(), state.redactor.clone(), state.deadline);
        Arc::new(move |remote| {
            let (plugins, binding, redactor) = (plugins.clone(), binding.clone(), redactor.clone());
            let call = CallContext { wall: deadline.saturating_duration_since(Instant::now()), ..call.clone() };
            async move {
                plugins.password(&binding, call, redactor, remote).await.unwrap_or_else(|error| {
                    tracing::debug!(%error, "a password was not renewed");
                    // A server that is only away for now may take the old one yet.
                    match error.problem {
                        SourceProblem::Unavailable | SourceProblem::TimedOut | SourceProblem::RateLimited => Renewed::Unknown,
                        _ => Renewed::Refused,
                    }
                })
            }
            .boxed()
        })
    }

    async fn password(
        &self,
        binding: &PluginBinding,
        call: CallContext,
        redactor: Redactor,
        remote: String,
    ) -> Result<Renewed, SourceError> {
        let plugin = self.plugin(&binding.plugin).map_err(broken)?;
        let Linked::Source(pre) = plugin.linked().await.map_err(broken)? else {
            return Err(broken(PluginError::WrongKind { plugin: binding.plugin.clone(), wanted: "source-control" }));
        };
        let mut state = self.begin(plugin, binding, call).map_err(broken)?;
        // What is renewed is masked in the lines of the call that asked.
        state.redactor = redactor.clone();
        let done = self.inner.runtime.call(state, move |store| ask_for_password(pre, store, remote).boxed()).await.map_err(broken)?;
        done.map_err(|error| said(&error, &redactor))
    }
}

async fn ask_for_password(
    pre: Arc<SourceControlPluginPre<CallState>>,
    store: &mut Store<CallState>,
    remote: String,
) -> wasmtime::Result<Result<Renewed, types::Error>> {
    let instance = pre.instance_pre().instantiate_async(&mut *store).await?;
    let interface = instance.get_export_index(&mut *store, None, CREDENTIALS);
    let function = interface.and_then(|interface| instance.get_export_index(&mut *store, Some(&interface), "password"));
    let Some(function) = function else { return Ok(Ok(Renewed::Unknown)) };
    let function = instance.get_typed_func::<(&str,), (Result<Resource<secrets::Secret>, types::Error>,)>(&mut *store, &function)?;
    let (answer,) = function.call_async(&mut *store, (&remote,)).await?;
    let secret = match answer {
        Ok(secret) => secret,
        Err(error) => return Ok(Err(error)),
    };
    let state = store.data_mut();
    match state.secret_for(&secret, SecretUse::Env) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) if !text.chars().any(char::is_control) => Ok(Ok(Renewed::Good(Secret::new(text)))),
            _ => Err(wasmtime::Error::msg("a password is text without control characters")),
        },
        Err(failure) => types::Host::convert_error(state, failure).map(Err),
    }
}

/// The optional export that tidies up behind a workspace.
const HOUSEKEEPING: &str = "cookhouse:plugin/housekeeping@1.0.0";

async fn forget(
    pre: Arc<SourceControlPluginPre<CallState>>,
    store: &mut Store<CallState>,
    workspace: Workspace,
) -> wasmtime::Result<Result<(), types::Error>> {
    let instance = pre.instance_pre().instantiate_async(&mut *store).await?;
    let interface = instance.get_export_index(&mut *store, None, HOUSEKEEPING);
    let function = interface.and_then(|interface| instance.get_export_index(&mut *store, Some(&interface), "forget"));
    let Some(function) = function else { return Ok(Ok(())) };
    let function = instance.get_typed_func::<(Resource<Workspace>,), (Result<(), types::Error>,)>(&mut *store, &function)?;
    let handle = store.data_mut().table.push(workspace)?;
    let lent = Resource::new_borrow(handle.rep());
    let (answer,) = function.call_async(&mut *store, (lent,)).await?;
    store.data_mut().table.delete(handle)?;
    Ok(answer)
}

async fn open_workspace(path: PathBuf) -> Result<Workspace, SourceError> {
    let workspace = tokio::task::spawn_blocking(move || Workspace::open(&path)).await;
    workspace.unwrap_or_else(|_| Err(std::io::Error::other("given up"))).map_err(|error| {
        tracing::warn!(%error, "a workspace cannot be opened");
        let message = "the workspace cannot be opened".to_owned();
        SourceError { problem: SourceProblem::Broken, message, retry_after: None, reason: Some("workspace".to_owned()) }
    })
}

async fn instantiated<T>(
    pre: Arc<SourceControlPluginPre<CallState>>,
    store: &mut Store<CallState>,
    work: impl for<'a> FnOnce(&'a mut Store<CallState>, SourceControlPlugin) -> BoxFuture<'a, wasmtime::Result<Result<T, types::Error>>> + Send,
) -> wasmtime::Result<Result<T, types::Error>> {
    let plugin = pre.instantiate_async(&mut *store).await?;
    work(store, plugin).await
}

/// The host ended the call.
fn broken(error: PluginError) -> SourceError {
    let problem = match &error {
        PluginError::TimedOut { .. } => SourceProblem::TimedOut,
        PluginError::Cancelled(_) => SourceProblem::Cancelled,
        PluginError::NotInstalled(_)
        | PluginError::Unusable { .. }
        | PluginError::WrongKind { .. }
        | PluginError::Settings { .. }
        | PluginError::OutOfTime { .. }
        | PluginError::OutOfMemory { .. }
        | PluginError::Trapped { .. } => SourceProblem::Broken,
    };
    SourceError { problem, message: error.to_string(), retry_after: None, reason: None }
}

/// The guest answered with an error.
fn said(error: &types::Error, redactor: &Redactor) -> SourceError {
    let problem = match error.code {
        ErrorCode::Unauthenticated => SourceProblem::Unauthenticated,
        ErrorCode::Forbidden => SourceProblem::Forbidden,
        ErrorCode::NotFound => SourceProblem::NotFound,
        ErrorCode::InvalidArgument => SourceProblem::Invalid,
        ErrorCode::RateLimited => SourceProblem::RateLimited,
        ErrorCode::Unavailable => SourceProblem::Unavailable,
        ErrorCode::TimedOut => SourceProblem::TimedOut,
        ErrorCode::TooLarge => SourceProblem::TooLarge,
        ErrorCode::Cancelled => SourceProblem::Cancelled,
        // Whoever looks for the server: it cannot be reached from here.
        ErrorCode::Denied if error.reason.as_deref() == Some("address-denied") => SourceProblem::Unavailable,
        _ if error.reason.as_deref() == Some("storage-full") => SourceProblem::StorageFull,
        ErrorCode::InvalidConfig
        | ErrorCode::Conflict
        | ErrorCode::Denied
        | ErrorCode::Unsupported
        | ErrorCode::Protocol
        | ErrorCode::Io
        | ErrorCode::Internal
        | ErrorCode::Other => SourceProblem::Broken,
    };
    let shown = |text: &str| super::text::clean(&redactor.redact(text), LONGEST);
    SourceError {
        problem,
        message: shown(&error.message),
        retry_after: error.retry_after_ms.map(|milliseconds| milliseconds.div_ceil(1000)),
        reason: error.reason.as_deref().map(shown),
    }
}

fn revision(found: contract::Revision) -> Revision {
    // Messages keep their lines; other control characters have no business in them.
    let message = found.message.lines().map(|line| super::text::clean(line, LONGEST)).collect::<Vec<_>>().join("\n");
    Revision { id: name(&found.id), message: super::text::prefix(&message, 16 * LONGEST).to_owned(), author: name(&found.author) }
}

/// What an app's plugin says of its installations, as far as it can be used.
fn installations(extra: &[(String, String)]) -> Vec<Installation> {
    let listed = extra.iter().find(|(key, _)| key == "installations").map(|(_, text)| text.as_str()).unwrap_or("[]");
    let listed: Vec<Installation> = serde_json::from_str(listed).unwrap_or_default();
    let is_plain = |id: &str| (1..=100).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let usable = listed.into_iter().filter(|one| is_plain(&one.id)).take(MOST_ITEMS);
    usable.map(|one| Installation { account: name(&one.account), repository_selection: name(&one.repository_selection), ..one }).collect()
}

fn name(text: &str) -> String {
    super::text::clean(text, LONGEST)
}

impl SourceControl for Plugins {
    fn check<'a>(&'a self, binding: &'a PluginBinding, call: CallContext) -> BoxFuture<'a, Result<ServerDescription, SourceError>> {
        async move {
            let server = self.source(binding, call, |store, plugin| {
                async move { plugin.cookhouse_plugin_source_control().call_check(store).await }.boxed()
            });
            let server = server.await?;
            Ok(ServerDescription {
                product: name(&server.product),
                version: name(&server.version),
                account: server.account.as_deref().map(name),
                installations: installations(&server.extra),
                extra: server.extra.iter().take(MOST_FACTS).map(|(key, value)| (name(key), name(value))).collect(),
            })
        }
        .boxed()
    }

    fn list_repositories<'a>(
        &'a self,
        binding: &'a PluginBinding,
        cursor: Option<String>,
        limit: u32,
        call: CallContext,
    ) -> BoxFuture<'a, Result<RepositoryPage, SourceError>> {
        async move {
            let request = contract::PageRequest { limit, cursor };
            let page = self.source(binding, call, move |store, plugin| {
                async move { plugin.cookhouse_plugin_source_control().call_list_repositories(store, &request).await }.boxed()
            });
            let page = page.await?;
            let repository = |one: contract::Repository| Repository {
                id: name(&one.id),
                full_name: name(&one.full_name),
                is_private: one.is_private,
                default_branch: name(&one.default_branch),
            };
            Ok(RepositoryPage { items: page.items.into_iter().take(MOST_ITEMS).map(repository).collect(), next_cursor: page.next_cursor })
        }
        .boxed()
    }

    fn list_branches<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        query: Option<String>,
        cursor: Option<String>,
        limit: u32,
        call: CallContext,
    ) -> BoxFuture<'a, Result<BranchPage, SourceError>> {
        let repository = repository.to_owned();
        async move {
            let request = contract::PageRequest { limit, cursor };
            let page = self.source(binding, call, move |store, plugin| {
                async move {
                        plugin.cookhouse_plugin_source_control().call_list_branches(store, &repository, query.as_deref(), &request).await
                    }
                    .boxed()
            });
            let page = page.await?;
            let branch = |one: contract::Branch| Branch { name: name(&one.name), head: revision(one.head), is_default: one.is_default };
            Ok(BranchPage { items: page.items.into_iter().take(MOST_ITEMS).map(branch).collect(), next_cursor: page.next_cursor })
        }
        .boxed()
    }

    fn resolve_head<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        branch: &'a str,
        call: CallContext,
    ) -> BoxFuture<'a, Result<Revision, SourceError>> {
        let (repository, branch) = (repository.to_owned(), branch.to_owned());
        async move {
            let found = self.source(binding, call, move |store, plugin| {
                async move { plugin.cookhouse_plugin_source_control().call_resolve_head(store, &repository, &branch).await }.boxed()
            });
            found.await.map(revision)
        }
        .boxed()
    }

    fn describe_revision<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        revision_name: &'a str,
        call: CallContext,
    ) -> BoxFuture<'a, Result<Revision, SourceError>> {
        let (repository, wanted) = (repository.to_owned(), revision_name.to_owned());
        async move {
            let found = self.source(binding, call, move |store, plugin| {
                async move { plugin.cookhouse_plugin_source_control().call_describe_revision(store, &repository, &wanted).await }.boxed()
            });
            found.await.map(revision)
        }
        .boxed()
    }

    fn read_file<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        revision: &'a str,
        path: &'a str,
        limit: u32,
        call: CallContext,
    ) -> BoxFuture<'a, Result<Vec<u8>, SourceError>> {
        let (repository, revision, path) = (repository.to_owned(), revision.to_owned(), path.to_owned());
        async move {
            let bytes = self.source(binding, call, move |store, plugin| {
                async move { plugin.cookhouse_plugin_source_control().call_read_file(store, &repository, &revision, &path, limit).await }.boxed()
            });
            let bytes = bytes.await?;
            if bytes.len() > limit as usize {
                let message = format!("the plugin gave more than the {limit} bytes it was asked for");
                return Err(SourceError { problem: SourceProblem::Broken, message, retry_after: None, reason: None });
            }
            Ok(bytes)
        }
        .boxed()
    }

    fn find_files<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        revision: &'a str,
        pattern: &'a str,
        max_depth: u32,
        limit: u32,
        call: CallContext,
    ) -> BoxFuture<'a, Result<(Vec<String>, bool), SourceError>> {
        let (repository, revision, pattern) = (repository.to_owned(), revision.to_owned(), pattern.to_owned());
        async move {
            let found = self.source(binding, call, move |store, plugin| {
                async move {
                    let guest = plugin.cookhouse_plugin_source_control();
                    guest.call_find_files(store, &repository, &revision, &pattern, max_depth, limit).await
                }
                .boxed()
            });
            let found = found.await?;
            let is_cut = found.truncated || found.paths.len() > limit as usize;
            Ok((found.paths.iter().take(limit as usize).map(|path| name(path)).collect(), is_cut))
        }
        .boxed()
    }

    fn materialise<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        branch: &'a str,
        revision_name: &'a str,
        workspace: PathBuf,
        incremental: bool,
        call: CallContext,
    ) -> BoxFuture<'a, Result<Materialised, SourceError>> {
        let (repository, branch, wanted) = (repository.to_owned(), branch.to_owned(), revision_name.to_owned());
        async move {
            let workspace = open_workspace(workspace).await?;
            let options = contract::CheckoutOptions {
                incremental,
                paths: Vec::new(),
                large_files: true,
                submodules: true,
                history_depth: 1,
                extra: Vec::new(),
            };
            let done = self.source(binding, call, move |store, plugin| {
                async move {
                    let handle = store.data_mut().table.push(workspace)?;
                    let guest = plugin.cookhouse_plugin_source_control();
                    guest.call_materialise(store, &repository, &branch, &wanted, handle, &options).await
                }
                .boxed()
            });
            let done = done.await?;
            let renamed = done.extra.iter().find(|(key, _)| key == "repository").map(|(_, text)| name(text));
            let (files, bytes, reusable) = (done.files, done.bytes, done.reusable);
            Ok(Materialised { revision: revision(done.revision), files, bytes, reusable, renamed })
        }
        .boxed()
    }

    fn forget_workspace<'a>(
        &'a self,
        binding: &'a PluginBinding,
        workspace: PathBuf,
        call: CallContext,
    ) -> BoxFuture<'a, Result<(), SourceError>> {
        async move {
            let workspace = open_workspace(workspace).await?;
            let plugin = self.plugin(&binding.plugin).map_err(broken)?;
            let Linked::Source(pre) = plugin.linked().await.map_err(broken)? else {
                return Err(broken(PluginError::WrongKind { plugin: binding.plugin.clone(), wanted: "source-control" }));
            };
            let state = self.begin(plugin, binding, call).map_err(broken)?;
            let redactor = state.redactor.clone();
            let done = self.inner.runtime.call(state, move |store| forget(pre, store, workspace).boxed()).await.map_err(broken)?;
            done.map_err(|error| said(&error, &redactor))
        }
        .boxed()
    }
}
