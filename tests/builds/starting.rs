//! A start on a full store. `COOKHOUSE_STORED_BUILDS=100000` makes it as full as that.

use std::time::{Duration, Instant};

use cookhouse::appliance::Appliance;
use cookhouse::clock::Clock;
use cookhouse::config::{Config, Sources};
use cookhouse::model::{Build, Status};
use cookhouse::store::{Change, Settings, Store, StoreError};

use crate::support::studio::{self, Kind};

/// Builds in one transaction.
const BATCH: usize = 2000;

#[tokio::test(flavor = "multi_thread")]
async fn the_service_is_ready_soon_however_much_it_remembers() {
    let stored = std::env::var("COOKHOUSE_STORED_BUILDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3000);
    let home = tempfile::tempdir().expect("a directory");
    let mut config = Config::load(&Sources::default()).expect("the defaults").config;
    config.data_dir = home.path().join("data");
    (config.listen, config.discover_engines) = ("127.0.0.1:0".into(), false);
    // The first start compiles the plugins.
    Appliance::start(&config).await.expect("started").stop().await;
    let clock = Clock::default();
    let records = studio::records(&clock, Kind::Githost);
    let settings = Settings { path: config.data_dir.join("store.redb"), cache_bytes: 32 << 20 };
    let patience = Instant::now() + Duration::from_secs(20);
    let store = loop {
        // The last task of the first start may still hold it.
        match Store::open(&settings) {
            Err(StoreError::InUse) if Instant::now() < patience => tokio::time::sleep(Duration::from_millis(20)).await,
            opened => break opened.expect("opened"),
        }
    };
    let rest = records.clone();
    let put = move |tx: &Change| tx.put(&rest.organization).and_then(|()| tx.put(&rest.project)).and_then(|()| tx.put(&rest.setting));
    store.write::<(), StoreError>(put).await.expect("stored");
    let mut left = stored;
    while left > 0 {
        let builds: Vec<Build> = (0..left.min(BATCH))
            .map(|number| {
                let mut build = studio::build(&records.setting, clock.new_id(), clock.now());
                // Among the old ones a few that wait; and those that the end of the last run met in the middle.
                build.status = match number {
                    0 => Status::Pending,
                    1 if left <= BATCH => Status::Running,
                    number if number % 4 == 0 => Status::Failed,
                    _ => Status::Complete,
                };
                build
            })
            .collect();
        left -= builds.len();
        store.write::<(), StoreError>(move |tx| builds.iter().try_for_each(|build| tx.put(build))).await.expect("stored");
    }
    drop(store);
    let began = Instant::now();
    let appliance = Appliance::start(&config).await.expect("started");
    let took = began.elapsed();
    println!("ready {took:?} after the start, with {stored} builds");
    assert_eq!(appliance.recovered().interrupted.len(), 1);
    assert!(took < Duration::from_secs(10), "{took:?}");
    appliance.stop().await;
}
