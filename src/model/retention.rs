//! How long things are kept (decisions 9 and 10), as rules without a clock.

use std::time::Duration;

use super::organization::DefaultProjectSettings;
use super::{Build, Timestamp};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long artifacts are kept: so many days, and always the newest few of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Days from the end of the build.
    pub days: u32,
    /// How many of a setting's newest artifacts have no end.
    pub last: u32,
}

impl Default for Keep {
    fn default() -> Self {
        Keep { days: 30, last: 3 }
    }
}

impl Keep {
    /// What holds for an organization: its own words, else the host's.
    pub fn of(self, organization: &DefaultProjectSettings) -> Keep {
        Keep {
            days: organization.artifact_retention_days.unwrap_or(self.days),
            last: organization.keep_last_artifacts.unwrap_or(self.last),
        }
    }

    /// When the artifact of a build may go, as far as its age says.
    pub fn end_by_age(self, build: &Build) -> Option<Timestamp> {
        let finished = build.finished_at.filter(|_| !build.pinned)?;
        Some(finished.plus(days(self.days)))
    }
}

/// So many days.
pub fn days(count: u32) -> Duration {
    DAY * count
}

impl Timestamp {
    /// Earlier by `duration`.
    pub fn minus(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }
}
