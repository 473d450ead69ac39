//! What p4's messages mean to whoever asked.

use guest_support::text::excerpt;
use guest_support::{Code, Problem};

use crate::record::Message;

/// Characters of a message that are shown.
const SHOWN: usize = 500;

const EMPTY: u64 = 17;
const PROTECT: u64 = 6;
const COMMUNICATION: u64 = 38;

/// A message that only says that there is nothing: no such files, nothing to do.
pub fn is_nothing(message: &Message) -> bool {
    message.severity == 2 && message.generic == EMPTY && !is_about_permission(&message.text)
}

fn is_about_permission(text: &str) -> bool {
    text.contains("no permission for operation") || text.contains("No permission for operation") || text.contains("rotected namespace")
}

/// The kinds of a message, by the beginning or a part of its text.
const TABLE: &[(&str, Code, &str, &str)] = &[
    ("Perforce password (P4PASSWD) invalid or unset", Code::Unauthenticated, "ticket", "the server does not take this ticket"),
    ("Your session has expired", Code::Unauthenticated, "ticket-expired", "the ticket has expired: log in again and store the new one"),
    (
        "Your session was logged out",
        Code::Unauthenticated,
        "ticket-expired",
        "the ticket was logged out: log in again and store the new one",
    ),
    ("Your password has expired", Code::Unauthenticated, "ticket", "the user's password has expired"),
    ("Password must be set", Code::Unauthenticated, "ticket", "the user has to set a password first"),
    ("Multi factor authentication", Code::Unauthenticated, "ticket", "the user has to sign in with a second factor (p4 login2)"),
    ("Second factor authentication", Code::Unauthenticated, "ticket", "the user has to sign in with a second factor (p4 login2)"),
    ("has not been enabled by", Code::Forbidden, "permission", "the server's protections table does not let this user in"),
    ("You don't have permission", Code::Forbidden, "permission", "the server does not allow this to the user"),
    ("no permission for operation", Code::Forbidden, "permission", "the server does not allow this to the user"),
    ("No permission for operation", Code::Forbidden, "permission", "the server does not allow this to the user"),
    ("rotected namespace", Code::Forbidden, "permission", "the server does not allow this to the user"),
    ("Unicode server permits only", Code::Unsupported, "charset", "the server wants clients that speak unicode"),
    ("Unicode clients require", Code::Unsupported, "charset", "the server wants clients that do not speak unicode"),
    ("authenticity of", Code::InvalidConfig, "untrusted-certificate", "the key of the server is not known"),
    ("IDENTIFICATION HAS CHANGED", Code::InvalidConfig, "untrusted-certificate", "the key of the server is not the one that is trusted"),
    ("ertificate", Code::InvalidConfig, "untrusted-certificate", "the server's certificate is not trusted"),
    ("Request too large", Code::TooLarge, "server-limit", "the server's limits for this user are too low"),
    ("Too many rows scanned", Code::TooLarge, "server-limit", "the server's limits for this user are too low"),
    ("Operation took too long", Code::TooLarge, "server-limit", "the server's limits for this user are too low"),
    ("Operation exceeded", Code::TooLarge, "server-limit", "the server's limits for this user are too low"),
    ("can only be used from host", Code::Conflict, "client", "the client workspace belongs to another machine"),
    ("can only be used by owner", Code::Conflict, "client", "the client workspace belongs to another user"),
    ("Unknown command", Code::Unsupported, "unknown-command", "the server does not know the command"),
    ("Depot type for", Code::NotFound, "repository", "the depot is no stream depot"),
    ("must refer to", Code::NotFound, "repository", "the server has no such depot"),
    ("No space left on device", Code::Io, "storage-full", "the disk is full"),
    ("not enough space on the disk", Code::Io, "storage-full", "the disk is full"),
    ("Disk quota exceeded", Code::Io, "storage-full", "the disk is full"),
    ("no such stream", Code::NotFound, "branch", "the server has no such stream"),
    ("no such changelist", Code::NotFound, "revision", "the server has no such changelist"),
    ("Invalid changelist/client/label/date", Code::NotFound, "revision", "the server has no such changelist"),
    ("no file(s) at that changelist number", Code::NotFound, "revision", "nothing is there at that changelist"),
    ("no such file(s)", Code::NotFound, "file", "the server has no such file"),
    ("is not under client's root", Code::Denied, "path", "the server named a place outside of the workspace"),
    ("Connect to server failed", Code::Unavailable, "unreachable", "the server cannot be reached"),
    ("server using SSL", Code::Unavailable, "unreachable", "the server speaks TLS: its address begins with ssl:"),
    ("server not using SSL", Code::Unavailable, "unreachable", "the server does not speak TLS: its address begins with tcp:"),
    ("exceeded maximum configured duration", Code::Unavailable, "unreachable", "the server did not answer in time"),
    ("Proxy unable to communicate", Code::Unavailable, "unreachable", "the proxy does not reach the server"),
    (": host unknown", Code::Unavailable, "unreachable", "the server's name has no address"),
    ("TCP connect to", Code::Unavailable, "unreachable", "the server cannot be reached"),
    (
        "SSL connect to",
        Code::Unavailable,
        "unreachable",
        "no encrypted connection to the server; if it does not speak TLS, its address begins with tcp:",
    ),
    ("receive failed", Code::Unavailable, "unreachable", "the server hung up"),
    ("send failed", Code::Unavailable, "unreachable", "the server hung up"),
    ("Partner exited unexpectedly", Code::Unavailable, "unreachable", "the server hung up"),
    ("RpcTransport", Code::Unavailable, "unreachable", "the connection to the server broke"),
    ("Connection reset", Code::Unavailable, "unreachable", "the server hung up"),
    ("Connection refused", Code::Unavailable, "unreachable", "the server cannot be reached"),
    ("SSL library", Code::Unavailable, "unreachable", "no encrypted connection to the server"),
    ("Invalid option", Code::Unsupported, "tool-version", "this machine's p4 program is too old"),
];

