//! Room on the disks: whether another build may begin, and what is given up for it.
//!
//! A build reserves what earlier builds of its setting came to. Above the floor that much has to be free before it
//! begins; what runs is never ended for want of space, it fails by itself when the disk is really full. Workspaces are
//! caches: while a build waits for space, those that were not used for longest go.

use std::path::Path;
use std::sync::PoisonError;

use super::queue::STORAGE_FULL;
use super::workspace::{self, Workspace};
use super::{Builds, Inner};
use crate::model::{Build, BuildSetting, Id, Organization, Project, Status, Timestamp, Usage};
use crate::platform::files::{self, Space};
use crate::store::build_list::{self, BuildFilter};
use crate::store::key::Key;
use crate::store::tables::{BUILDS_PENDING, put_usage};
use crate::store::{Change, Read, StoreError};

/// Waiting builds among which the one that waits for space is looked for.
const PENDING: usize = 100;
/// How many earlier builds are looked at.
const EARLIER: usize = 10;

/// The marks of a disk. Of the two of a kind, the one that is reached first counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// Under this much free space, in percent of the disk, people are warned.
    pub warn_percent: u64,
    /// The same in bytes.
    pub warn_bytes: u64,
    /// Under this much free space, in percent of the disk, no build is started.
    pub floor_percent: u64,
    /// The same in bytes.
    pub floor_bytes: u64,
    /// What the first build of a setting is expected to come to, in bytes.
    pub first_build_bytes: u64,
    /// The most that the code in a workspace may come to, in bytes; 0: as much as fits on the disk.
    pub checkout_bytes: u64,
}

/// How a disk stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Above all marks.
    Ample,
    /// Under the mark at which people are warned.
    Low,
    /// Under the floor: nothing is started.
    Full,
}

/// The disk with the least room for builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes that can be written.
    pub free_bytes: u64,
    /// Less than this is low.
    pub warn_bytes: u64,
    /// Less than this is full.
    pub floor_bytes: u64,
    /// What running builds are expected to come to.
    pub reserved_bytes: u64,
}

impl Room {
    fn of(space: Space, marks: &Marks, reserved_bytes: u64) -> Room {
        let share = |percent: u64| u64::try_from(u128::from(space.total_bytes) * u128::from(percent) / 100).unwrap_or(u64::MAX);
        Room {
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
            warn_bytes: share(marks.warn_percent).max(marks.warn_bytes),
            floor_bytes: share(marks.floor_percent).max(marks.floor_bytes),
            reserved_bytes,
        }
    }

    /// How it stands.
    pub fn level(&self) -> Level {
        match self.free_bytes {
            free if free < self.floor_bytes => Level::Full,
            free if free < self.warn_bytes => Level::Low,
            _ => Level::Ample,
        }
    }

    /// Bytes that another build may come to.
    pub fn for_builds(&self) -> u64 {
        self.free_bytes.saturating_sub(self.floor_bytes).saturating_sub(self.reserved_bytes)
    }

    fn fits(&self, expected: u64) -> bool {
        self.level() != Level::Full && self.for_builds() >= expected
    }
}

impl Builds {
    /// Whether the disk is above its floor.
    pub fn has_room(&self) -> bool {
        self.room().is_none_or(|room| room.level() != Level::Full)
    }

    /// How the disk stands; `None` if it cannot be asked.
    pub fn room(&self) -> Option<Room> {
        self.0.room()
    }

    /// Waits until a build waits for space, or the disk has become low.
    pub async fn space_wanted(&self) {
        self.0.space_wanted.notified().await;
    }

    /// Removes workspaces, the one that was not used for longest first, until the build that waits for space fits. The queue
    /// looks again afterwards. The settings whose workspaces went.
    pub async fn make_room(&self) -> Result<Vec<Id<BuildSetting>>, StoreError> {
        let inner = self.0.clone();
        let evicted = tokio::task::spawn_blocking(move || inner.evict()).await.unwrap_or(Ok(Vec::new()))?;
        if !evicted.is_empty() {
            tracing::info!(workspaces = evicted.len(), "workspaces were removed to make room for the next build");
            let settings = evicted.clone();
            self.0.parts.store.write(move |tx| forget_on_host(tx, &settings)).await?;
        }
        self.0.queue.notify_one();
        Ok(evicted)
    }

