//! What the answers of the REST endpoints look like, as GitHub and Gitea publish them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::repositories::{Description, Entry};

/// Whose shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavor {
    /// github.com and GitHub Enterprise Server.
    V3,
    /// Gitea and Forgejo.
    V1,
}

pub(super) fn repository(full_name: &str, default_branch: &str) -> Value {
    let (owner, name) = full_name.split_once('/').unwrap_or_default();
    json!({
        "id": crc32fast::hash(full_name.as_bytes()),
        "name": name,
        "full_name": full_name,
        "owner": { "login": owner, "id": crc32fast::hash(owner.as_bytes()) },
        "private": true,
        "default_branch": default_branch,
    })
}

pub(super) fn branch(flavor: Flavor, name: &str, hash: &str, described: Option<&Description>) -> Value {
    let commit = match (flavor, described) {
        (Flavor::V3, None) => json!({ "sha": hash, "url": "" }),
        (Flavor::V3, Some(described)) => commit(described),
        (Flavor::V1, None) => json!({ "id": hash }),
        (Flavor::V1, Some(described)) => json!({
            "id": hash,
            "message": described.message,
            "author": { "name": described.author, "email": described.email, "username": "" },
            "timestamp": described.date,
        }),
    };
    json!({ "name": name, "commit": commit, "protected": false })
}

pub(super) fn commit(described: &Description) -> Value {
    let person = json!({ "name": described.author, "email": described.email, "date": described.date });
    json!({
        "sha": described.hash,
        "commit": { "message": described.message, "author": person, "committer": person, "tree": { "sha": described.tree } },
        "author": null,
        "parents": [],
    })
}

/// `pages`: this page and the entries on all of them, where the server has pages.
pub(super) fn tree(hash: &str, entries: &[&Entry], is_truncated: bool, pages: Option<(usize, usize)>) -> Value {
    let entries: Vec<Value> = entries
        .iter()
        .map(|entry| {
            let mut value = json!({ "path": entry.path, "mode": entry.mode, "type": entry.kind, "sha": entry.hash, "url": "" });
            if let Some(size) = entry.size {
                value["size"] = json!(size);
            }
            value
        })
        .collect();
    let mut value = json!({ "sha": hash, "url": "", "tree": entries, "truncated": is_truncated });
    if let Some((page, total)) = pages {
        value["page"] = json!(page);
        value["total_count"] = json!(total);
    }
    value
}

/// `bytes`: none when the file is too large to be wrapped.
pub(super) fn contents(entry: &Entry, path: &str, size: usize, bytes: Option<&[u8]>) -> Value {
    let kind = if entry.mode == "120000" { "symlink" } else { "file" };
    // Wrapped into lines, as both servers do.
    let content = bytes.map(|bytes| {
        let text = BASE64_STANDARD.encode(bytes);
        text.as_bytes().chunks(60).map(|line| String::from_utf8_lossy(line) + "\n").collect::<String>()
    });
    json!({
        "type": kind,
        "name": path.rsplit('/').next(),
        "path": path,
        "sha": entry.hash,
        "size": size,
        "encoding": if bytes.is_some() { "base64" } else { "none" },
        "content": content.unwrap_or_default(),
    })
}
