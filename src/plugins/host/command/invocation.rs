//! A command line under construction, and its start.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use wasmtime::component::Resource;

use super::super::super::bindings::command as contract;
use super::super::super::bindings::types::ErrorCode;
use super::super::super::capability::Origin;
use super::super::super::git::desk::{Desk, Renewal, Ticket};
use super::super::super::git::profile::{self, Access, Profile};
use super::super::super::git::{arguments, repository};
use super::super::super::manifest::SecretUse;
use super::super::super::text::clean;
use super::super::http::sending::from_outbound;
use super::super::secrets::Secret;
use super::super::workspaces::{Workspace, checked_path};
use super::super::{CallState, Failure, blocking};
use crate::outbound::Route;
use crate::platform::process::{Child, Command, Stdin};

/// Arguments, environment and input of one command.
const MOST_BYTES: usize = 8 << 20;
/// Arguments and variables.
const MOST_WORDS: usize = 5000;

/// What a guest wants started. The contract's setters cannot fail: the first fault is kept and told at the start.
pub struct Invocation {
    tool: String,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
    secret_environment: BTreeMap<String, Vec<u8>>,
    input: Option<Vec<u8>>,
    directory: Option<(Workspace, PathBuf)>,
    timeout: Option<Duration>,
    pub(super) logs: bool,
    bytes: usize,
    fault: Option<Failure>,
}

/// A tool that runs.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) deadline: Option<Instant>,
    pub(super) logs: bool,
    pub(super) permit: OwnedSemaphorePermit,
    /// As long as it runs, its askpass may ask.
    pub(super) ticket: Option<Ticket>,
}

impl Invocation {
    fn add(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let words = self.arguments.len() + self.environment.len() + self.secret_environment.len();
        if self.bytes > MOST_BYTES || words > MOST_WORDS {
            self.fail(Failure::said(ErrorCode::TooLarge, "the command has too many arguments or too much input"));
            return false;
        }
        true
    }

    fn fail(&mut self, failure: Failure) {
        self.fault.get_or_insert(failure);
    }
}

impl CallState {
    /// Checks everything against the tool's rules, then starts it.
    pub(super) async fn start_tool(&mut self, mut invocation: Invocation) -> Result<Started, Failure> {
        if let Some(fault) = invocation.fault.take() {
            return Err(fault);
        }
        let shown = clean(&invocation.tool, 60);
        if !self.grants.allows_tool(&invocation.tool) {
            return Err(Failure::said(ErrorCode::Denied, format!("the tool `{shown}` was not granted, or this server has none"))
                .reason("tool-not-granted"));
        }
        let permit = self.live_processes.take()?;
        let tools = self.tools.clone();
        let Some(git) = tools.git.as_ref().filter(|_| invocation.tool == "git") else {
            return Err(Failure::said(ErrorCode::Unsupported, format!("this server has no tool `{shown}`")).reason("tool-missing"));
        };
        let deadline = invocation.timeout.map(|timeout| Instant::now() + timeout);
        let logs = invocation.logs;
        let (command, ticket) = self.git_command(git, invocation).await?;
        let named = |error: std::io::Error| {
            tracing::warn!(%error, "git cannot be started");
            Failure::said(ErrorCode::Io, "git cannot be started on this server").reason("tool-missing")
        };
        let child = command.start().map_err(named)?;
        Ok(Started { child, deadline, logs, permit, ticket })
    }