/// What an error means.
pub fn of_message(message: &Message) -> Problem {
    let text = &message.text;
    of_text(text).unwrap_or_else(|| match message.generic {
        PROTECT => known(Code::Forbidden, "permission", "the server does not allow this to the user", text),
        COMMUNICATION => known(Code::Unavailable, "unreachable", "the connection to the server broke", text),
        _ => Problem::new(Code::Other, format!("the server refused: {}", shown(text))).because("refused"),
    })
}

/// What the plain text of a failed command means, where it is known.
pub fn of_text(text: &str) -> Option<Problem> {
    if text.starts_with("User ") && text.contains("doesn't exist") {
        return Some(known(Code::Unauthenticated, "user", "the server has no such user", text));
    }
    let is_missing = ["doesn't exist", " unknown"].iter().any(|words| text.contains(words));
    for (kind, reason, sentence) in [
        ("Depot ", "repository", "the server has no such depot"),
        ("Stream ", "branch", "the server has no such stream"),
        ("Client ", "client", "the server does not have the client workspace"),
        ("Change ", "revision", "the server has no such changelist"),
    ] {
        if text.starts_with(kind) && is_missing {
            return Some(known(Code::NotFound, reason, sentence, text));
        }
    }
    let row = TABLE.iter().find(|(words, ..)| text.contains(words));
    row.map(|(_, code, reason, sentence)| known(*code, reason, sentence, text))
}

fn known(code: Code, reason: &str, sentence: &str, text: &str) -> Problem {
    let problem = Problem::new(code, format!("{sentence} ({})", shown(text))).because(reason);
    if code == Code::Unavailable { problem.transient() } else { problem }
}

/// What p4 printed on its standard error when it printed nothing else.
pub fn of_words(text: &str) -> Problem {
    // Several lines are several messages, the outermost first.
    let known = text.lines().find_map(|line| of_text(line.trim())).or_else(|| of_text(text));
    let mut problem = known.unwrap_or_else(|| {
        let said = shown(text);
        let said = if said.is_empty() { "nothing".to_owned() } else { said };
        Problem::new(Code::Other, format!("p4 failed and said: {said}")).because("refused")
    });
    // Said by a server that speaks TLS to a client that does not.
    if text.contains("TCP receive failed") {
        problem.message.push_str("; if it speaks TLS, its address begins with ssl:");
    }
    problem
}

fn shown(text: &str) -> String {
    excerpt(text.replace("Perforce client error:", "").trim().trim_end_matches('.').as_bytes(), SHOWN)
}

