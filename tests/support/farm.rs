//! Builds with every part real but the far ends: the code comes from a directory, artifacts go to a recorder.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cookhouse::artifacts::{self, Artifacts};
use cookhouse::builds::executor::LocalExecutor;
use cookhouse::builds::isolation::{Isolation, Wish};
use cookhouse::builds::logs::{self, Logs};
use cookhouse::builds::room::Marks;
use cookhouse::builds::{Builds, Overrides, Parts, Recovered, Request, Settings, engines, uat};
use cookhouse::clock::Clock;
use cookhouse::model::build::FailureCode;
use cookhouse::model::log::{LogLine, LogStream};
use cookhouse::model::retention::Keep;
use cookhouse::model::{Build, BuildSetting, Id, Status, TriggeredBy};
use cookhouse::seams::{
    ArtifactFile, BranchPage, CallContext, DeployMetadata, DeployOutcome, DeployProblem, DeployTarget, Materialised, PluginBinding,
    RepositoryPage, Revision, ServerDescription, SourceControl, SourceError, SourceProblem,
};
use cookhouse::store::{Read, Store, StoreError};
use cookhouse::vault::{self, Vault};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::studio::{self, Kind, Records};

/// The newest commit of the branch `main`.
pub(crate) const HEAD: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
/// The token of the connection; no log may show it.
pub(crate) const TOKEN: &str = "farm-token-3f9c2";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A codebase that is a directory, and whose every commit is what lies in it.
pub(crate) struct DirectorySource {
    pub(crate) directory: PathBuf,
    /// What the next call is answered with, instead.
    pub(crate) failure: Mutex<Option<SourceError>>,
    /// While it is not cancelled, a checkout waits for it or for being cancelled itself.
    pub(crate) gate: Mutex<Option<CancellationToken>>,
    /// Whether each checkout was incremental.
    pub(crate) checkouts: Mutex<Vec<bool>>,
}

impl DirectorySource {
    fn answer<T>(&self, value: T) -> Result<T, SourceError> {
        lock(&self.failure).clone().map_or(Ok(value), Err)
    }
}

pub(crate) fn source_error(problem: SourceProblem, reason: &str) -> SourceError {
    SourceError { problem, message: format!("the far end said {reason}"), retry_after: None, reason: Some(reason.into()) }
}

fn revision(id: &str) -> Revision {
    Revision { id: id.into(), message: "Salt the soup\n\nIt was bland.".into(), author: "Ada".into() }
}

impl SourceControl for DirectorySource {
    fn check<'a>(&'a self, _: &'a PluginBinding, _: CallContext) -> BoxFuture<'a, Result<ServerDescription, SourceError>> {
        async move {
            let (product, version) = ("directory".into(), "1".into());
            self.answer(ServerDescription { product, version, account: None, installations: Vec::new(), extra: Default::default() })
        }
        .boxed()
    }
    fn list_repositories<'a>(
        &'a self,
        _: &'a PluginBinding,
        _: Option<String>,
        _: u32,
        _: CallContext,
    ) -> BoxFuture<'a, Result<RepositoryPage, SourceError>> {
        async move { self.answer(RepositoryPage { items: Vec::new(), next_cursor: None }) }.boxed()
    }
    fn list_branches<'a>(
        &'a self,
        _: &'a PluginBinding,
        _: &'a str,
        _: Option<String>,
        _: Option<String>,
        _: u32,
        _: CallContext,
    ) -> BoxFuture<'a, Result<BranchPage, SourceError>> {
        async move { self.answer(BranchPage { items: Vec::new(), next_cursor: None }) }.boxed()
    }
    fn resolve_head<'a>(
        &'a self,
        binding: &'a PluginBinding,
        _: &'a str,
        branch: &'a str,
        call: CallContext,
    ) -> BoxFuture<'a, Result<Revision, SourceError>> {
        let token = binding.secrets.get("token").map(|token| token.reveal().clone()).unwrap_or_default();
        call.log.line(LogStream::System, &format!("asking with {token}"));
        let known = branch == "main" || branch.starts_with("feature/");
        async move { if known { self.answer(revision(HEAD)) } else { Err(source_error(SourceProblem::NotFound, "branch")) } }.boxed()
    }
    fn describe_revision<'a>(
        &'a self,
        _: &'a PluginBinding,
        _: &'a str,
        id: &'a str,
        _: CallContext,
    ) -> BoxFuture<'a, Result<Revision, SourceError>> {
        let known = HEAD.starts_with(id);
        async move { if known { self.answer(revision(HEAD)) } else { Err(source_error(SourceProblem::NotFound, "revision")) } }.boxed()
    }
    fn read_file<'a>(
        &'a self,
        _: &'a PluginBinding,
        _: &'a str,
        _: &'a str,
        path: &'a str,
        _: u32,
        _: CallContext,
    ) -> BoxFuture<'a, Result<Vec<u8>, SourceError>> {
        async move { fs::read(self.directory.join(path)).map_err(|_| source_error(SourceProblem::NotFound, "file")) }.boxed()
    }
    fn find_files<'a>(
        &'a self,
        _: &'a PluginBinding,
        _: &'a str,
        _: &'a str,
        _: &'a str,
        _: u32,
        _: u32,
        _: CallContext,
    ) -> BoxFuture<'a, Result<(Vec<String>, bool), SourceError>> {
        async move { self.answer((Vec::new(), false)) }.boxed()
    }
    fn materialise<'a>(
        &'a self,
        _: &'a PluginBinding,
        _: &'a str,
        _: &'a str,
        id: &'a str,
        workspace: PathBuf,
        incremental: bool,
        call: CallContext,
    ) -> BoxFuture<'a, Result<Materialised, SourceError>> {
        async move {
            lock(&self.checkouts).push(incremental);
            let gate = lock(&self.gate).clone();
            if let Some(gate) = gate {
                tokio::select! {
                    () = gate.cancelled() => {}
                    () = call.cancel.cancelled() => return Err(source_error(SourceProblem::Cancelled, "cancelled")),
                }
            }
            try_copy(&self.directory, &workspace).map_err(|error| {
                let is_full = cookhouse::platform::files::is_storage_full(&error);
                let problem = if is_full { SourceProblem::StorageFull } else { SourceProblem::Broken };
                source_error(problem, "storage-full")
            })?;
            self.answer(Materialised { revision: revision(id), files: 1, bytes: 0, reusable: true, renamed: None })
        }
        .boxed()
    }
}

