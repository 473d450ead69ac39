//! The tasks themselves: cargo, as one would call it by hand.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::machine::WINDOWS;
use crate::say;

/// One whole build, shown. The exit code is the demo's.
pub(crate) fn demo(arguments: &[String]) -> Result<u8, String> {
    let mut words = vec!["run", "--quiet", "--locked", "--package", "cookhouse", "--bin", "cookhouse", "--", "demo"];
    words.extend(arguments.iter().map(String::as_str));
    say("building the service; the first time takes some minutes");
    // Built by itself first, so that what cargo says while it compiles is seen.
    match cargo(&["build", "--locked", "--package", "cookhouse", "--bin", "cookhouse", "--bin", "p4-standin"])? {
        0 => cargo(&words),
        code => Ok(code),
    }
}

/// Every test: the plugins' own ones, then the service's.
pub(crate) fn test(arguments: &[String]) -> Result<u8, String> {
    let begin = Instant::now();
    let has_nextest = Command::new(program())
        .args(["nextest", "--version"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let plugins = ["test", "--locked", "--manifest-path", "plugins/Cargo.toml", "--target-dir", "target/plugins"];
    let mut service =
        if has_nextest { vec!["nextest", "run", "--locked", "--no-fail-fast"] } else { vec!["test", "--locked", "--no-fail-fast"] };
    service.extend(arguments.iter().map(String::as_str));
    for words in [&plugins[..], &service[..]] {
        let code = cargo(words)?;
        if code != 0 {
            return Ok(code);
        }
    }
    let seconds = begin.elapsed().as_secs();
    say(&format!("all tests passed in {} min {:02} s", seconds / 60, seconds % 60));
    Ok(0)
}

/// Everything, tests and benchmarks too, compiled for Windows. Nothing is linked but the plugins.
pub(crate) fn windows(arguments: &[String]) -> Result<u8, String> {
    let mut words = vec!["check", "--locked", "--package", "cookhouse", "--all-targets", "--target", WINDOWS];
    words.extend(arguments.iter().map(String::as_str));
    cargo(&words)
}

fn cargo(words: &[&str]) -> Result<u8, String> {
    say(&format!("$ cargo {}", words.join(" ")));
    let mut command = Command::new(program());
    command.args(words).current_dir(root());
    // What cargo told this program about its own package would only confuse the next one.
    for (name, _) in env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_BIN_"))
        {
            command.env_remove(name);
        }
    }
    let status = command.status().map_err(|error| format!("cargo could not be started: {error}"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

fn program() -> std::ffi::OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default()
}
