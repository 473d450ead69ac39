//! Publish, open, delete, and the sweep after a crash.

use std::fs;
use std::io::Read;
use std::time::{Duration, SystemTime};

use cookhouse::artifacts::{ArtifactError, Fate};

use super::{Shelf, build, open};

#[tokio::test]
async fn nothing_is_visible_before_it_is_published_and_nothing_is_published_twice() {
    let shelf = Shelf::new();
    shelf.write("game", "first");
    let staged = shelf.package(build(1)).await.unwrap();
    assert!(shelf.artifacts.open_artifact(build(1)).await.unwrap().is_none());
    staged.publish().await.unwrap();
    let first = fs::read(shelf.artifacts.path(build(1))).unwrap();

    shelf.write("game", "second");
    let second = shelf.package(build(1)).await.unwrap().publish().await;
    assert!(matches!(second, Err(ArtifactError::AlreadyPublished)), "{second:?}");
    assert_eq!(fs::read(shelf.artifacts.path(build(1))).unwrap(), first);
    assert_eq!(shelf.temporaries(), 0);
}

#[tokio::test]
async fn what_is_never_published_goes_away() {
    let shelf = Shelf::new();
    shelf.write("game", "x");
    let staged = shelf.package(build(1)).await.unwrap();
    assert_eq!(shelf.temporaries(), 1);
    drop(staged);
    assert_eq!(shelf.temporaries(), 0);
}

#[tokio::test]
async fn a_deleted_artifact_is_read_to_its_end_by_who_has_it_open() {
    let shelf = Shelf::new();
    shelf.write("game", "x");
    let path = shelf.publish(build(1)).await;
    let whole = fs::read(&path).unwrap();
    let mut opened = shelf.artifacts.open_artifact(build(1)).await.unwrap().unwrap();
    assert_eq!(opened.size, whole.len() as u64);
    shelf.artifacts.delete(build(1)).await.unwrap();
    assert!(shelf.artifacts.open_artifact(build(1)).await.unwrap().is_none());
    let mut read = Vec::new();
    opened.file.read_to_end(&mut read).unwrap();
    assert_eq!(read, whole);
    // Deleting again is no error: a retention that crashed in between starts over.
    shelf.artifacts.delete(build(1)).await.unwrap();
}

#[tokio::test]
async fn the_sweep_keeps_what_is_known_and_sets_the_rest_aside() {
    let shelf = Shelf::new();
    shelf.write("game", "x");
    let (known, stray) = (shelf.publish(build(1)).await, shelf.publish(build(2)).await);
    let temporary = shelf.home.path().join("temporary");
    // What kill -9 leaves of a packaging, and what somebody else is working on.
    fs::write(temporary.join(format!("{}-0.artifact-part", build(3))), "half").unwrap();
    fs::write(temporary.join("other"), "x").unwrap();
    let odd = known.with_file_name("README");
    fs::write(&odd, "x").unwrap();

    let fate = |id| {
        if id == build(1) {
            Fate::Keep
        } else if id == build(4) {
            Fate::Delete
        } else {
            Fate::Quarantine
        }
    };
    let deleted = shelf.publish(build(4)).await;
    let artifacts = open(shelf.home.path());
    let swept = artifacts.sweep(fate).await.unwrap();
    assert_eq!((swept.temporaries, swept.deleted), (1, 1), "the record of the one said that it was deleted");
    assert!(!deleted.exists());
    assert_eq!(swept.quarantined, [stray.file_name().unwrap().to_str().unwrap(), "README"]);
    assert!(known.exists() && !stray.exists() && !odd.exists() && temporary.join("other").exists());

    // A second start within the day keeps it; a day later it goes.
    assert_eq!(artifacts.sweep(fate).await.unwrap(), Default::default());
    let quarantined = shelf.home.path().join("artifacts/quarantine").join(stray.file_name().unwrap());
    let file = fs::File::options().write(true).open(&quarantined).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(25 * 60 * 60)).unwrap();
    drop(file);
    assert_eq!(artifacts.sweep(fate).await.unwrap().deleted, 1);
    assert!(!quarantined.exists() && known.exists());
}