/// Copies a tree; links stay links.
pub(crate) fn copy(from: &Path, to: &Path) {
    try_copy(from, to).expect("copied");
}

/// The same, where there may be no room for it.
pub(crate) fn try_copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let kind = fs::symlink_metadata(from)?.file_type();
    if kind.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            try_copy(&from.join(&name), &to.join(&name))?;
        }
    } else if kind.is_symlink() {
        #[cfg(unix)]
        {
            let _ = fs::remove_file(to);
            std::os::unix::fs::symlink(fs::read_link(from)?, to)?;
        }
    } else {
        fs::copy(from, to)?;
    }
    Ok(())
}

/// Takes artifacts, or does not.
#[derive(Default)]
pub(crate) struct Receiver {
    /// What came, with the plugin that it was meant for.
    pub(crate) received: Mutex<Vec<(PluginBinding, DeployMetadata, ArtifactFile)>>,
    /// Answers to come; success when there is none.
    pub(crate) answers: Mutex<VecDeque<Result<DeployOutcome, DeployProblem>>>,
    /// While it is there, an attempt never ends by itself.
    pub(crate) hangs: Mutex<bool>,
}

impl DeployTarget for Receiver {
    fn deploy<'a>(
        &'a self,
        binding: &'a PluginBinding,
        build: DeployMetadata,
        artifact: ArtifactFile,
        call: CallContext,
    ) -> BoxFuture<'a, Result<DeployOutcome, DeployProblem>> {
        async move {
            lock(&self.received).push((binding.clone(), build, artifact));
            let hangs = *lock(&self.hangs);
            if hangs {
                call.cancel.cancelled().await;
                let code = cookhouse::model::deploy::DeployFailureCode::PluginError;
                return Err(DeployProblem { code, http_status: None, message: "cancelled".into() });
            }
            lock(&self.answers).pop_front().unwrap_or_else(|| Ok(DeployOutcome::default()))
        }
        .boxed()
    }
}

/// A machine that builds. Its processes end with it.
pub(crate) struct Farm {
    pub(crate) home: Arc<TempDir>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) store: Store,
    pub(crate) vault: Arc<Vault>,
    pub(crate) artifacts: Artifacts,
    pub(crate) builds: Builds,
    pub(crate) source: Arc<DirectorySource>,
    pub(crate) receiver: Arc<Receiver>,
    pub(crate) records: Records,
    pub(crate) recovered: Recovered,
    stop: CancellationToken,
    work: Option<JoinHandle<()>>,
}

