//! What the machine's own `tar` and `gzip` make of the tarball.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;

use super::{Shelf, build, output};

#[tokio::test]
async fn gzip_and_tar_read_it_in_sorted_order() {
    let shelf = Shelf::new();
    let long = format!("{}/{}.uasset", "Deep/".repeat(30).trim_end_matches('/'), "n".repeat(200));
    for path in ["b.txt", "a/2", "a/10", "a-b", "Zoë/日本.txt", "with space\nand line", &long] {
        shelf.write(path, path);
    }
    fs::create_dir(shelf.source().join("empty")).unwrap();
    let tarball = shelf.publish(build(1)).await;
    output(Command::new("gzip").arg("--test").arg(&tarball));
    let listed = output(Command::new("tar").arg("--list").arg("--quoting-style=literal").arg("--file").arg(&tarball));
    let directories: String = (1..=30).map(|depth| "Deep/".repeat(depth) + "\n").collect();
    let expected = format!("{directories}{long}\nZoë/\nZoë/日本.txt\na/\na/10\na/2\na-b\nb.txt\nempty/\nwith space\nand line\n");
    assert_eq!(listed, expected);
}

#[tokio::test]
async fn modes_are_sane_owners_are_nobody_in_particular_and_times_are_kept() {
    let shelf = Shelf::new();
    shelf.write("run.sh", "#!/bin/sh");
    shelf.write("secret", "x");
    shelf.write("old", "x");
    fs::set_permissions(shelf.source().join("run.sh"), fs::Permissions::from_mode(0o4711)).unwrap();
    fs::set_permissions(shelf.source().join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let old = fs::File::options().write(true).open(shelf.source().join("old")).unwrap();
    // Before 1970 there is nothing that tar could say.
    old.set_modified(std::time::UNIX_EPOCH - std::time::Duration::from_secs(1000)).unwrap();
    let tarball = shelf.publish(build(1)).await;
    let listed = output(
        Command::new("tar").env("TZ", "UTC").args(["--list", "--verbose", "--numeric-owner", "--full-time", "--file"]).arg(&tarball),
    );
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("-rw-r--r-- 0/0 ") && lines[0].contains("1970-01-01 00:00:00"), "{listed}");
    assert!(lines[1].starts_with("-rwxr-xr-x 0/0 "), "{listed}");
    assert!(lines[2].starts_with("-rw-r--r-- 0/0 "), "{listed}");
}

#[tokio::test]
async fn the_same_tree_gives_the_same_bytes_and_the_checksums_are_true() {
    let shelf = Shelf::new();
    shelf.write("Content/a.pak", vec![7; 2_000_000]);
    shelf.write("Binaries/game", b"text and more text ".repeat(50_000));
    let (one, two) = (shelf.package(build(1)).await.unwrap(), shelf.package(build(2)).await.unwrap());
    assert_eq!((&one.md5, &one.sha256, one.size_bytes), (&two.md5, &two.sha256, two.size_bytes));
    let (md5, sha256, size) = (one.md5.clone(), one.sha256.clone(), one.size_bytes);
    one.publish().await.unwrap();
    let path = shelf.artifacts.path(build(1));
    assert_eq!(fs::metadata(&path).unwrap().len(), size);
    assert!(output(Command::new("md5sum").arg(&path)).starts_with(&md5));
    assert!(output(Command::new("sha256sum").arg(&path)).starts_with(&sha256));
}

/// What lies in a directory: for each path its content, link target or nothing, and whether it may be executed.
fn tree(root: &Path) -> BTreeMap<PathBuf, (Option<Vec<u8>>, bool)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_dir() {
                waiting.push(path.clone());
                None
            } else if metadata.is_symlink() {
                Some(fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes())
            } else {
                Some(fs::read(&path).unwrap())
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), (content, metadata.is_file() && metadata.mode() & 0o111 != 0));
        }
    }
    found
}

#[derive(Debug, Clone)]
enum Thing {
    File { length: usize, seed: u8, executable: bool },
    Directory,
    Link,
}

fn things() -> impl Strategy<Value = Vec<(Vec<String>, Thing)>> {
    let name = prop_oneof![
        5 => "[a-zA-Z0-9 ._-]{1,12}",
        2 => "[ -~é日🎮]{1,40}",
        1 => "[a-zé]{90,120}",
        1 => "[^/\u{0}]{1,20}",
    ];
    let name = name.prop_map(|name| name.replace('/', "_")).prop_filter("a name", |name| !matches!(name.as_str(), "." | ".." | ""));
    let thing = prop_oneof![
        6 => (prop_oneof![0usize..2000, 500usize..520, Just(700_000)], any::<u8>(), any::<bool>())
            .prop_map(|(length, seed, executable)| Thing::File { length, seed, executable }),
        1 => Just(Thing::Directory),
        2 => Just(Thing::Link),
    ];
    prop::collection::vec((prop::collection::vec(name, 1..4), thing), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tar_unpacks_every_tree_as_it_was(things in things()) {
        let shelf = Shelf::new();
        for (names, thing) in things {
            let path = names.iter().fold(shelf.source(), |path, name| path.join(name));
            // A file may be where this one wants a directory, or a name too long for the disk: then it is left out.
            if fs::create_dir_all(path.parent().unwrap()).is_err() || path.symlink_metadata().is_ok() {
                continue;
            }
            let _ = match thing {
                Thing::File { length, seed, executable } => {
                    let content: Vec<u8> = (0..length).map(|at| (at / 7) as u8 ^ seed.wrapping_mul(at as u8)).collect();
                    fs::write(&path, content).and_then(|()| {
                        fs::set_permissions(&path, fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))
                    })
                }
                Thing::Directory => fs::create_dir(&path),
                Thing::Link => symlink(names.last().unwrap().to_owned() + "-target", &path),
            };
        }
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let tarball = runtime.block_on(shelf.publish(build(1)));
        let unpacked = shelf.home.path().join("unpacked");
        fs::create_dir(&unpacked).unwrap();
        output(Command::new("tar").arg("--extract").arg("--file").arg(&tarball).arg("--directory").arg(&unpacked));
        prop_assert_eq!(tree(&unpacked), tree(&shelf.source()));
    }
}
