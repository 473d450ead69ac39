//! People (decisions 4).

use serde::{Deserialize, Serialize};

use super::permission::Role;
use super::{Id, Organization, Timestamp};

/// A person; belongs to one organization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// Their id.
    pub id: Id<User>,
    /// Whose member.
    pub organization_id: Id<Organization>,
    /// Unique on the host, lower case.
    pub email: String,
    /// What they are called.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// argon2id in PHC form; never leaves the host. Empty until an invitation is accepted.
    pub password_hash: String,
    /// When they joined.
    pub created_at: Timestamp,
    /// Sessions from before this instant are void (password reset).
    pub sessions_valid_from: Timestamp,
    /// Open until the person accepts it: they are a member, but cannot sign in yet.
    #[serde(default)]
    pub invitation: Option<Invitation>,
    /// Counts changes; the ETag.
    #[serde(default)]
    pub version: u64,
}

/// The way in of somebody who was invited; the bearer is known by its SHA-256 only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Invitation {
    /// Lower-case hex.
    pub token_hash: String,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// A signed-in browser or script; the bearer is known by its SHA-256 only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id.
    pub id: Id<Session>,
    /// Whose organization.
    pub organization_id: Id<Organization>,
    /// Who signed in.
    pub user_id: Id<User>,
    /// Lower-case hex.
    pub token_hash: String,
    /// When.
    pub created_at: Timestamp,
    /// When it was last used; noted at most once a minute.
    pub last_used_at: Timestamp,
}
