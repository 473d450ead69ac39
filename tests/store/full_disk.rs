//! A full disk refuses writes, keeps everything readable, and is survived without a restart.

use cookhouse::clock::Clock;
use cookhouse::model::{Build, Id, Organization};
use cookhouse::store::{Order, Read, Store, StoreError};

use super::{build, open};
use crate::support::small_disk::SmallDisk;

async fn write_some(store: &Store, clock: &Clock, organization: Id<Organization>) -> Result<usize, StoreError> {
    let builds: Vec<Build> = (0..200).map(|_| build(clock, organization, "Win64", &"b".repeat(200))).collect();
    store.write(move |change| builds.iter().try_for_each(|build| change.put(build)).map(|()| builds.len())).await
}

#[tokio::test]
async fn a_full_disk_refuses_and_a_freed_one_serves_again() {
    let Some(disk) = SmallDisk::mount(12) else { return };
    let (clock, store) = (Clock::default(), open(disk.path()));
    let organization = clock.new_id();
    let mut stored = write_some(&store, &clock, organization).await.expect("there is space");
    let filler = disk.fill();
    let mut refusals = 0;
    for _ in 0..40 {
        match write_some(&store, &clock, organization).await {
            Ok(count) => stored += count,
            Err(error) => {
                assert!(matches!(error, StoreError::StorageFull), "{error:?}");
                refusals += 1;
            }
        }
    }
    assert!(refusals > 0, "the disk never was full");
    let count = || {
        let page = store.read(|snapshot| snapshot.page::<Build>(organization, None, None, Order::OldestFirst, 100_000));
        page.map(|page| page.items.len())
    };
    assert_eq!(count().expect("reading goes on"), stored);
    std::fs::remove_file(filler).expect("space again");
    stored += write_some(&store, &clock, organization).await.expect("served again");
    assert_eq!(count().expect("read"), stored);
    assert_eq!(store.check().expect("checked"), Vec::<String>::new());
    drop(store);
    let store = open(disk.path());
    assert_eq!(store.check().expect("checked"), Vec::<String>::new());
}
