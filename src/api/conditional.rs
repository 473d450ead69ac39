//! `ETag`, `If-Match` and `If-None-Match` of single resources (decisions 2).

use std::fmt;

use hyper::header::{self, HeaderMap};
use sha2::{Digest, Sha256};

use super::endpoint::Head;
use super::error::{Problem, Result};

/// The entity tag of a resource as it was shown: `"<version>-<hash of the bytes>"`.
///
/// A GET compares the whole tag, so nobody sees a stale answer. `If-Match` compares the version alone: what the service
/// itself changes (a project's last build) is no reason to refuse a person's edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    version: u64,
    hash: String,
}

impl Tag {
    /// The tag of these bytes.
    pub fn new(version: u64, body: &[u8]) -> Self {
        let digest = Sha256::digest(body);
        Tag { version, hash: digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect() }
    }

    /// The tag under which `If-None-Match` says that the client has exactly this, compressed or not.
    pub(super) fn known_to(&self, headers: &HeaderMap) -> Option<String> {
        let own = self.to_string();
        let compressed = compressed_tag(&own);
        [own, compressed].into_iter().find(|tag| is_among(headers, header::IF_NONE_MATCH, tag))
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}-{}\"", self.version, self.hash)
    }
}

/// The tag of the same thing as gzip: other bytes need another strong tag. `If-Match` looks at the version alone.
pub(super) fn compressed_tag(tag: &str) -> String {
    tag.strip_suffix('"').map_or_else(|| tag.to_owned(), |start| format!("{start}+gzip\""))
}

/// Refuses a change of something that moved on since the client read it. To be called inside the transaction that
/// changes it. Without `If-Match` everything goes.
pub fn check_match(head: &Head, version: u64) -> Result<()> {
    if !head.headers.contains_key(header::IF_MATCH) {
        return Ok(());
    }
    let own = format!("\"{version}-");
    // A weak tag never matches strongly (RFC 9110, 13.1.1).
    match tags(&head.headers, header::IF_MATCH).any(|tag| tag == "*" || (tag.starts_with(&own) && tag.ends_with('"'))) {
        true => Ok(()),
        false => Err(Problem::PreconditionFailed.into()),
    }
}

/// Whether `If-Match` lets a request for the bytes behind this strong tag through.
pub(super) fn holds_if_match(headers: &HeaderMap, own: &str) -> bool {
    !headers.contains_key(header::IF_MATCH) || tags(headers, header::IF_MATCH).any(|tag| tag == "*" || tag == own)
}

/// Whether a header lists this tag, weak or strong.
pub(super) fn is_among(headers: &HeaderMap, name: header::HeaderName, own: &str) -> bool {
    tags(headers, name).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == own)
}

fn tags(headers: &HeaderMap, name: header::HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::super::link::Link;
    use super::*;

    fn head(name: header::HeaderName, value: &str) -> Head {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        Head {
            method: hyper::Method::GET,
            path: "/".into(),
            headers,
            request_id: String::new(),
            peer: [127, 0, 0, 1].into(),
            base_url: String::new(),
            is_secure: false,
            is_local: true,
            link: Link::default(),
            upgrade: None,
        }
    }

    #[test]
    fn a_get_compares_bytes_and_a_change_compares_versions() {
        let (old, new) = (Tag::new(3, b"{\"lastBuildStatus\":\"running\"}"), Tag::new(3, b"{\"lastBuildStatus\":\"complete\"}"));
        assert_eq!(old.known_to(&head(header::IF_NONE_MATCH, &format!("\"x\", W/{old}")).headers), Some(old.to_string()));
        let compressed = compressed_tag(&old.to_string());
        assert_eq!(old.known_to(&head(header::IF_NONE_MATCH, &compressed).headers), Some(compressed.clone()));
        assert!(compressed.ends_with("+gzip\"") && check_match(&head(header::IF_MATCH, &compressed), 3).is_ok());
        assert_eq!(new.known_to(&head(header::IF_NONE_MATCH, &old.to_string()).headers), None);
        assert!(check_match(&head(header::IF_MATCH, &old.to_string()), 3).is_ok());
        assert!(check_match(&head(header::IF_MATCH, &old.to_string()), 4).is_err());
        assert!(check_match(&head(header::IF_MATCH, &format!("W/{old}")), 3).is_err());
        assert!(check_match(&head(header::IF_MATCH, "*"), 9).is_ok());
        assert!(check_match(&head(header::IF_MATCH, "\"\""), 0).is_err());
    }
}
