//! GET `/storage`: how full the disk is, and what of the caller's organization takes how much of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::endpoint::{Call, Ok200};
use super::error::{ApiError, Result};
use crate::builds::room::{Level, Room};
use crate::model::{BuildSetting, Id, Project, Timestamp, Usage};
use crate::store::{Read, StoreError};

/// How full the disk is, and what takes how much of it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Storage")]
pub(super) struct StorageView {
    /// The disk that everything is on; null where it cannot be asked.
    disk: Option<DiskView>,
    /// Of all projects.
    totals: Totals,
    /// Oldest first; a deleted one is there as long as something of it is.
    projects: Vec<ProjectUsage>,
}

/// A disk.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Disk")]
struct DiskView {
    /// `ok`, `low` or `full`; on a full one no builds are started.
    #[schemars(extend("enum" = ["ok", "low", "full"]))]
    status: &'static str,
    /// Its size.
    total_bytes: u64,
    /// How much of it is free.
    free_bytes: u64,
    /// With less free it is `low`.
    warn_bytes: u64,
    /// With less free it is `full`.
    floor_bytes: u64,
    /// How much of what is free is spoken for by builds that run.
    reserved_bytes: u64,
}

impl DiskView {
    fn new(room: Room) -> DiskView {
        DiskView {
            status: match room.level() {
                Level::Ample => "ok",
                Level::Low => "low",
                Level::Full => "full",
            },
            total_bytes: room.total_bytes,
            free_bytes: room.free_bytes,
            warn_bytes: room.warn_bytes,
            floor_bytes: room.floor_bytes,
            reserved_bytes: room.reserved_bytes,
        }
    }
}

/// What is taken.
#[derive(Serialize, JsonSchema, Default, Clone, Copy)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StorageTotals")]
struct Totals {
    /// By workspaces, as measured after each build.
    workspace_bytes: u64,
    /// By artifacts that are kept.
    artifact_bytes: u64,
    /// By the logs of finished builds.
    log_bytes: u64,
    /// How many artifacts.
    artifacts: u64,
}

impl Totals {
    fn of(usage: &Usage) -> Totals {
        Totals {
            workspace_bytes: usage.workspace_bytes,
            artifact_bytes: usage.artifact_bytes,
            log_bytes: usage.log_bytes,
            artifacts: usage.artifacts,
        }
    }

    fn add(&mut self, more: Totals) {
        self.workspace_bytes += more.workspace_bytes;
        self.artifact_bytes += more.artifact_bytes;
        self.log_bytes += more.log_bytes;
        self.artifacts += more.artifacts;
    }
}

/// What a project takes.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ProjectUsage {
    /// Which.
    project_id: Id<Project>,
    /// Its name; null once it is deleted.
    #[schemars(example = &"Kitchen")]
    name: Option<String>,
    #[serde(flatten)]
    totals: Totals,
    /// Oldest first; a deleted one is there as long as something of it is.
    build_settings: Vec<SettingUsage>,
}

/// What a build setting takes.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SettingUsage {
    /// Which.
    build_setting_id: Id<BuildSetting>,
    /// Its name; null once it is deleted.
    #[schemars(example = &"Nightly")]
    name: Option<String>,
    #[serde(flatten)]
    totals: Totals,
    /// When a build last worked in its workspace; null: it has none.
    workspace_used_at: Option<Timestamp>,
}

/// What takes how much. A limited token sees what it is limited to.
pub(super) async fn show(call: Call) -> Result<Ok200<StorageView>> {
    let (caller, builds) = (&call.caller, call.app.builds.clone());
    // Asking a disk may wait for it.
    let room = tokio::task::spawn_blocking(move || builds.room()).await.map_err(ApiError::internal)?;
    let organization = caller.organization();
    let mut found: BTreeMap<Id<Project>, ProjectUsage> = BTreeMap::new();
    let mut totals = Totals::default();
    call.app.store.read(|snapshot| {
        let mut usages = Vec::new();
        snapshot.for_each::<Usage>(organization, None, |usage| {
            usages.extend(caller.reaches_setting(usage.project_id, usage.build_setting_id).then_some(usage));
            Ok(true)
        })?;
        for usage in usages {
            let project = match found.entry(usage.project_id) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => entry.insert(ProjectUsage {
                    project_id: usage.project_id,
                    name: snapshot.get::<Project>(organization, usage.project_id)?.map(|project| project.name),
                    totals: Totals::default(),
                    build_settings: Vec::new(),
                }),
            };
            let own = Totals::of(&usage);
            totals.add(own);
            project.totals.add(own);
            project.build_settings.push(SettingUsage {
                build_setting_id: usage.build_setting_id,
                name: snapshot.get::<BuildSetting>(organization, usage.build_setting_id)?.map(|setting| setting.name),
                totals: own,
                workspace_used_at: usage.workspace_used_at,
            });
        }
        Ok::<_, StoreError>(())
    })?;
    Ok(Ok200(StorageView { disk: room.map(DiskView::new), totals, projects: found.into_values().collect() }))
}
