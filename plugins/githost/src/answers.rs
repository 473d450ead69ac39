//! The API's answers, as far as they are used. GitHub and Gitea spell some things differently; both are read.

use guest_support::{Code, Problem};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Reads an answer. `what` names it in the error.
pub fn parse<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::new(Code::Protocol, format!("the git host's answer ({what}) is not what its API promises: {error}")))
}

/// Who the credentials are, or whose something is.
#[derive(Debug, Deserialize)]
pub struct User {
    /// The account's name.
    #[serde(default, deserialize_with = "text_or_null")]
    pub login: String,
    /// A whole enterprise, which an app can be installed on too, has no login.
    #[serde(default, deserialize_with = "text_or_null")]
    pub slug: String,
}

impl User {
    /// What it is called.
    pub fn name(&self) -> &str {
        if self.login.is_empty() { &self.slug } else { &self.login }
    }
}

/// The server's version.
#[derive(Debug, Deserialize)]
pub struct Version {
    /// For example `1.22.3` or `9.0.1+gitea-1.22.0`.
    #[serde(default, deserialize_with = "text_or_null")]
    pub version: String,
}

/// A repository.
#[derive(Debug, Deserialize)]
pub struct Repository {
    /// The server's number for it.
    pub id: u64,
    /// `<owner>/<name>`.
    pub full_name: String,
    /// Not public.
    #[serde(default)]
    pub private: bool,
    /// `""` on a repository that never had one.
    #[serde(default, deserialize_with = "text_or_null")]
    pub default_branch: String,
}

/// A branch. Lists on GitHub carry the commit's hash alone.
#[derive(Debug, Deserialize)]
pub struct Branch {
    /// Without `refs/heads/`.
    pub name: String,
    /// Its newest commit.
    pub commit: Commit,
}

/// A commit: GitHub has `{sha, commit: {message, author}}`, Gitea `{id, message, author}` in branches and GitHub's form elsewhere.
#[derive(Debug, Default, Deserialize)]
pub struct Commit {
    #[serde(default)]
    sha: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    author: Option<Author>,
    #[serde(default)]
    timestamp: Option<String>,
    #[serde(default)]
    commit: Option<Box<Commit>>,
}

/// Who wrote a commit. On GitHub's outer object this is an account instead, which has no name.
#[derive(Debug, Default, Deserialize)]
pub struct Author {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    date: Option<String>,
}

/// Whether this is a whole commit hash as git writes it.
pub fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What is known of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// The whole hash.
    pub id: String,
    /// Its message.
    pub message: String,
    /// Its author's name.
    pub author: String,
    /// Milliseconds since 1970.
    pub time_ms: Option<u64>,
}

impl Commit {
    /// The whole hash, checked.
    pub fn hash(&self) -> Result<&str, Problem> {
        match self.sha.as_deref().or(self.id.as_deref()) {
            Some(hash) if is_hash(hash) => Ok(hash),
            _ => Err(Problem::new(Code::Protocol, "the git host's answer names no commit hash")),
        }
    }

    /// The commit with its message and author, when the answer has them.
    pub fn revision(&self) -> Result<Option<Revision>, Problem> {
        let detail = self.commit.as_deref().unwrap_or(self);
        let Some(message) = &detail.message else { return Ok(None) };
        let author = detail.author.as_ref();
        let date = author.and_then(|author| author.date.as_deref()).or(detail.timestamp.as_deref());
        Ok(Some(Revision {
            id: self.hash()?.to_owned(),
            message: message.clone(),
            author: author.and_then(|author| author.name.clone()).unwrap_or_default(),
            time_ms: date.and_then(milliseconds),
        }))
    }
}

/// A file as the contents API wraps it.
#[derive(Debug, Deserialize)]
pub struct Contents {
    /// `file`, `dir`, `symlink` or `submodule`; `""`: this is no such object.
    #[serde(rename = "type", default, deserialize_with = "text_or_null")]
    pub kind: String,
    /// Bytes, where the server counts them.
    pub size: Option<u64>,
    /// `base64`, or nothing when the file is too large to be wrapped.
    #[serde(default, deserialize_with = "text_or_null")]
    pub encoding: String,
    /// The wrapped bytes.
    #[serde(default, deserialize_with = "text_or_null")]
    pub content: String,
}

/// Reads a text that some server leaves out, or gives as `null`.
pub(crate) fn text_or_null<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default())
}

/// `2024-05-06T07:08:09Z` or with an offset, in milliseconds since 1970.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let zone = text.get(19..)?.trim_start_matches(|character: char| character == '.' || character.is_ascii_digit());
    let offset = match zone.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), rest @ ..] => {
            let rest = std::str::from_utf8(rest).ok()?;
            let minutes = rest.get(0..2)?.parse::<i64>().ok()? * 60 + rest.get(3..5)?.parse::<i64>().ok()?;
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    since_1970((year, month, day), ((hour * 60 + minute - offset) * 60) + second)
}

/// The time in a header of HTTP (`Sun, 06 Nov 1994 08:49:37 GMT`, RFC 9110), in milliseconds since 1970. The two older forms, which
/// nobody sends, are not read.
pub(crate) fn header_milliseconds(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.trim().split_once(", ")?;
    let mut words = rest.split_whitespace();
    let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
    if words.next() != Some("GMT") || time.len() != 8 {
        return None;
    }
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let number = |text: Option<&str>| text?.parse::<i64>().ok();
    let (hour, minute, second) = (number(time.get(0..2))?, number(time.get(3..5))?, number(time.get(6..8))?);
    since_1970((number(Some(year))?, month, number(Some(day))?), (hour * 60 + minute) * 60 + second)
}