/// The usual settings, on a machine that has engines 5.4 and 4.27.
pub(crate) fn settings(home: &Path) -> Settings {
    let engine = |label: &str, name: &str| engines::EngineSetting {
        label: label.into(),
        root: home.join("engines").join(name),
        platforms: vec!["Win64".into()],
    };
    Settings {
        slots: 1,
        timeout: Duration::from_secs(120),
        silence_timeout: Duration::from_secs(60),
        shutdown_grace: Duration::from_secs(1),
        retry_interrupted: true,
        environment: uat::default_environment(),
        engines: engines::Settings { engines: vec![engine("5.4", "UE_5.4"), engine("4.27", "UE_4.27")], discover_engines: false },
        workspaces: home.join("workspaces"),
        marker: format!("test-{}", home.file_name().unwrap_or_default().to_string_lossy()),
        keep: Keep::default(),
        marks: Marks::default(),
        isolation: isolation(home, |_| {}),
    }
}

/// Builds that are held back as far as this machine can, with the farm's own secrets out of their sight.
pub(crate) fn isolation(home: &Path, change: impl FnOnce(&mut Wish)) -> Isolation {
    let hidden = ["store.redb", "secret.key", "logs", "artifacts", "temporary", "workspaces"].map(|name| home.join(name));
    let mut wish = Wish { hidden: hidden.into(), ..Wish::default() };
    change(&mut wish);
    Isolation::establish(wish).expect("what can be had on this machine")
}

impl Farm {
    /// One with the usual settings.
    pub(crate) async fn start() -> Farm {
        Farm::start_with(|_| {}).await
    }

    /// One that has been told otherwise.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Settings)) -> Farm {
        let home = tempfile::tempdir().expect("a directory");
        // Each farm has engines of its own: one build tool at a time runs in an engine's directory.
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/engines");
        copy(&fixtures, &home.path().join("engines"));
        let source = home.path().join("source");
        fs::create_dir_all(source.join("Game/Content")).expect("directories");
        fs::write(source.join("Game/Kitchen.uproject"), r#"{"FileVersion": 3, "EngineAssociation": "5.4"}"#).expect("a file");
        fs::write(source.join("Game/Content/A.umap"), "a map").expect("a file");
        let clock = Arc::new(Clock::default());
        let store = studio::store(home.path());
        let records = studio::records(&clock, Kind::Githost);
        let mut settings = settings(home.path());
        change(&mut settings);
        Farm::open(Arc::new(home), clock, store, records, settings, true).await
    }

    async fn open(home: Arc<TempDir>, clock: Arc<Clock>, store: Store, mut records: Records, settings: Settings, is_new: bool) -> Farm {
        let key_file = home.path().join("secret.key");
        let vault = Arc::new(Vault::open(&vault::Settings { key: None, credentials_directory: None, key_file }).expect("a vault"));
        if is_new {
            let place = cookhouse::builds::connections::githost_token_place(records.organization.id);
            let token = vault.seal(&place, TOKEN).expect("sealed");
            records.organization.githost.as_mut().expect("connected").token = Some(token);
            let stored = records.clone();
            let put = move |tx: &cookhouse::store::Change| {
                tx.put(&stored.organization)?;
                tx.put(&stored.project)?;
                tx.put(&stored.setting)
            };
            store.write::<(), StoreError>(put).await.expect("stored");
        }
        let place = |name: &str| home.path().join(name);
        let artifacts = artifacts::Settings { directory: place("artifacts"), temporary: place("temporary"), largest: 1 << 40 };
        let artifacts = Artifacts::open(&artifacts).expect("artifacts");
        let logs = logs::Settings { directory: place("logs"), limits: logs::Limits::default() };
        let logs = Logs::open(logs, clock.clone()).expect("logs");
        let source = Arc::new(DirectorySource {
            directory: place("source"),
            failure: Mutex::default(),
            gate: Mutex::default(),
            checkouts: Mutex::default(),
        });
        let receiver = Arc::new(Receiver::default());
        let parts = Parts {
            store: store.clone(),
            vault: vault.clone(),
            clock: clock.clone(),
            artifacts: artifacts.clone(),
            logs,
            source_control: source.clone(),
            deploy_target: receiver.clone(),
            executor: Arc::new(LocalExecutor),
        };
        let builds = Builds::new(settings, parts);
        let recovered = builds.recover().await.expect("recovered");
        let stop = CancellationToken::new();
        let work = tokio::spawn({
            let (builds, stop) = (builds.clone(), stop.clone());
            async move { builds.run(stop).await }
        });
        Farm { home, clock, store, vault, artifacts, builds, source, receiver, records, recovered, stop, work: Some(work) }
    }

