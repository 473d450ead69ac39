//! Names that people and servers give: checked before they become part of a command line.

use std::fmt;

use guest_support::{Code, Problem};

const LONGEST: usize = 1024;

/// `//depot/stream`, as people write it. Streams have none of the characters that would have to be escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPath(String);

impl StreamPath {
    /// Checks the text; reason `branch`.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let refuse = |fault: &str| Err(Problem::new(Code::InvalidArgument, format!("the stream {fault}")).because("branch"));
        let Some(rest) = text.strip_prefix("//").filter(|_| text.len() <= LONGEST) else { return refuse("must look like //depot/stream") };
        if rest.contains("...") || rest.chars().any(|c| c.is_control() || c.is_whitespace() || "@#%*\\\"".contains(c)) {
            return refuse("must be without wildcards, revisions and spaces (none of ... * @ # %)");
        }
        if rest.split('/').count() < 2 || rest.split('/').any(|part| matches!(part, "" | "." | "..") || part.starts_with('-')) {
            return refuse("must look like //depot/stream, without empty parts, . and ..");
        }
        Ok(StreamPath(text.to_owned()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The depot, without slashes.
    pub fn depot(&self) -> &str {
        self.0[2..].split('/').next().unwrap_or_default()
    }

    /// The same stream, where letters may count in either case.
    pub fn is_same(&self, other: &str, ignores_case: bool) -> bool {
        self.0 == other || (ignores_case && self.0.to_lowercase() == other.to_lowercase())
    }
}

impl fmt::Display for StreamPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A depot's name, without slashes.
pub fn depot(text: &str) -> Result<&str, Problem> {
    let name = text.strip_prefix("//").unwrap_or(text);
    let is_name = !name.is_empty()
        && name.len() <= 128
        && !matches!(name, "." | "..")
        && !name.starts_with('-')
        && !name.contains("...")
        && !name.chars().any(|c| c.is_control() || c.is_whitespace() || "/@#%*\\\"".contains(c));
    match is_name {
        true => Ok(name),
        false => Err(Problem::new(Code::InvalidArgument, "a depot is named like Games or //Games").because("repository")),
    }
}

/// A changelist's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Changelist(pub u64);

impl Changelist {
    /// Checks the text; reason `revision`.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let is_number = (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse().ok().filter(|number| is_number && *number > 0) {
            Some(number) => Ok(Changelist(number)),
            None => Err(Problem::new(Code::InvalidArgument, "a changelist is a number above 0").because("revision")),
        }
    }
}

impl fmt::Display for Changelist {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// A file's path in the stream, as a file system has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePath(String);

impl FilePath {
    /// Checks the text; reason `file`.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let is_path = !text.is_empty()
            && text.len() <= LONGEST
            && !text.contains("...")
            && !text.chars().any(char::is_control)
            && text.split('/').all(|part| !matches!(part, "" | "." | ".."));
        match is_path {
            true => Ok(FilePath(text.to_owned())),
            false => Err(Problem::new(Code::InvalidArgument, "a file's path is relative, with / between its parts").because("file")),
        }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As the server writes it.
    pub fn encoded(&self) -> String {
        encode(&self.0)
    }
}

/// The characters that mean something to the server, escaped.
pub fn encode(path: &str) -> String {
    path.replace('%', "%25").replace('@', "%40").replace('#', "%23").replace('*', "%2A")
}

/// A path as a file system has it.
pub fn decode(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let (code, length) = match rest.get(at..at + 3).map(str::to_ascii_uppercase).as_deref() {
            Some("%25") => ('%', 3),
            Some("%40") => ('@', 3),
            Some("%23") => ('#', 3),
            Some("%2A") => ('*', 3),
            _ => ('%', 1),
        };
        out.push(code);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_plain_paths() {
        for good in ["//Games/main", "//Games/dev/anna", "//g/Ünï"] {
            assert_eq!(StreamPath::parse(good).unwrap().as_str(), good);
        }
        assert_eq!(StreamPath::parse("//Games/dev/anna").unwrap().depot(), "Games");
        assert!(StreamPath::parse("//Games/Main").unwrap().is_same("//games/main", true));
        assert!(!StreamPath::parse("//Games/Main").unwrap().is_same("//games/main", false));
        for bad in [
            "",
            "//",
            "//Games",
            "/Games/main",
            "Games/main",
            "//Games/",
            "//Games//main",
            "//Games/../main",
            "//Games/./main",
            "//Games/...",
            "//Games/ma*n",
            "//Games/main@1",
            "//Games/main#1",
            "//Games/main%40",
            "//Games/-main",
            "//-x/main",
            "//Games/ma in",
            "//Games/main\n",
            "//Games\\main/x",
        ] {
            assert!(StreamPath::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn special_characters_are_escaped_and_read_back() {
        for path in ["Content/a@b#c%d*e.uasset", "100%25", "%", "%4", "plain", "ü%", "a%2Ab"] {
            assert_eq!(decode(&encode(path)), path);
        }
        assert_eq!(encode("a@b"), "a%40b");
        assert_eq!(decode("a%40b%2ac%zz"), "a@b*c%zz");
    }

    #[test]
    fn numbers_paths_and_depots() {
        assert_eq!(Changelist::parse("120").unwrap(), Changelist(120));
        for bad in ["", "0", "-1", "now", "1234567890123456789", "1a", "@1"] {
            assert!(Changelist::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(FilePath::parse("Game/a@b.uproject").unwrap().encoded(), "Game/a%40b.uproject");
        for bad in ["", "/a", "a/", "a//b", "../a", "a/./b", "a/...", "a\nb"] {
            assert!(FilePath::parse(bad).is_err(), "{bad}");
        }
        assert_eq!((depot("//Games").unwrap(), depot("Games").unwrap()), ("Games", "Games"));
        for bad in ["", "//", "a/b", "a b", "...", "-x", "a@1"] {
            assert!(depot(bad).is_err(), "{bad}");
        }
    }
}