    async fn git_command(&mut self, git: &Profile, mut invocation: Invocation) -> Result<(Command, Option<Ticket>), Failure> {
        let denied = |text: String| Failure::said(ErrorCode::Denied, text).reason("command-denied");
        arguments::check(&invocation.arguments, |url| self.may_reach(url)).map_err(|refused| denied(refused.to_string()))?;
        let mut access = self.git_access(&mut invocation)?;
        access.routes = self.git_routes(&access, &invocation.arguments).await?;
        let directory = match invocation.directory.take() {
            Some((workspace, path)) => {
                let release_locks = !std::mem::replace(&mut self.has_run_git, true);
                let prepared = blocking(move || {
                    let inside = if path.as_os_str() == "." { path } else { workspace.directory.canonicalize(path)? };
                    repository::disarm(&workspace.directory, &inside, release_locks)?;
                    Ok(if inside.as_os_str() == "." { workspace.root.to_path_buf() } else { workspace.root.join(inside) })
                });
                self.unless_cancelled(prepared).await?.map_err(|error| Failure::io(&error, "the repository in the workspace"))?
            }
            None => git.home.join("empty"),
        };
        // git names its files when it complains, and a guest passes on what git says.
        for place in [&git.home, &directory] {
            self.redactor.add(&place.to_string_lossy());
        }
        let prepared = {
            let git = git.clone();
            blocking(move || git.prepare())
        }
        .await;
        prepared.map_err(|error| Failure::io(&error, "git's private directory"))?;
        access.ticket = self.git_ticket(&mut access).await?;
        let mut command = Command::new(&git.git, &directory, self.call.process_marker.clone());
        command.args = invocation.arguments.into_iter().map(OsString::from).collect();
        command.environment = git.environment(&directory, &access, &self.grants).into_iter().collect();
        command.stdin = invocation.input.map_or(Stdin::Null, Stdin::Bytes);
        Ok((command, access.ticket))
    }

    /// The right to ask for the password, where there is one.
    async fn git_ticket(&mut self, access: &mut Access) -> Result<Option<Ticket>, Failure> {
        let renewal = self.renewal.clone().zip(access.remote.clone());
        let renewal = renewal.map(|(renewal, remote)| -> Renewal { Arc::new(move || renewal(remote.clone())) });
        let Some(answers) = access.answers(&self.grants, renewal) else { return Ok(None) };
        let tools = self.tools.clone();
        let opened = self.unless_cancelled(async move { tools.desk.get_or_try_init(Desk::open).await?.admit(answers) }).await?;
        opened.map(Some).map_err(|error| {
            tracing::warn!(%error, "git's questions for passwords cannot be answered");
            Failure::said(ErrorCode::Io, "git's questions for passwords cannot be answered on this server")
        })
    }

    /// Resolves and checks every host that the command line names, each time anew: git connects to what was found
    /// here, whatever the name leads to a moment later.
    async fn git_routes(&mut self, access: &Access, arguments: &[String]) -> Result<Vec<(Origin, Route)>, Failure> {
        let mut routes: Vec<(Origin, Route)> = Vec::new();
        for url in access.remote.iter().chain(arguments.iter().filter(|word| arguments::is_url(word))) {
            let Some(origin) = Origin::parse(url) else { continue };
            if routes.iter().any(|(known, _)| *known == origin) {
                continue;
            }
            let (outbound, url) = (self.outbound.clone(), url.clone());
            let found = self.unless_cancelled(async move { outbound.route(&url).await }).await?;
            routes.push((origin, found.map_err(|error| from_outbound(&error))?));
        }
        Ok(routes)
    }

    /// What can be told from the URL alone.
    fn may_reach(&self, url: &str) -> bool {
        self.grants.allows_url(url) && self.outbound.check_url(url).is_ok()
    }

    /// The three variables that git's rules know; any other is refused.
    fn git_access(&self, invocation: &mut Invocation) -> Result<Access, Failure> {
        let mut access = Access::default();
        for (name, value) in std::mem::take(&mut invocation.environment) {
            match name.as_str() {
                profile::REMOTE if self.may_reach(&value) => access.remote = Some(value),
                profile::REMOTE => {
                    return Err(Failure::said(ErrorCode::Denied, "the remote is at no granted origin").reason("origin-not-granted"));
                }
                profile::USERNAME if !value.chars().any(char::is_control) => access.username = Some(value),
                _ => return Err(unknown_variable(&name)),
            }
        }
        for (name, value) in std::mem::take(&mut invocation.secret_environment) {
            let usable = String::from_utf8(value).ok().filter(|value| !value.chars().any(char::is_control));
            match (name.as_str(), usable) {
                (profile::PASSWORD, Some(value)) => access.password = Some(crate::model::Secret::new(value)),
                (profile::PASSWORD, None) => return Err(Failure::said(ErrorCode::InvalidConfig, "the secret contains control characters")),
                _ => return Err(unknown_variable(&name)),
            }
        }
        Ok(access)
    }
}

