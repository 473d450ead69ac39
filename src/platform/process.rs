//! Programs of other people, started and ended as whole trees.
//!
//! A [`Child`] gets nothing but what its [`Command`] says: no inherited variable, no terminal, no open file. It leads
//! a session of its own, and whatever it starts (daemons too) is gone when `wait` or `end` returns, or when the
//! `Child` is dropped. Secrets travel in the environment or on standard input, never in an argument.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStderr, ChildStdout};

use super::accounts::Account;
use super::confinement::{Confinement, Limits};
use super::system;

/// The environment variable that every process we start carries, and all that it starts in turn.
pub const MARKER_VARIABLE: &str = "COOKHOUSE_PROCESS";

/// How often a long wait looks for ended daemons that were handed to us.
const REAP_EVERY: Duration = Duration::from_secs(5);

/// What to start. Public fields: the struct grows without breaking those who fill it from [`Command::new`].
#[derive(Clone)]
pub struct Command {
    /// An absolute path, or a name that is looked up in the `PATH` of `environment`.
    pub program: PathBuf,
    /// Without the program itself.
    pub args: Vec<OsString>,
    /// The complete environment but for [`MARKER_VARIABLE`]; nothing is inherited.
    pub environment: BTreeMap<OsString, OsString>,
    /// The working directory.
    pub directory: PathBuf,
    /// Nothing by default.
    pub stdin: Stdin,
    /// Names the purpose, so that a later run of the service finds the process with [`end_marked`]. 1 to 160 visible
    /// ASCII characters; begin it with something that is this data directory's alone. Several may carry the same.
    pub marker: String,
    /// What it may reach; `None`: whatever its account may. Held to where the operating system can, see
    /// [`super::confinement::landlock_version`].
    pub confinement: Option<Confinement>,
    /// Whom it runs as; `None`: whoever this process is.
    pub account: Option<Account>,
}

/// Standard input of a command.
#[derive(Clone)]
pub enum Stdin {
    /// At its end from the start.
    Null,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
}

impl Command {
    /// A command without arguments, environment and input.
    pub fn new(program: impl Into<PathBuf>, directory: impl Into<PathBuf>, marker: impl Into<String>) -> Self {
        Command {
            program: program.into(),
            args: Vec::new(),
            environment: BTreeMap::new(),
            directory: directory.into(),
            stdin: Stdin::Null,
            marker: marker.into(),
            confinement: None,
            account: None,
        }
    }

    /// Starts it. Needs a tokio runtime.
    ///
    /// # Errors
    /// `InvalidInput` for a marker or text that cannot be passed on, else what the operating system says: `NotFound`
    /// for a missing program or directory, `PermissionDenied` for one that may not be run, and for an account that this
    /// process may not act as.
    pub fn start(self) -> io::Result<Child> {
        if self.marker.is_empty() || self.marker.len() > 160 || !self.marker.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a process marker is 1 to 160 visible ASCII characters"));
        }
        if !self.directory.is_dir() {
            // Otherwise a missing directory looks like a missing program.
            return Err(io::Error::new(io::ErrorKind::NotFound, "the working directory does not exist"));
        }
        static STARTED: AtomicU64 = AtomicU64::new(0);
        // Several commands may carry one marker at the same time; each is told apart, and this run from former ones.
        let marker = format!("{}#{}.{}", self.marker, system::run_name(), STARTED.fetch_add(1, Ordering::Relaxed));
        let mut command = tokio::process::Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(&self.environment)
            .env(MARKER_VARIABLE, &marker)
            .current_dir(&self.directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .stdin(match self.stdin {
                Stdin::Null => Stdio::null(),
                Stdin::Bytes(_) => Stdio::piped(),
            });
        let (mut inner, tree) = system::Tree::start(command, marker, Limits { confinement: self.confinement, account: self.account })?;
        if let (Stdin::Bytes(bytes), Some(mut stdin)) = (self.stdin, inner.stdin.take()) {
            tokio::spawn(async move {
                // A program that does not read its input is no error of ours.
                let _ = stdin.write_all(&bytes).await;
                let _ = stdin.shutdown().await;
            });
        }
        let (stdout, stderr) = (inner.stdout.take(), inner.stderr.take());
        Ok(Child { inner, tree: Arc::new(tree), stdout, stderr, status: None })
    }
}

