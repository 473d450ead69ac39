//! The outcome of handing an artifact to a deploy target (decisions 11).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Build, Id, Organization, Timestamp, TriggeredBy};

/// `autoDeployStatus`, and the status of one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeployStatus {
    /// Wanted, not begun.
    Pending,
    /// Under way.
    InProgress,
    /// Every target took it.
    Succeeded,
    /// At least one did not.
    Failed,
}

/// Why a deploy failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeployFailureCode {
    /// No connection to the receiver.
    ConnectFailed,
    /// Its certificate or its TLS was no good.
    TlsFailed,
    /// It did not answer in time.
    Timeout,
    /// It answered, but not with 2xx.
    HttpStatus,
    /// The artifact was gone.
    ArtifactMissing,
    /// The plugin trapped, ran out of a limit or refused its configuration.
    PluginError,
    /// The service ended in the middle.
    Interrupted,
}

/// `autoDeployError`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeployError {
    /// For programs.
    pub code: DeployFailureCode,
    /// The receiver's answer, where there was one.
    pub http_status: Option<u16>,
    /// For people; no secret in it.
    pub message: String,
    /// When the attempt began.
    pub attempted_at: Timestamp,
}

/// One target's outcome: an entry of `deployments` on the build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    /// Name of the plugin.
    pub plugin: String,
    /// Its outcome.
    pub status: DeployStatus,
    /// Why it failed.
    pub error: Option<DeployError>,
}

/// One attempt at one target: an entry of the ledger of a build's deploys. Written by the store when a deployment begins and
/// ends, and kept with the build, whatever is deployed later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeployAttempt {
    /// Its id.
    pub id: Id<DeployAttempt>,
    /// Whose.
    pub organization_id: Id<Organization>,
    /// Whose artifact was sent.
    pub build_id: Id<Build>,
    /// Its place among the build's deployments.
    pub entry: usize,
    /// Name of the plugin.
    pub plugin: String,
    /// Who asked for it; `None`: it follows from the build setting.
    pub requested_by: Option<TriggeredBy>,
    /// How it ended, `in_progress` until then.
    pub status: DeployStatus,
    /// Why it failed.
    pub error: Option<DeployError>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}
