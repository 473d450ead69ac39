//! How long a checkout takes, beside plain git in the same run; and a tree of two hundred thousand files. Both take minutes:
//! `cargo nextest run --no-capture --run-ignored only -E 'test(guests::figures)'`.

use std::path::Path;
use std::time::{Duration, Instant};

use cookhouse::seams::SourceControl;
use tokio::process::Command;

use super::{REPOSITORY, Studio};
use crate::plugins::TOKEN;

const FILES: usize = 20_000;

/// Files like a small Unreal project's: 1 to 15 kB that no compression makes smaller.
fn write_files(place: &Path, numbers: impl Iterator<Item = usize>, seed: u64) {
    let mut state = 0x9e37_79b9_7f4a_7c15u64 ^ seed;
    for number in numbers {
        let folder = place.join(format!("Content/{}", number % 200));
        std::fs::create_dir_all(&folder).unwrap();
        let bytes: Vec<u8> = (0..125 + number % 1750)
            .flat_map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()
            })
            .collect();
        std::fs::write(folder.join(format!("{number}.uasset")), bytes).unwrap();
    }
}

/// Plain git, with the token in a header.
async fn git(place: &Path, arguments: &[&str]) -> Duration {
    use base64::Engine as _;
    let header = base64::prelude::BASE64_STANDARD.encode(format!("x-access-token:{TOKEN}"));
    let began = Instant::now();
    let output = Command::new("git")
        .args(["-c", &format!("http.extraHeader=Authorization: Basic {header}")])
        .args(arguments)
        .current_dir(place)
        .env("GIT_CONFIG_GLOBAL", "")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    began.elapsed()
}

/// `cargo nextest run --run-ignored all --no-capture -E 'test(twenty_thousand_files)'`
#[ignore = "a measurement of minutes"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_and_a_second_build_of_twenty_thousand_files() {
    let studio = Studio::start().await;
    let files = tempfile::tempdir().unwrap();
    write_files(files.path(), 0..FILES, 1);
    let first = studio.publish("main", "first", files.path()).await;
    studio.git(&["repack", "-adq"]).await;
    let (host, binding) = (&studio.host, studio.binding());
    let workspace = host.workspace();
    let address = format!("{}/{REPOSITORY}.git", studio.server.git_base_url());
    let plain = host.directory.path().join("plain");
    // Compiled, and the files in the system's memory, before the time counts.
    host.plugins.resolve_head(&binding, REPOSITORY, "main", host.call()).await.unwrap();
    let place = plain.to_string_lossy().into_owned();
    git(host.directory.path(), &["clone", "--quiet", "--depth", "1", &address, &place]).await;
    std::fs::remove_dir_all(&plain).unwrap();

    let clone = git(host.directory.path(), &["clone", "--quiet", "--depth", "1", &address, &place]).await;
    let began = Instant::now();
    host.plugins.materialise(&binding, REPOSITORY, "main", &first, workspace.clone(), false, host.call()).await.unwrap();
    let ours_first = began.elapsed();

    write_files(files.path(), (0..FILES).step_by(400).chain(FILES..FILES + 50), 2);
    let second = studio.publish("main", "second", files.path()).await;
    let fetch = git(&plain, &["fetch", "--quiet", "--depth", "1", "origin", "main"]).await
        + git(&plain, &["checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"]).await;
    let began = Instant::now();
    let done = host.plugins.materialise(&binding, REPOSITORY, "main", &second, workspace, true, host.call()).await.unwrap();
    let ours_second = began.elapsed();
    assert_eq!(done.files as usize, FILES + 50);
    println!("{FILES} files, first:  git clone --depth 1 {clone:.2?}, Cookhouse {ours_first:.2?}");
    println!("100 files changed: git fetch + checkout {fetch:.2?}, Cookhouse {ours_second:.2?} (with clean, check and count)");
    assert!(ours_first < clone * 3 && ours_second < Duration::from_secs(30), "{ours_first:?} {ours_second:?}");
}

/// `cargo nextest run --run-ignored all --no-capture -E 'test(two_hundred_thousand)'`
#[ignore = "takes minutes and 200,000 inodes"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_thousand_files_are_found_and_checked_out() {
    let mut studio = Studio::start().await;
    studio.host.wall = Duration::from_secs(600);
    studio.commit("main", "m", &[("a.txt", b"x")]).await;
    let blob = studio.git(&["rev-parse", "main:a.txt"]).await;
    let mut index: String = (0..200_000).map(|n| format!("100644 {blob}\tGame/Content/{}/{n}.uasset.txt\n", n % 500)).collect();
    index.push_str(&format!("100644 {blob}\tzz/Late.uproject\n"));
    studio.git(&["read-tree", "--empty"]).await;
    studio.git_reading(&["update-index", "--add", "--index-info"], &index).await;
    let tree = studio.git(&["write-tree"]).await;
    let hash = studio.git(&["commit-tree", &tree, "-m", "large"]).await;
    studio.git(&["update-ref", "refs/heads/main", &hash]).await;
    let host = &studio.host;
    for binding in studio.bindings() {
        // Behind what the first answer holds.
        let found = host.plugins.find_files(&binding, REPOSITORY, &hash, "**/*.uproject", 3, 100, host.call()).await.unwrap();
        assert_eq!(found, (vec!["zz/Late.uproject".to_owned()], false));
    }
    let began = Instant::now();
    let done = host.plugins.materialise(&studio.binding(), REPOSITORY, "main", &hash, host.workspace(), false, host.call()).await.unwrap();
    assert_eq!(done.files, 200_001);
    println!("200,001 files checked out in {:.2?}", began.elapsed());
}
