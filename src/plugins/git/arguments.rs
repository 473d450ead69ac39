//! Which words may stand on git's command line.

/// One sub-command and its options.
struct Rule {
    words: &'static [&'static str],
    /// Letters that may be combined after one `-`.
    letters: &'static str,
    /// Long options; one that ends with `=` takes its value in the same word.
    options: &'static [&'static str],
    values: Values,
}

#[derive(Clone, Copy, PartialEq)]
enum Values {
    None,
    /// Revisions and paths inside the repository.
    Local,
    /// First the repository, then refspecs.
    Remote,
    /// Exactly one configuration key.
    Key,
}

/// EVERY sub-command. None of the options runs a program, names a file outside, or changes configuration.
const RULES: &[Rule] = &[
    Rule { words: &["version"], letters: "", options: &[], values: Values::None },
    Rule { words: &["init"], letters: "q", options: &["--quiet", "--initial-branch=", "--object-format="], values: Values::None },
    Rule {
        words: &["fetch"],
        letters: "fnpqt",
        options: &[
            "--depth=",
            "--deepen=",
            "--shallow-since=",
            "--unshallow",
            "--update-shallow",
            "--filter=",
            "--refetch",
            "--tags",
            "--no-tags",
            "--force",
            "--prune",
            "--no-prune",
            "--no-recurse-submodules",
            "--progress",
            "--no-progress",
            "--quiet",
            "--verbose",
            "--no-auto-maintenance",
            "--no-auto-gc",
            "--no-write-fetch-head",
            "--no-show-forced-updates",
            "--keep",
            "--atomic",
        ],
        values: Values::Remote,
    },
    Rule {
        words: &["ls-remote"],
        letters: "hqt",
        options: &["--heads", "--branches", "--tags", "--refs", "--symref", "--exit-code", "--quiet"],
        values: Values::Remote,
    },
    Rule {
        words: &["checkout"],
        letters: "fq",
        options: &[
            "--detach",
            "--force",
            "--quiet",
            "--progress",
            "--no-progress",
            "--no-recurse-submodules",
            "--no-overlay",
            "--no-guess",
        ],
        values: Values::Local,
    },
    Rule { words: &["clean"], letters: "defqxX", options: &["--force", "--quiet", "--exclude="], values: Values::Local },
    Rule {
        words: &["reset"],
        letters: "q",
        options: &["--hard", "--mixed", "--soft", "--quiet", "--no-recurse-submodules"],
        values: Values::Local,
    },
    Rule {
        words: &["log"],
        letters: "nz0123456789",
        options: &[
            "--format=",
            "--pretty=",
            "--max-count=",
            "--no-color",
            "--no-decorate",
            "--no-patch",
            "--encoding=",
            "--date=",
            "--no-show-signature",
        ],
        values: Values::Local,
    },
    Rule {
        words: &["rev-parse"],
        letters: "q",
        options: &[
            "--verify",
            "--quiet",
            "--short",
            "--short=",
            "--abbrev-ref",
            "--is-inside-work-tree",
            "--is-shallow-repository",
            "--is-bare-repository",
        ],
        values: Values::Local,
    },
    Rule {
        words: &["ls-files"],
        letters: "cdmosz",
        options: &[
            "--cached",
            "--stage",
            "--others",
            "--modified",
            "--deleted",
            "--exclude-standard",
            "--full-name",
            "--error-unmatch",
            "--ignored",
        ],
        values: Values::Local,
    },
    Rule {
        words: &["ls-tree"],
        letters: "dlrtz",
        options: &["--name-only", "--long", "--full-tree", "--full-name", "--object-only", "--abbrev="],
        values: Values::Local,
    },
    Rule { words: &["cat-file"], letters: "epst", options: &["--batch", "--batch-check"], values: Values::Local },
    Rule {
        words: &["status"],
        letters: "bsz",
        options: &[
            "--porcelain",
            "--porcelain=",
            "--branch",
            "--short",
            "--untracked-files=",
            "--ignored",
            "--no-renames",
            "--ignore-submodules=",
            "--ignore-submodules",
        ],
        values: Values::Local,
    },
    Rule { words: &["gc"], letters: "q", options: &["--auto", "--quiet", "--prune=", "--no-detach"], values: Values::None },
    Rule { words: &["maintenance", "run"], letters: "", options: &["--auto", "--quiet", "--task=", "--no-detach"], values: Values::None },
    Rule { words: &["config", "--get"], letters: "", options: &[], values: Values::Key },
    Rule { words: &["lfs", "version"], letters: "", options: &[], values: Values::None },
    Rule {
        words: &["lfs", "fetch"],
        letters: "",
        options: &["--include=", "--exclude=", "--all", "--prune", "--refetch"],
        values: Values::Remote,
    },
    Rule { words: &["lfs", "pull"], letters: "", options: &["--include=", "--exclude="], values: Values::Remote },
    Rule { words: &["lfs", "checkout"], letters: "", options: &[], values: Values::Local },
    Rule {
        words: &["lfs", "ls-files"],
        letters: "dlns",
        options: &["--long", "--size", "--name-only", "--json", "--include=", "--exclude=", "--debug", "--deleted"],
        values: Values::Local,
    },
    Rule { words: &["lfs", "prune"], letters: "f", options: &["--force", "--no-verify-remote", "--quiet"], values: Values::None },
];

