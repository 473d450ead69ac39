//! Tasks of the repository, for a machine that has the Rust toolchain and nothing else.
//!
//! `cargo xtask demo` and `cargo xtask test` say what is missing, install what they can, and go on.

mod machine;
mod tasks;

use std::process::ExitCode;

const HELP: &str = "\
Tasks of the Cookhouse repository

Usage: cargo xtask <TASK> [ARGUMENTS]...

Tasks:
  demo   Prepare this machine, then show a whole build: cargo run -- demo [ARGUMENTS]
  test   Prepare this machine, then run every test; ARGUMENTS go to the test runner
  setup  Only prepare this machine
  windows
         Prepare this machine, then compile everything for Windows, tests too, without running it: cargo check
         --target x86_64-pc-windows-gnu [ARGUMENTS]
  help   Show this text

Preparing means: the Rust target wasm32-unknown-unknown for the bundled plugins, and git, git-lfs,
a C++ compiler, curl and certificates. What is missing is installed with rustup and apt-get where
that is possible (as root or with sudo), and named in one sentence where it is not.
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let outcome = match task.as_str() {
        "demo" => machine::prepare().and_then(|()| tasks::demo(&rest)),
        "test" => machine::prepare().and_then(|()| tasks::test(&rest)),
        "windows" => machine::prepare_windows().and_then(|()| tasks::windows(&rest)),
        "setup" => machine::prepare().map(|()| 0),
        "" | "help" | "-h" | "--help" => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        other => Err(format!("there is no task \"{other}\"; `cargo xtask help` lists them")),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(sentence) => {
            eprintln!("\nxtask: {sentence}");
            ExitCode::from(2)
        }
    }
}

/// Says what is about to happen, in the words one would type.
fn say(line: &str) {
    eprintln!("xtask: {line}");
}
