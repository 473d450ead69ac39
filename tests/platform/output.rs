//! Output of a running program, line by line, whatever the program does.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use cookhouse::model::log::LogStream;
use cookhouse::platform::process::{Command, ExitStatus};
use cookhouse::platform::running::{OutputLine, Running};
use tempfile::TempDir;

fn start(home: &Path, script: &str) -> Running {
    let mut command = Command::new("/bin/sh", home, format!("test/{}", home.file_name().unwrap().to_str().unwrap()));
    command.args = vec!["-c".into(), script.into()];
    command.environment.insert("PATH".into(), "/usr/bin:/bin".into());
    Running::start(command).unwrap()
}

async fn all(running: &mut Running) -> Vec<OutputLine> {
    let mut lines = Vec::new();
    while let Some(batch) = running.lines().await {
        assert!(!batch.is_empty());
        lines.extend(batch);
    }
    lines
}

fn of(stream: LogStream, lines: &[OutputLine]) -> Vec<&str> {
    lines.iter().filter(|line| line.stream == stream).map(|line| line.text.as_str()).collect()
}

#[tokio::test]
async fn both_streams_are_read_and_the_last_line_needs_no_end() {
    let home = TempDir::new().unwrap();
    let mut running = start(home.path(), "echo one; echo two >&2; printf 'a\\r\\nb\\rc'; printf 'no end' >&2; exit 6");
    let lines = all(&mut running).await;
    assert_eq!(of(LogStream::Stdout, &lines), ["one", "a", "b", "c"]);
    assert_eq!(of(LogStream::Stderr, &lines), ["two", "no end"]);
    assert_eq!(running.status().await.unwrap(), ExitStatus { code: Some(6), signal: None });
    assert_eq!(running.status().await.unwrap().code, Some(6));
}

#[tokio::test]
async fn a_line_arrives_while_the_program_runs() {
    let home = TempDir::new().unwrap();
    let mut running = start(home.path(), "echo ready; while ! test -e go; do sleep 0.02; done; echo gone");
    assert_eq!(running.lines().await.unwrap()[0].text, "ready");
    fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(of(LogStream::Stdout, &all(&mut running).await), ["gone"]);
}

#[tokio::test]
async fn a_million_lines_come_through_complete_and_in_order() {
    let home = TempDir::new().unwrap();
    let mut running = start(home.path(), "seq 500000 & seq 500000 >&2; wait");
    let (mut on_stdout, mut on_stderr) = (0, 0);
    while let Some(batch) = running.lines().await {
        for line in batch {
            let count = if line.stream == LogStream::Stdout { &mut on_stdout } else { &mut on_stderr };
            *count += 1;
            assert_eq!(line.text, count.to_string());
        }
    }
    assert_eq!((on_stdout, on_stderr), (500_000, 500_000));
    assert!(running.status().await.unwrap().is_success());
}

#[tokio::test]
async fn a_daemon_that_holds_the_pipe_open_does_not_hold_up_the_end() {
    let home = TempDir::new().unwrap();
    let mut running = start(home.path(), "( setsid sleep 600 & ); echo started");
    assert_eq!(of(LogStream::Stdout, &all(&mut running).await), ["started"]);
    assert!(running.status().await.unwrap().is_success());
}

#[tokio::test]
async fn a_program_waits_for_a_reader_that_is_behind() {
    let home = TempDir::new().unwrap();
    let mut running = start(home.path(), "seq 1000000; echo yes > done");
    let mut count = running.lines().await.unwrap().len();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!home.path().join("done").exists(), "seven megabytes were taken in although nobody read them");
    while let Some(batch) = running.lines().await {
        count += batch.len();
    }
    assert_eq!(count, 1_000_000);
    assert!(home.path().join("done").exists());
}

#[tokio::test]
async fn what_a_program_says_while_it_ends_is_read() {
    let home = TempDir::new().unwrap();
    let mut running = start(home.path(), "sleep 600 & trap 'seq 20000; exit 9' TERM; echo ready; wait");
    assert_eq!(running.lines().await.unwrap()[0].text, "ready");
    running.end(Duration::from_secs(60));
    assert_eq!(all(&mut running).await.len(), 20_000);
    assert_eq!(running.status().await.unwrap().code, Some(9));
}

#[tokio::test]
async fn a_second_request_cuts_the_grace_short() {
    let home = TempDir::new().unwrap();
    let mut running = start(home.path(), "trap '' TERM; echo ready; while :; do sleep 0.02; done");
    running.lines().await.unwrap();
    running.end(Duration::from_secs(3600));
    running.end(Duration::from_millis(10));
    assert_eq!(running.status().await.unwrap().signal, Some(9));
    assert!(running.lines().await.is_none());
}

#[tokio::test]
async fn a_flood_ends_when_it_is_ended_or_nobody_listens() {
    let home = TempDir::new().unwrap();
    let mut running = start(home.path(), "exec yes");
    running.lines().await.unwrap();
    running.end(Duration::ZERO);
    while running.lines().await.is_some() {}
    assert!(running.status().await.unwrap().signal.is_some());

    let mut dropped = start(home.path(), "exec yes");
    dropped.lines().await.unwrap();
    let identity = dropped.identity().clone();
    assert!(identity.is_running());
    drop(dropped);
    while identity.is_running() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
