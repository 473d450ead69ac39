//! The traits between floors: what the life of a build asks of plugins and of the machine, in the model's words.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::model::deploy::DeployFailureCode;
use crate::model::log::LogStream;
use crate::model::organization::Installation;
use crate::model::{Id, Organization, Secret};
use crate::platform::accounts::Account;
use crate::platform::confinement::Confinement;
use crate::platform::process::{ExitStatus, ProcessIdentity};
use crate::platform::running::OutputLine;

/// Where a call writes what people should see. Implementations mask known secrets before anything is kept.
pub trait LogSink: Send + Sync {
    /// One line, without its end.
    fn line(&self, stream: LogStream, text: &str);
    /// From here on this value (and its usual encodings) is masked: a token that a plugin obtained by itself.
    fn mask(&self, secret: &str);
    /// How far a long step is. `total` is unknown for some. Called often; the sink limits the rate.
    fn progress(&self, phase: &str, done: u64, total: Option<u64>);
}

/// What every call into a plugin is given besides its arguments.
#[derive(Clone)]
pub struct CallContext {
    /// Where lines go.
    pub log: Arc<dyn LogSink>,
    /// Asked to stop: the call ends with [`SourceProblem::Cancelled`] or a plugin error within seconds.
    pub cancel: CancellationToken,
    /// The longest it may take.
    pub wall: Duration,
    /// Marks every process started for this call, so that a later run of the service can find and end it.
    pub process_marker: String,
}

/// Which plugin, with the settings and secrets of one organization's connection or of one deploy target.
#[derive(Clone)]
pub struct PluginBinding {
    /// Name of the plugin.
    pub plugin: String,
    /// Whose connection; caches are kept apart by it.
    pub organization: Id<Organization>,
    /// The settings, without secrets, as the plugin's manifest describes them.
    pub config: serde_json::Value,
    /// The secrets by name.
    pub secrets: BTreeMap<String, Secret>,
}

/// Reads a source-control server.
pub trait SourceControl: Send + Sync {
    /// Credentials and reachability.
    fn check<'a>(&'a self, binding: &'a PluginBinding, call: CallContext) -> BoxFuture<'a, Result<ServerDescription, SourceError>>;
    /// One page of what the credentials reach.
    fn list_repositories<'a>(
        &'a self,
        binding: &'a PluginBinding,
        cursor: Option<String>,
        limit: u32,
        call: CallContext,
    ) -> BoxFuture<'a, Result<RepositoryPage, SourceError>>;
    /// Branches whose name contains `query`, any case.
    fn list_branches<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        query: Option<String>,
        cursor: Option<String>,
        limit: u32,
        call: CallContext,
    ) -> BoxFuture<'a, Result<BranchPage, SourceError>>;
    /// Newest revision of a branch or stream.
    fn resolve_head<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        branch: &'a str,
        call: CallContext,
    ) -> BoxFuture<'a, Result<Revision, SourceError>>;
    /// A revision that somebody named; expands short hashes.
    fn describe_revision<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        revision: &'a str,
        call: CallContext,
    ) -> BoxFuture<'a, Result<Revision, SourceError>>;
    /// One file, `TooLarge` above `limit` bytes.
    fn read_file<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        revision: &'a str,
        path: &'a str,
        limit: u32,
        call: CallContext,
    ) -> BoxFuture<'a, Result<Vec<u8>, SourceError>>;
    /// Paths that match a glob, at most `max_depth` directories deep. The flag says that more matched than came back.
    fn find_files<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        revision: &'a str,
        pattern: &'a str,
        max_depth: u32,
        limit: u32,
        call: CallContext,
    ) -> BoxFuture<'a, Result<(Vec<String>, bool), SourceError>>;
    /// Puts exactly this revision into the workspace directory.
    fn materialise<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        branch: &'a str,
        revision: &'a str,
        workspace: PathBuf,
        incremental: bool,
        call: CallContext,
    ) -> BoxFuture<'a, Result<Materialised, SourceError>>;

    /// Nobody will build in this workspace again, and it is about to be removed: the server may forget it too.
    fn forget_workspace<'a>(
        &'a self,
        _binding: &'a PluginBinding,
        _workspace: PathBuf,
        _call: CallContext,
    ) -> BoxFuture<'a, Result<(), SourceError>> {
        Box::pin(async { Ok(()) })
    }
}

/// Pushes a finished artifact somewhere.
pub trait DeployTarget: Send + Sync {
    /// One attempt; success means that the receiver took it.
    fn deploy<'a>(
        &'a self,
        binding: &'a PluginBinding,
        build: DeployMetadata,
        artifact: ArtifactFile,
        call: CallContext,
    ) -> BoxFuture<'a, Result<DeployOutcome, DeployProblem>>;
}

/// What `check` found.
#[derive(Debug, Clone)]
pub struct ServerDescription {
    /// Name and version of the server, as it says.
    pub product: String,
    /// Its version.
    pub version: String,
    /// Whose the credentials are.
    pub account: Option<String>,
    /// An app's: where it is installed.
    pub installations: Vec<Installation>,
    /// Further facts by name, as the plugin calls them.
    pub extra: BTreeMap<String, String>,
}

