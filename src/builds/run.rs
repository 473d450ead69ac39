//! One build, step by step, from its claim to its final status.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::connections::{self, deploy_bindings};
use super::diagnostics::Collector;
use super::lifecycle::{self, Claimed, Closing, LifecycleError};
use super::logs::LogWriter;
use super::notes::Notes;
use super::prepare::{Prepared, prepare};
use super::queue::Slot;
use super::verdict::{self, Ended, Facts};
use super::workspace::Workspace;
use super::{Builds, Stop, StopReason, deploy, uat};
use crate::artifacts::{ArtifactError, Staged};
use crate::model::artifact::Artifact;
use crate::model::build::{Failure, FailureCode, StepName};
use crate::model::{Build, Status, retention};
use crate::platform::files;
use crate::platform::process;
use crate::platform::running::OutputLine;
use crate::seams::{BuildCommand, CallContext, LogSink};
use crate::store::{Change, StoreError};

/// How long a build command that has to end may take over it.
const GRACE: Duration = Duration::from_secs(10);
/// How long a step may take to notice that it has to end; after that it is dropped, which ends its processes.
const PATIENCE: Duration = Duration::from_secs(45);
/// A sync that took less lets what was prepared when the build was claimed be still good.
const SOON: Duration = Duration::from_millis(10);
/// Less than this on a disk is a full disk, where a tool failed for reasons that it did not say.
const FULL: u64 = 1 << 20;

/// A failure in the model's words.
pub(super) fn failure(code: FailureCode, step: StepName, message: String) -> Failure {
    Failure { code, message, step: Some(step) }
}

/// A build that is being run.
pub(super) struct Job {
    pub(super) builds: Builds,
    pub(super) claimed: Claimed,
    pub(super) workspace: Workspace,
    pub(super) log: LogWriter,
    pub(super) notes: Notes,
    seen: Mutex<Seen>,
    pub(super) stop: Stop,
    pub(super) deadline: Instant,
}

/// What the output of the build command told so far.
struct Seen {
    collector: Collector,
    facts: Facts,
}

/// The log of a build that begins.
type OpeningLog = JoinHandle<std::io::Result<LogWriter>>;

/// Runs a claimed build to its end. The slot is free again when this is over.
pub(super) async fn run(builds: Builds, claimed: Claimed, log: OpeningLog, stop: Stop, slot: Slot) {
    let (organization, id) = (claimed.build.organization_id, claimed.build.id);
    // A task of its own, so that a panic is the end of this build alone.
    let task = tokio::spawn(run_claimed(builds.clone(), claimed, log, stop));
    let result = match task.await {
        Ok(result) => result,
        Err(error) => {
            tracing::error!(%error, build.id = %id, "a build ended in a panic");
            builds.interrupt(organization, id).await.map(|_| ())
        }
    };
    if let Err(error) = result {
        // The record still says running: the next start deals with it.
        tracing::error!(%error, build.id = %id, "the end of a build could not be recorded");
    }
    drop(slot);
}

async fn run_claimed(builds: Builds, claimed: Claimed, log: OpeningLog, stop: Stop) -> Result<(), LifecycleError> {
    let build = &claimed.build;
    let began = Instant::now();
    let timeout = match claimed.setting.timeout_minutes {
        Some(minutes) => minutes_of(minutes),
        None => builds.0.settings.timeout.min(minutes_of(claimed.organization.default_project_settings.timeout_minutes)),
    };
    let deadline = began + timeout;
    let log = match log.await.map_err(std::io::Error::other).and_then(|log| log) {
        Ok(log) => log,
        Err(error) => return no_log(&builds, build, &error).await,
    };
    secrets_of(&builds, &claimed).iter().for_each(|secret| log.mask(secret));
    let seen = Mutex::new(Seen { collector: Collector::new(Vec::new()), facts: Facts::default() });
    let workspace = Workspace::of(&builds.0.settings.workspaces, claimed.setting.id);
    let notes = Notes::start(builds.0.parts.store.clone(), build.organization_id, build.id);
    let job = Job { log, seen, workspace, notes, deadline, stop, builds, claimed };
    tracing::info!(build.id = %job.claimed.build.id, "a build begins");
    let watchdog = {
        let stop = job.stop.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until(deadline).await;
            stop.ask(StopReason::TimedOut);
        })
    };
    let outcome = job.steps().await;
    watchdog.abort();
    let result = job.finish(outcome, timeout).await;
    tracing::info!(build.id = %job.claimed.build.id, duration_ms = began.elapsed().as_millis() as u64, "a build ended");
    result
}

