//! The packaged result of a build.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Timestamp;

/// What is recorded of a build's tarball (decisions 8). The bytes lie with `artifacts` under the build's id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Bytes of the tarball.
    pub size_bytes: u64,
    /// Lower-case hex.
    pub checksum_md5: String,
    /// Lower-case hex.
    pub checksum_sha256: String,
    /// When retention may delete it; null while it is kept for ever.
    pub expires_at: Option<Timestamp>,
    /// When it was deleted.
    pub deleted_at: Option<Timestamp>,
    /// `retention` or `project_deleted`.
    pub deleted_reason: Option<String>,
}
