//! Nothing that a command started outlives it, and nothing of ours reaches it unasked.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use cookhouse::platform::process::{Child, Command, ExitStatus, MARKER_VARIABLE, Stdin, end_marked};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

const LONG: Duration = Duration::from_secs(60);

fn shell(home: &Path, script: &str) -> Command {
    let mut command = Command::new("/bin/sh", home, format!("test/{}", home.file_name().unwrap().to_str().unwrap()));
    command.args = vec!["-c".into(), script.into()];
    command.environment.insert("PATH".into(), "/usr/bin:/bin".into());
    command
}

/// A command line that runs for ever, and can be told from all others by the file in `home` that it names.
fn endless(home: &Path) -> String {
    fs::write(home.join("followed"), "").unwrap();
    // Tail watches its output and would end by itself when the reader goes.
    format!("tail -f {} > /dev/null", home.join("followed").display())
}

/// Processes on this machine whose command line names the directory. Found without anything of the service's.
fn running(home: &Path) -> usize {
    let home = home.to_str().unwrap();
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|part| String::from_utf8_lossy(part).starts_with(home))).count()
}

async fn until_running(home: &Path, count: usize) {
    while running(home) < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn until_gone(home: &Path) {
    while running(home) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn until_there(path: &Path) -> String {
    loop {
        match fs::read_to_string(path) {
            Ok(text) if !text.is_empty() => return text,
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

async fn output(child: &mut Child) -> String {
    let mut text = String::new();
    child.take_stdout().unwrap().read_to_string(&mut text).await.unwrap();
    text
}

fn code(code: i32) -> ExitStatus {
    ExitStatus { code: Some(code), signal: None }
}

fn signal(signal: i32) -> ExitStatus {
    ExitStatus { code: None, signal: Some(signal) }
}

/// Every way of getting away from a parent that a build knows.
fn daemons(home: &Path) -> String {
    let endless = endless(home);
    format!(
        "for i in $(seq 25); do ( setsid {endless} & ); ( {endless} & ); ( setsid sh -c 'trap \"\" TERM HUP; {endless} & wait' {home}/sh & ); {endless} & done\n",
        home = home.display()
    )
}

#[tokio::test]
async fn a_build_that_leaves_daemons_behind_leaves_none_after_its_own_exit() {
    let home = TempDir::new().unwrap();
    let mut child = shell(home.path(), &format!("{} sleep 0.2; exit 3", daemons(home.path()))).start().unwrap();
    until_running(home.path(), 100).await;
    assert_eq!(child.wait().await.unwrap(), code(3));
    assert_eq!(running(home.path()), 0);
    assert!(!child.identity().is_running());
    assert_eq!(child.wait().await.unwrap(), code(3), "asked again, it says the same");
}

#[tokio::test]
async fn ending_a_build_ends_its_daemons_too() {
    let home = TempDir::new().unwrap();
    let mut child = shell(home.path(), &format!("{} wait", daemons(home.path()))).start().unwrap();
    until_running(home.path(), 100).await;
    assert!(child.identity().is_running());
    assert_eq!(child.end(LONG).await.unwrap(), signal(15));
    assert_eq!(running(home.path()), 0);
}

#[tokio::test]
async fn dropping_a_child_kills_all_of_it() {
    let home = TempDir::new().unwrap();
    let child = shell(home.path(), &format!("{} wait", daemons(home.path()))).start().unwrap();
    until_running(home.path(), 100).await;
    drop(child);
    until_gone(home.path()).await;
}

#[tokio::test]
async fn a_build_that_forks_faster_than_one_can_look_is_ended() {
    let home = TempDir::new().unwrap();
    // Each generation leaves its parent, wipes its environment and starts the next.
    let script = home.path().join("next");
    fs::write(&script, format!("sleep 0.01; env -i PATH=/usr/bin:/bin setsid sh {} & exit", script.display())).unwrap();
    let mut child = shell(home.path(), &format!("sh {} & sleep 600", script.display())).start().unwrap();
    until_running(home.path(), 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(child.end(Duration::ZERO).await.unwrap().code, None);
    for _ in 0..20 {
        assert_eq!(running(home.path()), 0);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_ignores_the_request_to_stop_is_killed_after_the_grace() {
    let home = TempDir::new().unwrap();
    let ready = home.path().join("ready");
    let mut child = shell(home.path(), "trap '' TERM; echo yes > ready; while :; do sleep 0.05; done").start().unwrap();
    until_there(&ready).await;
    assert_eq!(child.end(Duration::from_millis(100)).await.unwrap(), signal(9));
}

#[tokio::test]
async fn the_grace_lets_a_build_and_its_whole_group_tidy_up() {
    let home = TempDir::new().unwrap();
    let script = "sh -c 'trap \"sleep 0.3; echo yes > tidied; exit\" TERM; echo yes > ready; while :; do sleep 0.05; done' &
                  trap 'exit 7' TERM; while :; do sleep 0.05; done";
    let mut child = shell(home.path(), script).start().unwrap();
    until_there(&home.path().join("ready")).await;
    assert_eq!(child.end(LONG).await.unwrap(), code(7));
    assert_eq!(fs::read_to_string(home.path().join("tidied")).unwrap(), "yes\n");
}

#[tokio::test]
async fn ending_what_has_ended_keeps_its_own_status() {
    let home = TempDir::new().unwrap();
    let mut child = shell(home.path(), "exit 5").start().unwrap();
    while child.identity().is_running() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(child.end(LONG).await.unwrap(), code(5));
}

#[tokio::test]
async fn one_command_does_not_end_another_with_the_same_marker() {
    let home = TempDir::new().unwrap();
    let other = TempDir::new().unwrap();
    let mut first = shell(home.path(), &format!("( setsid {} & )", endless(other.path()))).start().unwrap();
    let mut second = shell(home.path(), "sleep 0.3; exit 4").start().unwrap();
    until_running(other.path(), 1).await;
    assert_eq!(first.wait().await.unwrap(), code(0));
    assert_eq!(running(other.path()), 0);
    assert_eq!(second.wait().await.unwrap(), code(4));
}

#[tokio::test]
async fn a_command_gets_the_environment_it_was_given_and_nothing_else() {
    let home = TempDir::new().unwrap();
    let mut command = Command::new("/usr/bin/env", home.path(), "test/environment");
    command.environment.insert("TOKEN".into(), "a secret = with signs".into());
    assert!(!format!("{command:?}").contains("a secret"));
    let mut child = command.start().unwrap();
    let text = output(&mut child).await;
    let mut variables: BTreeMap<&str, &str> = text.lines().map(|line| line.split_once('=').unwrap()).collect();
    assert!(variables.remove(MARKER_VARIABLE).unwrap().starts_with("test/environment#"));
    assert_eq!(variables, BTreeMap::from([("TOKEN", "a secret = with signs")]));
    assert_eq!(child.wait().await.unwrap(), code(0));
}

#[tokio::test]
async fn arguments_are_passed_as_they_are_and_secrets_are_in_none() {
    let home = TempDir::new().unwrap();
    let mut command = shell(home.path(), "echo $$ > pid; read line; tr '\\0' '\\n' < /proc/$$/cmdline; test \"$line\" = \"$TOKEN\"");
    command.args.extend(["$(touch x)".into(), "--a b".into(), "\"".into()]);
    command.environment.insert("TOKEN".into(), "hunter2".into());
    command.stdin = Stdin::Bytes(b"hunter2\n".to_vec());
    let mut child = command.start().unwrap();
    let text = output(&mut child).await;
    assert!(text.ends_with("$(touch x)\n--a b\n\"\n"), "{text}");
    assert!(!text.contains("hunter2"));
    assert_eq!(child.wait().await.unwrap(), code(0));
    assert!(!home.path().join("x").exists());
}

#[tokio::test]
async fn standard_input_is_the_bytes_and_then_ends() {
    let home = TempDir::new().unwrap();
    // More than a pipe holds, with every byte value.
    let bytes: Vec<u8> = (0..300_000u32).map(|n| n.to_le_bytes()[0]).collect();
    let mut command = Command::new("/bin/cat", home.path(), "test/stdin");
    command.stdin = Stdin::Bytes(bytes.clone());
    let mut child = command.start().unwrap();
    let mut copy = Vec::new();
    child.take_stdout().unwrap().read_to_end(&mut copy).await.unwrap();
    assert_eq!(copy, bytes);
    assert!(child.take_stdout().is_none());
    assert_eq!(child.wait().await.unwrap(), code(0));

    let mut nothing = Command::new("/bin/cat", home.path(), "test/stdin").start().unwrap();
    assert_eq!(nothing.wait().await.unwrap(), code(0));

    let mut deaf = Command::new("/bin/true", home.path(), "test/stdin");
    deaf.stdin = Stdin::Bytes(bytes);
    assert_eq!(deaf.start().unwrap().wait().await.unwrap(), code(0));
}

#[tokio::test]
async fn a_command_has_a_session_of_its_own_and_no_core_file() {
    let home = TempDir::new().unwrap();
    let mut child = shell(home.path(), "cut -d' ' -f6,7 /proc/$$/stat; ulimit -c; umask; ls /proc/$$/fd").start().unwrap();
    let text = output(&mut child).await;
    let expected = format!("{} 0\n0\n0022\n0\n1\n2\n", child.identity().pid);
    assert_eq!(text, expected);
    child.wait().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    use std::io::ErrorKind;
    let home = TempDir::new().unwrap();
    let kind = |command: Command| command.start().unwrap_err().kind();
    assert_eq!(kind(Command::new(home.path().join("missing"), home.path(), "m")), ErrorKind::NotFound);
    assert_eq!(kind(Command::new("/bin/true", home.path().join("missing"), "m")), ErrorKind::NotFound);
    fs::write(home.path().join("text"), "x").unwrap();
    assert_eq!(kind(Command::new(home.path().join("text"), home.path(), "m")), ErrorKind::PermissionDenied);
    for marker in ["", "a b", "a\0", "\u{e4}", &"m".repeat(161)] {
        assert_eq!(kind(Command::new("/bin/true", home.path(), marker)), ErrorKind::InvalidInput, "{marker:?}");
    }
    let mut command = Command::new("/bin/true", home.path(), "m");
    command.args.push("a\0b".into());
    assert_eq!(kind(command), ErrorKind::InvalidInput);
}

/// Runs twice: as the run that is killed in the middle (in a process of its own), and as the run after it.
#[tokio::test]
async fn a_run_that_was_killed_is_cleaned_up_after_by_the_next() {
    const FORMER_RUN: &str = "COOKHOUSE_TEST_FORMER_RUN";
    if let Some(home) = std::env::var_os(FORMER_RUN) {
        let home = PathBuf::from(home);
        let mut command = shell(&home, &format!("{} echo yes > ready; wait", daemons(&home)));
        command.marker = "one-data-directory/build/1".to_owned();
        let _ = command.start().unwrap().wait().await;
        return;
    }
    let home = TempDir::new().unwrap();
    let mut former = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "platform::processes::a_run_that_was_killed_is_cleaned_up_after_by_the_next"])
        .env(FORMER_RUN, home.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until_there(&home.path().join("ready")).await;
    until_running(home.path(), 100).await;
    former.kill().unwrap();
    former.wait().unwrap();
    assert!(running(home.path()) >= 100, "nothing ends them by itself");

    // Others that have to be spared: of this run, and of another data directory.
    let (mine, theirs) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut command = shell(mine.path(), &format!("exec {}", endless(mine.path())));
    command.marker = "one-data-directory/build/2".to_owned();
    let mut mine_child = command.start().unwrap();
    fs::write(theirs.path().join("followed"), "").unwrap();
    let mut stranger = std::process::Command::new("/usr/bin/tail")
        .arg("-f")
        .arg(theirs.path().join("followed"))
        .stdout(Stdio::null())
        .env(MARKER_VARIABLE, "another-data-directory/build/1#1.1.0")
        .spawn()
        .unwrap();
    until_running(mine.path(), 1).await;
    until_running(theirs.path(), 1).await;

    let ended = tokio::task::spawn_blocking(|| end_marked("one-data-directory/")).await.unwrap();
    assert!(ended >= 101, "{ended}");
    until_gone(home.path()).await;
    assert_eq!(end_marked("one-data-directory/"), 0);
    assert_eq!((running(mine.path()), running(theirs.path())), (1, 1));
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_eq!(mine_child.end(LONG).await.unwrap(), signal(15));
}
