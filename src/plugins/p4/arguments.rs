//! Which words may stand on p4's command line.

use super::super::text::prefix;

/// Stands for the client workspace of the call.
pub(crate) const CLIENT: &str = "{client}";

/// One sub-command and its options.
struct Rule {
    name: &'static str,
    /// Options without a value.
    letters: &'static str,
    /// Options whose value is a number in the same word (`-m1`).
    numbers: &'static str,
    /// Options with these values, each two words.
    pairs: &'static [(&'static str, &'static str)],
    /// At least one option of these has to be there; empty: none has to.
    requires: &'static str,
    is_parallel: bool,
    values: Values,
    /// Works in the client workspace.
    writes: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Values {
    None,
    Changelists,
    Streams,
    /// Files with revisions.
    Files,
    /// Files of the client workspace, with revisions.
    Own,
    /// The client workspace itself, where it is removed.
    Client,
}

const NOTHING: Rule =
    Rule { name: "", letters: "", numbers: "", pairs: &[], requires: "", is_parallel: false, values: Values::None, writes: false };

/// EVERY sub-command. None of the options changes the server but for the client workspace's own form and have list,
/// runs a program, or names a file outside of the workspace.
const RULES: &[Rule] = &[
    Rule { name: "info", letters: "s", ..NOTHING },
    // Without `-s` it would ask for a password, and keep a ticket.
    Rule { name: "login", letters: "s", requires: "s", ..NOTHING },
    Rule { name: "depots", ..NOTHING },
    Rule { name: "streams", numbers: "m", values: Values::Streams, ..NOTHING },
    Rule { name: "stream", letters: "ov", requires: "o", values: Values::Streams, ..NOTHING },
    Rule { name: "changes", letters: "l", numbers: "m", pairs: &[("-s", "submitted")], values: Values::Files, ..NOTHING },
    Rule { name: "describe", letters: "s", numbers: "m", requires: "s", values: Values::Changelists, ..NOTHING },
    Rule { name: "files", letters: "e", numbers: "m", values: Values::Files, ..NOTHING },
    Rule { name: "print", letters: "q", requires: "q", values: Values::Files, ..NOTHING },
    Rule { name: "client", letters: "oid", requires: "oid", values: Values::Client, writes: true, ..NOTHING },
    Rule { name: "sync", letters: "fq", is_parallel: true, values: Values::Own, writes: true, ..NOTHING },
    // Without `-a`: what is not in the depot stays, the folders that Unreal builds upon among it.
    Rule { name: "clean", letters: "edm", requires: "ed", values: Values::Own, writes: true, ..NOTHING },
];

const MOST_WORDS: usize = 512;
const LONGEST_WORD: usize = 4096;
const MOST_BYTES: usize = 96 * 1024;

/// Why a command line is refused; for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("p4 may not be called like this: {0}")]
pub(crate) struct Refused(String);

/// What a command line needs of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    /// It speaks to the server.
    pub(crate) server: bool,
    /// It belongs to a client workspace.
    pub(crate) workspace: bool,
    /// It reads the form of that workspace.
    pub(crate) form: bool,
}

/// Checks a whole command line without the program's own name.
pub(crate) fn check(words: &[String]) -> Result<Needs, Refused> {
    let refuse = |reason: String| Err(Refused(reason));
    if words.len() > MOST_WORDS || words.iter().map(String::len).sum::<usize>() > MOST_BYTES {
        return refuse("too many arguments".to_owned());
    }
    if words.iter().any(|word| word.len() > LONGEST_WORD || word.chars().any(char::is_control)) {
        return refuse("an argument is too long or contains control characters".to_owned());
    }
    if let [only] = words
        && only == "-V"
    {
        return Ok(Needs { server: false, workspace: false, form: false });
    }
    let globals = words.iter().take_while(|word| word.starts_with('-')).count();
    for word in &words[..globals] {
        let is_patience = |start: &str| word.strip_prefix(start).is_some_and(is_number);
        if !(word == "-ztag" || word == "-Mj" || is_patience("-r") || is_patience("-vnet.maxwait=")) {
            return refuse(format!("the option `{}` before the sub-command is not on the list", prefix(word, 60)));
        }
    }
    let Some((name, words)) = words[globals..].split_first() else { return refuse("there is no sub-command".to_owned()) };
    let Some(rule) = RULES.iter().find(|rule| rule.name == name) else {
        return refuse(format!("the sub-command `{}` is not on the list", prefix(name, 60)));
    };
    check_rest(rule, words).map_err(Refused)?;
    let names_client = words.iter().any(|word| is_own(word));
    let form = rule.name == "client" && words.iter().any(|word| word.starts_with('-') && word.contains('i'));
    Ok(Needs { server: true, workspace: rule.writes || names_client, form })
}

