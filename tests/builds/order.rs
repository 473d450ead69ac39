//! Which build runs when.

use std::time::Duration;

use cookhouse::builds::Request;
use cookhouse::model::build_setting::{Supersede, Trigger};
use cookhouse::model::{Build, BuildSetting, Project, Status, TriggeredBy};
use cookhouse::store::StoreError;

use crate::support::farm::Farm;
use crate::support::studio::{self, Kind};

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
    let outlook = farm.builds.outlook(&waiting).expect("read").expect("it waits");
    assert!(outlook.position <= Some(4), "{outlook:?}");
    assert!(outlook.reason.is_some(), "{outlook:?}");
    let mut ended = Vec::new();
    for build in &builds {
        ended.push(farm.finished(build.id).await);
    }
    assert!(ended.iter().all(|build| build.status == Status::Complete));
    assert!(ended.windows(2).all(|pair| pair[0].finished_at <= pair[1].started_at), "they never overlap");
    assert_eq!(farm.builds.outlook(&ended[0]).expect("read"), None);
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
    let farm = Farm::start_with(|settings| settings.marks.floor_bytes = u64::MAX).await;
    let build = farm.trigger().await;
    let build = farm.until(build.id, |build| build.pending_reason.is_some()).await;
    assert_eq!((build.status, build.pending_reason.as_deref()), (Status::Pending, Some("storage_full")));
    let farm = farm.restart().await;
    let build = farm.finished(build.id).await;
    assert_eq!((build.status, build.pending_reason), (Status::Complete, None));
}

/// A further project of the same organization with one setting.
async fn another_project(farm: &Farm) -> BuildSetting {
    let project = Project { id: farm.clock.new_id(), name: "Cellar".into(), ..farm.records.project.clone() };
    let setting = studio::setting(&farm.clock, &project, Kind::Githost);
    let stored = setting.clone();
    let put = move |tx: &cookhouse::store::Change| {
        tx.put(&project)?;
        tx.put(&stored)
    };
    farm.store.write::<(), StoreError>(put).await.expect("stored");
    setting
}

fn request_of(farm: &Farm, setting: &BuildSetting) -> Request {
    Request { project: setting.project_id, setting: setting.id, ..farm.request() }
}

#[tokio::test]
async fn projects_take_turns_and_places_say_so() {
    let farm = Farm::start().await;
    farm.builds.pause(farm.records.organization.id, TriggeredBy::Cron).await.expect("paused");
    let other = another_project(&farm).await;
    let mut first = Vec::new();
    for _ in 0..3 {
        first.push(farm.trigger().await);
    }
    let second = farm.builds.trigger(request_of(&farm, &other)).await.expect("triggered");
    let places = |builds: &[&Build]| -> Vec<Option<usize>> {
        let builds: Vec<Build> = builds.iter().map(|build| farm.read(build.id)).collect();
        farm.builds.outlooks(&builds).expect("read").into_iter().map(|outlook| outlook.and_then(|outlook| outlook.position)).collect()
    };
    let all = [&first[0], &first[1], &first[2], &second];
    assert_eq!(places(&all), [Some(1), Some(3), Some(4), Some(2)]);
    let outlook = farm.builds.outlook(&first[0]).expect("read").expect("it waits");
    assert_eq!((outlook.reason.as_deref(), outlook.expected_start_at), (Some("queue_paused"), None));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(all.iter().all(|build| farm.read(build.id).status == Status::Pending), "nothing is started");

    // The pause outlives the service, and the order too.
    let farm = farm.restart().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(farm.read(first[0].id).status, Status::Pending);
    farm.builds.resume(farm.records.organization.id).await.expect("resumed");
    let mut ended = Vec::new();
    for build in all {
        ended.push(farm.finished(build.id).await);
    }
    ended.sort_by_key(|build| build.started_at);
    let order: Vec<_> = ended.iter().map(|build| build.id).collect();
    assert_eq!(order, [first[0].id, second.id, first[1].id, first[2].id]);
}