/// A repository or depot.
#[derive(Debug, Clone)]
pub struct Repository {
    /// The server's stable id.
    pub id: String,
    /// `<owner>/<repo>`.
    pub full_name: String,
    /// Not public.
    pub is_private: bool,
    /// The branch when nobody names one.
    pub default_branch: String,
}

/// One page of repositories.
#[derive(Debug, Clone)]
pub struct RepositoryPage {
    /// In the server's order.
    pub items: Vec<Repository>,
    /// The plugin's own cursor.
    pub next_cursor: Option<String>,
}

/// A commit or changelist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// Full hash or number.
    pub id: String,
    /// Its message.
    pub message: String,
    /// Its author.
    pub author: String,
}

/// A branch or stream.
#[derive(Debug, Clone)]
pub struct Branch {
    /// Its name.
    pub name: String,
    /// Its newest revision.
    pub head: Revision,
    /// The repository's default.
    pub is_default: bool,
}

/// One page of branches.
#[derive(Debug, Clone)]
pub struct BranchPage {
    /// In the server's order.
    pub items: Vec<Branch>,
    /// The plugin's own cursor.
    pub next_cursor: Option<String>,
}

/// What a checkout came to.
#[derive(Debug, Clone)]
pub struct Materialised {
    /// What lies in the workspace now.
    pub revision: Revision,
    /// Files in it.
    pub files: u64,
    /// Bytes that came over the network, where known.
    pub bytes: u64,
    /// The workspace may be kept for the next build.
    pub reusable: bool,
    /// What the repository is called now, when that is not what was asked for.
    pub renamed: Option<String>,
}

/// Why a source-control call failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// For programs.
    pub problem: SourceProblem,
    /// For people; secrets are masked.
    pub message: String,
    /// Seconds after which the server wants to be asked again.
    pub retry_after: Option<u64>,
    /// The plugin's machine-readable reason.
    pub reason: Option<String>,
}

/// The kinds of failure a caller branches on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceProblem {
    /// Credentials missing, wrong or expired.
    Unauthenticated,
    /// Credentials fine, not allowed.
    Forbidden,
    /// No such repository, branch, revision or file; `reason` says which (`repository`, `branch`, `revision`, `file`).
    NotFound,
    /// The arguments make no sense to the server.
    Invalid,
    /// Asked too often.
    RateLimited,
    /// Down, unreachable or 5xx.
    Unavailable,
    /// Took too long.
    TimedOut,
    /// More than the limit.
    TooLarge,
    /// Asked to stop.
    Cancelled,
    /// The disk is full.
    StorageFull,
    /// Everything else: the plugin trapped, was denied something, or the server answered nonsense.
    Broken,
}

/// The `metadata` part of the specification's deploy request.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are the specification's own words")]
pub struct DeployMetadata {
    pub build_id: String,
    pub project_id: String,
    pub platform: String,
    pub build_type: String,
    pub ue_version: String,
    pub branch: String,
    pub commit: String,
}

/// The tarball as a deploy target may use it.
#[derive(Debug, Clone)]
pub struct ArtifactFile {
    /// Where it lies.
    pub path: PathBuf,
    /// `<buildId>.tar.gz`.
    pub file_name: String,
    /// Bytes.
    pub size: u64,
    /// Lower-case hex.
    pub md5: String,
    /// Lower-case hex.
    pub sha256: String,
}

/// What the receiver said.
#[derive(Debug, Clone, Default)]
pub struct DeployOutcome {
    /// The receiver's name for the upload.
    pub remote_id: Option<String>,
    /// Where it can be seen.
    pub remote_url: Option<String>,
    /// For people.
    pub message: Option<String>,
}

/// Why it did not take it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct DeployProblem {
    /// For programs.
    pub code: DeployFailureCode,
    /// The receiver's answer, where there was one.
    pub http_status: Option<u16>,
    /// For people; secrets are masked.
    pub message: String,
}

/// Runs build commands.
pub trait Executor: Send + Sync {
    /// Starts one. The error is the operating system's: no such program, not executable, too many processes.
    fn start<'a>(&'a self, command: BuildCommand) -> BoxFuture<'a, io::Result<Box<dyn RunningCommand>>>;
}

/// A build command that was started: read its lines to their end, then ask for its status. Dropping it ends it with
/// everything it started.
pub trait RunningCommand: Send {
    /// Who it is, where it is a process of this machine.
    fn identity(&self) -> Option<ProcessIdentity>;
    /// The next lines in order; nothing when it has ended and all was read. May be cancelled without losing a line.
    fn lines(&mut self) -> BoxFuture<'_, Option<Vec<OutputLine>>>;
    /// Makes it end within `grace`, in the background: go on reading lines. A second call can shorten the grace.
    fn end(&mut self, grace: Duration);
    /// Waits for its end. What it started is gone then.
    fn status(&mut self) -> BoxFuture<'_, io::Result<ExitStatus>>;
}

/// What to run.
#[derive(Clone)]
pub struct BuildCommand {
    /// An absolute path.
    pub program: PathBuf,
    /// Without the program itself, and without secrets.
    pub args: Vec<OsString>,
    /// The complete environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory.
    pub directory: PathBuf,
    /// See [`CallContext::process_marker`].
    pub marker: String,
    /// What it may reach of the machine's files; `None`: whatever its account may.
    pub confinement: Option<Confinement>,
    /// Whom it runs as; `None`: the service's own user.
    pub account: Option<Account>,
}
