//! What became of a time at which a schedule was due: each leaves exactly one record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Build, BuildSetting, Id, Organization, Project, Timestamp};

/// One due time of one setting, or a span of them that were missed too long ago to be looked at one by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleSlot {
    /// Made from the setting and the time, so that a second record of the same slot cannot exist.
    pub id: Id<ScheduleSlot>,
    /// Whose.
    pub organization_id: Id<Organization>,
    /// The setting's project.
    pub project_id: Id<Project>,
    /// Which setting's schedule.
    pub build_setting_id: Id<BuildSetting>,
    /// When it was due.
    pub due_at: Timestamp,
    /// A span ends before this; `None`: it is one slot.
    pub until: Option<Timestamp>,
    /// What became of it.
    pub outcome: SlotOutcome,
    /// When that was decided.
    pub decided_at: Timestamp,
}

/// What became of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "outcome")]
pub enum SlotOutcome {
    /// A build, made in the same transaction.
    Built {
        /// Which.
        build_id: Id<Build>,
    },
    /// A later slot that was due at the same moment stands for it.
    Coalesced {
        /// When that one was due.
        into: Timestamp,
    },
    /// No build.
    Skipped {
        /// Why.
        reason: SkipReason,
    },
}

/// Why a slot has no build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// The newest revision is the one of the setting's last build.
    Unchanged,
    /// The service did not run then, and the schedule does not catch up, or not so late.
    Missed,
    /// The build was refused; the schedule's `lastError` says why.
    Refused,
}

impl ScheduleSlot {
    /// The id of a setting's slot. It begins with the time, so that slots sort by it.
    pub fn id_of(setting: Id<BuildSetting>, due_at: Timestamp) -> Id<ScheduleSlot> {
        let digest = Sha256::digest(setting.as_bytes());
        let chance = digest.first_chunk().copied().map_or(0, u128::from_be_bytes);
        Id::from_parts(u64::try_from(due_at.0).unwrap_or(0), chance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_sort_by_time_and_settings_do_not_share_them() {
        let (one, other) = (Id::from_parts(1, 1), Id::from_parts(1, 2));
        assert!(ScheduleSlot::id_of(one, Timestamp(5)) < ScheduleSlot::id_of(other, Timestamp(6)));
        assert!(ScheduleSlot::id_of(other, Timestamp(5)) < ScheduleSlot::id_of(one, Timestamp(6)));
        assert_ne!(ScheduleSlot::id_of(one, Timestamp(5)), ScheduleSlot::id_of(other, Timestamp(5)));
    }
}
