//! `cookhouse demo --exit`, the real binary from its first line to its exit code.

use std::path::Path;
use std::process::Command;

use crate::cli::{Ended, cookhouse, text};

fn demo(arguments: &[&str]) -> Ended {
    let all: Vec<&str> = ["demo", "--exit"].iter().chain(arguments).copied().collect();
    cookhouse(&all).output().expect("it starts").into()
}

/// Each of these lines stands, in this order.
#[track_caller]
fn assert_story(ended: &Ended, lines: &[&str]) {
    let mut rest = ended.out.as_str();
    for line in lines {
        let at = rest.find(line).unwrap_or_else(|| panic!("{line:?} is missing in\n{}\n{}", ended.out, ended.err));
        rest = &rest[at..];
    }
}

#[test]
fn it_builds_downloads_and_delivers_and_a_second_run_goes_on_from_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("demo");
    let first = demo(&["--data", text(&data)]);
    assert_eq!(first.code, 0, "{}\n{}", first.out, first.err);
    assert_story(
        &first,
        &[
            "Git host",
            "Receiver",
            "Signed in",
            "Git host connected",
            "Project linked",
            "Build setting",
            "Triggered",
            "into an empty workspace",
            "BUILD SUCCESSFUL",
            "Build complete",
            "Signed address",
            "resumed with Range (200, then 206)",
            "MD5",
            "SHA-256",
            "POST multipart/form-data",
            "Part metadata",
            "application/json",
            "Part artifact",
            "application/gzip",
            "Byte for byte",
            "Everything worked.",
        ],
    );
    assert!(!first.out.contains('\u{1b}'), "a pipe gets plain lines");
    no_token_on_disk(&data);
    let tarball = std::fs::read_dir(data.join("downloads")).expect("downloads").next().expect("one").expect("readable").path();
    let listed = Command::new("tar").arg("-tzf").arg(&tarball).output().expect("tar starts");
    assert!(listed.status.success());
    assert!(String::from_utf8_lossy(&listed.stdout).contains("Kitchen"), "{}", String::from_utf8_lossy(&listed.stdout));

    let second = demo(&["--data", text(&data)]);
    assert_eq!(second.code, 0, "{}\n{}", second.out, second.err);
    assert_story(&second, &["Signed in", "Project linked", "Build complete", "Byte for byte", "Everything worked."]);
    assert!(!second.out.contains("into an empty workspace"), "the second build is incremental:\n{}", second.out);
}

// The server's script needs a shell.
#[cfg(unix)]
#[test]
fn a_submit_to_a_stream_is_told_of_built_and_delivered() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("demo");
    let first = demo(&["--streamvc", "--data", text(&data)]);
    assert_eq!(first.code, 0, "{}\n{}", first.out, first.err);
    assert_story(
        &first,
        &[
            "Perforce",
            "//Kitchen/main at changelist 1",
            "Signed in",
            "Perforce connected",
            "and is pinned",
            "Project linked",
            "Build setting",
            "Trigger installed",
            "Submitted",
            "changelist 2",
            "and changelist 3 right behind it",
            "Triggered by the server",
            "at changelist 2",
            "BUILD SUCCESSFUL",
            "Build complete",
            "Exactly that changelist",
            "Salt it",
            "Byte for byte",
            "Everything worked.",
        ],
    );
    let second = demo(&["--streamvc", "--data", text(&data)]);
    assert_eq!(second.code, 0, "{}\n{}", second.out, second.err);
    assert_story(&second, &["Project linked", "Submitted", "changelist 5", "Exactly that changelist", "Everything worked."]);
    assert!(!second.out.contains("into an empty workspace"), "the second build is incremental:\n{}", second.out);
}

/// The git host's token and the deploy header reach no file: what is stored of them is sealed.
fn no_token_on_disk(directory: &Path) {
    for entry in std::fs::read_dir(directory).expect("readable") {
        let entry = entry.expect("readable");
        if entry.file_type().expect("readable").is_dir() {
            no_token_on_disk(&entry.path());
        } else if let Ok(bytes) = std::fs::read(entry.path()) {
            let has_token = bytes.windows(4).any(|window| window == b"ght_");
            assert!(!has_token, "{} holds the git host's token", entry.path().display());
        }
    }
}

#[test]
fn what_is_missing_is_named_before_anything_is_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("demo");
    let mut command = cookhouse(&["demo", "--exit", "--data", text(&data)]);
    let ended: Ended = command.env("PATH", directory.path()).output().expect("it starts").into();
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("the demo needs git, git-lfs, bash, a C++ compiler"), "{}", ended.err);
    assert!(!data.exists());
}

#[test]
fn an_address_that_is_taken_is_code_69() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let ended = demo(&["--listen", &address]);
    assert_eq!(ended.code, 69, "{}", ended.err);
    assert!(ended.err.contains(&format!("cannot listen on {address}")), "{}", ended.err);
}
