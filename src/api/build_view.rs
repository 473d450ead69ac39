//! A build as clients see it (specification; decisions 8 and 9).

use serde::Serialize;

use crate::builds::Outlook;
use crate::model::build::{Diagnostics, Failure, Step};
use crate::model::deploy::{DeployError, DeployStatus, Deployment};
use crate::model::log::LogLine;
use crate::model::{Artifact, Build, BuildSetting, Id, Project, Status, Timestamp, TriggeredBy};

/// A build in a list, and the greater part of its detail.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BuildView {
    id: Id<Build>,
    project_id: Id<Project>,
    build_setting_id: Id<BuildSetting>,
    status: Status,
    platform: String,
    build_type: String,
    target_type: String,
    branch: String,
    commit: String,
    commit_message: String,
    changelist: Option<String>,
    ue_version: String,
    triggered_by: TriggeredBy,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    duration_ms: Option<u64>,
    pending_reason: Option<String>,
    /// 1 is next.
    queue_position: Option<usize>,
    /// A guess, by how long earlier builds took.
    expected_start_at: Option<Timestamp>,
    superseded_by: Option<Id<Build>>,
    retry_of: Option<Id<Build>>,
    failure: Option<Failure>,
    steps: Vec<Step>,
    diagnostics: Diagnostics,
    artifact: Option<Artifact>,
    auto_deploy_status: Option<DeployStatus>,
    auto_deploy_error: Option<DeployError>,
    deployments: Vec<Deployment>,
    pinned: bool,
    notification_status: Option<String>,
}

impl BuildView {
    /// `outlook`: of a build that waits.
    pub(super) fn new(build: Build, outlook: Option<Outlook>) -> Self {
        let outlook = outlook.unwrap_or_default();
        BuildView {
            duration_ms: build.duration_ms(),
            id: build.id,
            project_id: build.project_id,
            build_setting_id: build.build_setting_id,
            status: build.status,
            platform: build.platform,
            build_type: build.build_type,
            target_type: build.target_type,
            branch: build.branch,
            commit: build.commit,
            commit_message: build.commit_message,
            changelist: build.changelist,
            ue_version: build.ue_version,
            triggered_by: build.triggered_by,
            created_at: build.created_at,
            started_at: build.started_at,
            finished_at: build.finished_at,
            pending_reason: outlook.reason.or(build.pending_reason),
            queue_position: outlook.position,
            expected_start_at: outlook.expected_start_at,
            superseded_by: build.superseded_by,
            retry_of: build.retry_of,
            failure: build.failure,
            steps: build.steps,
            diagnostics: build.diagnostics,
            artifact: build.artifact,
            auto_deploy_status: build.auto_deploy_status,
            auto_deploy_error: build.auto_deploy_error,
            deployments: build.deployments,
            pinned: build.pinned,
            notification_status: build.notification_status,
        }
    }
}

/// The detail: with the newest lines of the log.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BuildDetail {
    #[serde(flatten)]
    pub(super) build: BuildView,
    /// Oldest first.
    pub(super) recent_logs: Vec<LogLine>,
    /// All there are: the `seq` of the last.
    pub(super) log_lines: u64,
}
