//! A request, a push or a tick becomes a durable pending build.

use super::lifecycle::{self, Created, LifecycleError};
use crate::clock::Clock;
use crate::model::project::SourceLink;
use crate::model::revision::{check_branch, check_changelist, check_commit};
use crate::model::validation::{Invalid, InvalidCode};
use crate::model::{Build, BuildSetting, Id, Organization, Project, TriggeredBy};
use crate::store::{Change, Read, StoreError};

/// What is to be built, and why.
#[derive(Debug, Clone)]
pub struct Request {
    /// Of the caller.
    pub organization: Id<Organization>,
    /// As the path names it.
    pub project: Id<Project>,
    /// As the path names it.
    pub setting: Id<BuildSetting>,
    /// The cause.
    pub by: TriggeredBy,
    /// What the request wants otherwise than the setting.
    pub overrides: Overrides,
}

/// The trigger endpoint's optional fields, unchecked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Another branch than the setting's; git only.
    pub branch: Option<String>,
    /// A named commit instead of the newest; git only.
    pub commit: Option<String>,
    /// A named changelist instead of the newest; streams only.
    pub changelist: Option<String>,
}

/// Why no build was made.
#[derive(Debug, thiserror::Error)]
pub enum TriggerError {
    /// This organization has no such setting in such a project.
    #[error("there is no such build setting")]
    NoSuchSetting,
    /// Overrides that cannot be.
    #[error("the overrides are not valid")]
    Invalid(Vec<Invalid>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<LifecycleError> for TriggerError {
    fn from(error: LifecycleError) -> Self {
        match error {
            LifecycleError::Store(error) => TriggerError::Store(error),
            // Only a build that somebody deleted in the same transaction could do this.
            LifecycleError::NotFound | LifecycleError::CancelRequested | LifecycleError::Transition(_) => TriggerError::NoSuchSetting,
        }
    }
}

/// Makes the build in the caller's transaction. Use [`super::Builds::trigger_in`], which also wakes the queue.
pub(super) fn create(tx: &Change, clock: &Clock, request: &Request) -> Result<Created, TriggerError> {
    let organization = request.organization;
    let setting: BuildSetting = tx.get(organization, request.setting)?.ok_or(TriggerError::NoSuchSetting)?;
    let project: Project = tx.get(organization, request.project)?.ok_or(TriggerError::NoSuchSetting)?;
    if setting.project_id != project.id {
        return Err(TriggerError::NoSuchSetting);
    }
    let invalid = check(&request.overrides, &project.source);
    if !invalid.is_empty() {
        return Err(TriggerError::Invalid(invalid));
    }
    // The id is made on the writing thread, so that ids are in the order of commits.
    let now = clock.now();
    let build = pending(clock.new_id(), &setting, request, now);
    Ok(lifecycle::create(tx, build, &setting, now)?)
}

fn check(overrides: &Overrides, source: &SourceLink) -> Vec<Invalid> {
    type Check = fn(&str) -> Result<(), String>;
    let is_git = matches!(source, SourceLink::Githost { .. });
    let fields: [(&str, &Option<String>, bool, Check); 3] = [
        ("branch", &overrides.branch, is_git, check_branch),
        ("commit", &overrides.commit, is_git, check_commit),
        ("changelist", &overrides.changelist, !is_git, check_changelist),
    ];
    let mut found = Vec::new();
    for (field, value, is_allowed, check) in fields {
        let Some(value) = value else { continue };
        if !is_allowed {
            let kind = if is_git { "git-hosted" } else { "stream-based" };
            found.push(Invalid::new(field, InvalidCode::NotAllowed, format!("A {kind} project has no {field}.")));
        } else if let Err(message) = check(value) {
            found.push(Invalid::new(field, InvalidCode::InvalidValue, message));
        }
    }
    found
}

fn pending(id: Id<Build>, setting: &BuildSetting, request: &Request, now: crate::model::Timestamp) -> Build {
    let Overrides { branch, commit, changelist } = request.overrides.clone();
    let mut build = Build::waiting(id, setting, request.by.clone(), now);
    if let Some(branch) = branch {
        build.branch = branch;
    }
    build.requested_revision = commit.map(|commit| commit.to_ascii_lowercase()).or_else(|| changelist.clone());
    build.changelist = changelist;
    build
}
