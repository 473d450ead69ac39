//! Our own binary as git's askpass: it asks the service that started git, and says what it is told. The password is never in an
//! argument, a file, a URL or an environment.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use super::git::desk::GIVEN;

/// Set to `1` by the host: this process was started to answer git.
pub(crate) const MODE: &str = "COOKHOUSE_ASKPASS";
/// Where the service listens.
pub(crate) const DESK: &str = "COOKHOUSE_ASKPASS_DESK";
/// What it knows this git by.
pub(crate) const KEY: &str = "COOKHOUSE_ASKPASS_KEY";

/// A new token is gotten from the git host in this time, or not at all.
const PATIENCE: Duration = Duration::from_secs(150);
const LONGEST_ANSWER: u64 = 64 * 1024;

/// Answers git when this process was started for that, and gives the exit code to leave with at once. `main` calls
/// this before anything else.
pub fn run_if_asked() -> Option<ExitCode> {
    if std::env::var_os(MODE)? != "1" {
        return None;
    }
    let prompt = std::env::args_os().nth(1).and_then(|word| word.into_string().ok()).unwrap_or_default();
    let text = |name: &str| std::env::var(name).unwrap_or_default();
    let Some(answer) = ask(&text(DESK), &text(KEY), &prompt) else {
        return Some(ExitCode::FAILURE);
    };
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{answer}").and_then(|()| out.flush());
    Some(if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the service says to git's prompt.
pub(super) fn ask(desk: &str, key: &str, prompt: &str) -> Option<String> {
    let address: SocketAddr = desk.parse().ok()?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(format!("{key}\n{prompt}").as_bytes()).ok()?;
    stream.shutdown(Shutdown::Write).ok()?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer).ok()?;
    let answer = answer.strip_prefix(&[GIVEN])?;
    String::from_utf8(answer.to_vec()).ok().filter(|answer| !answer.is_empty())
}
