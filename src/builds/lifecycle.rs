//! THE ONE PLACE that moves a build's status. Every function works in the caller's write transaction and keeps the
//! project's `last_build` in step with it, so that a status, its indexes and what rests on it change together.

use super::{notices, turns};
use crate::model::build::{Diagnostics, Failure, FailureCode, InvalidTransition, Step, StepName, StepStatus};
use crate::model::build_setting::{Supersede, Trigger};
use crate::model::deploy::{DeployStatus, Deployment};
use crate::model::organization::GithostStatus;
use crate::model::project::{LastBuild, SourceLink};
use crate::model::{Artifact, Build, BuildSetting, Id, Organization, Project, Status, Timestamp, TriggeredBy};
use crate::store::build_list::{self, BuildFilter};
use crate::store::{Change, Read, StoreError};

/// Why a move was not made.
#[derive(Debug, thiserror::Error)]
pub enum LifecycleError {
    /// The table of moves does not have it; the build was moved by somebody else before.
    #[error(transparent)]
    Transition(#[from] InvalidTransition),
    /// There is no such build in this organization.
    #[error("there is no such build")]
    NotFound,
    /// It cannot complete any more: somebody cancelled it before.
    #[error("the build was cancelled")]
    CancelRequested,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What came of [`create`].
#[derive(Debug)]
pub struct Created {
    /// The new build: pending, or superseded at once by a waiting build of a higher changelist.
    pub build: Build,
    /// Running builds that were superseded; their processes have to be ended after the commit.
    pub to_end: Vec<Id<Build>>,
}

/// Stores a new build, and in the same transaction supersedes what it makes needless.
///
/// Decisions 8: only automatic builds of one setting and one branch or stream take part, on both sides. Builds that
/// people started, git builds of a named commit and repetitions stand for themselves. Changelists compare as numbers.
pub fn create(tx: &Change, build: Build, setting: &BuildSetting, now: Timestamp) -> Result<Created, LifecycleError> {
    tx.put(&build)?;
    let mut to_end = Vec::new();
    let mut rivals = Vec::new();
    if setting.supersede != Supersede::Off && build.retry_of.is_none() && takes_part(&build, setting) {
        rivals = of_setting(tx, setting.organization_id, setting.id, Status::Pending)?;
        if setting.supersede == Supersede::Running {
            rivals.extend(of_setting(tx, setting.organization_id, setting.id, Status::Running)?);
        }
        rivals.retain(|rival| rival.id != build.id && rival.branch == build.branch && takes_part(rival, setting));
    }
    let mine = changelist(&build, setting);
    let higher = rivals.iter().filter(|rival| mine.is_some() && changelist(rival, setting) > mine);
    let winner = higher.max_by_key(|rival| (changelist(rival, setting), rival.id)).map_or(build.id, |rival| rival.id);
    for rival in rivals.into_iter().filter(|rival| rival.id != winner) {
        if rival.status == Status::Running {
            to_end.push(rival.id);
        }
        supersede(tx, rival, winner, now)?;
    }
    let build = if winner == build.id { build } else { supersede(tx, build, winner, now)? };
    keep_project_in_step(tx, &build)?;
    Ok(Created { build, to_end })
}

/// Whether nobody in particular wanted this very build: a push, a schedule, or a server's script did.
pub(super) fn is_automatic(build: &Build, setting: &BuildSetting) -> bool {
    match build.triggered_by {
        TriggeredBy::Push(_) | TriggeredBy::Cron => true,
        TriggeredBy::ApiToken(_) => setting.trigger == Trigger::Push,
        TriggeredBy::User(_) => false,
    }
}

/// Whether a build is automatic, and of the newest revision rather than of a named one.
fn takes_part(build: &Build, setting: &BuildSetting) -> bool {
    // A push and a schedule name the commit that was the newest; nobody chose it.
    let is_newest = matches!(build.triggered_by, TriggeredBy::Push(_) | TriggeredBy::Cron);
    let names_a_commit = setting.stream_path.is_none() && build.requested_revision.is_some() && !is_newest;
    is_automatic(build, setting) && !names_a_commit
}

/// A stream build's number as far as it is known; where it is not, the newer build wins.
fn changelist(build: &Build, setting: &BuildSetting) -> Option<u64> {
    setting.stream_path.as_ref()?;
    build.requested_revision.as_ref().unwrap_or(&build.commit).parse().ok()
}

fn of_setting(tx: &Change, organization: Id<Organization>, setting: Id<BuildSetting>, status: Status) -> Result<Vec<Build>, StoreError> {
    every(tx, organization, &BuildFilter { build_setting_id: Some(setting), status: Some(status), ..BuildFilter::default() })
}

fn every(tx: &Change, organization: Id<Organization>, filter: &BuildFilter) -> Result<Vec<Build>, StoreError> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = build_list::page(tx, organization, filter, after, 1000)?;
        found.extend(page.items);
        match page.next {
            Some(last) => after = Some(last),
            None => return Ok(found),
        }
    }
}

