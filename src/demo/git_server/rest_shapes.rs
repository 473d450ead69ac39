//! What the answers of the REST endpoints look like, as GitHub and Gitea publish them: every field that GitHub's OpenAPI
//! description requires is there, though the plugins read few of them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::repositories::{Description, Entry};

/// Whose shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavor {
    /// github.com and GitHub Enterprise Server.
    V3,
    /// Gitea and Forgejo.
    V1,
}

/// For everything that has a date here and none that anybody asks for.
const DATE: &str = "2026-01-01T00:00:00Z";

/// Addresses of a repository: the field, and what stands behind the repository's own address.
#[rustfmt::skip]
const REPOSITORY_ADDRESSES: [(&str, &str); 38] = [
    ("archive_url", "/{archive_format}{/ref}"), ("assignees_url", "/assignees{/user}"), ("blobs_url", "/git/blobs{/sha}"),
    ("branches_url", "/branches{/branch}"), ("collaborators_url", "/collaborators{/collaborator}"), ("comments_url", "/comments{/number}"),
    ("commits_url", "/commits{/sha}"), ("compare_url", "/compare/{base}...{head}"), ("contents_url", "/contents/{+path}"),
    ("contributors_url", "/contributors"), ("deployments_url", "/deployments"), ("downloads_url", "/downloads"), ("events_url", "/events"),
    ("forks_url", "/forks"), ("git_commits_url", "/git/commits{/sha}"), ("git_refs_url", "/git/refs{/sha}"),
    ("git_tags_url", "/git/tags{/sha}"), ("hooks_url", "/hooks"), ("issue_comment_url", "/issues/comments{/number}"),
    ("issue_events_url", "/issues/events{/number}"), ("issues_url", "/issues{/number}"), ("keys_url", "/keys{/key_id}"),
    ("labels_url", "/labels{/name}"), ("languages_url", "/languages"), ("merges_url", "/merges"),
    ("milestones_url", "/milestones{/number}"), ("notifications_url", "/notifications{?since,all,participating}"),
    ("pulls_url", "/pulls{/number}"), ("releases_url", "/releases{/id}"), ("stargazers_url", "/stargazers"),
    ("statuses_url", "/statuses/{sha}"), ("subscribers_url", "/subscribers"), ("subscription_url", "/subscription"), ("tags_url", "/tags"),
    ("teams_url", "/teams"), ("trees_url", "/git/trees{/sha}"), ("svn_url", ""), ("url", ""),
];

/// Addresses of an account, in the same way.
#[rustfmt::skip]
const ACCOUNT_ADDRESSES: [(&str, &str); 12] = [
    ("avatar_url", "/avatar"), ("events_url", "/events{/privacy}"), ("followers_url", "/followers"), ("following_url", "/following{/other_user}"),
    ("gists_url", "/gists{/gist_id}"), ("organizations_url", "/orgs"), ("received_events_url", "/received_events"), ("repos_url", "/repos"),
    ("starred_url", "/starred{/owner}{/repo}"), ("subscriptions_url", "/subscriptions"), ("url", ""), ("html_url", ""),
];

fn with(mut object: Value, addresses: &[(&str, &str)], base: &str) -> Value {
    let fields: Map<String, Value> = addresses.iter().map(|(name, end)| ((*name).to_owned(), json!(format!("{base}{end}")))).collect();
    if let Value::Object(object) = &mut object {
        object.extend(fields);
    }
    object
}

/// An account. `base` is the server's own address.
pub(super) fn account(base: &str, login: &str) -> Value {
    let id = crc32fast::hash(login.as_bytes());
    let object = json!({ "login": login, "id": id, "node_id": format!("U_{id}"), "gravatar_id": "", "type": "User", "site_admin": false });
    with(object, &ACCOUNT_ADDRESSES, &format!("{base}/api/v3/users/{login}"))
}