    /// Notes what the workspace of a setting takes; nothing of one that was deleted.
    pub(super) async fn measure_workspace(&self, build: &Build, workspace: Workspace) {
        let bytes = tokio::task::spawn_blocking(move || workspace.size()).await.unwrap_or(0);
        let (organization, project, setting, now) =
            (build.organization_id, build.project_id, build.build_setting_id, self.0.parts.clock.now());
        let note = move |tx: &Change| note_workspace(tx, organization, project, setting, bytes, now);
        if let Err(error) = self.0.parts.store.write(note).await {
            tracing::debug!(%error, "the size of a workspace was not noted");
        }
    }
}

fn note_workspace(
    tx: &Change,
    organization: Id<Organization>,
    project: Id<Project>,
    setting: Id<BuildSetting>,
    bytes: u64,
    now: Timestamp,
) -> Result<(), StoreError> {
    if tx.get::<BuildSetting>(organization, setting)?.is_none() {
        return Ok(());
    }
    let usage = tx.get(organization, setting.cast())?.unwrap_or_else(|| Usage::empty(organization, project, setting));
    put_usage(tx, &Usage { workspace_bytes: bytes, workspace_used_at: (bytes > 0).then_some(now), ..usage })
}

/// Notes that the workspaces of these settings are gone.
pub(super) fn forget_workspaces(tx: &Change, organization: Id<Organization>, settings: &[Id<BuildSetting>]) -> Result<(), StoreError> {
    for setting in settings {
        if let Some(usage) = tx.get::<Usage>(organization, setting.cast())? {
            put_usage(tx, &Usage { workspace_bytes: 0, workspace_used_at: None, ..usage })?;
        }
    }
    Ok(())
}

fn forget_on_host(tx: &Change, settings: &[Id<BuildSetting>]) -> Result<(), StoreError> {
    let mut found = Vec::new();
    tx.every::<Usage>(|usage| {
        found.extend(settings.contains(&usage.build_setting_id).then_some((usage.organization_id, usage.build_setting_id)));
        Ok(true)
    })?;
    found.into_iter().try_for_each(|(organization, setting)| forget_workspaces(tx, organization, &[setting]))
}

impl Inner {
    pub(super) fn room(&self) -> Option<Room> {
        let disks = [files::free_space(&self.settings.workspaces), self.parts.artifacts.free_space()];
        // A disk that cannot be asked is not held against a build.
        disks.into_iter().flatten().map(|space| self.room_on(space)).min_by_key(Room::for_builds)
    }

    fn room_on(&self, space: Space) -> Room {
        let reserved = self.running().values().map(|running| running.reserved).fold(0, u64::saturating_add);
        Room::of(space, &self.settings.marks, reserved)
    }

    /// Whether a build may begin. One that may not wants space.
    pub(super) fn fits(&self, rows: &impl Read, build: &Build) -> Result<bool, StoreError> {
        let Some(room) = self.room() else { return Ok(true) };
        let fits = room.fits(self.expected(rows, build)?);
        if !fits {
            self.space_wanted.notify_one();
        }
        Ok(fits)
    }

    /// What a build is expected to add to the disk: as much as nearly all of the last builds of its setting did.
    pub(super) fn expected(&self, rows: &impl Read, build: &Build) -> Result<u64, StoreError> {
        let filter =
            BuildFilter { build_setting_id: Some(build.build_setting_id), status: Some(Status::Complete), ..BuildFilter::default() };
        let earlier = build_list::page(rows, build.organization_id, &filter, None, EARLIER)?.items;
        let sizes = earlier.iter().filter_map(|build| build.artifact.as_ref()).map(|artifact| artifact.size_bytes).collect();
        Ok(nearly_all(sizes).unwrap_or(self.settings.marks.first_build_bytes))
    }

    /// Says when the disk becomes low or full, or has room again.
    pub(super) fn watch_disk(&self) {
        let Some(room) = self.room() else { return };
        let level = room.level();
        let before = std::mem::replace(&mut *self.level.lock().unwrap_or_else(PoisonError::into_inner), level);
        if before == level {
            return;
        }
        let Room { free_bytes, warn_bytes, floor_bytes, .. } = room;
        match level {
            Level::Ample => tracing::info!(free_bytes, "the disk has room again"),
            Level::Low => tracing::warn!(free_bytes, warn_bytes, "the disk is getting full"),
            Level::Full => tracing::warn!(free_bytes, floor_bytes, "the disk is too full: no builds are started until there is room"),
        }
        if level != Level::Ample {
            self.space_wanted.notify_one();
        }
    }

