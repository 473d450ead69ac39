//! A build as clients see it (specification; decisions 8 and 9).

use schemars::JsonSchema;
use serde::Serialize;

use crate::builds::Outlook;
use crate::model::build::{Diagnostics, Failure, Step};
use crate::model::deploy::{DeployError, DeployStatus, Deployment};
use crate::model::log::LogLine;
use crate::model::notification::NotificationStatus;
use crate::model::{Artifact, Build, BuildSetting, Id, Project, Status, Timestamp, TriggeredBy};

/// A build.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Build")]
pub(super) struct BuildView {
    /// Its id.
    id: Id<Build>,
    /// The project, which may be gone by now.
    project_id: Id<Project>,
    /// The build setting, which may be gone by now.
    build_setting_id: Id<BuildSetting>,
    /// Where it stands. `complete`, `failed` and `superseded` are final.
    status: Status,
    /// Copied from the setting when it was triggered.
    #[schemars(example = &"Win64")]
    platform: String,
    /// Copied from the setting.
    #[schemars(example = &"Development")]
    build_type: String,
    /// Copied from the setting.
    #[schemars(example = &"Game")]
    target_type: String,
    /// The branch, or the stream's path.
    #[schemars(example = &"main")]
    branch: String,
    /// The full commit hash, or the changelist; `""` until it is resolved.
    #[schemars(example = &"4f6d1c2b9a8e7d6c5b4a39281706f5e4d3c2b1a0")]
    commit: String,
    /// First line of the commit's message.
    #[schemars(example = &"Season the soup")]
    commit_message: String,
    /// Stream-based projects: the changelist.
    changelist: Option<String>,
    /// Copied from the setting.
    #[schemars(example = &"5.4")]
    ue_version: String,
    /// What started it.
    triggered_by: TriggeredBy,
    /// When it was accepted.
    created_at: Timestamp,
    /// When it began to run.
    started_at: Option<Timestamp>,
    /// When it reached a final status.
    finished_at: Option<Timestamp>,
    /// Milliseconds from start to finish; 0 if it never ran, null while unfinished.
    duration_ms: Option<u64>,
    /// Why it still waits; null when it only waits for its turn.
    pending_reason: Option<String>,
    /// Its place among those that wait: 1 is next. Null unless it waits.
    queue_position: Option<usize>,
    /// When it may begin: a guess, by how long earlier builds took. Null unless it waits.
    expected_start_at: Option<Timestamp>,
    /// The build that took its place.
    superseded_by: Option<Id<Build>>,
    /// The build that this one repeats.
    retry_of: Option<Id<Build>>,
    /// Why it failed.
    failure: Option<Failure>,
    /// What it went through so far, in order.
    steps: Vec<Step>,
    /// Errors and warnings found in its log.
    diagnostics: Diagnostics,
    /// The tarball's record; null before it exists.
    artifact: Option<Artifact>,
    /// How handing the artifact on went; null when the setting deploys nowhere.
    auto_deploy_status: Option<DeployStatus>,
    /// Why that failed.
    auto_deploy_error: Option<DeployError>,
    /// The outcome of each deploy target.
    deployments: Vec<Deployment>,
    /// Kept from retention.
    pinned: bool,
    /// What came of telling people; null when nobody was to be told.
    notification_status: Option<NotificationStatus>,
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

/// A build with the newest lines of its log.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BuildDetail {
    #[serde(flatten)]
    pub(super) build: BuildView,
    /// The newest lines, 200 at the most, oldest first.
    pub(super) recent_logs: Vec<LogLine>,
    /// All there are: the `seq` of the last.
    pub(super) log_lines: u64,
}
