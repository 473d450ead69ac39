//! What git and git-lfs print, read.

use guest_support::{Code, Problem, text};

use crate::answers::Revision;
use crate::status::DEFAULT_WAIT_MS;

/// The end of a failed command's messages that is shown.
const SHOWN_LINES: usize = 4;
const SHOWN_CHARACTERS: usize = 600;

/// What a line of the standard error says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// How far a step is: `Receiving objects:  45% (123/270), 1.20 MiB | 3.00 MiB/s`.
    Progress {
        /// `Receiving objects`.
        phase: String,
        /// Units done.
        done: u64,
        /// Of so many.
        total: u64,
        /// Bytes that came, where the line says so.
        bytes: Option<u64>,
    },
    /// Something for people.
    Message,
}

/// Reads one line. Progress of the other side begins with `remote: `.
pub fn line(line: &str) -> Line {
    progress(line.trim()).unwrap_or(Line::Message)
}

fn progress(line: &str) -> Option<Line> {
    let (phase, rest) = line.strip_prefix("remote: ").unwrap_or(line).split_once(':')?;
    let (percent, rest) = rest.trim_start().split_once('%')?;
    percent.parse::<u32>().ok()?;
    let (counts, rest) = rest.trim_start().strip_prefix('(')?.split_once(')')?;
    let (done, total) = counts.split_once('/')?;
    let bytes = rest.trim_start_matches([',', ' ']).split('|').next().and_then(size);
    Some(Line::Progress { phase: phase.to_owned(), done: done.parse().ok()?, total: total.parse().ok()?, bytes })
}

/// `1.20 MiB` or `12 MB`.
fn size(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    let unit = match words.next()?.trim_end_matches(',') {
        "B" | "bytes" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "KB" | "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return None,
    };
    Some((number * unit) as u64)
}

/// The revision that `git log` described.
pub fn revision(output: &[u8]) -> Result<Revision, Problem> {
    let text = String::from_utf8_lossy(output);
    let mut fields = text.splitn(4, '\0');
    match (fields.next(), fields.next(), fields.next(), fields.next()) {
        (Some(id), Some(author), Some(seconds), Some(message)) if !id.is_empty() => Ok(Revision {
            id: id.trim().to_owned(),
            message: message.trim_end().to_owned(),
            author: author.to_owned(),
            time_ms: seconds.parse::<u64>().ok().and_then(|seconds| seconds.checked_mul(1000)),
        }),
        _ => Err(Problem::new(Code::Internal, "git did not describe the commit it checked out")),
    }
}

/// One file of `git ls-files --stage`: its mode, object and path.
pub fn staged(line: &str) -> Option<(&str, &str, &str)> {
    let (facts, path) = line.split_once('\t')?;
    let mut facts = facts.split(' ');
    Some((facts.next()?, facts.next()?, path))
}

/// The targets that `git cat-file --batch` printed for links, in the order they were asked for.
pub fn link_targets(mut output: &[u8]) -> Vec<String> {
    let mut targets = Vec::new();
    while let Some(end) = output.iter().position(|byte| *byte == b'\n') {
        let header = String::from_utf8_lossy(&output[..end]).into_owned();
        output = &output[end + 1..];
        let Some(size) = header.rsplit(' ').next().and_then(|size| size.parse::<usize>().ok()) else {
            targets.push(String::new());
            continue;
        };
        let Some(target) = output.get(..size) else { break };
        targets.push(String::from_utf8_lossy(target).into_owned());
        output = output.get(size + 1..).unwrap_or_default();
    }
    targets
}

/// Whether a link at `path` with this target leads out of the repository.
pub fn leads_outside(path: &str, target: &str) -> bool {
    if target.starts_with(['/', '\\']) || target.as_bytes().get(1) == Some(&b':') {
        return true;
    }
    let mut depth = path.matches('/').count() as i64;
    for part in target.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => depth -= 1,
            _ => depth += 1,
        }
        if depth < 0 {
            return true;
        }
    }
    false
}

/// Why a command failed, as far as its messages tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The other side, the network, the disk or a missing tool: a fresh repository would not help.
    Outside(Problem),
    /// The server does not give out commits by their hash, or does not have this one.
    NotByHash(Problem),
    /// Anything else: the local repository may be broken.
    Unknown(Problem),
}

impl Failure {
    /// What it came to.
    pub fn into_problem(self) -> Problem {
        match self {
            Failure::Outside(problem) | Failure::NotByHash(problem) | Failure::Unknown(problem) => problem,
        }
    }
}