#[tokio::test]
async fn a_waiting_build_says_when_it_may_begin() {
    let farm = Farm::start().await;
    farm.mischief("[Cook]\nPrint=cooking\nWaitFor=../go\n");
    let setting = farm.records.setting.clone();
    // Earlier builds of the setting took ten minutes each.
    let now = farm.clock.now();
    let done: Vec<Build> = (0..3).map(|_| studio::build(&setting, farm.clock.new_id(), now)).collect();
    let put = move |tx: &cookhouse::store::Change| {
        for mut build in done {
            let finished = now.plus(Duration::from_secs(600));
            (build.status, build.started_at, build.finished_at) = (Status::Complete, Some(now), Some(finished));
            tx.put(&build)?;
        }
        Ok(())
    };
    farm.store.write::<(), StoreError>(put).await.expect("stored");
    let running = farm.trigger().await;
    farm.said(running.id, "cooking").await;
    let [second, third] = [farm.trigger().await, farm.trigger().await];
    let stranger = another_project(&farm).await;
    let stranger = farm.builds.trigger(request_of(&farm, &stranger)).await.expect("triggered");
    let began = farm.read(running.id).started_at.expect("it runs");
    let outlook = |build: &Build| farm.builds.outlook(build).expect("read").expect("it waits");
    // The stranger's project has not had its turn; how long its build takes nobody knows.
    assert_eq!(outlook(&stranger).position, Some(1));
    assert_eq!(outlook(&stranger).expected_start_at, Some(began.plus(Duration::from_secs(600))));
    assert_eq!((outlook(&second).position, outlook(&second).expected_start_at), (Some(2), None));
    farm.builds.cancel(farm.records.organization.id, stranger.id).await.expect("cancelled");
    assert_eq!(outlook(&second).expected_start_at, Some(began.plus(Duration::from_secs(600))));
    assert_eq!(outlook(&third).expected_start_at, Some(began.plus(Duration::from_secs(1200))));
    for build in [running, second, third] {
        farm.builds.cancel(farm.records.organization.id, build.id).await.expect("cancelled");
        farm.finished(build.id).await;
    }
}

#[tokio::test]
async fn a_drained_host_starts_nothing_until_somebody_thinks_better_of_it() {
    let farm = Farm::start().await;
    farm.mischief("[Cook]\nPrint=cooking\nWaitFor=../go\n");
    let running = farm.trigger().await;
    farm.said(running.id, "cooking").await;
    assert_eq!(farm.builds.drain().running, [running.id]);
    let waiting = farm.trigger().await;
    assert_eq!(farm.builds.outlook(&waiting).expect("read").and_then(|outlook| outlook.reason).as_deref(), Some("draining"));
    farm.write("../go", "");
    std::fs::write(farm.home.path().join("workspaces").join(running.build_setting_id.as_str()).join("source/go"), "").expect("a file");
    assert_eq!(farm.finished(running.id).await.status, Status::Complete);
    while farm.builds.is_busy() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!((farm.builds.drain().running.len(), farm.read(waiting.id).status), (0, Status::Pending));
    farm.builds.end_drain();
    assert_eq!(farm.finished(waiting.id).await.status, Status::Complete);
}

#[tokio::test]
async fn a_build_waits_for_somebody_who_uses_its_engine_by_hand() {
    let farm = Farm::start().await;
    // What the engine's own tool holds while it runs.
    let mutex = std::fs::File::open(farm.home.path().join("engines/UE_5.4/Engine/Build/Build.version")).expect("an engine");
    mutex.lock().expect("locked");
    let build = farm.trigger().await;
    farm.said(build.id, "Waiting for another instance of AutomationTool").await;
    assert_eq!(farm.read(build.id).status, Status::Running);
    mutex.unlock().expect("unlocked");
    assert_eq!(farm.finished(build.id).await.status, Status::Complete);
}
