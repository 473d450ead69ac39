//! How long 20,000 files take, the first time and after a change of ten of them.
//!
//! `cargo nextest run --run-ignored only --no-capture -E 'test(streamvc::figures)'`

use std::time::Instant;

use super::Studio;
use crate::support::depot::{Edit, STREAM};

const FILES: usize = 20_000;
const BYTES: usize = 4096;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, and fills 160 MB"]
async fn the_first_and_the_second_sync_of_twenty_thousand_files() {
    let studio = Studio::start();
    let content = |name: usize, version: u8| {
        let mut bytes = vec![version; BYTES];
        bytes[..8].copy_from_slice(&(name as u64).to_be_bytes());
        bytes
    };
    let paths: Vec<String> = (0..FILES).map(|name| format!("{STREAM}/Content/{}/{name}.uasset", name % 200)).collect();
    let first: Vec<Vec<u8>> = (0..FILES).map(|name| content(name, 1)).collect();
    let edits: Vec<Edit<'_>> = paths.iter().zip(&first).map(|(path, bytes)| (path.as_str(), "binary+l", Some(bytes.as_slice()))).collect();
    let one = studio.server.submit_all("everything", &edits);
    let second: Vec<Vec<u8>> = (0..10).map(|name| content(name, 2)).collect();
    let edits: Vec<Edit<'_>> = paths.iter().zip(&second).map(|(path, bytes)| (path.as_str(), "binary+l", Some(bytes.as_slice()))).collect();
    let two = studio.server.submit_all("ten of them", &edits);
    let workspace = studio.workspace("s1");
    studio.head().await.unwrap();
    for (what, number, incremental, files) in [
        ("first sync", one, false, FILES),
        ("second sync, ten files changed", two, true, FILES),
        ("third sync, nothing changed", two, true, FILES),
    ] {
        let began = Instant::now();
        let done = studio.sync(&workspace, number, incremental).await.unwrap();
        println!("{what}: {:.2} s, {} bytes came", began.elapsed().as_secs_f64(), done.bytes);
        assert_eq!(done.files, files as u64);
    }
}
