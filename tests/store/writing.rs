//! One writer: transactions that undo themselves, answers after the flush, a file that opens again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cookhouse::clock::Clock;
use cookhouse::model::{Build, Status, Timestamp};
use cookhouse::store::{Order, Read, StoreError, tables};

use super::{build, open};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_is_there_after_the_file_was_opened_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(Clock::default());
    let organization = clock.new_id();
    let store = open(directory.path());
    let writers: Vec<_> = (0..50)
        .map(|_| {
            let (store, record) = (store.clone(), build(&clock, organization, "Win64", "main"));
            tokio::spawn(async move { store.write(move |change| change.put(&record).map(|()| record.id)).await })
        })
        .collect();
    let mut ids = Vec::new();
    for writer in writers {
        ids.push(writer.await.expect("no panic").expect("written"));
    }
    drop(store);
    let store = open(directory.path());
    for id in ids {
        let found: Option<Build> = store.read(|snapshot| snapshot.get(organization, id)).expect("read");
        assert_eq!(found.map(|build| build.id), Some(id));
    }
    assert_eq!(store.check().expect("checked"), Vec::<String>::new());
}

#[tokio::test]
async fn a_refused_change_is_undone_alone_and_its_hooks_do_not_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let (clock, store) = (Clock::default(), open(directory.path()));
    let organization = clock.new_id();
    let (kept, undone) = (build(&clock, organization, "Win64", "main"), build(&clock, organization, "Win64", "main"));
    let ran = Arc::new(AtomicUsize::new(0));
    let (first, second) = (ran.clone(), ran.clone());
    let (kept_id, undone_id) = (kept.id, undone.id);
    let put = store.write(move |change| {
        change.after_commit(move || assert!(first.fetch_add(1, Ordering::SeqCst) < 100));
        change.put(&kept)
    });
    let refuse = store.write(move |change| -> Result<(), StoreError> {
        change.after_commit(move || assert!(second.fetch_add(100, Ordering::SeqCst) > 100));
        change.put(&undone)?;
        Err(StoreError::Busy)
    });
    let (put, refused) = tokio::join!(put, refuse);
    put.expect("written");
    assert!(matches!(refused, Err(StoreError::Busy)));
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    let present = |id| store.read(|snapshot| snapshot.get::<Build>(organization, id)).expect("read").is_some();
    assert!(present(kept_id) && !present(undone_id));
}

#[tokio::test]
async fn a_panic_in_a_change_undoes_it_and_the_writer_goes_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let (clock, store) = (Clock::default(), open(directory.path()));
    let record = build(&clock, clock.new_id(), "Win64", "main");
    let panicked: Result<(), StoreError> = store.write(|_| panic!("deliberate, in a test")).await;
    assert!(panicked.is_err());
    store.write(move |change| change.put(&record)).await.expect("the next write works");
}

#[tokio::test]
async fn indexes_follow_their_records() {
    let directory = tempfile::tempdir().expect("a directory");
    let (clock, store) = (Clock::default(), open(directory.path()));
    let organization = clock.new_id();
    let record = build(&clock, organization, "Win64", "main");
    let id = record.id;
    store.write(move |change| change.put(&record)).await.expect("written");
    let waiting =
        || store.read(|snapshot| snapshot.find_on_host(&tables::BUILDS_PENDING, &cookhouse::store::key::Key::all(), 10)).expect("read");
    assert_eq!(waiting().len(), 1);
    store
        .write(move |change| {
            let build = change.get::<Build>(organization, id)?.expect("there");
            change.put(&build.moved_to(Status::Failed, Timestamp(1)).expect("allowed"))
        })
        .await
        .expect("written");
    assert!(waiting().is_empty());
    assert_eq!(store.check().expect("checked"), Vec::<String>::new());
    assert!(store.write(move |change| change.remove::<Build>(organization, id)).await.expect("removed"));
    assert!(!store.write(move |change| change.remove::<Build>(organization, id)).await.expect("nothing left"));
    let left = store.read(|snapshot| snapshot.page::<Build>(organization, None, None, Order::NewestFirst, 10)).expect("read");
    assert!(left.items.is_empty());
    assert_eq!(store.check().expect("checked"), Vec::<String>::new());
}

#[tokio::test]
async fn another_organizations_record_is_not_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let (clock, store) = (Clock::default(), open(directory.path()));
    let record = build(&clock, clock.new_id(), "Win64", "main");
    let id = record.id;
    store.write(move |change| change.put(&record)).await.expect("written");
    let stranger = clock.new_id();
    assert!(store.read(|snapshot| snapshot.get::<Build>(stranger, id)).expect("read").is_none());
}

#[test]
fn a_newer_schema_and_a_second_process_are_refused_in_a_sentence() {
    let directory = tempfile::tempdir().expect("a directory");
    drop(open(directory.path()));
    let path = directory.path().join("store.redb");
    {
        let database = redb::Database::open(&path).expect("opens");
        let settings = cookhouse::store::Settings { path: path.clone(), cache_bytes: 1 << 20 };
        assert!(matches!(cookhouse::store::Store::open(&settings), Err(StoreError::InUse)));
        let change = database.begin_write().expect("begins");
        let meta = redb::TableDefinition::<&[u8], &[u8]>::new("meta");
        change.open_table(meta).expect("there").insert(b"schema".as_slice(), 9_999u32.to_be_bytes().as_slice()).expect("written");
        change.commit().expect("committed");
    }
    let refused = cookhouse::store::Store::open(&cookhouse::store::Settings { path, cache_bytes: 1 << 20 }).map(|_| ());
    let Err(StoreError::NewerSchema { found: 9_999, .. }) = refused else { panic!("{refused:?}") };
}