fn unknown_variable(name: &str) -> Failure {
    Failure::said(ErrorCode::Denied, format!("the variable `{}` is not one that may be set for git", clean(name, 60)))
        .reason("command-denied")
}

impl contract::HostInvocation for CallState {
    async fn new(&mut self, tool: String) -> wasmtime::Result<Resource<Invocation>> {
        let invocation = Invocation {
            tool,
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            secret_environment: BTreeMap::new(),
            input: None,
            directory: None,
            timeout: None,
            logs: false,
            bytes: 0,
            fault: None,
        };
        Ok(self.table.push(invocation)?)
    }

    async fn arg(&mut self, invocation: Resource<Invocation>, value: String) -> wasmtime::Result<()> {
        let invocation = self.table.get_mut(&invocation)?;
        if invocation.add(value.len()) {
            invocation.arguments.push(value);
        }
        Ok(())
    }

    async fn env(&mut self, invocation: Resource<Invocation>, name: String, value: String) -> wasmtime::Result<()> {
        let invocation = self.table.get_mut(&invocation)?;
        if invocation.add(name.len() + value.len()) {
            invocation.environment.insert(name, value);
        }
        Ok(())
    }

    async fn secret_env(&mut self, invocation: Resource<Invocation>, name: String, value: Resource<Secret>) -> wasmtime::Result<()> {
        let secret = self.secret_for(&value, SecretUse::Env);
        let invocation = self.table.get_mut(&invocation)?;
        match secret {
            Ok(secret) if invocation.add(name.len() + secret.len()) => {
                invocation.secret_environment.insert(name, secret);
            }
            Ok(_) => {}
            Err(failure) => invocation.fail(failure),
        }
        Ok(())
    }

    async fn secret_input(&mut self, invocation: Resource<Invocation>, value: Resource<Secret>) -> wasmtime::Result<()> {
        let secret = self.secret_for(&value, SecretUse::Stdin);
        let invocation = self.table.get_mut(&invocation)?;
        match secret {
            Ok(secret) if invocation.add(secret.len()) => invocation.input = Some(secret),
            Ok(_) => {}
            Err(failure) => invocation.fail(failure),
        }
        Ok(())
    }

    async fn input(&mut self, invocation: Resource<Invocation>, bytes: Vec<u8>) -> wasmtime::Result<()> {
        let invocation = self.table.get_mut(&invocation)?;
        if invocation.add(bytes.len()) {
            invocation.input = Some(bytes);
        }
        Ok(())
    }

    async fn directory(&mut self, invocation: Resource<Invocation>, workspace: Resource<Workspace>, path: String) -> wasmtime::Result<()> {
        let workspace = self.table.get(&workspace)?.clone();
        let invocation = self.table.get_mut(&invocation)?;
        match checked_path(&path) {
            Ok(path) => invocation.directory = Some((workspace, path)),
            Err(failure) => invocation.fail(failure),
        }
        Ok(())
    }

    async fn timeout_ms(&mut self, invocation: Resource<Invocation>, duration: u64) -> wasmtime::Result<()> {
        // Far beyond any call; keeps the arithmetic of instants safe.
        const LONGEST: u64 = 7 * 24 * 3600 * 1000;
        self.table.get_mut(&invocation)?.timeout = Some(Duration::from_millis(duration.min(LONGEST)));
        Ok(())
    }

    async fn log_lines(&mut self, invocation: Resource<Invocation>, enabled: bool) -> wasmtime::Result<()> {
        self.table.get_mut(&invocation)?.logs = enabled;
        Ok(())
    }

    async fn drop(&mut self, invocation: Resource<Invocation>) -> wasmtime::Result<()> {
        self.table.delete(invocation)?;
        Ok(())
    }
}