/// A build whose log cannot be made is not run: nobody could see what it did.
async fn no_log(builds: &Builds, build: &Build, error: &std::io::Error) -> Result<(), LifecycleError> {
    tracing::error!(%error, build.id = %build.id, "the log of a build cannot be made");
    let (organization, id, now) = (build.organization_id, build.id, builds.0.parts.clock.now());
    let failed = match files::is_storage_full(error) {
        true => failure(FailureCode::StorageFull, StepName::Sync, "The disk of the logs is full.".into()),
        false => {
            failure(FailureCode::BuildStepFailed, StepName::Sync, "The build's log cannot be written; the service's log says why.".into())
        }
    };
    let record = move |tx: &Change| lifecycle::fail(tx, organization, id, failed, Closing::default(), now);
    until_stored(|| builds.0.parts.store.write(record.clone())).await.map(|_| ())
}

fn minutes_of(minutes: u32) -> Duration {
    Duration::from_secs(u64::from(minutes) * 60)
}

/// What must not stand in the log: everything that the service itself knows of this build's connections.
fn secrets_of(builds: &Builds, claimed: &Claimed) -> Vec<String> {
    let vault = &builds.0.parts.vault;
    let source =
        connections::source(vault, &claimed.organization, &claimed.project.source, &claimed.build.branch).map(|(binding, _)| binding);
    let bindings = source.into_iter().chain(deploy_bindings(vault, &claimed.setting).into_iter().flatten());
    bindings.flat_map(|binding| binding.secrets.into_values().map(|secret| secret.reveal().clone())).collect()
}

impl Job {
    /// A line of the service itself.
    pub(super) fn say(&self, text: &str) {
        self.log.system(text);
    }

    /// What a call into a plugin is given.
    pub(super) fn call(&self, purpose: &str) -> CallContext {
        CallContext {
            log: Arc::new(self.log.clone()),
            cancel: self.stop.token.clone(),
            wall: self.deadline.saturating_duration_since(Instant::now()),
            process_marker: self.builds.process_marker(&format!("build/{}/{purpose}", self.claimed.build.id)),
        }
    }