/// Milliseconds between 1970 and so many seconds after the beginning of a day (UTC).
fn since_1970((year, month, day): (i64, i64, i64), seconds: i64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(0..=9999).contains(&year) {
        return None;
    }
    // Days since 1970 in the proleptic Gregorian calendar, years beginning in March.
    let shifted = year - i64::from(month <= 2);
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    u64::try_from(days * 86_400 + seconds).ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::{Branch, Commit, Contents, Repository, User, header_milliseconds, milliseconds, parse};

    const HASH: &str = "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d";

    #[test]
    fn a_branch_in_a_list_of_api_v3_has_a_hash_alone() {
        let list: Vec<Branch> =
            parse("branches", format!(r#"[{{"name":"main","commit":{{"sha":"{HASH}","url":"x"}},"protected":false}}]"#).as_bytes())
                .unwrap();
        assert_eq!(list[0].commit.hash().unwrap(), HASH);
        assert_eq!(list[0].commit.revision().unwrap(), None);
    }

    #[test]
    fn a_commit_of_api_v3_has_its_facts_inside() {
        let text = format!(
            r#"{{"sha":"{HASH}","author":{{"login":"octocat","id":1}},"commit":{{"message":"Fix all\n\nreally","author":{{"name":"Mona","email":"m@x","date":"2012-03-06T15:06:50-08:00"}}}}}}"#
        );
        let revision = parse::<Commit>("commit", text.as_bytes()).unwrap().revision().unwrap().unwrap();
        assert_eq!((revision.id.as_str(), revision.message.as_str(), revision.author.as_str()), (HASH, "Fix all\n\nreally", "Mona"));
        assert_eq!(revision.time_ms, Some(1_331_075_210_000));
    }

    #[test]
    fn a_commit_whose_account_is_gone_still_has_an_author() {
        let text = format!(r#"{{"sha":"{HASH}","author":null,"commit":{{"message":"m","author":{{"name":"Mona"}}}}}}"#);
        assert_eq!(parse::<Commit>("commit", text.as_bytes()).unwrap().revision().unwrap().unwrap().author, "Mona");
    }

    #[test]
    fn a_branch_of_api_v1_has_everything() {
        let text = format!(
            r#"{{"name":"dev","commit":{{"id":"{HASH}","message":"m\n","url":"x","author":{{"name":"Ada","email":"a@x","username":"ada"}},"timestamp":"2024-02-29T00:00:00Z"}}}}"#
        );
        let revision = parse::<Branch>("branch", text.as_bytes()).unwrap().commit.revision().unwrap().unwrap();
        assert_eq!((revision.author.as_str(), revision.time_ms), ("Ada", Some(1_709_164_800_000)));
    }

    #[test]
    fn nonsense_is_no_hash() {
        for text in [r#"{}"#, r#"{"sha":"abc"}"#, r#"{"sha":"--upload-pack=touch /tmp/x;aaaaaaaaaaaaaa"}"#, r#"{"sha":null}"#] {
            assert!(parse::<Commit>("commit", text.as_bytes()).unwrap().hash().is_err(), "{text}");
        }
        assert!(parse::<Repository>("repository", b"{\"id\":\"x\"}").is_err());
        assert!(parse::<Repository>("repository", b"<html>").unwrap_err().message.contains("repository"));
    }

    #[test]
    fn what_may_be_null_or_missing_may_be() {
        let empty = parse::<Repository>("repository", br#"{"id":1,"full_name":"a/b","description":null,"default_branch":null}"#).unwrap();
        assert_eq!((empty.default_branch.as_str(), empty.private), ("", false));
        for (text, name) in [(r#"{"login":"studio"}"#, "studio"), (r#"{"login":null,"slug":"octo","name":"Octo"}"#, "octo"), ("{}", "")] {
            assert_eq!(parse::<User>("user", text.as_bytes()).unwrap().name(), name, "{text}");
        }
        let contents = parse::<Contents>("contents", br#"{"type":"file","size":null,"encoding":null,"content":null}"#).unwrap();
        assert_eq!((contents.kind.as_str(), contents.size, contents.encoding.as_str()), ("file", None, ""));
        let text =
            format!(r#"{{"sha":"{HASH}","author":{{}},"committer":null,"commit":{{"message":"","author":null,"verification":null}}}}"#);
        let revision = parse::<Commit>("commit", text.as_bytes()).unwrap().revision().unwrap().unwrap();
        assert_eq!((revision.author.as_str(), revision.message.as_str(), revision.time_ms), ("", "", None));
    }

    #[test]
    fn times_of_headers() {
        assert_eq!(header_milliseconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777_000));
        assert_eq!(header_milliseconds("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        for text in [
            "",
            "120",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 8:49 GMT",
            "Sun, 06 Nov 99999999999999 08:49:37 GMT",
        ] {
            assert_eq!(header_milliseconds(text), None, "{text}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(milliseconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(milliseconds("2026-11-20T11:22:33.456+01:00"), Some(1_795_170_153_000));
        for text in ["", "yesterday", "2024-13-01T00:00:00Z", "2024-01-01T00:00:00", "1969-12-31T23:59:59Z"] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }
}