/// Words in git's messages (locale C), the kind, the reason, and the sentence for people.
const FAULTS: [(&[&str], Code, &str, &str); 17] = [
    (&["no space left on device", "disk quota exceeded"], Code::Io, "storage-full", "the disk is full"),
    (
        &[
            "authentication failed",
            "could not read username",
            "could not read password",
            "invalid username or",
            "returned error: 401",
            "authorization error",
            "git credentials for",
            "askpass",
        ],
        Code::Unauthenticated,
        "http-status-401",
        "the git host refused the token",
    ),
    (
        &["returned error: 403", "forbidden", "write access to repository not granted"],
        Code::Forbidden,
        "http-status-403",
        "the token may not read this repository",
    ),
    (&["couldn't find remote ref", "no matching remote head"], Code::NotFound, "branch", "the branch does not exist on the git host"),
    (
        &["repository not found", "returned error: 404", "' not found", "does not appear to be a git repository"],
        Code::NotFound,
        "repository",
        "the git host has no such repository, or the token cannot see it",
    ),
    (
        &["object does not exist on the server", "missing on the server"],
        Code::NotFound,
        "file",
        "a Git LFS object is missing on the server",
    ),
    (&["returned error: 429", "rate limit"], Code::RateLimited, "http-status-429", "the git host allows no more requests for now"),
    (
        &["returned error: 5", "fatal error: server error", "server error:"],
        Code::Unavailable,
        "http-status-500",
        "the git host had an internal error",
    ),
    (
        &["returned error: 3", "unable to update url base from redirection"],
        Code::Protocol,
        "http-status-301",
        "the git host redirects, which is not followed: the repository may have been renamed",
    ),
    (&["could not resolve host", "no such host"], Code::Unavailable, "dns", "the name of the git host cannot be resolved"),
    (
        &["ssl certificate problem", "certificate verify failed", "certificate verification failed", "x509:"],
        Code::Unavailable,
        "tls",
        "the git host's certificate is not trusted; if it is of your own authority, add that authority's certificate to `outbound.ca_certificates`",
    ),
    (
        &["gnutls_handshake", "ssl routines", "tls handshake", "wrong version number"],
        Code::Unavailable,
        "tls",
        "no TLS connection to the git host",
    ),
    (&["timed out", "timeout", "too slow"], Code::TimedOut, "timeout", "the git host did not answer in time"),
    (
        &["failed to connect", "could not connect", "couldn't connect", "connection refused", "no route to host", "network is unreachable"],
        Code::Unavailable,
        "connect",
        "the git host cannot be reached",
    ),
    (
        &[
            "connection reset",
            "unexpected disconnect",
            "the remote end hung up",
            "early eof",
            "curl 18",
            "curl 56",
            "recv failure",
            "rpc failed",
            "empty reply",
            "transfer closed",
        ],
        Code::Unavailable,
        "connect",
        "the connection to the git host broke off",
    ),
    (
        &["'lfs' is not a git command", "git-lfs: not found", "git-lfs: command not found", "git-lfs filter-process", "cannot run git-lfs"],
        Code::InvalidConfig,
        "tool",
        "this repository keeps files in Git LFS; install git-lfs on the server",
    ),
    (&["transport '", "protocol '"], Code::Denied, "address-denied", "git was about to use a protocol that is not allowed"),
];

const NOT_BY_HASH: [&str; 4] = ["not our ref", "unadvertised object", "does not allow request for", "no such remote ref"];

/// Reads the messages of a command that failed. `step` begins the sentence ("git fetch").
pub fn failure(step: &str, messages: &[String]) -> Failure {
    let all = messages.join("\n").to_lowercase();
    let shown = shown(messages);
    let problem = |code: Code, sentence: &str| {
        let message = if shown.is_empty() { format!("{step}: {sentence}") } else { format!("{step}: {sentence} ({shown})") };
        Problem::new(code, message)
    };
    if NOT_BY_HASH.iter().any(|words| all.contains(words)) {
        return Failure::NotByHash(problem(Code::NotFound, "the git host does not have this commit").because("revision"));
    }
    for (words, code, reason, sentence) in FAULTS {
        if words.iter().any(|words| all.contains(words)) {
            let mut problem = problem(code, sentence).because(reason);
            problem.retryable = matches!(code, Code::Unavailable | Code::TimedOut | Code::RateLimited);
            // git does not say what the server said about it.
            problem.retry_after_ms = (code == Code::RateLimited).then_some(DEFAULT_WAIT_MS);
            return Failure::Outside(problem);
        }
    }
    Failure::Unknown(problem(Code::Io, "it failed"))
}

fn shown(messages: &[String]) -> String {
    let mut lines: Vec<&str> =
        messages.iter().map(|line| line.trim()).filter(|line| !line.is_empty() && self::line(line) == Line::Message).collect();
    lines.drain(..lines.len().saturating_sub(SHOWN_LINES));
    text::excerpt(lines.join("; ").as_bytes(), SHOWN_CHARACTERS)
}

#[cfg(test)]
mod tests {
    use guest_support::Code;

    use super::{Failure, Line, failure, leads_outside, line, link_targets, revision, staged};

