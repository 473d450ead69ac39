//! The event log follows what is stored.

use cookhouse::clock::Clock;
use cookhouse::model::event::What;
use cookhouse::model::{Build, Event, Status, Timestamp};
use cookhouse::store::{Order, Read};

use super::{build, open};

#[tokio::test]
async fn each_move_is_announced_once_in_order_and_the_sequence_survives_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let (clock, store) = (Clock::default(), open(directory.path()));
    let organization = clock.new_id();
    let waiting = build(&clock, organization, "Win64", "main");
    let id = waiting.id;
    let mut newest = store.events();
    let put = |store: &cookhouse::store::Store, record: Build| {
        let store = store.clone();
        async move { store.write(move |change| change.put(&record)).await.expect("written") }
    };
    put(&store, waiting.clone()).await;
    put(&store, waiting.clone()).await;
    assert_eq!(*newest.borrow_and_update(), 1, "storing the same again announces nothing");
    drop((store, newest));
    let store = open(directory.path());
    let running = waiting.moved_to(Status::Running, Timestamp(1)).expect("allowed");
    put(&store, running.clone()).await;
    put(&store, running.moved_to(Status::Failed, Timestamp(2)).expect("allowed")).await;
    let events = store.read(|snapshot| snapshot.page::<Event>(organization, None, None, Order::OldestFirst, 10)).expect("read").items;
    let seen: Vec<_> = events
        .iter()
        .map(|event| match &event.what {
            What::Status { status, .. } => (event.sequence(), event.build_id, *status),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seen, [(1, Some(id), Status::Pending), (2, Some(id), Status::Running), (3, Some(id), Status::Failed)]);
}
