//! The tree API, read as a stream: a repository's whole tree can be tens of megabytes, and only a few paths of it are wanted.

use std::fmt;
use std::io::Read;

use guest_support::{Code, Problem};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::answers::text_or_null;

/// What an entry of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file, executable or not.
    File,
    /// A directory.
    Directory,
    /// A symbolic link or a submodule: never followed.
    Other,
}

/// One entry.
#[derive(Debug, Clone, Deserialize)]
pub struct Entry {
    /// Relative to the tree that was asked for; `""`, which is no file's, where the server leaves it out.
    #[serde(default, deserialize_with = "text_or_null")]
    pub path: String,
    #[serde(default, deserialize_with = "text_or_null")]
    mode: String,
    #[serde(rename = "type", default, deserialize_with = "text_or_null")]
    kind: String,
    /// The object's hash.
    #[serde(default, deserialize_with = "text_or_null")]
    pub sha: String,
}

impl Entry {
    /// By type and mode; links are blobs with a mode of their own.
    pub fn kind(&self) -> Kind {
        match (self.kind.as_str(), self.mode.as_str()) {
            _ if self.path.is_empty() => Kind::Other,
            ("blob", "100644" | "100755" | "100664") => Kind::File,
            ("tree", _) => Kind::Directory,
            _ => Kind::Other,
        }
    }
}

/// What the answer said about itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Not all of the tree is in this answer.
    pub truncated: bool,
    /// Entries in this answer.
    pub entries: u64,
    /// Gitea and Forgejo: entries on all pages. GitHub has no pages here.
    pub total: Option<u64>,
}

/// Reads an answer and shows each entry to `see`, in the server's order.
pub fn read(answer: impl Read, mut see: impl FnMut(Entry)) -> Result<Summary, Problem> {
    let mut deserializer = serde_json::Deserializer::from_reader(answer);
    deserializer
        .deserialize_map(TreeVisitor { see: &mut see })
        .map_err(|error| Problem::new(Code::Protocol, format!("the git host's answer (tree) is not what its API promises: {error}")))
}

struct TreeVisitor<'a, F> {
    see: &'a mut F,
}

impl<'de, F: FnMut(Entry)> Visitor<'de> for TreeVisitor<'_, F> {
    type Value = Summary;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a tree object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Summary, M::Error> {
        let mut summary = Summary::default();
        let mut has_tree = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "tree" => {
                    summary.entries = map.next_value_seed(Entries { see: &mut *self.see })?;
                    has_tree = true;
                }
                "truncated" => summary.truncated = map.next_value::<Option<bool>>()?.unwrap_or(false),
                "total_count" => summary.total = map.next_value::<Option<u64>>()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if has_tree { Ok(summary) } else { Err(serde::de::Error::missing_field("tree")) }
    }
}

struct Entries<'a, F> {
    see: &'a mut F,
}

impl<'de, F: FnMut(Entry)> DeserializeSeed<'de> for Entries<'_, F> {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        // An empty tree is `null` on some servers.
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Entry)> Visitor<'de> for Entries<'_, F> {
    type Value = u64;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of tree entries")
    }

    fn visit_unit<E>(self) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut entries: S) -> Result<u64, S::Error> {
        let mut count = 0;
        while let Some(entry) = entries.next_element::<Entry>()? {
            count += 1;
            (self.see)(entry);
        }
        Ok(count)
    }
}

/// Directories above the file.
pub fn depth(path: &str) -> usize {
    path.matches('/').count()
}

/// Folders that an Unreal project fills with assets or build products: looked into last, because a project file is hardly ever there.
pub fn is_heavy(directory: &str) -> bool {
    let name = directory.rsplit('/').next().unwrap_or(directory);
    ["Content", "Intermediate", "Saved", "Binaries", "DerivedDataCache", "Build"].iter().any(|heavy| name.eq_ignore_ascii_case(heavy))
}

#[cfg(test)]
mod tests {
    use super::{Kind, Summary, depth, is_heavy, read};

    const TREE: &str = r#"{"sha":"x","url":"u","tree":[
        {"path":"Game.uproject","mode":"100644","type":"blob","size":9,"sha":"a1","url":"u"},
        {"path":"Tool.sh","mode":"100755","type":"blob","sha":"a2"},
        {"path":"Content","mode":"040000","type":"tree","sha":"a3"},
        {"path":"link.uproject","mode":"120000","type":"blob","sha":"a4"},
        {"path":"Other","mode":"160000","type":"commit","sha":"a5"}],"truncated":true}"#;

    #[test]
    fn entries_are_told_apart_by_type_and_mode() {
        let mut seen = Vec::new();
        let summary = read(TREE.as_bytes(), |entry| seen.push((entry.kind(), entry.path))).unwrap();
        assert_eq!(summary, Summary { truncated: true, entries: 5, total: None });
        let kinds: Vec<Kind> = seen.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [Kind::File, Kind::File, Kind::Directory, Kind::Other, Kind::Other]);
        assert_eq!(seen[0].1, "Game.uproject");
    }

    #[test]
    fn pages_and_empty_trees_of_api_v1_are_read() {
        let summary = read(&br#"{"sha":"x","tree":null,"truncated":false,"page":1,"total_count":0}"#[..], |_| {}).unwrap();
        assert_eq!(summary, Summary { truncated: false, entries: 0, total: Some(0) });
    }

    #[test]
    fn anything_else_is_an_error() {
        for text in ["", "[]", "{}", r#"{"tree":7}"#, r#"{"tree":[7]}"#, r#"{"tree":[{"path":"a"}"#] {
            assert!(read(text.as_bytes(), |_| {}).is_err(), "{text}");
        }
    }

    #[test]
    fn folders() {
        assert_eq!((depth("a"), depth("a/b/c/d")), (0, 3));
        assert!(is_heavy("Game/Content") && is_heavy("saved") && !is_heavy("Contents"));
    }
}
