//! A build, its statuses and the moves between them.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::deploy::{DeployError, DeployStatus, Deployment};
use super::notification::NotificationStatus;
use super::{ApiToken, Artifact, BuildSetting, Id, Organization, Project, Timestamp, User};

/// A build as it is stored. Everything that later edits of the setting or the project must not change is copied here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Build {
    /// Its id.
    pub id: Id<Build>,
    /// Whose it is.
    pub organization_id: Id<Organization>,
    /// The project, which may be gone by now.
    pub project_id: Id<Project>,
    /// The build setting, which may be gone by now.
    pub build_setting_id: Id<BuildSetting>,
    /// Moves only in `builds::lifecycle`.
    pub status: Status,
    /// Copied from the setting.
    pub platform: String,
    /// Copied from the setting.
    pub build_type: String,
    /// Copied from the setting.
    pub target_type: String,
    /// Copied from the setting.
    pub ue_version: String,
    /// Branch, or stream path.
    pub branch: String,
    /// What the trigger asked for (hash, short hash or changelist); `None`: the newest at the start of the build.
    pub requested_revision: Option<String>,
    /// The full commit hash or changelist, `""` until it is resolved.
    pub commit: String,
    /// First line of the commit's message.
    pub commit_message: String,
    /// Stream projects: the changelist.
    pub changelist: Option<String>,
    /// What started it.
    pub triggered_by: TriggeredBy,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it began to run.
    pub started_at: Option<Timestamp>,
    /// When it reached a final status.
    pub finished_at: Option<Timestamp>,
    /// Why it waits.
    pub pending_reason: Option<String>,
    /// The build that took its place.
    pub superseded_by: Option<Id<Build>>,
    /// The build that this one repeats.
    pub retry_of: Option<Id<Build>>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// What it went through.
    pub steps: Vec<Step>,
    /// Errors and warnings found in the log.
    pub diagnostics: Diagnostics,
    /// The tarball's record; present exactly when the build completed.
    pub artifact: Option<Artifact>,
    /// `None` when the setting deploys nowhere.
    pub auto_deploy_status: Option<DeployStatus>,
    /// Why the deploy failed.
    pub auto_deploy_error: Option<DeployError>,
    /// Each target's outcome.
    pub deployments: Vec<Deployment>,
    /// Who asked for the deploy that these are of; `None`: it follows from the build setting.
    #[serde(default)]
    pub deploy_requested_by: Option<TriggeredBy>,
    /// Kept from retention.
    pub pinned: bool,
    /// What came of telling people; `None` when nobody was to be told.
    pub notification_status: Option<NotificationStatus>,
    /// Somebody asked to cancel it while it ran.
    #[serde(default)]
    pub cancel_requested: bool,
    /// Lines in its log when it ended.
    #[serde(default)]
    pub log_lines: u64,
    /// What its log takes on disk since it ended.
    #[serde(default)]
    pub log_bytes: u64,
    /// When its log was deleted.
    #[serde(default)]
    pub log_deleted_at: Option<Timestamp>,
}

/// Where a build stands (specification, states).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Accepted, waiting for an executor slot.
    Pending,
    /// Being built.
    Running,
    /// Built; the artifact is on disk and recorded.
    Complete,
    /// Not built.
    Failed,
    /// A newer build of the same setting and branch took its place.
    Superseded,
}

impl Status {
    /// All of them, in the specification's order.
    pub const ALL: [Status; 5] = [Status::Pending, Status::Running, Status::Complete, Status::Failed, Status::Superseded];

    /// Every allowed move (decisions 8). Final statuses have none.
    const MOVES: [(Status, Status); 6] = [
        (Status::Pending, Status::Running),
        (Status::Pending, Status::Superseded),
        (Status::Pending, Status::Failed),
        (Status::Running, Status::Superseded),
        (Status::Running, Status::Complete),
        (Status::Running, Status::Failed),
    ];

    /// Whether a build may go from this status to `next`.
    pub fn may_become(self, next: Status) -> bool {
        Self::MOVES.contains(&(self, next))
    }

    /// Pending or running.
    pub fn is_unfinished(self) -> bool {
        matches!(self, Status::Pending | Status::Running)
    }

    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Running => "running",
            Status::Complete => "complete",
            Status::Failed => "failed",
            Status::Superseded => "superseded",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Status {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Status::ALL.into_iter().find(|status| status.as_str() == text).ok_or(())
    }
}

