//! API tokens (decisions 4).

use serde::{Deserialize, Serialize};

use super::permission::Scope;
use super::{BuildSetting, Id, Organization, Project, Timestamp, User};

/// What every token begins with, so that secret scanners know it.
pub const TOKEN_PREFIX: &str = "ckh_";

/// A token as it is stored: the secret itself is shown once and kept nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiToken {
    /// Its id, which builds record.
    pub id: Id<ApiToken>,
    /// Whose organization.
    pub organization_id: Id<Organization>,
    /// Who made it; their role caps it.
    pub user_id: Id<User>,
    /// What it is for.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Only these projects; `None`: all.
    pub project_ids: Option<Vec<Id<Project>>>,
    /// Only these settings; `None`: all.
    pub build_setting_ids: Option<Vec<Id<BuildSetting>>>,
    /// SHA-256 of the whole token, lower-case hex.
    pub token_hash: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends; `None`: never.
    pub expires_at: Option<Timestamp>,
    /// When it was last used; noted at most once a minute.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked. The record stays, so that `token_revoked` can be told from an unknown one.
    pub revoked_at: Option<Timestamp>,
}
