//! After completion: the artifact goes to each of the setting's targets, one attempt each, and the outcome is recorded.
//! Nothing here touches a build's status.
//!
//! That an attempt begins is on disk before it begins. After a crash an attempt that had begun is `interrupted` and never
//! silently repeated: the receiver may have taken it. Every attempt ever made is in a ledger that the store keeps.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use super::connections::{ServiceLog, deploy_bindings, deploy_plugins};
use super::lifecycle::{begin_step, close_steps};
use super::{Builds, Refused};
use crate::artifacts;
use crate::model::build::{StepName, StepStatus};
use crate::model::deploy::{DeployError, DeployFailureCode, DeployStatus, Deployment};
use crate::model::log::LogStream;
use crate::model::{Build, BuildSetting, Id, Organization, Timestamp, TriggeredBy};
use crate::seams::{ArtifactFile, CallContext, DeployMetadata, DeployOutcome, DeployProblem, LogSink, PluginBinding};
use crate::store::key::Key;
use crate::store::tables::BUILDS_TO_DEPLOY;
use crate::store::{Change, Read, StoreError};

/// How many builds are handed on at once. They wait for receivers, not for this machine.
const AT_ONCE: usize = 4;
/// How long a lost hint delays a deploy.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// The longest an attempt may take; a stalled one ends much earlier, by the plugin host's idle limit.
const LONGEST: Duration = Duration::from_secs(6 * 60 * 60);

/// What a completed build of this setting has before it.
pub(super) fn wanted(setting: &BuildSetting) -> Vec<Deployment> {
    let plugins = if setting.auto_deploy { deploy_plugins(setting) } else { Vec::new() };
    plugins.into_iter().map(pending).collect()
}

fn pending(plugin: String) -> Deployment {
    Deployment { plugin, status: DeployStatus::Pending, error: None }
}

/// Wants every target of the setting to be tried once more.
pub(super) fn request(tx: &Change, organization: Id<Organization>, id: Id<Build>, by: TriggeredBy) -> Result<Build, Refused> {
    let mut build: Build = tx.get(organization, id)?.ok_or(Refused::NotFound)?;
    if build.status.is_unfinished() {
        return Err(Refused::Unfinished);
    }
    if build.artifact.as_ref().is_none_or(|artifact| artifact.deleted_at.is_some()) {
        return Err(Refused::NoArtifact);
    }
    if matches!(build.auto_deploy_status, Some(DeployStatus::Pending | DeployStatus::InProgress)) {
        return Err(Refused::DeployUnderWay);
    }
    let setting: BuildSetting = tx.get(organization, build.build_setting_id)?.ok_or(Refused::SettingDeleted)?;
    build.deployments = deploy_plugins(&setting).into_iter().map(pending).collect();
    if build.deployments.is_empty() {
        return Err(Refused::NoDeployTarget);
    }
    build.deploy_requested_by = Some(by);
    summarize(&mut build);
    tx.put(&build)?;
    Ok(build)
}

/// Marks every attempt that had begun as interrupted. What had not begun stays wanted.
pub(super) fn interrupt(build: &mut Build, now: Timestamp) {
    for deployment in build.deployments.iter_mut().filter(|deployment| deployment.status == DeployStatus::InProgress) {
        let message =
            "The service ended while the artifact was being sent. Whether the receiver took it is not known; send it again if it did not.";
        *deployment = failed(&deployment.plugin, DeployFailureCode::Interrupted, None, message, now);
    }
    close_steps(build, StepStatus::Failed, now);
    summarize(build);
}

fn failed(plugin: &str, code: DeployFailureCode, http_status: Option<u16>, message: &str, attempted_at: Timestamp) -> Deployment {
    let error = DeployError { code, http_status, message: message.to_owned(), attempted_at };
    Deployment { plugin: plugin.to_owned(), status: DeployStatus::Failed, error: Some(error) }
}

/// `autoDeployStatus` and `autoDeployError` from the targets' own.
fn summarize(build: &mut Build) {
    let has = |status| build.deployments.iter().any(|deployment| deployment.status == status);
    let has_begun = build.deployments.iter().any(|deployment| deployment.status != DeployStatus::Pending);
    build.auto_deploy_status = match () {
        () if build.deployments.is_empty() => None,
        () if !has_begun => Some(DeployStatus::Pending),
        () if has(DeployStatus::InProgress) || has(DeployStatus::Pending) => Some(DeployStatus::InProgress),
        () if has(DeployStatus::Failed) => Some(DeployStatus::Failed),
        () => Some(DeployStatus::Succeeded),
    };
    build.auto_deploy_error = build.deployments.iter().find_map(|deployment| deployment.error.clone());
}

