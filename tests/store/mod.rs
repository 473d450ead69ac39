//! The store from outside: durability, isolation, indexes and pages.

mod events;
mod full_disk;
mod paging;
mod power_loss;
mod writing;

use cookhouse::clock::Clock;
use cookhouse::model::{Build, BuildSetting, Id, Organization, Timestamp};

use crate::support::studio::{self, Kind};

pub(crate) use studio::store as open;

/// A waiting build; all of them belong to one project and setting, whatever their organization.
pub(crate) fn build(clock: &Clock, organization_id: Id<Organization>, platform: &str, branch: &str) -> Build {
    let setting = BuildSetting {
        id: Id::from_parts(1, 2),
        organization_id,
        project_id: Id::from_parts(1, 1),
        platform: platform.into(),
        branch: branch.into(),
        ..studio::records(clock, Kind::Githost).setting
    };
    studio::build(&setting, clock.new_id(), Timestamp(0))
}