    /// Stops as the service does when it is asked to.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        if let Some(work) = self.work.take() {
            work.await.expect("the work ends");
        }
    }

    /// Stops, and starts anew on the same data.
    pub(crate) async fn restart(mut self) -> Farm {
        self.stop().await;
        let settings = settings(self.home.path());
        let (home, clock, store, records) = (self.home.clone(), self.clock.clone(), self.store.clone(), self.records.clone());
        drop(self);
        Farm::open(home, clock, store, records, settings, false).await
    }

    /// Writes a file of the codebase's project.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.home.path().join("source/Game").join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, content).expect("a file");
    }

    /// What the engine is to do wrong.
    pub(crate) fn mischief(&self, text: &str) {
        self.write("Config/StandIn.ini", text);
    }

    /// Changes the setting.
    pub(crate) async fn change_setting(&mut self, change: impl FnOnce(&mut BuildSetting)) {
        change(&mut self.records.setting);
        let setting = self.records.setting.clone();
        self.store.write::<(), StoreError>(move |tx| tx.put(&setting)).await.expect("stored");
    }

    /// A further setting of the project.
    pub(crate) async fn another_setting(&self) -> BuildSetting {
        let setting = studio::setting(&self.clock, &self.records.project, Kind::Githost);
        let stored = setting.clone();
        self.store.write::<(), StoreError>(move |tx| tx.put(&stored)).await.expect("stored");
        setting
    }

    /// A request for the setting, by a person.
    pub(crate) fn request(&self) -> Request {
        let setting = &self.records.setting;
        Request {
            organization: setting.organization_id,
            project: setting.project_id,
            setting: setting.id,
            by: TriggeredBy::User(self.clock.new_id()),
            overrides: Overrides::default(),
        }
    }

    /// Triggers the setting.
    pub(crate) async fn trigger(&self) -> Build {
        self.builds.trigger(self.request()).await.expect("triggered")
    }

    /// Triggers the setting and waits for the end.
    pub(crate) async fn build(&self) -> Build {
        let build = self.trigger().await;
        self.finished(build.id).await
    }

    pub(crate) fn read(&self, id: Id<Build>) -> Build {
        let read: Result<_, StoreError> = self.store.read(|snapshot| snapshot.get(self.records.organization.id, id));
        read.expect("read").expect("no build is ever lost")
    }

    /// Waits until the build is as `fits` wants it.
    pub(crate) async fn until(&self, id: Id<Build>, fits: impl Fn(&Build) -> bool) -> Build {
        let patience = tokio::time::Instant::now() + Duration::from_secs(100);
        loop {
            let build = self.read(id);
            if fits(&build) {
                return build;
            }
            assert!(tokio::time::Instant::now() < patience, "it never came: {build:#?}\n{}", self.text(id).await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn finished(&self, id: Id<Build>) -> Build {
        self.until(id, |build| !build.status.is_unfinished()).await
    }

    /// Waits for a line of the build's log.
    pub(crate) async fn said(&self, id: Id<Build>, words: &str) {
        let patience = tokio::time::Instant::now() + Duration::from_secs(60);
        while !self.text(id).await.contains(words) {
            assert!(tokio::time::Instant::now() < patience, "nobody said {words}: {}", self.text(id).await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn lines(&self, id: Id<Build>) -> Vec<LogLine> {
        self.builds.logs().reader(id).await.expect("a log").tail(usize::MAX).await.expect("lines")
    }

    pub(crate) async fn text(&self, id: Id<Build>) -> String {
        self.lines(id).await.into_iter().map(|line| line.text + "\n").collect()
    }

    /// The build failed like this, with a message that holds these words.
    pub(crate) fn assert_failed(build: &Build, code: FailureCode, words: &str) {
        let failure = build.failure.as_ref().unwrap_or_else(|| panic!("it did not fail: {build:#?}"));
        assert_eq!((build.status, failure.code), (Status::Failed, code), "{failure:?}");
        assert!(failure.message.contains(words), "{failure:?}");
        assert!(build.artifact.is_none(), "what failed has no artifact");
    }

    /// Processes that still carry this farm's marker.
    pub(crate) fn processes(&self) -> Vec<String> {
        marked_processes(&format!("test-{}", self.home.path().file_name().unwrap_or_default().to_string_lossy()))
    }
}

/// Command lines of processes whose environment carries a marker with these words.
pub(crate) fn marked_processes(marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let carries = environment.split(|byte| *byte == 0).any(|variable| {
            String::from_utf8_lossy(variable).strip_prefix("COOKHOUSE_PROCESS=").is_some_and(|value| value.starts_with(marker))
        });
        if carries {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&command).replace('\0', " "));
        }
    }
    found
}

impl Drop for Farm {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(work) = self.work.take() {
            work.abort();
        }
        if !std::thread::panicking() {
            let complaints = self.store.check().expect("checked");
            assert!(complaints.is_empty(), "indexes have drifted: {complaints:?}");
        }
    }
}