impl Builds {
    /// Hands on until `stop`, then gives what is under way the shutdown grace.
    pub(super) async fn run_deploys(&self, stop: &CancellationToken) {
        let give_up = CancellationToken::new();
        let mut under_way = FuturesUnordered::new();
        let mut ids = HashSet::new();
        while !stop.is_cancelled() {
            // Interest is registered before the index is read, so that what comes in between is not missed.
            let mut woken = std::pin::pin!(self.0.deploys.notified());
            woken.as_mut().enable();
            match self.waiting_deploys(&ids, AT_ONCE.saturating_sub(ids.len())) {
                Ok(waiting) => {
                    for build in waiting {
                        ids.insert(build.id);
                        let (builds, give_up) = (self.clone(), give_up.clone());
                        let (id, organization) = (build.id, build.organization_id);
                        under_way.push(async move {
                            // A task of its own, so that a panic is the failure of one deploy.
                            let task = tokio::spawn(async move { builds.hand_on(organization, id, &give_up).await });
                            (id, task.await)
                        });
                    }
                }
                Err(error) => tracing::warn!(%error, "deploys could not be started"),
            }
            tokio::select! {
                () = woken => {}
                Some((id, outcome)) = under_way.next(), if !under_way.is_empty() => self.deploy_ended(&mut ids, id, outcome).await,
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = stop.cancelled() => {}
            }
        }
        let all = async { while under_way.next().await.is_some() {} };
        let mut all = std::pin::pin!(all);
        if tokio::time::timeout(self.0.settings.shutdown_grace, all.as_mut()).await.is_err() {
            give_up.cancel();
            all.await;
        }
    }

    async fn deploy_ended(
        &self,
        ids: &mut HashSet<Id<Build>>,
        id: Id<Build>,
        outcome: Result<Result<(), StoreError>, tokio::task::JoinError>,
    ) {
        match outcome {
            Ok(Ok(())) => drop(ids.remove(&id)),
            // The record says what was begun; the next start sorts it out. Trying again now could send it twice.
            Ok(Err(error)) => tracing::error!(%error, build.id = %id, "the outcome of a deploy could not be recorded"),
            Err(error) => tracing::error!(%error, build.id = %id, "a deploy ended in a panic"),
        }
    }

    fn waiting_deploys(&self, under_way: &HashSet<Id<Build>>, limit: usize) -> Result<Vec<Build>, StoreError> {
        let mut waiting = Vec::new();
        self.0.parts.store.read(|snapshot| {
            snapshot.for_each_on_host(&BUILDS_TO_DEPLOY, &Key::all(), |build: Build| {
                if waiting.len() < limit && !under_way.contains(&build.id) {
                    waiting.push(build);
                }
                Ok(waiting.len() < limit)
            })
        })?;
        Ok(waiting)
    }

    async fn hand_on(&self, organization: Id<Organization>, id: Id<Build>, give_up: &CancellationToken) -> Result<(), StoreError> {
        while !give_up.is_cancelled() {
            let Some((build, entry)) = self.begin_attempt(organization, id).await? else { break };
            let began = self.0.parts.clock.now();
            let (outcome, lines) = self.attempt(&build, entry, give_up).await;
            let plugin = build.deployments[entry].plugin.clone();
            let deployment = match outcome {
                Ok(_) => Deployment { plugin, status: DeployStatus::Succeeded, error: None },
                Err(problem) => {
                    let code = if give_up.is_cancelled() { DeployFailureCode::Interrupted } else { problem.code };
                    failed(&plugin, code, problem.http_status, &problem.message, began)
                }
            };
            let now = self.0.parts.clock.now();
            let record = move |tx: &Change| -> Result<(), StoreError> {
                let Some(mut build) = tx.get::<Build>(organization, id)? else { return Ok(()) };
                let is_last = !build.deployments.iter().any(|other| other.status == DeployStatus::Pending);
                if let Some(place) = build.deployments.get_mut(entry) {
                    *place = deployment.clone();
                }
                summarize(&mut build);
                if is_last {
                    let well = build.auto_deploy_status == Some(DeployStatus::Succeeded);
                    close_steps(&mut build, if well { StepStatus::Complete } else { StepStatus::Failed }, now);
                }
                build.log_lines = build.log_lines.max(lines);
                tx.put(&build)
            };
            // What happened outside must be recorded, also when the disk is full for a while.
            super::run::until_stored(|| self.0.parts.store.write(record.clone())).await?;
        }
        Ok(())
    }

