//! Builds and the room on the disk: reservations, workspaces that make way, and space that comes back.

use std::fs;

use cookhouse::builds::Request;
use cookhouse::model::{Build, Status, Usage};
use cookhouse::store::{Read, StoreError};

use crate::support::farm::Farm;
use crate::support::small_disk::SmallDisk;

/// Waits until what the setting takes is as `fits` wants it: the workspace is measured a moment after the end.
async fn usage(farm: &Farm, build: &Build, fits: impl Fn(&Usage) -> bool) -> Usage {
    loop {
        let read: Result<Option<Usage>, StoreError> =
            farm.store.read(|snapshot| snapshot.get(build.organization_id, build.build_setting_id.cast()));
        match read.expect("read").filter(&fits) {
            Some(usage) => return usage,
            None => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    }
}

#[tokio::test]
async fn a_build_waits_until_what_earlier_ones_came_to_is_free() {
    let farm = Farm::start_with(|settings| settings.marks.first_build_bytes = 1 << 60).await;
    let build = farm.trigger().await;
    let build = farm.until(build.id, |build| build.pending_reason.is_some()).await;
    assert_eq!((build.status, build.pending_reason.as_deref()), (Status::Pending, Some("storage_full")));
    assert!(farm.builds.has_room(), "others, and those who ask, are not told that the disk is full");
    farm.builds.space_wanted().await;
    // Once there was a build of the setting, it is the measure.
    let mut earlier =
        Build { status: Status::Complete, ..crate::support::studio::build(&farm.records.setting, farm.clock.new_id(), build.created_at) };
    earlier.artifact = Some(cookhouse::model::Artifact {
        size_bytes: 1000,
        checksum_md5: String::new(),
        checksum_sha256: String::new(),
        expires_at: None,
        deleted_at: None,
        deleted_reason: None,
    });
    farm.store.write::<(), StoreError>(move |tx| tx.put(&earlier)).await.expect("stored");
    farm.builds.make_room().await.expect("looked");
    let build = farm.finished(build.id).await;
    assert_eq!((build.status, build.pending_reason), (Status::Complete, None));
}

#[tokio::test]
async fn the_workspace_that_was_not_used_for_longest_makes_way_for_the_build_that_waits() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let workspaces = disk.path().join("workspaces");
    let floor = 40 << 20;
    let farm = Farm::start_with(|settings| {
        settings.workspaces = workspaces.clone();
        settings.marks.floor_bytes = floor;
    })
    .await;
    farm.write("Saved/Cache.bin", vec![1; 10 << 20]);
    let old = farm.build().await;
    assert_eq!(old.status, Status::Complete, "{}", farm.text(old.id).await);
    let taken = usage(&farm, &old, |usage| usage.workspace_used_at.is_some()).await;
    assert!((10 << 20..20 << 20).contains(&taken.workspace_bytes), "{taken:?}");
    assert_eq!(taken.artifact_bytes, old.artifact.as_ref().map_or(0, |artifact| artifact.size_bytes));
    assert_eq!((taken.artifacts, taken.log_bytes), (1, old.log_bytes));
    assert!(old.log_bytes > 0);

    let foreign = disk.path().join("foreign");
    fs::write(&foreign, vec![1; 16 << 20]).expect("written");
    assert!(!farm.builds.has_room());
    let setting = farm.another_setting().await;
    let waiting = farm.builds.trigger(Request { setting: setting.id, ..farm.request() }).await.expect("accepted");
    farm.until(waiting.id, |build| build.pending_reason.as_deref() == Some("storage_full")).await;
    assert_eq!(farm.builds.make_room().await.expect("made"), [old.build_setting_id]);
    assert!(!workspaces.join(old.build_setting_id.as_str()).exists());
    let waiting = farm.finished(waiting.id).await;
    assert_eq!(waiting.status, Status::Complete, "{}", farm.text(waiting.id).await);
    let left = usage(&farm, &old, |usage| usage.workspace_used_at.is_none()).await;
    assert_eq!((left.workspace_bytes, left.artifacts), (0, 1));

    // Nothing that could go is left: it waits for its administrator.
    fs::write(&foreign, vec![1; 20 << 20]).expect("written");
    let last = farm.builds.trigger(Request { setting: setting.id, ..farm.request() }).await.expect("accepted");
    farm.until(last.id, |build| build.pending_reason.as_deref() == Some("storage_full")).await;
    assert_eq!(farm.builds.make_room().await.expect("made"), [], "its own workspace would have to be fetched again");
    assert_eq!(farm.read(last.id).status, Status::Pending);
    fs::remove_file(&foreign).expect("removed");
    farm.builds.make_room().await.expect("looked");
    assert_eq!(farm.finished(last.id).await.status, Status::Complete);
}

#[tokio::test]
async fn a_disk_that_is_full_to_the_last_byte_gets_back_what_the_build_took() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let workspaces = disk.path().join("workspaces");
    let farm = Farm::start_with(|settings| settings.workspaces = workspaces.clone()).await;
    farm.write("Saved/Cache.bin", vec![1; 30 << 20]);
    let build = farm.build().await;
    Farm::assert_failed(&build, cookhouse::model::build::FailureCode::StorageFull, "");
    // The slot, and with it the workspace, is let go a moment after the status.
    while workspaces.join(build.build_setting_id.as_str()).exists() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    fs::remove_file(farm.home.path().join("source/Game/Saved/Cache.bin")).expect("removed");
    assert_eq!(farm.build().await.status, Status::Complete);
}