impl fmt::Debug for Command {
    /// Without the values of the environment and the input: they hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("environment", &self.environment.keys().collect::<Vec<_>>())
            .field("directory", &self.directory)
            .field("marker", &self.marker)
            .finish_non_exhaustive()
    }
}

/// A running program and everything it started.
///
/// Dropping it kills all of that.
#[derive(Debug)]
pub struct Child {
    inner: tokio::process::Child,
    tree: Arc<system::Tree>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    status: Option<ExitStatus>,
}

impl Child {
    /// Who it is, also after a restart of this service or of the machine.
    pub fn identity(&self) -> &ProcessIdentity {
        self.tree.identity()
    }

    /// Its standard output, once. Not reading it makes the program wait when the pipe is full.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Its standard error, once.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.stderr.take()
    }

    /// Waits until the program has ended by itself, then ends what it left behind. May be cancelled and called again.
    ///
    /// # Errors
    /// Only when the operating system lost the process.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let mut reap = tokio::time::interval_at(tokio::time::Instant::now() + REAP_EVERY, REAP_EVERY);
        let status = loop {
            tokio::select! {
                status = self.inner.wait() => break status?,
                _ = reap.tick() => { let _ = tokio::task::spawn_blocking(system::reap_orphans).await; }
            }
        };
        self.finish(status.into()).await
    }

    /// Asks the program to stop (SIGTERM to its group; Windows has no such request), gives it and its group `grace`,
    /// and then ends the whole tree. A program that had already ended keeps its own status.
    ///
    /// # Errors
    /// Only when the operating system lost the process.
    pub async fn end(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        if self.inner.try_wait()?.is_none() && self.tree.ask_to_stop() {
            let _ = tokio::time::timeout(grace, async {
                let _ = self.inner.wait().await;
                // The leader may be a shell that ends at once while the compiler it started still tidies up.
                while self.tree.has_group() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
            .await;
        }
        let tree = self.tree.clone();
        let _ = tokio::task::spawn_blocking(move || tree.kill_all()).await;
        let status = self.inner.wait().await?;
        self.finish(status.into()).await
    }

    async fn finish(&mut self, status: ExitStatus) -> io::Result<ExitStatus> {
        let tree = self.tree.clone();
        // The task fails only while the runtime stops; then `drop` does the same work.
        if tokio::task::spawn_blocking(move || tree.kill_all()).await.is_ok() {
            self.status = Some(status);
            self.tree.forget();
        }
        Ok(status)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.status.is_some() {
            return;
        }
        self.tree.kill_once();
        let tree = self.tree.clone();
        // Forks that raced with the blow above are found in further rounds, without holding up who dropped us.
        let rest = std::thread::Builder::new().name("end-processes".into()).spawn(move || {
            tree.kill_all();
            tree.forget();
        });
        if let Err(error) = rest {
            tracing::warn!(%error, "no thread to end processes with");
            self.tree.kill_all();
            self.tree.forget();
        }
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitStatus {
    /// What it returned, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it (Unix).
    pub signal: Option<i32>,
}

impl ExitStatus {
    /// It returned 0.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(signal)) => write!(f, "ended by signal {signal}"),
            (None, None) => f.write_str("ended in an unknown way"),
        }
    }
}

impl From<std::process::ExitStatus> for ExitStatus {
    fn from(status: std::process::ExitStatus) -> Self {
        ExitStatus { code: status.code(), signal: system::signal_of(status) }
    }
}

/// A process, never to be mistaken for a later one with the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessIdentity {
    /// Its number.
    pub pid: u32,
    /// When it started, in the operating system's own unit.
    pub start_time: u64,
    /// Which start of the machine that counts from; empty where the start time is absolute.
    pub boot_id: String,
}

impl ProcessIdentity {
    /// This very process still runs.
    pub fn is_running(&self) -> bool {
        system::is_running(self)
    }
}

/// Ends all processes that former runs of the service started with a marker beginning with `prefix`, and everything
/// those started. Processes of this run are left alone. Blocks; returns how many there were.
///
/// Windows needs none of this: there a job object dies with the service.
pub fn end_marked(prefix: &str) -> usize {
    system::end_marked(prefix)
}

/// A program will be started within some ten milliseconds: what takes the operating system long is done meanwhile.
/// Blocks for about as long; a hint, nothing is lost without it.
pub fn expect_start() {
    system::expect_start();
}

/// Bytes of memory this service holds right now, where the operating system tells.
pub fn resident_memory() -> Option<u64> {
    system::resident_memory()
}