    /// Work on the disk that may take a while.
    pub(super) async fn on_disk<T: Send + 'static>(
        &self,
        step: StepName,
        work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let result = tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other).and_then(|result| result);
        result.map_err(|error| {
            self.say(&format!("The workspace cannot be used: {error}"));
            match files::is_storage_full(&error) {
                true => failure(FailureCode::StorageFull, step, "The disk of the workspaces is full.".into()),
                false => failure(
                    FailureCode::BuildStepFailed,
                    step,
                    "The workspace of the build setting cannot be used; the log says why.".into(),
                ),
            }
        })
    }

    async fn steps(&self) -> Result<Staged, Failure> {
        let began = Instant::now();
        self.bounded(StepName::Sync, self.sync()).await?;
        self.notes.begin(StepName::Prepare, self.builds.0.parts.clock.now());
        if began.elapsed() > SOON {
            tokio::task::spawn_blocking(process::expect_start);
        }
        let prepared = self.bounded(StepName::Prepare, self.prepare()).await?;
        self.notes.begin(StepName::Build, self.builds.0.parts.clock.now());
        self.bounded(StepName::Build, self.build(prepared)).await?;
        self.notes.begin(StepName::Package, self.builds.0.parts.clock.now());
        self.bounded(StepName::Package, self.package()).await
    }

    /// A step ends by itself soon after it was asked to. One that does not is dropped, which ends its processes.
    async fn bounded<T>(&self, step: StepName, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let stopped = || failure(FailureCode::Interrupted, step, "It was ended.".into());
        if self.stop.token.is_cancelled() {
            return Err(stopped());
        }
        let gave_up = async {
            self.stop.token.cancelled().await;
            tokio::time::sleep(PATIENCE).await;
        };
        tokio::select! {
            result = work => match self.stop.token.is_cancelled() {
                // It may have ended well, or failed because of that: either way it was not wanted any more.
                true => Err(stopped()),
                false => result,
            },
            () = gave_up => Err(stopped()),
        }
    }

    async fn prepare(&self) -> Result<Prepared, Failure> {
        let (claimed, workspace, engines) = (self.claimed.clone(), self.workspace.clone(), self.builds.0.settings.engines.clone());
        let prepared =
            self.on_disk(StepName::Prepare, move || Ok(prepare(&claimed, &workspace, &super::engines::Inventory::read(&engines)))).await?;
        if let Err(failure) = &prepared {
            self.say(&failure.message);
        }
        prepared
    }

    async fn build(&self, prepared: Prepared) -> Result<(), Failure> {
        let Prepared { invocation, engine } = prepared;
        let roots = vec![self.workspace.source(), engine.root.clone()];
        self.seen().collector = Collector::new(roots);
        let words: Vec<_> = invocation.arguments.iter().map(|word| word.to_string_lossy()).collect();
        self.say(&format!("Building with engine {} ({}): RunUAT {}", engine.label, engine.version, words.join(" ")));
        let mut environment = uat::allowed_environment(&self.builds.0.settings.environment, |name| std::env::var_os(name));
        environment.extend(invocation.environment);
        let isolation = &self.builds.0.settings.isolation;
        isolation.settle(&mut environment, &self.workspace.home());
        self.say(&isolation.sentence());
        let confinement = {
            let (isolation, workspace, environment) = (isolation.clone(), self.workspace.clone(), environment.clone());
            let work = move || Ok(isolation.confinement(&workspace, &engine, &environment));
            self.on_disk(StepName::Build, work).await?
        };
        let command = BuildCommand {
            program: invocation.program,
            args: invocation.arguments,
            environment,
            directory: invocation.directory,
            marker: self.builds.process_marker(&format!("build/{}", self.claimed.build.id)),
            confinement,
            account: isolation.account.clone(),
        };
        let status = self.execute(command).await?;
        let (workspace, platform) = (self.workspace.clone(), self.claimed.build.platform.clone());
        let output = self.on_disk(StepName::Build, move || verdict::inspect(&workspace.output(), &platform)).await?;
        let ended = match (status.code, status.signal) {
            (Some(code), _) => Ended::Exited(code),
            (None, signal) => Ended::Signalled(signal.unwrap_or(0)),
        };
        let judged = {
            let seen = self.seen();
            verdict::judge(ended, &seen.facts, output, &self.claimed.build.platform, &seen.collector.diagnostics())
        };
        judged.map_err(|failure| {
            self.say(&failure.message);
            match self.disk_is_full() {
                true => Failure { code: FailureCode::StorageFull, message: format!("The disk is full. {}", failure.message), ..failure },
                false => failure,
            }
        })
    }

    /// Runs the command to its end, and hears every line of it.
    async fn execute(&self, command: BuildCommand) -> Result<crate::platform::process::ExitStatus, Failure> {
        let cannot = |error: std::io::Error| {
            self.say(&format!("The automation tool cannot be started: {error}"));
            failure(
                FailureCode::EngineUnavailable,
                StepName::Build,
                format!("The engine's automation tool cannot be started: {}.", error.kind()),
            )
        };
        let mut running = self.builds.0.parts.executor.start(command).await.map_err(cannot)?;
        let silence = self.builds.0.settings.silence_timeout;
        let mut quiet_until = Instant::now() + silence;
        let mut has_stalled = false;
        let mut is_ending = false;
        loop {
            tokio::select! {
                biased;
                () = self.stop.token.cancelled(), if !is_ending => {
                    is_ending = true;
                    running.end(GRACE);
                }
                lines = running.lines() => {
                    let Some(lines) = lines else { break };
                    quiet_until = Instant::now() + silence;
                    self.hear(lines).await;
                }
                () = tokio::time::sleep_until(quiet_until), if !is_ending && !silence.is_zero() => {
                    (is_ending, has_stalled) = (true, true);
                    running.end(GRACE);
                }
            }
        }
        let status = running.status().await.map_err(cannot)?;
        if has_stalled {
            let message = format!("The build command printed nothing for {} and was ended.", in_words(silence));
            self.say(&message);
            return Err(failure(FailureCode::TimedOut, StepName::Build, message));
        }
        Ok(status)
    }

    async fn hear(&self, lines: Vec<OutputLine>) {
        for OutputLine { stream, mut text } in lines {
            {
                // Diagnostics and failures are shown to as many people as the log is.
                let shown = self.log.masked(&text);
                let mut seen = self.seen();
                seen.collector.observe(self.log.position() + 1, &shown);
                seen.facts.observe(&shown);
            }
            text.push('\n');
            // A disk that does not keep up slows the build down.
            self.log.output(stream, text.as_bytes()).await;
        }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn disk_is_full(&self) -> bool {
        let directories = [&self.builds.0.settings.workspaces, &self.workspace.temporary()];
        directories.iter().any(|directory| files::free_space(directory).is_ok_and(|space| space.free_bytes < FULL))
    }

    async fn package(&self) -> Result<Staged, Failure> {
        let artifacts = &self.builds.0.parts.artifacts;
        let log = self.log.clone();
        let progress = move |done, total| log.progress("package", done, Some(total));
        let staged = artifacts.package(self.workspace.output(), self.claimed.build.id, self.stop.token.clone(), progress).await;
        staged.map_err(|error| self.package_failure(&error))
    }

    fn package_failure(&self, error: &ArtifactError) -> Failure {
        let code = if matches!(error, ArtifactError::StorageFull) { FailureCode::StorageFull } else { FailureCode::StagingFailed };
        let message = format!("The output could not be packaged: {error}.");
        self.say(&message);
        failure(code, StepName::Package, message)
    }

    /// Records the end, whatever it was.
    async fn finish(&self, outcome: Result<Staged, Failure>, timeout: Duration) -> Result<(), LifecycleError> {
        let published = match outcome {
            Ok(staged) => self.publish(staged).await,
            Err(failure) => Err(failure),
        };
        let ran_full = published.as_ref().is_err_and(|failure| failure.code == FailureCode::StorageFull);
        let record = async {
            // Every note is on disk before the end is.
            self.notes.flush().await;
            match published {
                Ok(artifact) => self.complete(artifact).await,
                Err(failure) => self.fail(failure, timeout).await,
            }
        };
        // At the same time: on a full disk the record waits for the space that this gives back.
        let (result, ()) = tokio::join!(record, self.clear(ran_full));
        self.builds.measure_workspace(&self.claimed.build, self.workspace.clone()).await;
        result
    }

    /// Removes what only this build needed. Where the disk is full even then, the workspace goes too: nobody could build in
    /// it, and the store needs some room to say so.
    async fn clear(&self, ran_full: bool) {
        let workspace = self.workspace.clone();
        let _ = tokio::task::spawn_blocking(move || workspace.end()).await;
        if ran_full && self.disk_is_full() {
            let workspace = self.workspace.clone();
            match tokio::task::spawn_blocking(move || workspace.discard()).await {
                Ok(Ok(())) => self.say("The disk is full: the workspace was removed."),
                Ok(Err(error)) => tracing::warn!(%error, "a workspace on a full disk could not be removed"),
                Err(error) => tracing::warn!(%error, "a workspace on a full disk could not be removed"),
            }
        }
    }

    async fn publish(&self, staged: Staged) -> Result<Artifact, Failure> {
        let artifact = Artifact {
            size_bytes: staged.size_bytes,
            checksum_md5: staged.md5.clone(),
            checksum_sha256: staged.sha256.clone(),
            expires_at: None,
            deleted_at: None,
            deleted_reason: None,
        };
        for skipped in &staged.skipped {
            self.say(&format!("Not packaged, since it is neither a file, a directory nor a link: {skipped}"));
        }
        staged.publish().await.map_err(|error| self.package_failure(&error))?;
        self.say(&format!("Packaged {} bytes, MD5 {}, SHA-256 {}", artifact.size_bytes, artifact.checksum_md5, artifact.checksum_sha256));
        Ok(artifact)
    }

    async fn complete(&self, mut artifact: Artifact) -> Result<(), LifecycleError> {
        let builds = self.builds.clone();
        let (organization, id) = (self.claimed.build.organization_id, self.claimed.build.id);
        let keep = builds.0.settings.keep.of(&self.claimed.organization.default_project_settings);
        let now = builds.0.parts.clock.now();
        // It is the newest of its setting; whoever reads it later computes this anew.
        artifact.expires_at = (keep.last == 0).then(|| now.plus(retention::days(keep.days)));
        let wanted = deploy::wanted(&self.claimed.setting);
        let closing = self.close().await;
        let record = move |tx: &Change| {
            let build = lifecycle::complete(tx, organization, id, artifact, wanted, closing, now)?;
            let builds = builds.clone();
            tx.after_commit(move || builds.0.deploys.notify_one());
            Ok::<Build, LifecycleError>(build)
        };
        match until_stored(|| self.builds.0.parts.store.write(record.clone())).await {
            Ok(_) => Ok(()),
            // Superseded or cancelled in the last moment: the tarball belongs to nobody.
            Err(error @ (LifecycleError::Transition(_) | LifecycleError::CancelRequested | LifecycleError::NotFound)) => {
                if let Err(error) = self.builds.0.parts.artifacts.delete(id).await {
                    tracing::warn!(%error, build.id = %id, "a needless artifact is left for the next start");
                }
                match error {
                    LifecycleError::CancelRequested => self.record_failure(cancelled(StepName::Package)).await,
                    _ => Ok(()),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn fail(&self, failed: Failure, timeout: Duration) -> Result<(), LifecycleError> {
        let step = failed.step.unwrap_or(StepName::Sync);
        let failed = match self.stop.reason() {
            None => failed,
            Some(StopReason::Cancelled) => cancelled(step),
            Some(StopReason::TimedOut) => {
                failure(FailureCode::TimedOut, step, format!("It took longer than its limit of {} and was ended.", in_words(timeout)))
            }
            // It has its final status already; what it leaves behind is added to it.
            Some(StopReason::Superseded) => failure(FailureCode::Cancelled, step, "A newer build took its place.".into()),
            Some(StopReason::Shutdown) => {
                self.close().await;
                let (organization, id) = (self.claimed.build.organization_id, self.claimed.build.id);
                return self.builds.interrupt(organization, id).await.map(|_| ());
            }
        };
        self.say(&failed.message);
        self.record_failure(failed).await
    }

    async fn record_failure(&self, failed: Failure) -> Result<(), LifecycleError> {
        let (organization, id, now) = (self.claimed.build.organization_id, self.claimed.build.id, self.builds.0.parts.clock.now());
        let closing = self.close().await;
        let record = move |tx: &Change| lifecycle::fail(tx, organization, id, failed, closing, now);
        let build = until_stored(|| self.builds.0.parts.store.write(record.clone())).await?;
        debug_assert!(build.status != Status::Running);
        Ok(())
    }

    /// What the log came to; all of it is on disk when this returns.
    async fn close(&self) -> Closing {
        self.log.end_lines();
        if let Err(error) = self.log.flush().await {
            tracing::warn!(%error, build.id = %self.claimed.build.id, "the log of a build is not complete");
        }
        Closing { diagnostics: self.seen().collector.diagnostics(), log_lines: self.log.position(), log_bytes: self.log.stored_bytes() }
    }
}

fn cancelled(step: StepName) -> Failure {
    failure(FailureCode::Cancelled, step, "It was cancelled.".into())
}

fn in_words(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds >= 120 && seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    }
}

/// Whether trying again later may help: the disk is full or the store is busy, but it lives.
pub(super) trait Passing {
    fn is_passing(&self) -> bool;
}

impl Passing for StoreError {
    fn is_passing(&self) -> bool {
        matches!(self, StoreError::StorageFull | StoreError::Busy)
    }
}

impl Passing for LifecycleError {
    fn is_passing(&self) -> bool {
        matches!(self, LifecycleError::Store(error) if error.is_passing())
    }
}

/// Repeats a write until the store takes it. For what has happened and only needs to be recorded; while the disk is
/// full, that waits for space.
pub(super) async fn until_stored<T, E: Passing, F: Future<Output = Result<T, E>>>(mut write: impl FnMut() -> F) -> Result<T, E> {
    let mut pause = Duration::from_millis(50);
    loop {
        match write().await {
            Err(error) if error.is_passing() => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(10));
            }
            result => return result,
        }
    }
}
