//! What administrators are told without asking: something that they set up stopped working.

use serde::{Deserialize, Serialize};

use super::{Id, Organization, Timestamp};

/// One thing that an organization's administrators have to be told. It goes when they were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// Its id.
    pub id: Id<Notice>,
    /// Whose.
    pub organization_id: Id<Organization>,
    /// When it happened.
    pub at: Timestamp,
    /// What it is about, such as the address of a webhook.
    pub subject: String,
    /// What happened, and what to do, in sentences.
    pub reason: String,
    /// Destinations that took it.
    pub told: Vec<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// Not to be tried before.
    pub due_at: Timestamp,
}