const MOST_WORDS: usize = 4096;
const LONGEST_WORD: usize = 4096;
const MOST_BYTES: usize = 96 * 1024;

/// Why a command line is refused; for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("git may not be called like this: {0}")]
pub(crate) struct Refused(String);

/// Checks a whole command line without the program's own name.
///
/// `is_granted` says whether a URL may be reached.
pub(crate) fn check(words: &[String], is_granted: impl Fn(&str) -> bool) -> Result<(), Refused> {
    let refuse = |reason: String| Err(Refused(reason));
    if words.len() > MOST_WORDS || words.iter().map(String::len).sum::<usize>() > MOST_BYTES {
        return refuse("too many arguments".to_owned());
    }
    if words.iter().any(|word| word.len() > LONGEST_WORD || word.chars().any(char::is_control)) {
        return refuse("an argument is too long or contains control characters".to_owned());
    }
    let starts = |rule: &&Rule| words.len() >= rule.words.len() && rule.words.iter().zip(words).all(|(wanted, word)| wanted == word);
    let Some(rule) = RULES.iter().find(starts) else {
        return refuse(format!(
            "the sub-command `{}` is not on the list",
            words.first().map_or("", |word| super::super::text::prefix(word, 60))
        ));
    };
    let mut values = Vec::new();
    for word in &words[rule.words.len()..] {
        match word.as_str() {
            "--" | "--end-of-options" => {}
            option if option.starts_with('-') => {
                if !is_listed(rule, option) {
                    return refuse(format!("the option or value `{}` is not on the list", super::super::text::prefix(option, 60)));
                }
            }
            value => values.push(value),
        }
    }
    check_values(rule.values, &values, is_granted).map_err(Refused)
}

fn is_listed(rule: &Rule, option: &str) -> bool {
    if let Some(letters) = option.strip_prefix('-').filter(|rest| !rest.starts_with('-')) {
        return !letters.is_empty() && letters.chars().all(|letter| rule.letters.contains(letter));
    }
    match option.split_once('=') {
        // The `=` belongs to the listed form.
        Some((name, _)) => rule.options.iter().any(|listed| listed.strip_suffix('=') == Some(name)),
        None => rule.options.contains(&option),
    }
}

fn check_values(kind: Values, values: &[&str], is_granted: impl Fn(&str) -> bool) -> Result<(), String> {
    let shown = |value: &str| super::super::text::prefix(value, 100).to_owned();
    match kind {
        Values::None if !values.is_empty() => Err(format!("`{}` is one argument too many", shown(values[0]))),
        Values::None => Ok(()),
        Values::Key => {
            let is_key =
                |key: &str| key.contains('.') && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
            if values.len() == 1 && is_key(values[0]) { Ok(()) } else { Err("`config --get` takes one key".to_owned()) }
        }
        Values::Local => values.iter().try_for_each(|value| check_local(value)),
        Values::Remote => {
            let Some((repository, refspecs)) = values.split_first() else { return Ok(()) };
            if *repository != "origin" && !(is_url(repository) && is_granted(repository)) {
                return Err(format!("`{}` is neither `origin` nor a URL that was granted", shown(repository)));
            }
            refspecs.iter().try_for_each(|refspec| refspec.trim_start_matches('+').split(':').try_for_each(check_local))
        }
    }
}