    #[test]
    fn progress_lines() {
        let progress = |phase: &str, done, total, bytes| Line::Progress { phase: phase.into(), done, total, bytes };
        assert_eq!(
            line("Receiving objects:  45% (123/270), 1.50 MiB | 3.00 MiB/s"),
            progress("Receiving objects", 123, 270, Some(1_572_864))
        );
        assert_eq!(line("Receiving objects: 100% (3/3), 220 bytes | 1.00 KiB/s, done."), progress("Receiving objects", 3, 3, Some(220)));
        assert_eq!(line("remote: Counting objects: 100% (3/3), done."), progress("Counting objects", 3, 3, None));
        assert_eq!(
            line("Downloading LFS objects:  50% (1/2), 12 MB | 3 MB/s"),
            progress("Downloading LFS objects", 1, 2, Some(12_000_000))
        );
        for message in ["", "fatal: something: 5% (x/2)", "Resolving deltas", "note: 100%", "a: 1% (1)"] {
            assert_eq!(line(message), Line::Message, "{message}");
        }
    }

    #[test]
    fn a_description_keeps_its_message() {
        let found = revision(b"abc\x00Ada L\x001700000000\x00Title\n\nBody: x\n").unwrap();
        assert_eq!((found.id.as_str(), found.author.as_str(), found.message.as_str()), ("abc", "Ada L", "Title\n\nBody: x"));
        assert_eq!(found.time_ms, Some(1_700_000_000_000));
        assert!(revision(b"").is_err());
        assert!(revision(b"abc\x00x").is_err());
    }

    #[test]
    fn links() {
        assert_eq!(staged("120000 0a1b 0\tdir/li nk"), Some(("120000", "0a1b", "dir/li nk")));
        assert_eq!(staged("nonsense"), None);
        assert_eq!(link_targets(b"0a blob 5\na/b\nc\n0b missing\n0c blob 1\nx\n"), ["a/b\nc", "", "x"]);
        assert_eq!(link_targets(b"0a blob 500\nshort"), Vec::<String>::new());
        for (path, target, outside) in [
            ("a", "b", false),
            ("a/b", "../c", false),
            ("a", "../c", true),
            ("a/b", "x/../../..", true),
            ("a", "/etc/passwd", true),
            ("a", "C:\\x", true),
            ("a/b", "..\\..\\x", true),
        ] {
            assert_eq!(leads_outside(path, target), outside, "{path} -> {target}");
        }
    }

    #[test]
    fn failures_are_told_apart() {
        for (message, code, reason) in [
            ("fatal: Authentication failed for 'https://host/a/b.git/'", Code::Unauthenticated, "http-status-401"),
            ("fatal: could not read Username for 'https://host': terminal prompts disabled", Code::Unauthenticated, "http-status-401"),
            ("fatal: unable to access 'https://h/a/b.git/': The requested URL returned error: 403", Code::Forbidden, "http-status-403"),
            ("fatal: unable to access 'https://h/a/b.git/': The requested URL returned error: 503", Code::Unavailable, "http-status-500"),
            ("fatal: repository 'https://h/a/b.git/' not found", Code::NotFound, "repository"),
            ("fatal: couldn't find remote ref refs/heads/x", Code::NotFound, "branch"),
            ("fatal: no matching remote head", Code::NotFound, "branch"),
            ("fatal: unable to access 'https://h/': Could not resolve host: h", Code::Unavailable, "dns"),
            ("fatal: unable to access 'https://h/': Failed to connect to h port 443: Connection refused", Code::Unavailable, "connect"),
            ("fatal: unable to access 'https://h/': SSL certificate problem: self-signed certificate", Code::Unavailable, "tls"),
            (
                "fatal: unable to access 'https://h/': server certificate verification failed. CAfile: none CRLfile: none",
                Code::Unavailable,
                "tls",
            ),
            ("error: unable to write file Content/a.uasset: No space left on device", Code::Io, "storage-full"),
            ("git: 'lfs' is not a git command. See 'git --help'.", Code::InvalidConfig, "tool"),
            ("fatal: transport 'file' not allowed", Code::Denied, "address-denied"),
        ] {
            let Failure::Outside(problem) = failure("git fetch", &[message.to_owned()]) else { panic!("{message}") };
            assert_eq!((problem.code, problem.reason.as_deref()), (code, Some(reason)), "{message}");
        }
        assert!(matches!(
            failure("git fetch", &["error: Server does not allow request for unadvertised object 0a".into()]),
            Failure::NotByHash(_)
        ));
        assert!(matches!(failure("git fetch", &["fatal: remote error: upload-pack: not our ref 0a".into()]), Failure::NotByHash(_)));
        assert!(matches!(
            failure("git checkout", &["fatal: loose object 0a (stored in .git/objects/0a) is corrupt".into()]),
            Failure::Unknown(_)
        ));
    }

    #[test]
    fn the_last_messages_are_shown_without_progress() {
        let lines: Vec<String> =
            ["one", "two", "three", "Receiving objects:  45% (123/270)", "four", "five \x1b[1m"].map(str::to_owned).to_vec();
        let problem = failure("git fetch", &lines).into_problem();
        assert_eq!(problem.message, "git fetch: it failed (two; three; four; five [1m)");
    }
}
