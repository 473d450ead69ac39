//! Names of revisions as people and scripts give them: branches, commits, changelists. Whatever passes here may be
//! handed to a source-control tool as one argument.

/// Longest branch name, in bytes.
const LONGEST_BRANCH: usize = 250;

/// Whether a text can be a branch's name; the error is a sentence for the one who wrote it.
///
/// The rules are those of git's own `check-ref-format`, and stricter where a name could be taken for an option.
pub fn check_branch(name: &str) -> Result<(), String> {
    let wrong = |reason: &str| Err(format!("A branch name {reason}."));
    if name.is_empty() {
        return wrong("must not be empty");
    }
    if name.len() > LONGEST_BRANCH {
        return wrong(&format!("has at most {LONGEST_BRANCH} bytes"));
    }
    if name.starts_with("refs/") {
        return wrong("is given without refs/heads/ before it");
    }
    if let Some(character) =
        name.chars().find(|character| character.is_control() || matches!(character, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\'))
    {
        return wrong(&format!("cannot contain {character:?}"));
    }
    if name.contains("..") || name.contains("@{") || name == "@" || name == "HEAD" {
        return wrong("cannot be HEAD or @, nor contain .. or @{");
    }
    if name.split('/').any(|part| part.is_empty() || part.starts_with(['-', '.']) || part.ends_with('.') || part.ends_with(".lock")) {
        return wrong("has parts between slashes that are not empty, begin with neither - nor ., and end with neither . nor .lock");
    }
    Ok(())
}

/// Whether a text can be a commit: 7 to 64 hexadecimal digits.
pub fn check_commit(text: &str) -> Result<(), String> {
    let is_hash = (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then_some(()).ok_or_else(|| "A commit has 7 to 64 hexadecimal digits.".to_owned())
}

/// Whether a text can be a changelist: a number above 0.
pub fn check_changelist(text: &str) -> Result<(), String> {
    let is_number = (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    is_number.then_some(()).ok_or_else(|| "A changelist is a number.".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_tool_could_misread_are_no_branches() {
        for good in ["main", "release/5.4", "feature/a-b_c", "dependabot/npm/x@1", "überarbeitung", "a.b"] {
            assert_eq!(check_branch(good), Ok(()), "{good}");
        }
        let long = "x".repeat(251);
        for bad in [
            "",
            "-",
            "--upload-pack=x",
            "refs/heads/-x",
            "refs/heads/main",
            "a/-b",
            "a b",
            "a..b",
            "a:b",
            "a~1",
            "a^",
            "a\\b",
            "a//b",
            "/a",
            "a/",
            ".a",
            "a.",
            "a/.b",
            "a.lock",
            "x.lock/b",
            "@",
            "HEAD",
            "a@{1}",
            "a\nb",
            "a\0b",
            "a?b",
            "a*",
            "[a",
            &long,
        ] {
            assert!(check_branch(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn commits_are_hexadecimal_and_changelists_are_numbers() {
        assert!(check_commit("0a1b2c3").is_ok() && check_commit(&"F".repeat(64)).is_ok());
        for bad in ["", "0a1b2c", "0a1b2cg", "main", "HEAD~1", "-0a1b2c3", &"f".repeat(65)] {
            assert!(check_commit(bad).is_err(), "{bad}");
        }
        assert!(check_changelist("12345").is_ok());
        for bad in ["", "0", "012", "-1", "1a", "now", "1234567890123456789"] {
            assert!(check_changelist(bad).is_err(), "{bad}");
        }
    }
}
