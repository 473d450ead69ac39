//! What a build setting takes on disk.

use serde::{Deserialize, Serialize};

use super::{Build, BuildSetting, Id, Organization, Project, Timestamp};

/// Bytes of one setting. Artifacts and logs are counted by the store in the transaction that changes a build, so the
/// numbers cannot drift; the workspace is measured after each build. Gone when nothing is left, also of deleted settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The setting's, as another kind.
    pub id: Id<Usage>,
    /// Whose.
    pub organization_id: Id<Organization>,
    /// The project, which may be gone.
    pub project_id: Id<Project>,
    /// The setting, which may be gone.
    pub build_setting_id: Id<BuildSetting>,
    /// How many artifacts are kept.
    pub artifacts: u64,
    /// Their bytes.
    pub artifact_bytes: u64,
    /// Bytes of the logs of finished builds.
    pub log_bytes: u64,
    /// Bytes of the workspace after its last build.
    pub workspace_bytes: u64,
    /// When a build last worked in it; `None`: there is none.
    pub workspace_used_at: Option<Timestamp>,
}

impl Usage {
    /// Nothing yet.
    pub fn empty(organization_id: Id<Organization>, project_id: Id<Project>, build_setting_id: Id<BuildSetting>) -> Usage {
        Usage {
            id: build_setting_id.cast(),
            organization_id,
            project_id,
            build_setting_id,
            artifacts: 0,
            artifact_bytes: 0,
            log_bytes: 0,
            workspace_bytes: 0,
            workspace_used_at: None,
        }
    }

    /// Whether the record can go.
    pub fn is_empty(&self) -> bool {
        self.artifacts == 0 && self.log_bytes == 0 && self.workspace_used_at.is_none()
    }

    /// Counts `new` in place of `old`, two states of one build.
    pub fn replace(&mut self, old: Option<&Build>, new: Option<&Build>) {
        let (before, after) = (Share::of(old), Share::of(new));
        self.artifacts = (self.artifacts + after.artifacts).saturating_sub(before.artifacts);
        self.artifact_bytes = (self.artifact_bytes + after.artifact_bytes).saturating_sub(before.artifact_bytes);
        self.log_bytes = (self.log_bytes + after.log_bytes).saturating_sub(before.log_bytes);
    }

    /// Whether [`Usage::replace`] would change anything.
    pub fn differs(old: Option<&Build>, new: Option<&Build>) -> bool {
        Share::of(old) != Share::of(new)
    }
}

/// What one build counts.
#[derive(PartialEq, Eq)]
struct Share {
    artifacts: u64,
    artifact_bytes: u64,
    log_bytes: u64,
}

impl Share {
    fn of(build: Option<&Build>) -> Share {
        let artifact = build.and_then(Build::kept_artifact);
        let log = build.filter(|build| build.log_deleted_at.is_none());
        Share {
            artifacts: u64::from(artifact.is_some()),
            artifact_bytes: artifact.map_or(0, |artifact| artifact.size_bytes),
            log_bytes: log.map_or(0, |build| build.log_bytes),
        }
    }
}