fn supersede(tx: &Change, build: Build, winner: Id<Build>, now: Timestamp) -> Result<Build, LifecycleError> {
    let mut build = build.moved_to(Status::Superseded, now)?;
    build.superseded_by = Some(winner);
    close_steps(&mut build, StepStatus::Failed, now);
    store(tx, build)
}

/// What a build needs to run, as it was in the transaction that claimed it.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// Running now.
    pub build: Build,
    /// Its setting.
    pub setting: BuildSetting,
    /// Its project.
    pub project: Project,
    /// Whose it is.
    pub organization: Organization,
}

/// What came of [`claim`].
#[derive(Debug)]
pub enum Claim {
    /// It is the caller's to run.
    Running(Box<Claimed>),
    /// It cannot run now: it is not pending any more, or another build of its setting is running.
    NotNow,
    /// It can never run and has failed.
    Failed,
}

/// Takes a pending build: from here on the caller owes it a final status. Its first step begins with it.
pub fn claim(tx: &Change, organization: Id<Organization>, id: Id<Build>, now: Timestamp) -> Result<Claim, LifecycleError> {
    let build: Build = tx.get(organization, id)?.ok_or(LifecycleError::NotFound)?;
    if build.status != Status::Pending {
        return Ok(Claim::NotNow);
    }
    let setting: Option<BuildSetting> = tx.get(organization, build.build_setting_id)?;
    let project: Option<Project> = tx.get(organization, build.project_id)?;
    let owner: Option<Organization> = tx.get(organization, organization)?;
    let (Some(setting), Some(project), Some(owner)) = (setting, project, owner) else {
        fail_pending(tx, build, FailureCode::Cancelled, "Its build setting was deleted before it began.", now)?;
        return Ok(Claim::Failed);
    };
    if !of_setting(tx, organization, setting.id, Status::Running)?.is_empty() {
        return Ok(Claim::NotNow);
    }
    if let Some(message) = disconnected(&project, &owner) {
        fail_pending(tx, build, FailureCode::IntegrationDisconnected, message, now)?;
        return Ok(Claim::Failed);
    }
    let mut build = build.moved_to(Status::Running, now)?;
    begin_step(&mut build, StepName::Sync, now);
    let build = store(tx, build)?;
    turns::begun(tx, organization, project.id, now)?;
    Ok(Claim::Running(Box::new(Claimed { build, setting, project, organization: owner })))
}

fn disconnected(project: &Project, organization: &Organization) -> Option<&'static str> {
    let SourceLink::Githost { installation_id, .. } = &project.source else { return None };
    match organization.githost.as_ref().map(|githost| githost.status_of(installation_id)) {
        Some(GithostStatus::Connected) => None,
        Some(GithostStatus::Suspended) => {
            Some("The git host has suspended the connection. An administrator has to resume it there, or connect again.")
        }
        Some(GithostStatus::Disconnected) | None => Some("The git host is disconnected. An administrator has to connect it again."),
    }
}

/// Fails a build that waits.
fn fail_pending(tx: &Change, build: Build, code: FailureCode, message: &str, now: Timestamp) -> Result<Build, LifecycleError> {
    let mut build = build.moved_to(Status::Failed, now)?;
    build.failure = Some(Failure { code, message: message.to_owned(), step: None });
    notices::note(tx, &mut build, now)?;
    store(tx, build)
}

