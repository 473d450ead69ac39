//! A build setting: what gets built, and what starts it (decisions 7).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::Sealed;
use super::{Id, Organization, Project, Timestamp};

/// A reusable preset, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildSetting {
    /// Its id.
    pub id: Id<BuildSetting>,
    /// Whose it is.
    pub organization_id: Id<Organization>,
    /// Which project's.
    pub project_id: Id<Project>,
    /// What people call it; `""` when nobody named it.
    pub name: String,
    /// One of [`PLATFORMS`] or of the configuration's extra ones.
    pub platform: String,
    /// One of [`BUILD_TYPES`].
    pub build_type: String,
    /// One of [`TARGET_TYPES`].
    pub target_type: String,
    /// Git-hosted projects: the tracked branch, else `""`.
    pub branch: String,
    /// Stream-based projects: the tracked stream.
    pub stream_path: Option<String>,
    /// `5.4`, `5.4.3` or the label of a configured engine.
    pub ue_version: String,
    /// Where in the codebase; `""`: the project's own.
    pub uproject_path: String,
    /// What starts it.
    pub trigger: Trigger,
    /// Tell people when a build ends.
    pub notify_on_complete: bool,
    /// Hand the artifact on after a successful build.
    pub auto_deploy: bool,
    /// Target of custom deploy.
    pub upload_build_url: Option<String>,
    /// The whole `Authorization` value of custom deploy.
    pub upload_build_auth_header: Option<Sealed>,
    /// Further targets.
    pub deploy_targets: Vec<DeployTargetSetting>,
    /// 5 to 2880; `None`: the organization's default.
    pub timeout_minutes: Option<u32>,
    /// What a newer automatic build does to older ones.
    pub supersede: Supersede,
    /// Start each build from an empty workspace.
    pub clean_build: bool,
    /// Appended to the engine tool's arguments.
    pub extra_uat_args: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Counts changes; the ETag.
    pub version: u64,
}

/// Platforms of the engine itself; consoles come from `platforms.extra`.
pub const PLATFORMS: [&str; 8] = ["Win64", "Linux", "LinuxArm64", "Mac", "Android", "IOS", "TVOS", "VisionOS"];
/// The engine's build configurations.
pub const BUILD_TYPES: [&str; 5] = ["Debug", "DebugGame", "Development", "Test", "Shipping"];
/// The engine's target types that can be packaged.
pub const TARGET_TYPES: [&str; 4] = ["Game", "Client", "Server", "Editor"];

/// What can start a build, as the API spells it.
pub const TRIGGERS: [&str; 3] = ["manual", "push", "scheduled"];

/// What starts a build. A schedule cannot exist on a manual setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// People and scripts.
    Manual,
    /// A push to the tracked branch, or the trigger script of a stream server.
    Push,
    /// The clock.
    Scheduled(Schedule),
}

impl Trigger {
    /// As the API spells it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Trigger::Manual => "manual",
            Trigger::Push => "push",
            Trigger::Scheduled(_) => "scheduled",
        }
    }
}

/// When a scheduled setting fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Five fields, or `@hourly @daily @weekly @monthly @yearly`.
    pub cron: String,
    /// IANA zone.
    pub timezone: String,
    /// Off: keeps the schedule, fires never.
    pub enabled: bool,
    /// Skip when the revision is the one of the last build.
    pub only_if_changed: bool,
    /// One build for a time missed while the service was down.
    pub catch_up: bool,
    /// The next time it fires.
    pub next_run_at: Option<Timestamp>,
    /// The last time it fired.
    pub last_run_at: Option<Timestamp>,
    /// Why the last one made no build.
    pub last_error: Option<String>,
}

/// What a newer automatic build of the same setting and branch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Supersede {
    /// Nothing.
    Off,
    /// Takes the place of waiting builds.
    Pending,
    /// Also ends running ones.
    Running,
}

/// A further deploy target of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeployTargetSetting {
    /// Name of an installed plugin.
    pub plugin: String,
    /// Its configuration, without secrets.
    pub config: serde_json::Value,
    /// Its secrets by name.
    pub secrets: std::collections::BTreeMap<String, Sealed>,
}