    fn evict(&self) -> Result<Vec<Id<BuildSetting>>, StoreError> {
        let (waiting, mut candidates) = self.parts.store.read(|snapshot| {
            let pending: Vec<Build> = snapshot.find_on_host(&BUILDS_PENDING, &Key::all(), PENDING)?;
            let wants_space = |build: &&Build| build.pending_reason.as_deref() == Some(STORAGE_FULL);
            let waiting = pending.iter().find(wants_space).or(pending.first());
            let waiting =
                waiting.map(|build| Ok::<_, StoreError>((build.build_setting_id, self.expected(snapshot, build)?))).transpose()?;
            let mut used = std::collections::HashMap::new();
            snapshot.every::<Usage>(|usage| {
                used.insert(usage.build_setting_id, usage.workspace_used_at);
                Ok(true)
            })?;
            let present = workspace::present(&self.settings.workspaces);
            let candidates: Vec<_> = present.into_iter().map(|setting| (used.get(&setting).copied().flatten(), setting)).collect();
            Ok::<_, StoreError>((waiting, candidates))
        })?;
        let Some((next, expected)) = waiting else { return Ok(Vec::new()) };
        // Removing workspaces helps on their own disk only.
        let is_short = || files::free_space(&self.settings.workspaces).is_ok_and(|space| !self.room_on(space).fits(expected));
        candidates.sort_unstable();
        let mut evicted = Vec::new();
        for (_, setting) in candidates {
            if !is_short() {
                break;
            }
            // Its own would have to be fetched again at once.
            if setting != next && self.evict_one(&self.settings.workspaces, setting) {
                evicted.push(setting);
            }
        }
        Ok(evicted)
    }

    fn evict_one(&self, workspaces: &Path, setting: Id<BuildSetting>) -> bool {
        let buried = {
            // A build occupies its slot before it touches its workspace: while this is held, none begins.
            let running = self.running();
            if running.values().any(|running| running.setting == setting) {
                return false;
            }
            Workspace::of(workspaces, setting).bury()
        };
        let removed = buried.and_then(|grave| grave.map_or(Ok(()), |grave| workspace::remove(&grave)));
        if let Err(error) = &removed {
            tracing::warn!(%error, build_setting.id = %setting, "a workspace could not be removed");
        }
        removed.is_ok()
    }
}

/// The 95th percentile, by the nearest rank.
fn nearly_all(mut sizes: Vec<u64>) -> Option<u64> {
    sizes.sort_unstable();
    let rank = (sizes.len() * 95).div_ceil(100);
    sizes.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_that_is_reached_first_counts() {
        let marks = Marks { warn_percent: 15, warn_bytes: 100, floor_percent: 5, floor_bytes: 80, ..Marks::default() };
        let level = |total_bytes, free_bytes| Room::of(Space { free_bytes, total_bytes }, &marks, 0).level();
        assert_eq!(
            (level(1000, 150), level(1000, 149), level(1000, 80), level(1000, 79)),
            (Level::Ample, Level::Low, Level::Low, Level::Full)
        );
        assert_eq!((level(10_000, 1499), level(10_000, 500), level(10_000, 499)), (Level::Low, Level::Low, Level::Full));
        assert_eq!(level(0, 0), Level::Full);
    }

    #[test]
    fn what_runs_is_counted_before_something_else_begins() {
        let marks = Marks { floor_bytes: 100, ..Marks::default() };
        let room = |reserved| Room::of(Space { free_bytes: 1000, total_bytes: 5000 }, &marks, reserved);
        assert!(room(0).fits(900) && !room(0).fits(901));
        assert!(room(500).fits(400) && !room(500).fits(401));
        assert!(!room(u64::MAX).fits(1) && room(u64::MAX).fits(0));
    }

    #[test]
    fn nearly_all_builds_were_no_larger() {
        assert_eq!(nearly_all(vec![]), None);
        assert_eq!(nearly_all(vec![7]), Some(7));
        assert_eq!(nearly_all((1..=10).rev().collect()), Some(10));
        assert_eq!(nearly_all((1..=100).collect()), Some(95));
    }
}
