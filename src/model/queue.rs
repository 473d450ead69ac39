//! What the queue remembers besides the builds that wait in it.

use serde::{Deserialize, Serialize};

use super::{Id, Organization, Project, Timestamp, TriggeredBy};

/// An organization whose builds are not started; there is one exactly while they are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuePause {
    /// The organization's id: there is one for each.
    pub id: Id<QueuePause>,
    /// Whose builds wait.
    pub organization_id: Id<Organization>,
    /// Since when.
    pub paused_at: Timestamp,
    /// Who wanted it: a person or a token.
    pub paused_by: TriggeredBy,
}

/// When a project's turn was: the projects of a host take turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectTurn {
    /// The project's id: there is one for each.
    pub id: Id<ProjectTurn>,
    /// Whose project.
    pub organization_id: Id<Organization>,
    /// When a build of it last began.
    pub begun_at: Timestamp,
}

impl ProjectTurn {
    /// The turn of a project.
    pub fn id_of(project: Id<Project>) -> Id<ProjectTurn> {
        project.cast()
    }
}
