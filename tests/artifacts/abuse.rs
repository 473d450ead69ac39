//! Trees that a hostile or broken build leaves behind.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cookhouse::artifacts::{ArtifactError, Artifacts, Settings};
use tokio_util::sync::CancellationToken;

use super::{Shelf, build, output};
use crate::support::small_disk::SmallDisk;

#[tokio::test]
async fn a_link_that_leaves_is_refused_by_its_relative_name() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let absolute = outside.path().join("secret");
    let targets = ["../secret", "../../etc/passwd", "a/../../x", "/etc/passwd", "./../..", absolute.to_str().unwrap(), "..", "sub/up/../x"];
    for target in targets {
        let shelf = Shelf::new();
        shelf.write("sub/deep/file", "x");
        symlink("..", shelf.source().join("sub/deep/up")).unwrap();
        symlink("deep/up/..", shelf.source().join("sub/up")).unwrap();
        symlink(target, shelf.source().join("link")).unwrap();
        match shelf.package(build(1)).await {
            Err(ArtifactError::LinkLeaves { path }) => assert_eq!(path, "link"),
            other => panic!("{target}: {other:?}"),
        }
        assert_eq!(shelf.temporaries(), 0);
    }
}

#[tokio::test]
async fn a_link_that_stays_is_kept_as_a_link() {
    let shelf = Shelf::new();
    shelf.write("lib/libgame.so.1", "x");
    for (target, link) in [("libgame.so.1", "lib/libgame.so"), ("../lib", "lib/self"), ("nowhere", "dangling"), ("circle", "circle")] {
        symlink(target, shelf.source().join(link)).unwrap();
    }
    let tarball = shelf.publish(build(1)).await;
    let listed = output(Command::new("tar").arg("--list").arg("--verbose").arg("--file").arg(&tarball));
    for shown in [" lib/libgame.so -> libgame.so.1\n", " lib/self -> ../lib\n", " dangling -> nowhere\n", " circle -> circle\n"] {
        assert!(listed.contains(shown), "{listed}");
    }
}

#[tokio::test]
async fn sockets_and_pipes_are_left_out_with_a_note() {
    let shelf = Shelf::new();
    shelf.write("game", "x");
    let _socket = UnixListener::bind(shelf.source().join("socket")).unwrap();
    output(Command::new("mkfifo").arg(shelf.source().join("pipe")));
    let staged = shelf.package(build(1)).await.unwrap();
    assert_eq!(staged.skipped.len(), 2, "{:?}", staged.skipped);
    assert!(staged.skipped.iter().any(|note| note.contains("\"pipe\"")));
    staged.publish().await.unwrap();
    assert_eq!(output(Command::new("tar").arg("--list").arg("--file").arg(shelf.artifacts.path(build(1)))), "game\n");
}

#[tokio::test]
async fn names_that_are_no_text_survive() {
    let shelf = Shelf::new();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.ini");
    let long = std::ffi::OsString::from("x".repeat(150)).into_encoded_bytes().into_iter().chain(*b"\xff").collect::<Vec<u8>>();
    fs::write(shelf.source().join(name), "one").unwrap();
    fs::write(shelf.source().join(std::ffi::OsStr::from_bytes(&long)), "two").unwrap();
    let tarball = shelf.publish(build(1)).await;
    let unpacked = shelf.home.path().join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    output(Command::new("tar").arg("--extract").arg("--file").arg(&tarball).arg("--directory").arg(&unpacked));
    assert_eq!(fs::read(unpacked.join(name)).unwrap(), b"one");
    assert_eq!(fs::read(unpacked.join(std::ffi::OsStr::from_bytes(&long))).unwrap(), b"two");
}

#[tokio::test]
async fn ten_thousand_files_are_all_there() {
    let shelf = Shelf::new();
    for number in 0..10_000 {
        shelf.write(&format!("Content/{:02}/{number:05}.uasset", number % 40), number.to_string());
    }
    let tarball = shelf.publish(build(1)).await;
    let listed = output(Command::new("tar").arg("--list").arg("--file").arg(&tarball));
    assert_eq!(listed.lines().filter(|line| line.ends_with(".uasset")).count(), 10_000);
}

