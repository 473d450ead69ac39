//! Which build runs when.

use std::time::Duration;

use cookhouse::builds::Request;
use cookhouse::model::build_setting::{Supersede, Trigger};
use cookhouse::model::{BuildSetting, Status, TriggeredBy};

use crate::support::farm::Farm;

fn request_for(farm: &Farm, setting: &BuildSetting) -> Request {
    Request { setting: setting.id, ..farm.request() }
}

#[tokio::test]
async fn builds_of_one_setting_run_one_after_the_other_oldest_first() {
    let farm = Farm::start_with(|settings| settings.slots = 4).await;
    let mut builds = Vec::new();
    for _ in 0..4 {
        builds.push(farm.trigger().await);
    }
    let waiting = farm.read(builds[3].id);
    assert_eq!(waiting.status, Status::Pending);
    assert!(farm.builds.queue_position(&waiting).expect("read") <= Some(4));
    let mut ended = Vec::new();
    for build in &builds {
        ended.push(farm.finished(build.id).await);
    }
    assert!(ended.iter().all(|build| build.status == Status::Complete));
    assert!(ended.windows(2).all(|pair| pair[0].finished_at <= pair[1].started_at), "they never overlap");
    assert_eq!(farm.builds.queue_position(&ended[0]).expect("read"), None);
}

#[tokio::test]
async fn one_tool_at_a_time_runs_in_an_engine_and_others_do_not_wait_for_it() {
    let mut farm = Farm::start_with(|settings| settings.slots = 3).await;
    farm.mischief("[Cook]\nPrint=cooking\nWaitFor=../go\n");
    let (second, mut third) = (farm.another_setting().await, farm.another_setting().await);
    third.ue_version = "4.27".into();
    farm.change_setting(|_| {}).await;
    let stored = third.clone();
    farm.store.write::<(), cookhouse::store::StoreError>(move |tx| tx.put(&stored)).await.expect("stored");
    let first = farm.trigger().await;
    farm.said(first.id, "cooking").await;
    let second = farm.builds.trigger(request_for(&farm, &second)).await.expect("triggered");
    let third = farm.builds.trigger(request_for(&farm, &third)).await.expect("triggered");
    farm.said(third.id, "cooking").await;
    assert_eq!(farm.read(second.id).status, Status::Pending, "its engine is busy");
    for build in [&first, &third] {
        std::fs::write(farm.home.path().join("workspaces").join(build.build_setting_id.as_str()).join("source/go"), "").expect("a file");
    }
    farm.write("../go", "");
    for build in [first, third, second] {
        let build = farm.finished(build.id).await;
        assert_eq!(build.status, Status::Complete, "{}", farm.text(build.id).await);
    }
}

#[tokio::test]
async fn no_more_builds_run_than_there_are_slots() {
    let farm = Farm::start().await;
    farm.mischief("[Cook]\nPrint=cooking\nWaitFor=../go\n");
    let mut other = farm.another_setting().await;
    other.ue_version = "4.27".into();
    let stored = other.clone();
    farm.store.write::<(), cookhouse::store::StoreError>(move |tx| tx.put(&stored)).await.expect("stored");
    let first = farm.trigger().await;
    farm.said(first.id, "cooking").await;
    let second = farm.builds.trigger(request_for(&farm, &other)).await.expect("triggered");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(farm.read(second.id).status, Status::Pending);
    farm.write("../go", "");
    std::fs::write(farm.home.path().join("workspaces").join(first.build_setting_id.as_str()).join("source/go"), "").expect("a file");
    assert_eq!(farm.finished(second.id).await.status, Status::Complete);
}

#[tokio::test]
async fn a_newer_automatic_build_takes_the_place_of_waiting_and_if_wanted_of_running_ones() {
    let mut farm = Farm::start().await;
    farm.change_setting(|setting| (setting.trigger, setting.supersede) = (Trigger::Push, Supersede::Running)).await;
    farm.mischief("[Cook]\nPrint=cooking\nHang=silent\n");
    let automatic = || Request { by: TriggeredBy::ApiToken(farm.clock.new_id()), ..farm.request() };
    let first = farm.builds.trigger(automatic()).await.expect("triggered");
    farm.said(first.id, "cooking").await;
    let by_hand = farm.trigger().await;
    farm.mischief("");
    let second = farm.builds.trigger(automatic()).await.expect("triggered");
    let ended = farm.read(first.id);
    assert_eq!((ended.status, ended.superseded_by), (Status::Superseded, Some(second.id)), "in the transaction that made the newer one");
    for id in [by_hand.id, second.id] {
        let build = farm.finished(id).await;
        assert_eq!(build.status, Status::Complete, "{}", farm.text(build.id).await);
    }
    let ended = farm.read(first.id);
    assert!(ended.status == Status::Superseded && ended.log_lines > 0 && ended.failure.is_none(), "{ended:#?}");
    assert!(farm.text(first.id).await.contains("cooking"), "its log is kept");
}

#[tokio::test]
async fn under_the_floor_nothing_starts_and_the_build_says_why() {
    let farm = Farm::start_with(|settings| settings.floor_bytes = u64::MAX).await;
    let build = farm.trigger().await;
    let build = farm.until(build.id, |build| build.pending_reason.is_some()).await;
    assert_eq!((build.status, build.pending_reason.as_deref()), (Status::Pending, Some("storage_full")));
    let farm = farm.restart().await;
    let build = farm.finished(build.id).await;
    assert_eq!((build.status, build.pending_reason), (Status::Complete, None));
}
