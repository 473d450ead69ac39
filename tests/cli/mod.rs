//! The real binary, as people and scripts call it.

mod audit;
mod control;
mod people;
// Ended with signals.
#[cfg(unix)]
mod serve;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The binary with an environment that holds nothing of ours.
pub(crate) fn cookhouse(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cookhouse"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("COOKHOUSE_")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// What came of it.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Ended { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }
}

pub(crate) fn run(arguments: &[&str]) -> Ended {
    cookhouse(arguments).output().expect("it starts").into()
}

/// With something on standard input.
pub(crate) fn run_with(arguments: &[&str], input: &str) -> Ended {
    let mut command = cookhouse(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // A command that does not read its input may be gone already.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends").into()
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn help_teaches_and_mistakes_are_code_2() {
    let help = run(&["--help"]);
    assert_eq!((help.code, help.err.as_str()), (0, ""));
    for word in ["Start here:", "Exit codes:", "cookhouse demo"] {
        assert!(help.out.contains(word), "{word}: {}", help.out);
    }
    for arguments in [&["check-config", "--help"][..], &["admin", "create", "--help"], &["token", "create", "--help"]] {
        let help = run(arguments);
        assert!(help.code == 0 && help.out.contains("Examples:"), "{arguments:?}: {}", help.out);
    }
    assert_eq!(run(&[]).code, 2);
    let wrong = run(&["sevre"]);
    assert_eq!((wrong.code, wrong.out.as_str()), (2, ""));
    assert!(wrong.err.contains("unrecognized subcommand 'sevre'"), "{}", wrong.err);
    let version = run(&["version"]);
    assert_eq!((version.code, version.out), (0, format!("cookhouse {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn nothing_is_coloured_for_a_pipe() {
    for ended in [run(&["--help"]), run(&["check-config"]), run(&["check-config", "--config", "none.toml"])] {
        assert!(!ended.out.contains('\u{1b}') && !ended.err.contains('\u{1b}'));
    }
}

#[test]
fn check_config_says_every_mistake_and_what_it_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("studio.toml");
    std::fs::write(&file, "lisen = 1\n[executor]\nslots = 0\n").expect("written");
    let wrong = run(&["check-config", "--config", text(&file)]);
    assert_eq!((wrong.code, wrong.out.as_str()), (2, ""));
    assert!(wrong.err.contains("studio.toml:1: unknown key lisen; did you mean listen?"), "{}", wrong.err);
    assert!(wrong.err.contains("studio.toml:3: executor.slots must be a whole number from 1 to 64, not 0"), "{}", wrong.err);

    std::fs::write(&file, "[executor]\nslots = 2\n[[engines]]\nlabel = \"5.4\"\nroot = \"nowhere\"\n").expect("written");
    let fine = run(&["check-config", "--config", text(&file)]);
    assert_eq!(fine.code, 0, "{}", fine.err);
    assert!(fine.out.contains("executor.slots") && fine.out.contains("line 2"), "{}", fine.out);
    assert!(fine.out.contains("is no engine"), "{}", fine.out);

    std::fs::write(&file, "[tls]\ncertificate = \"none.pem\"\nkey = \"none.pem\"\n").expect("written");
    let unusable = run(&["check-config", "--config", text(&file)]);
    assert_eq!(unusable.code, 2);
    assert!(unusable.err.contains("tls.certificate: ") && unusable.err.contains("tls.key: "), "{}", unusable.err);
}

#[test]
fn check_config_reads_the_environment_too() {
    let wrong: Ended = cookhouse(&["check-config"]).env("COOKHOUSE_LOG__LEVEL", "loud").output().expect("it starts").into();
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("environment variable COOKHOUSE_LOG__LEVEL: log.level must be one of"), "{}", wrong.err);
}

#[test]
fn the_example_is_printed_as_it_is_kept() {
    // The same that a test of the configuration holds against the file in packaging.
    assert_eq!(run(&["check-config", "--example"]).out, cookhouse::config::example::text());
}