/// It looks like a URL that git would connect to.
pub(crate) fn is_url(value: &str) -> bool {
    value.starts_with("https://") || value.starts_with("http://")
}

/// A revision or a path that stays inside: nothing that names another place or another transport.
fn check_local(value: &str) -> Result<(), String> {
    let leaves = value.starts_with(['/', '\\', '~'])
        || value.contains("://")
        || value.contains("::")
        || value.split(['/', '\\']).any(|part| part == ".." || part.starts_with('-'))
        || (cfg!(windows) && value.as_bytes().get(1) == Some(&b':'));
    if leaves { Err(format!("`{}` is no revision or path inside the repository", super::super::text::prefix(value, 100))) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(line: &str) -> bool {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        check(&words, |url| url.starts_with("https://git.example/")).is_ok()
    }

    #[test]
    fn what_a_checkout_needs_is_allowed() {
        for line in [
            "init --quiet",
            "fetch --depth=1 --no-tags --no-recurse-submodules --force origin 0123456789012345678901234567890123456789",
            "fetch --filter=blob:none https://git.example/a/b.git +refs/heads/main:refs/remotes/origin/main",
            "checkout --detach --force 0123abc",
            "checkout -q -f --detach FETCH_HEAD",
            "clean -ffdx -e Intermediate --exclude=Saved",
            "log -1 --format=%H%n%an HEAD",
            "log -n 5 main",
            "rev-parse --verify --quiet HEAD^{commit}",
            "ls-files -z",
            "ls-tree -rlz --full-tree HEAD",
            "lfs fetch origin HEAD",
            "lfs checkout",
            "lfs pull --include=Content",
            "config --get remote.origin.url",
            "gc --auto",
            "maintenance run --auto --quiet",
            "reset --hard HEAD",
            "status --porcelain",
            "cat-file -p HEAD:Game/Game.uproject",
            "cat-file --batch",
            "ls-remote --symref origin HEAD",
            "log -1 main..HEAD",
        ] {
            assert!(allowed(line), "{line}");
        }
    }

    #[test]
    fn everything_that_runs_something_or_leaves_is_refused() {
        for line in [
            "",
            "-c core.fsmonitor=x status",
            "--exec-path=/x status",
            "--git-dir=/x log",
            "-C /etc status",
            "push origin main",
            "clone https://git.example/a",
            "fetch --upload-pack=x origin",
            "fetch -u origin",
            "fetch --upload-pack x",
            "fetch -o x origin",
            "fetch --server-option=x origin",
            "fetch https://evil.example/a/b.git",
            "fetch http://git.example/a/b.git",
            "fetch ext::sh%20-c%20x",
            "fetch file:///etc",
            "fetch /etc",
            "fetch ../other",
            "fetch git@git.example:a/b.git",
            "fetch origin --upload-pack=x",
            "fetch origin refs/heads/-x",
            "fetch origin main:../../x",
            "fetch --multiple origin",
            "fetch --recurse-submodules origin",
            "checkout --orphan x",
            "checkout /etc/passwd",
            "checkout -- ../x",
            "init /elsewhere",
            "init --template=/x",
            "init --separate-git-dir=/x",
            "config --global user.name x",
            "config core.hooksPath x",
            "config --get --file=/x a.b",
            "config --get a.b c",
            "config --get",
            "log --output=/x",
            "log -p --ext-diff",
            "log --textconv",
            "cat-file --textconv HEAD:x",
            "cat-file --filters HEAD:x",
            "lfs install",
            "lfs",
            "lfs env",
            "lfs fetch https://evil.example/x",
            "lfs pull /etc",
            "submodule update",
            "ls-remote --upload-pack=x origin",
            "archive --remote=x",
            "rev-parse --git-path x",
            "clean -i",
            "ls-files --exclude-from=/x",
            "ls-files -X /x",
            "status --config=x",
            "gc --cruft",
            "log --format",
            "reset --pathspec-from-file=/x",
        ] {
            assert!(!allowed(line), "{line}");
        }
        assert!(check(&["log".to_owned(), "a\nb".to_owned()], |_| true).is_err());
        assert!(check(&vec!["log".to_owned(); 5000], |_| true).is_err());
    }
}
