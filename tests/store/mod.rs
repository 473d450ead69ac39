//! The store from outside: durability, isolation, indexes and pages.

mod events;
mod full_disk;
mod paging;
mod power_loss;
mod writing;

use cookhouse::clock::Clock;
use cookhouse::model::build::{Diagnostics, TriggeredBy};
use cookhouse::model::{Build, Id, Organization, Status, Timestamp};
use cookhouse::store::{Settings, Store};

pub(crate) fn open(directory: &std::path::Path) -> Store {
    Store::open(&Settings { path: directory.join("store.redb"), cache_bytes: 4 << 20 }).expect("the store opens")
}

pub(crate) fn build(clock: &Clock, organization_id: Id<Organization>, platform: &str, branch: &str) -> Build {
    Build {
        id: clock.new_id(),
        organization_id,
        project_id: Id::from_parts(1, 1),
        build_setting_id: Id::from_parts(1, 2),
        status: Status::Pending,
        platform: platform.into(),
        build_type: "Development".into(),
        target_type: "Game".into(),
        ue_version: "5.4".into(),
        branch: branch.into(),
        requested_revision: None,
        commit: String::new(),
        commit_message: String::new(),
        changelist: None,
        triggered_by: TriggeredBy::Cron,
        created_at: Timestamp(0),
        started_at: None,
        finished_at: None,
        pending_reason: None,
        superseded_by: None,
        retry_of: None,
        failure: None,
        steps: Vec::new(),
        diagnostics: Diagnostics::default(),
        artifact: None,
        auto_deploy_status: None,
        auto_deploy_error: None,
        deployments: Vec::new(),
        pinned: false,
        notification_status: None,
        cancel_requested: false,
        log_lines: 0,
    }
}