    /// Notes that the next target's only attempt begins. `None`: nothing is left to do.
    async fn begin_attempt(&self, organization: Id<Organization>, id: Id<Build>) -> Result<Option<(Build, usize)>, StoreError> {
        let now = self.0.parts.clock.now();
        let begin = move |tx: &Change| -> Result<_, StoreError> {
            let Some(mut build) = tx.get::<Build>(organization, id)? else { return Ok(None) };
            let Some(entry) = build.deployments.iter().position(|deployment| deployment.status == DeployStatus::Pending) else {
                return Ok(None);
            };
            build.deployments[entry].status = DeployStatus::InProgress;
            if !build.steps.iter().any(|step| step.name == StepName::Deploy && step.status == StepStatus::Running) {
                begin_step(&mut build, StepName::Deploy, now);
            }
            summarize(&mut build);
            tx.put(&build)?;
            Ok(Some((build, entry)))
        };
        self.0.parts.store.write(begin).await
    }

    /// The one attempt at one target; also says how many lines the log has after it.
    async fn attempt(&self, build: &Build, entry: usize, give_up: &CancellationToken) -> (Result<DeployOutcome, DeployProblem>, u64) {
        let writer = self.0.parts.logs.writer(build.id).await;
        let log: Arc<dyn LogSink> = match &writer {
            Ok(writer) => Arc::new(writer.clone()),
            Err(error) => {
                // The artifact is worth more than lines about it.
                tracing::warn!(%error, build.id = %build.id, "a deploy goes on without the build's log");
                Arc::new(ServiceLog)
            }
        };
        let outcome = self.send(build, entry, &log, give_up).await;
        let said = match &outcome {
            Ok(DeployOutcome { message: Some(message), .. }) => format!("The receiver took the artifact: {message}"),
            Ok(_) => "The receiver took the artifact".to_owned(),
            Err(problem) => format!("The deploy failed: {}", problem.message),
        };
        log.line(LogStream::System, &said);
        drop(log);
        let lines = match writer {
            Ok(writer) => {
                let _ = writer.flush().await;
                writer.position()
            }
            Err(_) => 0,
        };
        (outcome, lines)
    }

    async fn send(
        &self,
        build: &Build,
        entry: usize,
        log: &Arc<dyn LogSink>,
        give_up: &CancellationToken,
    ) -> Result<DeployOutcome, DeployProblem> {
        let problem = |code, message: &str| DeployProblem { code, http_status: None, message: message.to_owned() };
        let missing = |message: &str| problem(DeployFailureCode::ArtifactMissing, message);
        let artifact = build.artifact.as_ref().filter(|artifact| artifact.deleted_at.is_none());
        let artifact = artifact.ok_or_else(|| missing("The artifact was deleted before it was sent."))?;
        let path = self.0.parts.artifacts.path(build.id);
        if !path.is_file() {
            return Err(missing("The artifact is not on disk."));
        }
        let binding = self.deploy_binding(build, entry).map_err(|message| problem(DeployFailureCode::PluginError, &message))?;
        for secret in binding.secrets.values() {
            log.mask(secret.reveal());
        }
        log.line(LogStream::System, &format!("Sending the artifact ({} bytes) through the plugin {}", artifact.size_bytes, binding.plugin));
        let file = ArtifactFile {
            path,
            file_name: artifacts::file_name(build.id),
            size: artifact.size_bytes,
            md5: artifact.checksum_md5.clone(),
            sha256: artifact.checksum_sha256.clone(),
        };
        let process_marker = self.process_marker(&format!("deploy/{}", build.id));
        let call = CallContext { log: log.clone(), cancel: give_up.clone(), wall: LONGEST, process_marker };
        self.0.parts.deploy_target.deploy(&binding, metadata(build), file, call).await
    }

    /// How to call the target that this entry means, with the setting's secrets as they are now.
    fn deploy_binding(&self, build: &Build, entry: usize) -> Result<PluginBinding, String> {
        let setting = self.0.parts.store.read(|snapshot| snapshot.get::<BuildSetting>(build.organization_id, build.build_setting_id));
        let setting = setting.map_err(|error: StoreError| error.to_string())?;
        let setting = setting.ok_or("The build setting was deleted before the deploy began.")?;
        let plugin = &build.deployments[entry].plugin;
        // The setting may have changed since: the n-th entry of a plugin means the n-th target of that plugin.
        let before = build.deployments[..entry].iter().filter(|other| other.plugin == *plugin).count();
        let place = deploy_plugins(&setting).iter().enumerate().filter(|(_, name)| *name == plugin).map(|(place, _)| place).nth(before);
        let place = place.ok_or("The build setting does not name this target any more.")?;
        match deploy_bindings(&self.0.parts.vault, &setting).into_iter().nth(place) {
            Some(Ok(binding)) => Ok(binding),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("The build setting does not name this target any more.".into()),
        }
    }
}

fn metadata(build: &Build) -> DeployMetadata {
    DeployMetadata {
        build_id: build.id.to_string(),
        project_id: build.project_id.to_string(),
        platform: build.platform.clone(),
        build_type: build.build_type.clone(),
        ue_version: build.ue_version.clone(),
        branch: build.branch.clone(),
        commit: build.commit.clone(),
    }
}
