//! `audit verify`, and that orders on the command line are recorded.

use std::path::Path;
use std::sync::Arc;

use cookhouse::clock::Clock;
use cookhouse::control::server::ControlServer;
use cookhouse::model::AuditEntry;
use cookhouse::model::audit::Actor;
use cookhouse::people::{People, SetupToken};
use cookhouse::platform::lock::lock;
use cookhouse::store::key::Key;
use cookhouse::store::{self, Read, Store, tables};

use super::{Ended, run, run_with, text};

fn open(data: &Path) -> Store {
    Store::open(&store::Settings { path: data.join("store.redb"), cache_bytes: 1 << 20 }).expect("a store")
}

fn verify(data: &Path) -> Ended {
    run(&["audit", "verify", "--data", text(data)])
}

fn fill(data: &Path) {
    let password = ["--password-file", "-"];
    let account = ["--data", text(data), "--email", "a@b.example"];
    let with = |start: &[&'static str], more: &[&str]| {
        let arguments: Vec<&str> = start.iter().copied().chain(account).chain(more.iter().copied()).collect();
        assert_eq!(run_with(&arguments, "correct horse battery").code, 0);
    };
    with(&["admin", "create"], &password);
    with(&["admin", "reset-password"], &password);
    with(&["token", "create"], &["--name", "script", "--scopes", "read"]);
}

fn entries(store: &Store) -> Vec<AuditEntry> {
    let mut all = Vec::new();
    let walk = store.read(|snapshot| {
        snapshot.for_each_on_host(&tables::AUDIT_CHAIN, &Key::all(), |entry| {
            all.push(entry);
            Ok(true)
        })
    });
    walk.expect("read");
    all
}

#[test]
fn orders_are_recorded_and_a_forged_record_is_found_while_stopped() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    fill(&data);
    let whole = verify(&data);
    assert_eq!(whole.code, 0, "{}", whole.err);
    assert!(whole.out.starts_with("It holds: 3 entries, 1 to 3.\nHead: 3 "), "{}", whole.out);
    let store = open(&data);
    let all = entries(&store);
    let names: Vec<&str> = all.iter().map(|entry| entry.operation_id.as_str()).collect();
    assert_eq!(names, ["admin create", "admin reset-password", "token create"]);
    assert!(all.iter().all(|entry| entry.actor == Actor::Host && entry.address.is_none()));
    assert_eq!(all[1].resources[0].fields, ["passwordHash", "sessionsValidFrom"]);
    let mut forged = all[1].clone();
    forged.operation_id = "admin create".into();
    store.write_blocking(move |change| change.put(&forged)).expect("written");
    drop(store);
    let broken = verify(&data);
    assert_eq!((broken.code, broken.out.as_str()), (1, ""));
    assert!(broken.err.contains("entry 2 ") && broken.err.contains("was changed after it was written"), "{}", broken.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_is_asked() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().to_owned();
    let _lock = lock(&data).expect("the lock");
    let store = open(&data);
    let people = People::new(store.clone(), Arc::new(Clock::default()));
    let control = ControlServer::start(&data, people, SetupToken::new(&data), None).await.expect("a control server");
    let place = data.clone();
    let whole = tokio::task::spawn_blocking(move || {
        fill(&place);
        verify(&place)
    });
    let whole = whole.await.expect("it ends");
    assert!(whole.code == 0 && whole.out.starts_with("It holds: 3 entries"), "{} {}", whole.out, whole.err);
    let last = entries(&store).pop().expect("one");
    store.write(move |change| change.remove::<AuditEntry>(last.organization_id, last.id).map(|_| ())).await.expect("removed");
    let place = data.clone();
    let broken = tokio::task::spawn_blocking(move || verify(&place)).await.expect("it ends");
    assert!(broken.code == 1 && broken.err.contains("the entries 3 to 3 are missing at the end"), "{}", broken.err);
    drop(control);
}