fn check_rest(rule: &Rule, words: &[String]) -> Result<(), String> {
    let (mut values, mut seen) = (Vec::new(), String::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix('-') else {
            values.push(word.as_str());
            continue;
        };
        if rule.pairs.iter().any(|(pair, _)| pair == word) {
            let value = words.next().map(String::as_str).unwrap_or_default();
            if !rule.pairs.contains(&(word.as_str(), value)) {
                return Err(format!("`{word} {}` is not on the list", prefix(value, 60)));
            }
            continue;
        }
        let is_count = option.chars().next().is_some_and(|letter| rule.numbers.contains(letter) && is_number(&option[1..]));
        let is_flag = !option.is_empty() && option.chars().all(|letter| rule.letters.contains(letter));
        let is_parallel = rule.is_parallel && option.strip_prefix("-parallel=threads=").is_some_and(is_number);
        if !(is_count || is_flag || is_parallel) {
            return Err(format!("the option or value `{}` is not on the list", prefix(word, 60)));
        }
        if is_flag {
            seen.push_str(option);
        }
    }
    if !rule.requires.is_empty() && !rule.requires.chars().any(|letter| seen.contains(letter)) {
        return Err(format!("`{}` is used with one of the options -{} only", rule.name, rule.requires));
    }
    let is_right = |value: &&str| match rule.values {
        Values::None => false,
        Values::Changelists => is_number(value),
        Values::Streams => is_depot_path(value),
        Values::Files => is_file(value),
        Values::Own => is_file(value) && is_own(value),
        Values::Client => *value == CLIENT && seen == "d",
    };
    if rule.values == Values::Client && seen.contains('d') && values.len() != 1 {
        return Err(format!("`{} -d` names the client workspace of the call and nothing else", rule.name));
    }
    // Without a path it would be about the working directory.
    if rule.values == Values::Own && values.is_empty() {
        return Err(format!("`{}` names what it is about", rule.name));
    }
    match values.iter().find(|value| !is_right(value)) {
        Some(wrong) => Err(format!("`{}` is no argument of `{}`", prefix(wrong, 100), rule.name)),
        None => Ok(()),
    }
}