/// A move that the table does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a build cannot go from {from} to {to}")]
pub struct InvalidTransition {
    /// Where it stands.
    pub from: Status,
    /// Where it was to go.
    pub to: Status,
}

/// What a build is of, which a repetition of it is of, too.
struct Wanted {
    organization_id: Id<Organization>,
    project_id: Id<Project>,
    build_setting_id: Id<BuildSetting>,
    platform: String,
    build_type: String,
    target_type: String,
    ue_version: String,
    branch: String,
    requested_revision: Option<String>,
    changelist: Option<String>,
}

impl Wanted {
    fn waiting(self, id: Id<Build>, triggered_by: TriggeredBy, now: Timestamp) -> Build {
        Build {
            id,
            organization_id: self.organization_id,
            project_id: self.project_id,
            build_setting_id: self.build_setting_id,
            status: Status::Pending,
            platform: self.platform,
            build_type: self.build_type,
            target_type: self.target_type,
            ue_version: self.ue_version,
            branch: self.branch,
            requested_revision: self.requested_revision,
            commit: String::new(),
            commit_message: String::new(),
            changelist: self.changelist,
            triggered_by,
            created_at: now,
            started_at: None,
            finished_at: None,
            pending_reason: None,
            superseded_by: None,
            retry_of: None,
            failure: None,
            steps: Vec::new(),
            diagnostics: Diagnostics::default(),
            artifact: None,
            auto_deploy_status: None,
            auto_deploy_error: None,
            deployments: Vec::new(),
            deploy_requested_by: None,
            pinned: false,
            notification_status: None,
            cancel_requested: false,
            log_lines: 0,
            log_bytes: 0,
            log_deleted_at: None,
        }
    }
}

impl Build {
    /// A waiting build of a setting, of the newest revision of what the setting tracks.
    pub fn waiting(id: Id<Build>, setting: &BuildSetting, triggered_by: TriggeredBy, now: Timestamp) -> Build {
        let wanted = Wanted {
            organization_id: setting.organization_id,
            project_id: setting.project_id,
            build_setting_id: setting.id,
            platform: setting.platform.clone(),
            build_type: setting.build_type.clone(),
            target_type: setting.target_type.clone(),
            ue_version: setting.ue_version.clone(),
            branch: setting.stream_path.clone().unwrap_or_else(|| setting.branch.clone()),
            requested_revision: None,
            changelist: None,
        };
        wanted.waiting(id, triggered_by, now)
    }

    /// A waiting build that asks for what this one asked for.
    pub fn repeated(&self, id: Id<Build>, now: Timestamp) -> Build {
        let wanted = Wanted {
            organization_id: self.organization_id,
            project_id: self.project_id,
            build_setting_id: self.build_setting_id,
            platform: self.platform.clone(),
            build_type: self.build_type.clone(),
            target_type: self.target_type.clone(),
            ue_version: self.ue_version.clone(),
            branch: self.branch.clone(),
            requested_revision: self.requested_revision.clone(),
            // One that was only found out when the build ran is found out again.
            changelist: self.changelist.clone().filter(|_| self.requested_revision.is_some()),
        };
        Build { retry_of: Some(self.id), ..wanted.waiting(id, self.triggered_by.clone(), now) }
    }

    /// The same build in the status `next`, with the time noted. `builds::lifecycle` is the only caller.
    pub fn moved_to(mut self, next: Status, now: Timestamp) -> Result<Build, InvalidTransition> {
        if !self.status.may_become(next) {
            return Err(InvalidTransition { from: self.status, to: next });
        }
        self.status = next;
        self.pending_reason = None;
        match next {
            Status::Running => self.started_at = Some(now),
            Status::Complete | Status::Failed | Status::Superseded => self.finished_at = Some(now),
            Status::Pending => {}
        }
        Ok(self)
    }

    /// Its tarball, as long as it is there.
    pub fn kept_artifact(&self) -> Option<&Artifact> {
        self.artifact.as_ref().filter(|artifact| artifact.deleted_at.is_none())
    }

    /// Finished minus started; 0 if it never ran, `None` while unfinished.
    pub fn duration_ms(&self) -> Option<u64> {
        let finished = self.finished_at?;
        Some(self.started_at.map_or(0, |started| finished.since(started)))
    }
}

