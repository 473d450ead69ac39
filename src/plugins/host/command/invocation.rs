//! A command line under construction, and its start.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use wasmtime::component::Resource;

use super::super::super::bindings::command as contract;
use super::super::super::bindings::types::ErrorCode;
use super::super::super::git::desk::Ticket;
use super::super::super::manifest::SecretUse;
use super::super::super::text::clean;
use super::super::secrets::Secret;
use super::super::workspaces::{Workspace, checked_path};
use super::super::{CallState, Failure};
use crate::platform::process::Child;

/// Arguments, environment and input of one command.
const MOST_BYTES: usize = 8 << 20;
/// Arguments and variables.
const MOST_WORDS: usize = 5000;

/// What a guest wants started. The contract's setters cannot fail: the first fault is kept and told at the start.
pub struct Invocation {
    tool: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) secret_environment: BTreeMap<String, Vec<u8>>,
    pub(super) input: Option<Vec<u8>>,
    pub(super) directory: Option<(Workspace, PathBuf)>,
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
        let deadline = invocation.timeout.map(|timeout| Instant::now() + timeout);
        let logs = invocation.logs;
        let (command, ticket) = match (invocation.tool.as_str(), &tools.git, &tools.p4) {
            ("git", Some(git), _) => self.git_command(git, invocation).await?,
            ("p4", _, Some(p4)) => (self.p4_command(p4, invocation).await?, None),
            _ => return Err(Failure::said(ErrorCode::Unsupported, format!("this server has no tool `{shown}`")).reason("tool-missing")),
        };
        let named = |error: std::io::Error| {
            tracing::warn!(%error, tool = shown, "a tool cannot be started");
            Failure::said(ErrorCode::Io, format!("{shown} cannot be started on this server")).reason("tool-missing")
        };
        let child = command.start().map_err(named)?;
        Ok(Started { child, deadline, logs, permit, ticket })
    }
}

/// A variable that the tool's rules do not know.
pub(super) fn unknown_variable(tool: &str, name: &str) -> Failure {
    Failure::said(ErrorCode::Denied, format!("the variable `{}` is not one that may be set for {tool}", clean(name, 60)))
        .reason("command-denied")
}

/// A command line, a form or an address that the tool's rules do not allow.
pub(super) fn denied(text: String) -> Failure {
    Failure::said(ErrorCode::Denied, text).reason("command-denied")
}

/// A secret as a variable takes it.
pub(super) fn secret_text(value: Vec<u8>) -> Result<String, Failure> {
    let text = String::from_utf8(value).ok().filter(|value| !value.chars().any(char::is_control));
    text.ok_or_else(|| Failure::said(ErrorCode::InvalidConfig, "the secret contains control characters"))
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
