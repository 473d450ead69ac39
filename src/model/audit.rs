//! The audit log: who changed what, and who was refused (decisions 4). Entries form a chain: each holds the hash of the one
//! before it, so that none can be changed or taken out without a trace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{ApiToken, Id, Organization, Timestamp, User};

/// One entry. Part of the stored form: what is added later needs `skip_serializing_if`, else older entries hash otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Its id.
    pub id: Id<AuditEntry>,
    /// Whose log; [`AuditEntry::host`] when it cannot be told.
    pub organization_id: Id<Organization>,
    /// Its number in the host's one chain, from 1, without gaps.
    pub sequence: u64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: Actor,
    /// From which address; `None` on the host itself.
    pub address: Option<String>,
    /// What they asked for: the route table's name, or the command's.
    pub operation_id: String,
    /// The request's id, as the service's log has it.
    pub request_id: String,
    /// The code of the refusal; `None`: it was done.
    pub refused: Option<String>,
    /// What it was about.
    pub resources: Vec<Touched>,
    /// Further ones that are not listed.
    pub resources_omitted: u64,
    /// Refusals before this one that were not recorded, because there were too many at once.
    pub refusals_omitted: u64,
    /// Of the entry before it, lower-case hex; [`AuditEntry::BEGINNING`] for the first.
    pub previous_hash: String,
    /// Of everything above.
    pub hash: String,
}

impl AuditEntry {
    /// What the first entry follows.
    pub const BEGINNING: &'static str = "0000000000000000000000000000000000000000000000000000000000000000";

    /// The log of what belongs to no organization.
    pub fn host() -> Id<Organization> {
        Id::from_parts(0, 0)
    }

    /// What [`AuditEntry::hash`] has to be: SHA-256 over the previous hash and the content.
    pub fn digest(&self) -> String {
        let bare = AuditEntry { hash: String::new(), ..self.clone() };
        let bytes = serde_json::to_vec(&bare).unwrap_or_default();
        Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Who did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Actor {
    /// A person who signed in.
    User {
        /// Who.
        user_id: Id<User>,
    },
    /// A script.
    Token {
        /// Whose.
        user_id: Id<User>,
        /// Which.
        token_id: Id<ApiToken>,
    },
    /// The owner of the host, on the command line.
    Host,
    /// Nobody that the service knows.
    Stranger,
}

/// What happened to one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Touched {
    /// `project`, `buildSetting`, `build`, ...
    pub kind: String,
    /// Its id.
    pub id: String,
    /// What.
    pub change: Touch,
    /// Names of the fields that changed. Never what they hold.
    pub fields: Vec<String>,
}

/// The kinds of touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Touch {
    /// It is new.
    Created,
    /// Fields of it are others.
    Changed,
    /// It is gone.
    Deleted,
    /// It was asked for.
    Named,
}

/// How far a chain was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Entries that hold.
    pub entries: u64,
    /// Number of the first one that is kept; those before it are past their time.
    pub first: u64,
    /// Number of the newest.
    pub last: u64,
    /// Its hash. Who keeps it elsewhere can tell whether the whole chain was replaced.
    pub head: String,
    /// Where it breaks, in words; `None`: it holds.
    pub broken: Option<String>,
}
