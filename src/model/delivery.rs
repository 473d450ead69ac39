//! What a git host told us: the ledger of its deliveries, and how far each tracked branch was seen (decisions 14).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Build, BuildSetting, Id, Organization, Timestamp};

/// One entry of the ledger. Written before the git host is answered; what came of it is added afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// Its id.
    pub id: Id<Delivery>,
    /// Whose secret it was signed with.
    pub organization_id: Id<Organization>,
    /// The git host's own name for it; the same for a delivery that is sent again.
    pub delivery_id: String,
    /// The git host's word for what happened: `push`, `installation`, ...
    pub event: String,
    /// When it came.
    pub received_at: Timestamp,
    /// Bytes of its body.
    pub size: u64,
    /// What its body says, once that was read. The body itself is let go then.
    pub facts: Option<Facts>,
    /// When it was dealt with; `None`: it waits for that.
    pub processed_at: Option<Timestamp>,
    /// What came of it.
    pub outcome: Option<Outcome>,
    /// The outcome in a sentence, `""` until there is one.
    pub message: String,
    /// The builds that it started.
    pub build_ids: Vec<Id<Build>>,
}

/// What came of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It started builds.
    Built,
    /// It changed what is known of the connection.
    Updated,
    /// There was nothing to do; the message says why.
    Ignored,
}

/// The body of a delivery that was not read yet. It has the id of its delivery, and goes when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryBody {
    /// Its delivery's id.
    pub id: Id<DeliveryBody>,
    /// Whose.
    pub organization_id: Id<Organization>,
    /// The raw bytes, base64.
    pub base64: String,
}

/// What matters of a delivery's body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Facts {
    /// Commits came to a branch or a tag, or it was removed.
    Push(Push),
    /// The service's app was installed, removed, suspended, ...
    Installation(InstallationChange),
    /// The installation reaches other repositories than before.
    Repositories(RepositoriesChange),
    /// A repository is called something else now.
    Renamed(RepositoryRename),
    /// An event that concerns nothing here.
    Other,
    /// The body is not what its event promises.
    Unreadable,
}

/// A push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Push {
    /// `<owner>/<repo>`.
    pub repository: String,
    /// Of an app's delivery: which installation.
    pub installation: Option<String>,
    /// `refs/heads/<branch>` or `refs/tags/<tag>`.
    pub reference: String,
    /// The commit before, lower case.
    pub before: String,
    /// The pushed commit, lower case; zeros when the branch is gone.
    pub after: String,
    /// The branch is gone.
    pub is_deleted: bool,
    /// The pushed commit's message asks for no build.
    pub is_skipped: bool,
}

/// Something happened to the app's installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallationChange {
    /// `created`, `deleted`, `suspend`, `unsuspend`, ...
    pub action: String,
    /// Which.
    pub installation: String,
    /// Whose repositories.
    pub account: String,
    /// `all` or `selected`.
    pub repository_selection: String,
}

/// The repositories of an installation changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepositoriesChange {
    /// Which.
    pub installation: String,
    /// `all` or `selected`, as it is now.
    pub repository_selection: String,
    /// Full names of those that are out of reach from now on.
    pub removed: Vec<String>,
}

/// A repository has another name, or another owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryRename {
    /// Of an app's delivery: which installation.
    pub installation: Option<String>,
    /// Its full name until then.
    pub from: String,
    /// Its full name now.
    pub to: String,
}

/// The newest commit of a push setting's branch that the service knows of. It has the id of its setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrackedHead {
    /// The setting's id.
    pub id: Id<TrackedHead>,
    /// Whose.
    pub organization_id: Id<Organization>,
    /// Which repository it was seen in.
    pub repository: String,
    /// Which branch it was the head of.
    pub branch: String,
    /// The full hash.
    pub commit: String,
    /// The head before, where that is known.
    pub came_from: Option<String>,
    /// When it was first seen.
    pub seen_at: Timestamp,
}

impl TrackedHead {
    /// The setting that tracks it.
    pub fn setting(&self) -> Id<BuildSetting> {
        self.id.cast()
    }
}
