//! The whole service on a disk that is too small, by more and by less: what was accepted is kept, what cannot be done fails
//! cleanly, and everything goes on when there is space, without a restart.
//!
//! The suite tries a few sizes. `COOKHOUSE_DISK_SIZES=200` tries that many.

mod site;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cookhouse::model::build::FailureCode;
use cookhouse::model::{Build, Id, Status};
use cookhouse::store::{Read, StoreError};

use crate::support::small_disk::SmallDisk;
use site::{Running, Site};

/// How many, where the environment does not say.
const SIZES: u64 = 8;
/// Between nothing but the service's own files, and enough for three builds.
const RANGE_KIBIBYTES: u64 = 9 * 1024;
/// What an administrator gives it in the end.
const MORE_KIBIBYTES: u64 = 64 * 1024;
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a full disk is left full.
const FULL_FOR: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn a_service_on_a_disk_of_any_size_keeps_its_word() {
    let sizes = std::env::var("COOKHOUSE_DISK_SIZES").ok().and_then(|count| count.parse().ok()).unwrap_or(SIZES);
    let Some(site) = Site::open().await else { return };
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..sizes {
        let spare = number * RANGE_KIBIBYTES / sizes.max(1);
        for outcome in try_size(&site, spare).await {
            *outcomes.entry(outcome).or_default() += 1;
        }
    }
    println!("{sizes} sizes of disks: {outcomes:?}");
    // The sweep is worth something only if it met both.
    assert!(outcomes.keys().any(|outcome| outcome.contains("storage_full")), "nothing ever failed: {outcomes:?}");
    assert!(outcomes.contains_key("complete at once"), "nothing ever fitted: {outcomes:?}");
}

/// One life on a disk with so much to spare; what came of each thing that was tried.
async fn try_size(site: &Site, spare: u64) -> Vec<String> {
    let disk = SmallDisk::mount_kibibytes(site.size + 4096).expect("the first one could be mounted");
    let data = site.copy_to(disk.path());
    let size = disk.used_kibibytes() + spare;
    disk.resize_kibibytes(size);
    let mut outcomes = Vec::new();
    let running = match site.start(&data).await {
        Ok(running) => running,
        Err(error) => {
            assert!(!error.is_empty());
            outcomes.push("refused to start".to_owned());
            disk.resize_kibibytes(size + MORE_KIBIBYTES);
            site.start(&data).await.expect("it starts where there is room")
        }
    };
    let mut accepted = Vec::new();
    for _ in 0..3 {
        match running.trigger(site).await {
            Ok(id) => accepted.push(id),
            Err((503, code)) if code == "storage_full" => outcomes.push("trigger storage_full".to_owned()),
            Err(refusal) => panic!("refused with {refusal:?} on {spare} KiB"),
        }
    }
    let full_until = Instant::now() + FULL_FOR;
    while Instant::now() < full_until && !accepted.iter().all(|id| is_final(&find(&running, site, *id))) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let settled: Vec<bool> = accepted.iter().map(|id| is_final(&find(&running, site, *id))).collect();
    // Whatever happened: reading goes on.
    assert_eq!(running.status(site, "/v1/builds").await, 200, "{spare} KiB");

    disk.resize_kibibytes(size + MORE_KIBIBYTES);
    for (id, was_settled) in accepted.iter().zip(settled) {
        let build = finished(&running, site, *id).await;
        outcomes.push(match (&build.failure, build.status) {
            (None, Status::Complete) if was_settled => "complete at once".to_owned(),
            (None, Status::Complete) => "complete when there was space".to_owned(),
            (Some(failure), Status::Failed) if failure.code == FailureCode::StorageFull => {
                format!("storage_full in {:?}", failure.step)
            }
            _ => panic!("on {spare} KiB a build ended as {build:#?}\n{}", running.log(*id).await),
        });
        running.check_artifact(&build).await;
        running.check_log(&build).await;
    }
    let last = running.trigger(site).await.expect("there is space again");
    let last = finished(&running, site, last).await;
    assert_eq!(last.status, Status::Complete, "on {spare} KiB, after there was space: {last:#?}\n{}", running.log(last.id).await);
    running.check_artifact(&last).await;
    running.stop(&accepted).await;
    outcomes
}

fn is_final(build: &Build) -> bool {
    !build.status.is_unfinished()
}

fn find(running: &Running, site: &Site, id: Id<Build>) -> Build {
    let found: Result<Option<Build>, StoreError> = running.app().store.read(|snapshot| snapshot.get(site.records.organization.id, id));
    found.expect("reading goes on").expect("what was accepted is kept")
}

async fn finished(running: &Running, site: &Site, id: Id<Build>) -> Build {
    let patience = Instant::now() + PATIENCE;
    loop {
        let build = find(running, site, id);
        if is_final(&build) {
            return build;
        }
        assert!(Instant::now() < patience, "it never ends: {build:#?}\n{}", running.log(id).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