#[tokio::test]
async fn a_file_that_changes_meanwhile_is_found_out() {
    let shelf = Shelf::new();
    shelf.write("a-first", vec![1; 100]);
    shelf.write("growing", vec![1; 100]);
    shelf.write("vanishing", vec![1; 100]);
    // The walk is over when the first file is told as done.
    let growing = shelf.source().join("growing");
    let grown = shelf
        .artifacts
        .package(shelf.source(), build(1), CancellationToken::new(), move |_, _| {
            fs::File::options().append(true).open(&growing).unwrap().write_all(b"more").unwrap();
        })
        .await;
    assert!(matches!(&grown, Err(ArtifactError::SourceChanged { path }) if path == "growing"), "{grown:?}");
    let vanishing = shelf.source().join("vanishing");
    let gone = shelf
        .artifacts
        .package(shelf.source(), build(1), CancellationToken::new(), move |_, _| {
            let _ = fs::remove_file(&vanishing);
        })
        .await;
    assert!(matches!(&gone, Err(ArtifactError::SourceChanged { path }) if path == "vanishing"), "{gone:?}");
    assert_eq!(shelf.temporaries(), 0);
}

#[tokio::test]
async fn a_file_replaced_by_a_link_to_a_secret_does_not_leak_it() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, vec![1; 100]).unwrap();
    let shelf = Shelf::new();
    shelf.write("a", vec![1; 100]);
    shelf.write("b", vec![1; 100]);
    let victim = shelf.source().join("b");
    let result = shelf
        .artifacts
        .package(shelf.source(), build(1), CancellationToken::new(), move |_, _| {
            fs::remove_file(&victim).unwrap();
            symlink(&secret, &victim).unwrap();
        })
        .await;
    assert!(matches!(&result, Err(ArtifactError::Unreadable { path, .. }) if path == "b"), "{result:?}");
}

#[tokio::test]
async fn stopping_it_or_walking_away_leaves_nothing_behind() {
    let shelf = Shelf::new();
    for number in 0..50 {
        shelf.write(&format!("{number}"), vec![number; 300_000]);
    }
    let stop = CancellationToken::new();
    let asked = stop.clone();
    let stopped = shelf.artifacts.package(shelf.source(), build(1), stop, move |_, _| asked.cancel()).await;
    assert!(matches!(stopped, Err(ArtifactError::Cancelled)), "{stopped:?}");
    assert_eq!(shelf.temporaries(), 0);

    let begun = Arc::new(AtomicBool::new(false));
    let (seen, source) = (Arc::clone(&begun), shelf.source());
    let progress = move |_: u64, _: u64| {
        seen.store(true, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let artifacts = shelf.artifacts.clone();
    let task = tokio::spawn(async move { artifacts.package(source, build(2), CancellationToken::new(), progress).await });
    while !begun.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    task.abort();
    while shelf.temporaries() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_full_disk_is_told_apart_and_leaves_room_again() {
    let Some(disk) = SmallDisk::mount(4) else { return };
    let shelf = Shelf::new();
    let noise: Vec<u8> = (0..6u32 << 20).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8 ^ (at.wrapping_mul(at) >> 7) as u8).collect();
    shelf.write("pak", noise);
    let (directory, temporary) = (disk.path().join("artifacts"), disk.path().join("temporary"));
    let artifacts = Artifacts::open(&Settings { directory, temporary: temporary.clone(), largest: u64::MAX }).unwrap();
    let full = artifacts.package(shelf.source(), build(1), CancellationToken::new(), |_, _| {}).await;
    assert!(matches!(full, Err(ArtifactError::StorageFull)), "{full:?}");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    // The room is there again for one that fits.
    shelf.write("pak", vec![1; 1 << 20]);
    artifacts.package(shelf.source(), build(1), CancellationToken::new(), |_, _| {}).await.unwrap().publish().await.unwrap();
}