/// The fingerprint in the message about a key that is not trusted.
pub fn fingerprint(text: &str) -> Option<&str> {
    let is_byte = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split_whitespace().find(|word| word.len() == 59 && word.split(':').count() == 20 && word.split(':').all(is_byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(severity: u64, generic: u64, text: &str) -> (Code, String) {
        let problem = of_message(&Message { severity, generic, text: text.to_owned() });
        (problem.code, problem.reason.unwrap_or_default())
    }

    #[test]
    fn the_servers_own_words_are_understood() {
        for (generic, text, code, reason) in [
            (36, "Perforce password (P4PASSWD) invalid or unset.", Code::Unauthenticated, "ticket"),
            (4, "Your session has expired, please login again.", Code::Unauthenticated, "ticket-expired"),
            (4, "Your password has expired, please change your password.", Code::Unauthenticated, "ticket"),
            (36, "Multi factor authentication required! Run 'p4 login2'.", Code::Unauthenticated, "ticket"),
            (2, "User bob doesn't exist.", Code::Unauthenticated, "user"),
            (6, "Access for user 'bob' has not been enabled by 'p4 protect'.", Code::Forbidden, "permission"),
            (6, "You don't have permission for this operation.", Code::Forbidden, "permission"),
            (6, "Something new.", Code::Forbidden, "permission"),
            (36, "Unicode server permits only unicode enabled clients.", Code::Unsupported, "charset"),
            (2, "Stream '//Games/none' doesn't exist.", Code::NotFound, "branch"),
            (2, "Depot 'Nope' unknown - use 'depot' to create it.", Code::NotFound, "repository"),
            (2, "Depot 'Nope' doesn't exist.", Code::NotFound, "repository"),
            (0, "Depot type for 'depot' must be 'stream'.", Code::NotFound, "repository"),
            (2, "//Nope/... - must refer to client 'ws'.", Code::NotFound, "repository"),
            (2, "Client 'ws' unknown - use 'client' command to create it.", Code::NotFound, "client"),
            (2, "Change 12 unknown.", Code::NotFound, "revision"),
            (6, "Client 'ws' can only be used from host 'x'.", Code::Conflict, "client"),
            (35, "Too many rows scanned (over 50000); see 'p4 help maxscanrows'.", Code::TooLarge, "server-limit"),
            (35, "Request too large (over 50000); see 'p4 help maxresults'.", Code::TooLarge, "server-limit"),
            (1, "Unknown command.  Try 'p4 help' for info.", Code::Unsupported, "unknown-command"),
            (38, "TCP receive failed.", Code::Unavailable, "unreachable"),
            (38, "Something about the line.", Code::Unavailable, "unreachable"),
            (0, "The moon is full.", Code::Other, "refused"),
        ] {
            assert_eq!(judged(3, generic, text), (code, reason.to_owned()), "{text}");
        }
        assert_eq!(judged(2, 17, "//a/... - no permission for operation on file(s).").0, Code::Forbidden);
    }

    #[test]
    fn nothing_is_not_an_error_but_no_permission_is() {
        let message = |text: &str| Message { severity: 2, generic: 17, text: text.to_owned() };
        assert!(is_nothing(&message("//a/...@5 - file(s) up-to-date.")) && is_nothing(&message("//a/... - no such file(s).")));
        assert!(!is_nothing(&message("//a/... - no permission for operation on file(s).")));
        assert!(!is_nothing(&Message { severity: 3, ..message("x") }));
    }

    #[test]
    fn a_connection_that_fails_says_so_on_the_standard_error() {
        let refused = "Perforce client error:\n\tConnect to server failed; check $P4PORT.\n\tTCP connect to 127.0.0.1:1 failed.\n\tconnect: 127.0.0.1:1: Connection refused\n";
        let problem = of_words(refused);
        assert_eq!((problem.code, problem.reason.as_deref(), problem.retryable), (Code::Unavailable, Some("unreachable"), true));
        for (text, words) in [
            ("Failed client connect, server using SSL.\nClient must add SSL protocol prefix to P4PORT.", "begins with ssl:"),
            ("Failed client SSL connection setup, server not using SSL.", "begins with tcp:"),
            (
                "SSL connect to ssl:10.0.0.7:1666 failed (Connection reset by peer).\n\tRemove SSL protocol prefix from P4PORT.",
                "begins with tcp:",
            ),
            ("TCP receive exceeded maximum configured duration of 300 seconds.", "in time"),
        ] {
            // On the standard error, and as a message.
            let told = of_words(&format!("Perforce client error:\n\t{text}\n"));
            assert_eq!((told.code, told.reason.as_deref()), (Code::Unavailable, Some("unreachable")), "{text}");
            assert!(told.message.contains(words), "{}", told.message);
            assert_eq!(judged(3, COMMUNICATION, text), (Code::Unavailable, "unreachable".to_owned()), "{text}");
        }
        let plain = of_words("Perforce client error:\n\tTCP receive failed.\n\tread: socket: Connection reset by peer\n");
        assert!(plain.message.contains("begins with ssl:"), "{}", plain.message);
        assert_eq!(of_words("Invalid option: -Mj.").reason.as_deref(), Some("tool-version"));
        let form = of_words("Error in client specification.\nStream '//Games/none' doesn't exist.\n");
        assert_eq!((form.code, form.reason.as_deref()), (Code::NotFound, Some("branch")));
        assert_eq!(of_words("").message, "p4 failed and said: nothing");
    }

    #[test]
    fn a_fingerprint_is_found_in_the_message_about_it() {
        let key = "50:A3:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22";
        let text = format!(
            "The authenticity of '10.0.0.7:1666' can't be established,\nthis may be your first attempt to connect to this P4PORT.\nThe fingerprint for the key sent to your client is\n{key}\nTo allow connection use the 'p4 trust' command."
        );
        assert_eq!(fingerprint(&text), Some(key));
        assert_eq!(judged(3, 38, &text), (Code::InvalidConfig, "untrusted-certificate".to_owned()));
        assert_eq!(fingerprint("nothing here 00:11"), None);
    }
}