/// Fails a build that waited too long. False: it does not wait any more.
pub fn expire(tx: &Change, organization: Id<Organization>, id: Id<Build>, now: Timestamp) -> Result<bool, LifecycleError> {
    match tx.get::<Build>(organization, id)? {
        Some(build) if build.status == Status::Pending => {
            fail_pending(tx, build, FailureCode::QueueExpired, "It waited for seven days. Trigger it again.", now)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Notes why a build waits, where that is worth a record.
pub fn note_waiting(tx: &Change, organization: Id<Organization>, id: Id<Build>, reason: Option<&str>) -> Result<(), LifecycleError> {
    match tx.get::<Build>(organization, id)? {
        Some(mut build) if build.status == Status::Pending && build.pending_reason.as_deref() != reason => {
            build.pending_reason = reason.map(str::to_owned);
            Ok(tx.put(&build)?)
        }
        _ => Ok(()),
    }
}

/// What came of [`cancel`].
#[derive(Debug)]
pub enum Cancelled {
    /// It waited and has failed as `cancelled`.
    Finished(Build),
    /// It runs; its processes have to be ended after the commit.
    Ending(Build),
    /// It was finished before.
    TooLate,
}

/// Somebody does not want this build any more.
pub fn cancel(
    tx: &Change,
    organization: Id<Organization>,
    id: Id<Build>,
    reason: &str,
    now: Timestamp,
) -> Result<Cancelled, LifecycleError> {
    let mut build: Build = tx.get(organization, id)?.ok_or(LifecycleError::NotFound)?;
    match build.status {
        Status::Pending => Ok(Cancelled::Finished(fail_pending(tx, build, FailureCode::Cancelled, reason, now)?)),
        Status::Running => {
            build.cancel_requested = true;
            tx.put(&build)?;
            Ok(Cancelled::Ending(build))
        }
        Status::Complete | Status::Failed | Status::Superseded => Ok(Cancelled::TooLate),
    }
}

/// Cancels whatever a project has unfinished, because it is being deleted. Answers the running ones, whose processes
/// have to be ended after the commit.
pub fn cancel_project(
    tx: &Change,
    organization: Id<Organization>,
    project: Id<Project>,
    now: Timestamp,
) -> Result<Vec<Id<Build>>, LifecycleError> {
    let mut unfinished = Vec::new();
    for status in [Status::Pending, Status::Running] {
        unfinished.extend(every(
            tx,
            organization,
            &BuildFilter { project_id: Some(project), status: Some(status), ..BuildFilter::default() },
        )?);
    }
    cancel_all(tx, unfinished, "Its project was deleted.", now)
}

/// The same for one setting.
pub fn cancel_setting(
    tx: &Change,
    organization: Id<Organization>,
    setting: Id<BuildSetting>,
    now: Timestamp,
) -> Result<Vec<Id<Build>>, LifecycleError> {
    let mut unfinished = of_setting(tx, organization, setting, Status::Pending)?;
    unfinished.extend(of_setting(tx, organization, setting, Status::Running)?);
    cancel_all(tx, unfinished, "Its build setting was deleted.", now)
}

fn cancel_all(tx: &Change, builds: Vec<Build>, reason: &str, now: Timestamp) -> Result<Vec<Id<Build>>, LifecycleError> {
    let mut to_end = Vec::new();
    for build in builds {
        if let Cancelled::Ending(build) = cancel(tx, build.organization_id, build.id, reason, now)? {
            to_end.push(build.id);
        }
    }
    Ok(to_end)
}

/// What a build leaves behind besides its status.
#[derive(Debug, Clone, Default)]
pub struct Closing {
    /// Errors and warnings of its log.
    pub diagnostics: Diagnostics,
    /// Lines of its log.
    pub log_lines: u64,
    /// Its size on disk.
    pub log_bytes: u64,
}

/// Changes what is noted about a running build: a step, the revision. False: it does not run any more, nothing noted.
pub fn note(tx: &Change, organization: Id<Organization>, id: Id<Build>, change: impl FnOnce(&mut Build)) -> Result<bool, LifecycleError> {
    match tx.get::<Build>(organization, id)? {
        Some(mut build) if build.status == Status::Running => {
            let status = build.status;
            change(&mut build);
            debug_assert!(build.status == status, "a status moves in the other functions of this file only");
            tx.put(&build)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Finishes a build whose tarball is on disk under its final name. `deployments` is empty when nothing is to be handed
/// on. A build that was superseded or cancelled meanwhile does not complete; its tarball is needless then.
pub fn complete(
    tx: &Change,
    organization: Id<Organization>,
    id: Id<Build>,
    artifact: Artifact,
    deployments: Vec<Deployment>,
    closing: Closing,
    now: Timestamp,
) -> Result<Build, LifecycleError> {
    let build: Build = tx.get(organization, id)?.ok_or(LifecycleError::NotFound)?;
    if build.status == Status::Running && build.cancel_requested {
        return Err(LifecycleError::CancelRequested);
    }
    let mut build = build.moved_to(Status::Complete, now)?;
    close_steps(&mut build, StepStatus::Complete, now);
    build.artifact = Some(artifact);
    build.auto_deploy_status = (!deployments.is_empty()).then_some(DeployStatus::Pending);
    build.deployments = deployments;
    settle(&mut build, closing);
    notices::note(tx, &mut build, now)?;
    store(tx, build)
}

/// Fails a running build. One that was moved by somebody else keeps its status, and gets only what it leaves behind.
pub fn fail(
    tx: &Change,
    organization: Id<Organization>,
    id: Id<Build>,
    failure: Failure,
    closing: Closing,
    now: Timestamp,
) -> Result<Build, LifecycleError> {
    let mut build: Build = tx.get(organization, id)?.ok_or(LifecycleError::NotFound)?;
    if build.status == Status::Running {
        build = build.moved_to(Status::Failed, now)?;
        build.failure = Some(failure);
        close_steps(&mut build, StepStatus::Failed, now);
        notices::note(tx, &mut build, now)?;
    }
    settle(&mut build, closing);
    store(tx, build)
}

/// Fails a build that ran when the service ended, and makes its one successor, which repeats the request.
/// `successor`: the id of it; `None` when the configuration does not want one.
pub fn interrupt(
    tx: &Change,
    organization: Id<Organization>,
    id: Id<Build>,
    successor: Option<Id<Build>>,
    closing: Closing,
    now: Timestamp,
) -> Result<Option<Build>, LifecycleError> {
    let build: Build = tx.get(organization, id)?.ok_or(LifecycleError::NotFound)?;
    if build.status != Status::Running {
        return Ok(None);
    }
    if build.cancel_requested {
        let failure = Failure { code: FailureCode::Cancelled, message: "It was cancelled.".into(), step: running_step(&build) };
        fail(tx, organization, id, failure, closing, now)?;
        return Ok(None);
    }
    let message = match successor {
        Some(_) => "The service ended while it ran. It is repeated by itself.",
        None => "The service ended while it ran. Trigger it again.",
    };
    let failure = Failure { code: FailureCode::Interrupted, message: message.into(), step: running_step(&build) };
    let failed = fail(tx, organization, id, failure, closing, now)?;
    let setting: Option<BuildSetting> = tx.get(organization, failed.build_setting_id)?;
    let (Some(successor), Some(setting)) = (successor, setting) else { return Ok(None) };
    Ok(Some(create(tx, failed.repeated(successor, now), &setting, now)?.build))
}

/// The step that is under way.
pub fn running_step(build: &Build) -> Option<StepName> {
    build.steps.iter().rev().find(|step| step.status == StepStatus::Running).map(|step| step.name)
}

/// Ends the step that is under way well and begins the next.
pub fn begin_step(build: &mut Build, name: StepName, now: Timestamp) {
    close_steps(build, StepStatus::Complete, now);
    build.steps.push(Step { name, status: StepStatus::Running, started_at: now, finished_at: None, duration_ms: None });
}

/// Ends the step that is under way.
pub fn close_steps(build: &mut Build, status: StepStatus, now: Timestamp) {
    for step in build.steps.iter_mut().filter(|step| step.status == StepStatus::Running) {
        step.status = status;
        step.finished_at = Some(now);
        step.duration_ms = Some(now.since(step.started_at));
    }
}

fn settle(build: &mut Build, closing: Closing) {
    build.diagnostics = closing.diagnostics;
    build.log_lines = closing.log_lines;
    build.log_bytes = closing.log_bytes;
}

fn store(tx: &Change, build: Build) -> Result<Build, LifecycleError> {
    tx.put(&build)?;
    keep_project_in_step(tx, &build)?;
    Ok(build)
}

fn keep_project_in_step(tx: &Change, build: &Build) -> Result<(), LifecycleError> {
    let Some(mut project) = tx.get::<Project>(build.organization_id, build.project_id)? else { return Ok(()) };
    let last = LastBuild { id: build.id, at: build.created_at, status: build.status };
    if project.last_build.as_ref().is_none_or(|known| known.id <= last.id) && project.last_build.as_ref() != Some(&last) {
        project.last_build = Some(last);
        tx.put(&project)?;
    }
    Ok(())
}
