//! What is announced: a row for each change that somebody may be waiting for.

use serde::{Deserialize, Serialize};

use super::build::{Failure, Step, StepStatus};
use super::deploy::{DeployError, DeployStatus};
use super::{Build, Id, Organization, Project, Status, Timestamp};

/// One entry of the event log. Written by the store in the transaction that makes it true, never by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Its place in the log of the host; see [`Event::sequence`].
    pub id: Id<Event>,
    /// Whose.
    pub organization_id: Id<Organization>,
    /// When.
    pub at: Timestamp,
    /// The project it is about, which may be gone.
    pub project_id: Id<Project>,
    /// The build it is about.
    pub build_id: Option<Id<Build>>,
    /// What happened.
    pub what: What,
}

impl Event {
    /// The id of the event at this place of the log: later events have greater ids.
    pub fn id_of(sequence: u64) -> Id<Event> {
        Id::from_parts(sequence, 0)
    }

    /// Its place in the log, from 1, strictly increasing on the host; clients resume by it.
    pub fn sequence(&self) -> u64 {
        self.id.milliseconds()
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum What {
    /// A build was created or moved.
    Status {
        /// Where it stands now.
        status: Status,
        /// Why it failed.
        failure: Option<Failure>,
        /// What took its place.
        superseded_by: Option<Id<Build>>,
    },
    /// A step of a build began or ended.
    Step(Step),
    /// A deploy of a build began or ended.
    Deploy {
        /// Where it stands now.
        status: DeployStatus,
        /// Why it failed.
        error: Option<DeployError>,
    },
    /// The tarball of a build was deleted.
    ArtifactDeleted,
    /// A project was linked.
    ProjectCreated,
    /// A project was removed.
    ProjectDeleted,
}

impl What {
    /// Whether something begins with it, rather than ends.
    pub fn begins_something(&self) -> bool {
        match self {
            What::Status { status, .. } => status.is_unfinished(),
            What::Step(step) => step.status == StepStatus::Running,
            What::Deploy { status, .. } => matches!(status, DeployStatus::Pending | DeployStatus::InProgress),
            What::ProjectCreated => true,
            What::ArtifactDeleted | What::ProjectDeleted => false,
        }
    }
}

/// What has to be announced when a build is stored over `old`.
pub fn of_build(old: Option<&Build>, new: &Build) -> Vec<What> {
    let mut happened = Vec::new();
    let old_steps = old.map_or(&[][..], |old| &old.steps);
    for (place, step) in new.steps.iter().enumerate() {
        if old_steps.get(place) != Some(step) {
            happened.push(What::Step(step.clone()));
        }
    }
    // A status closes what its steps say: it comes behind them.
    if old.is_none_or(|old| old.status != new.status) {
        happened.push(What::Status { status: new.status, failure: new.failure.clone(), superseded_by: new.superseded_by });
    }
    if let Some(status) = new.auto_deploy_status
        && old.and_then(|old| old.auto_deploy_status) != Some(status)
    {
        happened.push(What::Deploy { status, error: new.auto_deploy_error.clone() });
    }
    let deleted = |build: &Build| build.artifact.as_ref().is_some_and(|artifact| artifact.deleted_at.is_some());
    if deleted(new) && !old.is_some_and(deleted) {
        happened.push(What::ArtifactDeleted);
    }
    happened
}
