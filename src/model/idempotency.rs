//! A remembered answer: the same request again gets it again (decisions 2).

use serde::{Deserialize, Serialize};

use super::secret::Sealed;
use super::{Id, Organization, Timestamp};

/// What an `Idempotency-Key` stands for. Written in the transaction that created what the answer shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RememberedAnswer {
    /// Its id.
    pub id: Id<RememberedAnswer>,
    /// Whose request.
    pub organization_id: Id<Organization>,
    /// SHA-256 of the caller and the key, lower-case hex.
    pub key_hash: String,
    /// SHA-256 of method, path and body, lower-case hex.
    pub request_hash: String,
    /// `Location`, `ETag` and body. Sealed: a new token's answer holds the token.
    pub answer: Sealed,
    /// When; it holds for 24 hours.
    pub created_at: Timestamp,
}
