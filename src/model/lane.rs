//! What a list of builds can be filtered by, apart from the status.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Build, BuildSetting, Id, Organization, Project};

/// One combination of attributes that never change on a build. There are few of them, about as many as settings and
/// branches, however many builds there are: that is what makes every combination of filters cheap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    /// Made from the attributes.
    pub id: Id<Lane>,
    /// Whose.
    pub organization_id: Id<Organization>,
    /// Of all its builds.
    pub project_id: Id<Project>,
    /// Of all its builds.
    pub build_setting_id: Id<BuildSetting>,
    /// Of all its builds.
    pub platform: String,
    /// Of all its builds.
    pub build_type: String,
    /// Of all its builds.
    pub branch: String,
}

impl Lane {
    /// The lane that a build belongs to.
    pub fn of(build: &Build) -> Lane {
        Lane {
            id: Lane::id_of(build),
            organization_id: build.organization_id,
            project_id: build.project_id,
            build_setting_id: build.build_setting_id,
            platform: build.platform.clone(),
            build_type: build.build_type.clone(),
            branch: build.branch.clone(),
        }
    }

    /// Its id, without making the rest.
    pub fn id_of(build: &Build) -> Id<Lane> {
        let mut digest = Sha256::new();
        for part in [build.project_id.as_str(), build.build_setting_id.as_str(), &build.platform, &build.build_type, &build.branch] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let digest: [u8; 32] = digest.finalize().into();
        let (time, chance) =
            (digest[..8].first_chunk().copied().unwrap_or_default(), digest[8..24].first_chunk().copied().unwrap_or_default());
        Id::from_parts(u64::from_be_bytes(time), u128::from_be_bytes(chance))
    }
}