fn is_number(text: &str) -> bool {
    (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A path of the client workspace.
pub(crate) fn is_own(word: &str) -> bool {
    word.strip_prefix("//").and_then(|rest| rest.strip_prefix(CLIENT)).is_some_and(|rest| rest.starts_with('/'))
}

/// `//depot/path`, possibly with wildcards, without revisions.
fn is_depot_path(path: &str) -> bool {
    path.strip_prefix("//").is_some_and(|rest| {
        !rest.contains(['@', '#', '\\']) && rest.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.starts_with('-'))
    })
}

/// The same, possibly with `@5`, `@<=5` or `@5,@7`.
fn is_file(text: &str) -> bool {
    let (path, revision) = text.find(['@', '#']).map_or((text, ""), |at| text.split_at(at));
    let number = |text: &str| text.strip_prefix('@').is_some_and(is_number);
    let is_revision = match revision.split_once(',') {
        Some((first, last)) => number(first) && number(last),
        None => revision.is_empty() || number(revision) || revision.strip_prefix("@<=").is_some_and(is_number),
    };
    is_depot_path(path) && is_revision
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(line: &str) -> Result<Needs, Refused> {
        check(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_the_plugin_needs_is_allowed() {
        for (line, workspace, form) in [
            ("-V", false, false),
            ("-ztag -Mj info -s", false, false),
            ("-ztag -Mj login -s", false, false),
            ("-ztag -Mj depots", false, false),
            ("-ztag -Mj streams -m10 //Games/*", false, false),
            ("-ztag -Mj stream -o -v //Games/main", false, false),
            ("-ztag -Mj changes -l -m1 -s submitted //Games/main/...@<=12 //Lib/...", false, false),
            ("-ztag -Mj changes -m1 -s submitted //Games/main/...@12,@12", false, false),
            ("-ztag -Mj describe -s -m1 12", false, false),
            ("-ztag -Mj files -e -m200 //Games/main/*.uproject@12 //Games/main/*/a%40b@12", false, false),
            ("print -q //Games/main/Game.uproject@12", false, false),
            ("-ztag -Mj client -o", true, false),
            ("-ztag -Mj client -i", true, true),
            ("-ztag -Mj client -d {client}", true, false),
            ("-ztag -Mj -r3 -vnet.maxwait=300 sync -f --parallel=threads=4 //{client}/...@12", true, false),
            ("-ztag -Mj clean -e -d -m //{client}/...", true, false),
            ("-ztag -Mj changes -m1 //{client}/...@<=12", true, false),
        ] {
            let needs = checked(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!((needs.workspace, needs.form), (workspace, form), "{line}");
        }
    }

    #[test]
    fn everything_that_changes_runs_or_leaves_is_refused() {
        for line in [
            "",
            "-ztag",
            "-p evil:1666 info",
            "-u other info",
            "-P secret info",
            "-E P4PORT=evil:1 info",
            "-d /etc info",
            "-x /etc/passwd info",
            "-c other sync",
            "-C utf8 info",
            "-vserver=3 info",
            "-G info",
            "-I sync -q",
            "--aliases=x info",
            "-V info",
            "login",
            "login -p",
            "login -a",
            "logout",
            "passwd",
            "set P4PORT=x",
            "submit -d x",
            "edit //Games/main/a",
            "trust -y",
            "print //Games/main/a",
            "print -q -o /etc/passwd //Games/main/a",
            "print -o/x -q //Games/main/a",
            "print -q -a //Games/main/a",
            "describe 12",
            "describe -s now",
            "changes -s pending",
            "changes -s submitted -u x",
            "changes -c x",
            "files /etc/passwd",
            "files //Games/../x",
            "files //Games/-x",
            "files //Games/a@label",
            "files //Games/a@=12",
            "files //Games/a#1",
            "files a",
            "stream //Games/main",
            "stream -o -d //Games/main",
            "client",
            "client -d",
            "client -d other",
            "client -d {client} {client}",
            "client -d -f {client}",
            "client -df {client}",
            "client -di {client}",
            "client -o {client}",
            "client -o other",
            "client -i -f",
            "sync",
            "sync -p //Games/main/...",
            "sync -f //Games/main/...",
            "sync -k //{client}/...",
            "sync //{client}x/...",
            "sync --parallel=threads=4,batch=8 //{client}/...",
            "sync --use-stream-change=1 //{client}/...",
            "clean //{client}/...",
            "clean -a //{client}/...",
            "clean -e -a //{client}/...",
            "clean -e //Games/...",
            "depots x",
            "info x",
            "admin stop",
            "protects -a",
        ] {
            assert!(checked(line).is_err(), "{line}");
        }
        assert!(check(&["info".to_owned(), "-s\n".to_owned()]).is_err());
        assert!(check(&vec!["info".to_owned(); 5000]).is_err());
    }

    #[test]
    fn one_option_of_client_needs_the_other_rules_of_a_form() {
        assert!(checked("client -oi").is_ok_and(|needs| needs.form));
        assert!(checked("sync //{client}/...").is_ok_and(|needs| needs.workspace && needs.server));
    }
}
