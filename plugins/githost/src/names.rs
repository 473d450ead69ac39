//! Names that people and servers give: checked before they become part of an address or a command line.

use std::fmt;

use guest_support::{Code, Problem};

/// `<owner>/<repository>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryName(String);

impl RepositoryName {
    /// Checks the text; reason `repository`.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let refuse = |fault: &str| Err(Problem::new(Code::InvalidArgument, format!("the repository name {fault}")).because("repository"));
        let Some((owner, name)) = text.split_once('/') else { return refuse("must look like owner/repository") };
        for part in [owner, name] {
            if part.is_empty() || part.len() > 100 {
                return refuse("must have 1 to 100 characters on each side of its slash");
            }
            if !part.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.')) {
                return refuse("may contain letters, digits, '-', '_' and '.' only, and one slash");
            }
            if part.starts_with('-') || part == "." || part == ".." {
                return refuse("has a part that begins with '-' or is '.' or '..'");
            }
        }
        if name.to_ascii_lowercase().ends_with(".git") {
            return refuse("must be given without .git at its end");
        }
        Ok(RepositoryName(text.to_owned()))
    }

    /// Whose it is.
    pub fn owner(&self) -> &str {
        self.0.split_once('/').map_or("", |(owner, _)| owner)
    }

    /// What stands behind the slash.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }

    /// Whether git hosts take both for the same one.
    pub fn is_same(&self, other: &RepositoryName) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl fmt::Display for RepositoryName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A branch, without `refs/heads/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchName(String);

impl BranchName {
    /// Git's own rules for reference names, and no '-' at the beginning; reason `branch`.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let refuse = |fault: &str| Err(Problem::new(Code::InvalidArgument, format!("the branch name {fault}")).because("branch"));
        if text.is_empty() || text.len() > 255 {
            return refuse("must have 1 to 255 bytes");
        }
        if text.starts_with('-') {
            return refuse("must not begin with '-'");
        }
        if text.starts_with("refs/") {
            return refuse("must be given without refs/heads/");
        }
        if text.chars().any(|character| character.is_control() || matches!(character, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\')) {
            return refuse("contains a space, a control character or one of ~ ^ : ? * [ \\");
        }
        if text == "@" || text.contains("..") || text.contains("@{") || text.ends_with('.') {
            return refuse("is '@', contains '..' or '@{', or ends with '.'");
        }
        if text.split('/').any(|part| part.is_empty() || part.starts_with('.') || part.ends_with(".lock")) {
            return refuse("has a part that is empty, begins with '.' or ends with '.lock'");
        }
        Ok(BranchName(text.to_owned()))
    }

    /// `refs/heads/<branch>`.
    pub fn reference(&self) -> String {
        format!("refs/heads/{}", self.0)
    }

    /// As people write it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A commit's hash, whole or shortened, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitName(String);

impl CommitName {
    /// 7 to 64 hexadecimal digits; reason `revision`.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        if !(7..=64).contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Problem::new(Code::InvalidArgument, "a commit is named by 7 to 64 hexadecimal digits").because("revision"));
        }
        Ok(CommitName(text.to_ascii_lowercase()))
    }

    /// SHA-1 or SHA-256, unabridged.
    pub fn is_whole(&self) -> bool {
        matches!(self.0.len(), 40 | 64)
    }

    /// Whether `hash` is, or begins with, this.
    pub fn names(&self, hash: &str) -> bool {
        hash.len() >= self.0.len() && hash.is_char_boundary(self.0.len()) && hash[..self.0.len()].eq_ignore_ascii_case(&self.0)
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As people know it.
    pub fn short(&self) -> &str {
        &self.0[..self.0.len().min(12)]
    }
}

/// A file's path inside a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePath(String);

impl FilePath {
    /// Relative, '/' between its parts; reason `file`.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let refuse = |fault: &str| Err(Problem::new(Code::InvalidArgument, format!("the file path {fault}")).because("file"));
        if text.is_empty() || text.len() > 4096 {
            return refuse("must have 1 to 4096 bytes");
        }
        if text.chars().any(|character| character.is_control() || character == '\\') {
            return refuse("contains a control character or a backslash");
        }
        if text.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return refuse("must be relative, with no empty part and no '.' or '..' in it");
        }
        Ok(FilePath(text.to_owned()))
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Percent-encodes everything but letters, digits and `-._~`, and keeps the slashes.
pub fn encode_path(text: &str) -> String {
    encode(text, true)
}

/// Percent-encodes everything but letters, digits and `-._~`.
pub fn encode_query(text: &str) -> String {
    encode(text, false)
}

fn encode(text: &str, slashes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') || (slashes && byte == b'/') {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{BranchName, CommitName, FilePath, RepositoryName, encode_path, encode_query};

    #[test]
    fn repositories() {
        for good in ["studio/game", "Studio-1/My.Game_2", "a/b"] {
            assert!(RepositoryName::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "game",
            "/game",
            "studio/",
            "a/b/c",
            "../game",
            "a/..",
            "a/.",
            "-a/b",
            "a/-b",
            "a/b c",
            "a/b?x",
            "a/b%2e",
            "a/b.git",
            "a/B.GIT",
            "ä/b",
            "a/b\n",
            "https://host/a/b",
        ] {
            assert_eq!(RepositoryName::parse(bad).unwrap_err().reason.as_deref(), Some("repository"), "{bad}");
        }
        assert!(RepositoryName::parse(&format!("a/{}", "b".repeat(101))).is_err());
    }

    #[test]
    fn branches_follow_the_rules_of_git() {
        for good in ["main", "feature/x", "release-5.4", "üml/aut", "a@b", "dependabot/npm_and_yarn/x-1.0", "#12", "a'b", "50%"] {
            assert_eq!(BranchName::parse(good).unwrap().reference(), format!("refs/heads/{good}"));
        }
        for bad in [
            "",
            "-x",
            "--upload-pack=touch x",
            "refs/heads/-x",
            "refs/heads/main",
            "a b",
            "a..b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[b",
            "a\\b",
            "@",
            "a@{1}",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a.",
            "a\nb",
            "a\0b",
            "a\u{7f}",
        ] {
            assert_eq!(BranchName::parse(bad).unwrap_err().reason.as_deref(), Some("branch"), "{bad:?}");
        }
        assert!(BranchName::parse(&"a".repeat(256)).is_err());
    }

    #[test]
    fn commits() {
        assert!(CommitName::parse("ABCDEF1").unwrap().names("abcdef1234"));
        assert!(!CommitName::parse("abcdef1").unwrap().is_whole());
        assert!(CommitName::parse(&"a".repeat(40)).unwrap().is_whole());
        assert!(CommitName::parse(&"a".repeat(64)).unwrap().is_whole());
        assert!(!CommitName::parse("abcdef1").unwrap().names("abcdef"));
        for bad in ["", "abc", "abcdefg", "--abcdef", "HEAD", "main"] {
            assert_eq!(CommitName::parse(bad).unwrap_err().reason.as_deref(), Some("revision"), "{bad}");
        }
        assert!(CommitName::parse(&"a".repeat(65)).is_err());
    }

    #[test]
    fn files() {
        assert!(FilePath::parse("Game/My Game.uproject").is_ok());
        assert!(FilePath::parse("-x").is_ok());
        for bad in ["", "/etc/passwd", "a//b", "../a", "a/../b", "a/.", "a/", "a\\b", "a\nb", "a\0"] {
            assert_eq!(FilePath::parse(bad).unwrap_err().reason.as_deref(), Some("file"), "{bad:?}");
        }
    }

    #[test]
    fn encoding_leaves_nothing_that_means_something_in_an_address() {
        assert_eq!(encode_path("Spiel/Große Welt?#%.uproject"), "Spiel/Gro%C3%9Fe%20Welt%3F%23%25.uproject");
        assert_eq!(encode_query("a/b&c=d+e"), "a%2Fb%26c%3Dd%2Be");
    }
}
