//! Our own binary as git's askpass: the password travels in the environment of git's process, and is told only to
//! the origins that the call was granted. Never in an argument, a file or a URL.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

/// Set to `1` by the host: this process was started to answer git.
pub(crate) const MODE: &str = "COOKHOUSE_ASKPASS";
/// Origins that may be answered, separated by spaces.
pub(crate) const ORIGINS: &str = "COOKHOUSE_ASKPASS_ORIGINS";
/// The user's name.
pub(crate) const USERNAME: &str = "COOKHOUSE_ASKPASS_USERNAME";
/// The password or token.
pub(crate) const PASSWORD: &str = "COOKHOUSE_ASKPASS_PASSWORD";

/// Answers git when this process was started for that, and gives the exit code to leave with at once. `main` calls
/// this before anything else.
pub fn run_if_asked() -> Option<ExitCode> {
    if std::env::var_os(MODE)? != "1" {
        return None;
    }
    let prompt = std::env::args_os().nth(1).and_then(|word| word.into_string().ok()).unwrap_or_default();
    let text = |name: &str| std::env::var_os(name).map(OsString::into_string).and_then(Result::ok).unwrap_or_default();
    let (username, password) = (text(USERNAME), text(PASSWORD));
    let Some(answer) = answer(&prompt, &text(ORIGINS), &username, &password) else {
        return Some(ExitCode::FAILURE);
    };
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{answer}").and_then(|()| out.flush());
    Some(if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prompts look like `Username for 'https://host': ` and `Password for 'https://user@host': ` (git-lfs: with `"`).
fn answer<'a>(prompt: &str, origins: &str, username: &'a str, password: &'a str) -> Option<&'a str> {
    let quote = prompt.find(['\'', '"'])?;
    let mark = prompt.as_bytes()[quote] as char;
    let url = prompt[quote + 1..].split(mark).next()?;
    let asked = super::capability::Origin::parse(url)?;
    if !origins.split(' ').any(|origin| super::capability::Origin::parse(origin).as_ref() == Some(&asked)) {
        return None;
    }
    let said = match prompt[..quote].trim_end() {
        words if words.eq_ignore_ascii_case("username for") => username,
        words if words.eq_ignore_ascii_case("password for") => password,
        _ => return None,
    };
    (!said.is_empty()).then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_granted_origins_are_answered() {
        let ask = |prompt: &'static str| answer(prompt, "https://git.example https://other:8443", "me", "pw");
        assert_eq!(ask("Username for 'https://git.example': "), Some("me"));
        assert_eq!(ask("Password for 'https://me@git.example': "), Some("pw"));
        assert_eq!(ask("Password for \"https://me@other:8443/a/b.git/info/lfs\""), Some("pw"));
        for prompt in [
            "Password for 'https://evil.example': ",
            "Password for 'http://git.example': ",
            "Password for 'https://git.example:444': ",
            "Password for 'https://git.example@evil.example': ",
            "Enter passphrase for key '/x': ",
            "Password",
            "",
            "Enter passphrase for key 'https://git.example': ",
        ] {
            assert_eq!(ask(prompt), None, "{prompt}");
        }
    }
}