/// Whose the credentials are.
pub(super) fn user(base: &str, login: &str) -> Value {
    let mut object = account(base, login);
    let more = json!({ "name": login, "company": null, "blog": null, "location": null, "email": null, "hireable": null, "bio": null,
        "public_repos": 0, "public_gists": 0, "followers": 0, "following": 0, "created_at": DATE, "updated_at": DATE });
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

/// What the app may do where it is installed.
pub(super) fn permissions() -> Value {
    json!({ "contents": "read", "metadata": "read" })
}

/// The app.
pub(super) fn app(base: &str, id: &str) -> Value {
    json!({ "id": crc32fast::hash(id.as_bytes()), "client_id": id, "slug": "cookhouse", "node_id": "A_1", "owner": account(base, "studio"), "name": "Cookhouse",
        "description": null, "external_url": base, "html_url": format!("{base}/apps/cookhouse"), "created_at": DATE, "updated_at": DATE,
        "permissions": permissions(), "events": ["push"] })
}

/// Whose an installation is. By the description of the list it is a user and an enterprise at the same time.
fn holder(base: &str, login: &str) -> Value {
    let mut object = account(base, login);
    for (name, value) in [("name", login), ("slug", login), ("created_at", DATE), ("updated_at", DATE)] {
        object[name] = value.into();
    }
    object
}

/// One place where the app is installed.
pub(super) fn installation(base: &str, app: &str, number: u64, login: &str, is_suspended: bool) -> Value {
    json!({ "id": number, "account": holder(base, login), "app_id": crc32fast::hash(app.as_bytes()), "app_slug": "cookhouse",
        "target_id": crc32fast::hash(login.as_bytes()), "target_type": "User", "single_file_name": null, "repository_selection": "all",
        "access_tokens_url": format!("{base}/api/v3/app/installations/{number}/access_tokens"),
        "repositories_url": format!("{base}/api/v3/installation/repositories"), "html_url": format!("{base}/settings/installations/{number}"),
        "events": ["push"], "permissions": permissions(), "created_at": DATE, "updated_at": DATE,
        "suspended_by": is_suspended.then(|| account(base, login)), "suspended_at": is_suspended.then_some(DATE) })
}

/// A repository.
pub(super) fn repository(base: &str, full_name: &str, number: u64, default_branch: &str) -> Value {
    let (owner, name) = full_name.split_once('/').unwrap_or_default();
    let object = json!({
        "id": number,
        "node_id": format!("R_{number}"),
        "name": name,
        "full_name": full_name,
        "owner": account(base, owner),
        "private": true,
        "default_branch": default_branch,
        "html_url": format!("{base}/{full_name}"),
        "clone_url": format!("{base}/{full_name}.git"),
        "git_url": format!("{base}/{full_name}.git"),
        "ssh_url": format!("{base}/{full_name}.git"),
        "mirror_url": null, "description": null, "homepage": null, "language": null, "license": null,
        "fork": false, "archived": false, "disabled": false,
        "has_issues": false, "has_projects": false, "has_wiki": false, "has_pages": false, "has_downloads": false, "has_discussions": false,
        "forks": 0, "forks_count": 0, "open_issues": 0, "open_issues_count": 0, "size": 0, "stargazers_count": 0, "watchers": 0,
        "watchers_count": 0, "network_count": 0, "subscribers_count": 0,
        "pushed_at": DATE, "created_at": DATE, "updated_at": DATE,
    });
    with(object, &REPOSITORY_ADDRESSES, &format!("{base}/api/v3/repos/{full_name}"))
}

/// A branch. `place` is the repository's address in the API.
pub(super) fn branch(flavor: Flavor, place: &str, name: &str, hash: &str, described: Option<&Description>) -> Value {
    let commit = match (flavor, described) {
        (Flavor::V3, None) => json!({ "sha": hash, "url": format!("{place}/commits/{hash}") }),
        (Flavor::V3, Some(described)) => commit(place, described),
        (Flavor::V1, None) => json!({ "id": hash }),
        (Flavor::V1, Some(described)) => json!({
            "id": hash,
            "message": described.message,
            "author": { "name": described.author, "email": described.email, "username": "" },
            "timestamp": described.date,
        }),
    };
    let mut object = json!({ "name": name, "commit": commit, "protected": false });
    if flavor == Flavor::V3 && described.is_some() {
        let address = format!("{place}/branches/{name}");
        object["_links"] = json!({ "self": address, "html": address });
        object["protection"] = json!({ "enabled": false });
        object["protection_url"] = json!(format!("{address}/protection"));
    }
    object
}

/// A commit.
pub(super) fn commit(place: &str, described: &Description) -> Value {
    let person = json!({ "name": described.author, "email": described.email, "date": described.date });
    let address = format!("{place}/commits/{}", described.hash);
    json!({
        "sha": described.hash,
        "node_id": format!("C_{}", described.hash),
        "url": address,
        "html_url": address,
        "comments_url": format!("{address}/comments"),
        "commit": {
            "message": described.message,
            "author": person,
            "committer": person,
            "url": address,
            "comment_count": 0,
            "tree": { "sha": described.tree, "url": format!("{place}/git/trees/{}", described.tree) },
        },
        "author": null,
        "committer": null,
        "parents": [],
    })
}

/// `pages`: this page and the entries on all of them, where the server has pages.
pub(super) fn tree(place: &str, hash: &str, entries: &[&Entry], is_truncated: bool, pages: Option<(usize, usize)>) -> Value {
    let entries: Vec<Value> = entries
        .iter()
        .map(|entry| {
            let address = format!("{place}/git/{}s/{}", entry.kind, entry.hash);
            let mut value = json!({ "path": entry.path, "mode": entry.mode, "type": entry.kind, "sha": entry.hash, "url": address });
            if let Some(size) = entry.size {
                value["size"] = json!(size);
            }
            value
        })
        .collect();
    let mut value = json!({ "sha": hash, "url": format!("{place}/git/trees/{hash}"), "tree": entries, "truncated": is_truncated });
    if let Some((page, total)) = pages {
        value["page"] = json!(page);
        value["total_count"] = json!(total);
    }
    value
}

/// What every kind of contents has.
fn content(place: &str, entry: &Entry, path: &str) -> Value {
    let kind = match (entry.kind.as_str(), entry.mode.as_str()) {
        ("tree", _) => "dir",
        ("commit", _) => "submodule",
        (_, "120000") => "symlink",
        _ => "file",
    };
    let address = format!("{place}/contents/{path}");
    let blob = format!("{place}/git/{}s/{}", if kind == "dir" { "tree" } else { "blob" }, entry.hash);
    json!({
        "type": kind,
        "name": path.rsplit('/').next(),
        "path": path,
        "sha": entry.hash,
        "size": entry.size.unwrap_or(0),
        "url": address, "html_url": address, "download_url": if kind == "file" { json!(address) } else { Value::Null }, "git_url": blob,
        "_links": { "self": address, "html": address, "git": blob },
    })
}

/// What is in a directory. A submodule is called a file here, which GitHub keeps for old clients' sake.
pub(super) fn directory(place: &str, path: &str, entries: &[Entry]) -> Value {
    let one = |entry: &Entry| {
        let path = if path.is_empty() { entry.path.clone() } else { format!("{path}/{}", entry.path) };
        let mut one = content(place, entry, &path);
        if entry.kind == "commit" {
            one["type"] = "file".into();
        }
        one
    };
    Value::Array(entries.iter().map(one).collect())
}

/// A submodule. Where it comes from stands in a file that nobody here reads.
pub(super) fn submodule(place: &str, entry: &Entry, path: &str) -> Value {
    with(content(place, entry, path), &[("submodule_git_url", "")], place)
}

/// A link.
pub(super) fn link(place: &str, entry: &Entry, path: &str, target: &str) -> Value {
    let mut object = content(place, entry, path);
    object["target"] = target.into();
    object
}

/// A file. `bytes`: none when it is too large to be wrapped.
pub(super) fn contents(place: &str, entry: &Entry, path: &str, size: usize, bytes: Option<&[u8]>) -> Value {
    // Wrapped into lines, as both servers do.
    let content = bytes.map(|bytes| {
        let text = BASE64_STANDARD.encode(bytes);
        text.as_bytes().chunks(60).map(|line| String::from_utf8_lossy(line) + "\n").collect::<String>()
    });
    let mut object = self::content(place, entry, path);
    object["size"] = size.into();
    object["encoding"] = if bytes.is_some() { "base64" } else { "none" }.into();
    object["content"] = content.unwrap_or_default().into();
    object
}