/// What started a build; prints the four shapes of the specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TriggeredBy {
    /// A signed-in person.
    User(Id<User>),
    /// A script.
    ApiToken(Id<ApiToken>),
    /// A push of this commit.
    Push(String),
    /// The schedule.
    Cron,
}

impl fmt::Display for TriggeredBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TriggeredBy::User(id) => write!(f, "user:{id}"),
            TriggeredBy::ApiToken(id) => write!(f, "api_token:{id}"),
            TriggeredBy::Push(commit) => write!(f, "push:{commit}"),
            TriggeredBy::Cron => f.write_str("cron"),
        }
    }
}

impl FromStr for TriggeredBy {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("user", id)) => id.parse().map(TriggeredBy::User).map_err(|_| "not a user's id"),
            Some(("api_token", id)) => id.parse().map(TriggeredBy::ApiToken).map_err(|_| "not a token's id"),
            Some(("push", commit)) => Ok(TriggeredBy::Push(commit.to_owned())),
            None if text == "cron" => Ok(TriggeredBy::Cron),
            _ => Err("not a cause of a build"),
        }
    }
}

impl Serialize for TriggeredBy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TriggeredBy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for TriggeredBy {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TriggeredBy".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "What started a build: `user:<userId>` from the dashboard, `api_token:<tokenId>` through the API, `push:<commit>`, or `cron`.",
            "pattern": "^(user:[0-9a-z]{24}|api_token:[0-9a-z]{24}|push:.+|cron)$",
            "examples": ["api_token:01k7f9zq4v6m2x8c3b5n0t7h"],
        })
    }
}

/// Why a build failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// For programs.
    pub code: FailureCode,
    /// For people: a sentence that says what to do.
    pub message: String,
    /// The step that failed; `None` before the first one.
    pub step: Option<StepName>,
}

/// `failure.code` (decisions 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the decisions' own words")]
pub enum FailureCode {
    Cancelled,
    TimedOut,
    SourceUnavailable,
    IntegrationDisconnected,
    UprojectNotFound,
    EngineUnavailable,
    BuildStepFailed,
    StagingFailed,
    StorageFull,
    Interrupted,
    QueueExpired,
}

/// The steps of a build, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepName {
    /// The source into the workspace.
    Sync,
    /// Engine, project file and arguments found and checked.
    Prepare,
    /// The engine's own build tool.
    Build,
    /// The output into the tarball.
    Package,
    /// The tarball to its targets.
    Deploy,
}

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Begun.
    Running,
    /// Done.
    Complete,
    /// Failed, or ended from outside.
    Failed,
}

/// One step of one build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Which.
    pub name: StepName,
    /// Where it stands.
    pub status: StepStatus,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Milliseconds between the two.
    pub duration_ms: Option<u64>,
}

/// How many diagnostics a build keeps in full.
pub const DIAGNOSTICS_KEPT: usize = 50;

/// Errors and warnings that the engine's tools printed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostics {
    /// How many errors.
    pub errors: u64,
    /// How many warnings.
    pub warnings: u64,
    /// The first [`DIAGNOSTICS_KEPT`].
    pub items: Vec<Diagnostic>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// `error` or `warning`.
    pub severity: String,
    /// The tool's own code, such as `C2065` or `LNK2019`, or the log category.
    pub code: Option<String>,
    /// What it says.
    pub message: String,
    /// Relative to the workspace where it lies inside.
    pub file: Option<String>,
    /// From 1.
    pub line: Option<u32>,
    /// `seq` of the log line.
    pub log_seq: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_statuses_never_move() {
        for from in [Status::Complete, Status::Failed, Status::Superseded] {
            assert!(Status::ALL.iter().all(|next| !from.may_become(*next)));
        }
        assert!(Status::ALL.iter().all(|from| !from.may_become(Status::Pending)));
    }

    #[test]
    fn causes_print_the_four_shapes_and_read_back() {
        let id = Id::from_parts(1, 1);
        for cause in [TriggeredBy::User(id), TriggeredBy::ApiToken(id.cast()), TriggeredBy::Push("ab12".into()), TriggeredBy::Cron] {
            assert_eq!(cause.to_string().parse::<TriggeredBy>(), Ok(cause));
        }
    }
}
