//! From a delivery's bytes to the few facts that matter. The bytes are signed, and still from outside: every text is
//! bounded, every shape that does not fit is [`Facts::Unreadable`].

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::model::delivery::{Facts, InstallationChange, Push, RepositoriesChange, RepositoryRename};
use crate::model::project::is_repository_name;

/// Longest name of a repository, a reference or an account, in bytes.
const LONGEST: usize = 1024;
/// Removed repositories that are noted.
const MOST_REPOSITORIES: usize = 1000;
/// In the message of the pushed commit, in any case: no build.
const SKIP: [&str; 2] = ["[skip ci]", "[ci skip]"];

/// What the body of this event says.
pub(super) fn read(event: &str, body: &[u8]) -> Facts {
    match event {
        "push" => parsed(body, push),
        "installation" => parsed(body, installation),
        "installation_repositories" => parsed(body, repositories),
        "repository" => parsed(body, renamed),
        _ => Facts::Other,
    }
}

/// Whether a commit with this message is not to be built.
pub(super) fn is_skipped(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    SKIP.iter().any(|mark| message.contains(mark))
}

/// Whether a text is a whole commit hash, which `000...` is not.
pub(super) fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) && text.bytes().any(|byte| byte != b'0')
}

fn parsed<T: DeserializeOwned>(body: &[u8], facts: impl FnOnce(T) -> Option<Facts>) -> Facts {
    serde_json::from_slice(body).ok().and_then(facts).unwrap_or(Facts::Unreadable)
}

#[derive(Deserialize)]
struct PushBody {
    #[serde(rename = "ref")]
    reference: String,
    before: Option<String>,
    after: Option<String>,
    deleted: Option<bool>,
    head_commit: Option<Commit>,
    commits: Option<Vec<Commit>>,
    repository: Repository,
    installation: Option<Installation>,
}

#[derive(Deserialize)]
struct Commit {
    id: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Repository {
    full_name: String,
}

#[derive(Deserialize)]
struct Installation {
    /// A number; some servers send it as a text.
    id: Value,
    account: Option<Account>,
    repository_selection: Option<String>,
}

#[derive(Deserialize)]
struct Account {
    login: Option<String>,
}

#[derive(Deserialize)]
struct InstallationBody {
    action: String,
    installation: Installation,
}

#[derive(Deserialize)]
struct RepositoriesBody {
    installation: Installation,
    repository_selection: Option<String>,
    repositories_removed: Option<Vec<Repository>>,
}

#[derive(Deserialize)]
struct RepositoryBody {
    action: String,
    changes: Option<Value>,
    repository: Repository,
    installation: Option<Installation>,
}

impl Installation {
    fn id(&self) -> Option<String> {
        match &self.id {
            Value::Number(number) => Some(number.to_string()),
            Value::String(text) => bounded(text.clone()),
            _ => None,
        }
    }
}

fn bounded(text: String) -> Option<String> {
    (!text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control)).then_some(text)
}

fn selection(text: Option<String>) -> String {
    if text.as_deref() == Some("selected") { "selected".into() } else { "all".into() }
}

fn push(body: PushBody) -> Option<Facts> {
    let after = body.after.unwrap_or_default().to_ascii_lowercase();
    let is_zero = !after.is_empty() && after.bytes().all(|byte| byte == b'0');
    let is_deleted = body.deleted == Some(true) || is_zero;
    if !is_deleted && !is_hash(&after) {
        return None;
    }
    // Some servers leave `head_commit` out: the pushed commit is among the commits then.
    let is_pushed = |commit: &Commit| commit.id.as_ref().is_some_and(|id| id.eq_ignore_ascii_case(&after));
    let head = body.head_commit.or_else(|| body.commits.unwrap_or_default().into_iter().find(is_pushed));
    let installation = match body.installation {
        Some(installation) => Some(installation.id()?),
        None => None,
    };
    Some(Facts::Push(Push {
        repository: bounded(body.repository.full_name)?,
        installation,
        reference: bounded(body.reference)?,
        before: body.before.map(|before| before.to_ascii_lowercase()).filter(|before| is_hash(before)).unwrap_or_default(),
        is_skipped: head.and_then(|commit| commit.message).is_some_and(|message| is_skipped(&message)),
        after: if is_deleted { String::new() } else { after },
        is_deleted,
    }))
}

fn installation(body: InstallationBody) -> Option<Facts> {
    Some(Facts::Installation(InstallationChange {
        action: bounded(body.action)?,
        installation: body.installation.id()?,
        account: body.installation.account.and_then(|account| account.login).and_then(bounded).unwrap_or_default(),
        repository_selection: selection(body.installation.repository_selection),
    }))
}

fn repositories(body: RepositoriesBody) -> Option<Facts> {
    let removed = body.repositories_removed.unwrap_or_default().into_iter().filter_map(|repository| bounded(repository.full_name));
    Some(Facts::Repositories(RepositoriesChange {
        removed: removed.take(MOST_REPOSITORIES).collect(),
        repository_selection: selection(body.repository_selection.or_else(|| body.installation.repository_selection.clone())),
        installation: body.installation.id()?,
    }))
}

/// Other actions on a repository change nothing here.
fn renamed(body: RepositoryBody) -> Option<Facts> {
    let changes = body.changes.unwrap_or_default();
    let to = bounded(body.repository.full_name)?;
    let (owner, name) = to.split_once('/')?;
    let text = |place: &str| changes.pointer(place).and_then(Value::as_str);
    let from = match body.action.as_str() {
        "renamed" => format!("{owner}/{}", text("/repository/name/from")?),
        "transferred" => format!("{}/{name}", text("/owner/from/user/login").or_else(|| text("/owner/from/organization/login"))?),
        _ => return Some(Facts::Other),
    };
    let installation = match body.installation {
        Some(installation) => Some(installation.id()?),
        None => None,
    };
    (is_repository_name(&from) && is_repository_name(&to)).then_some(Facts::Renamed(RepositoryRename { installation, from, to }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const COMMIT: &str = "0123456789ABCDEF0123456789abcdef01234567";

    fn read_push(change: impl FnOnce(&mut Value)) -> Facts {
        let mut body = json!({"ref": "refs/heads/main", "before": "0".repeat(40), "after": COMMIT, "deleted": false, "forced": false,
            "head_commit": {"id": COMMIT, "message": "Salt the soup"}, "commits": [], "repository": {"id": 1, "full_name": "studio/kitchen"},
            "installation": {"id": 42}});
        change(&mut body);
        read("push", body.to_string().as_bytes())
    }

    #[test]
    fn a_push_is_its_repository_reference_and_commit() {
        let expected = Push {
            repository: "studio/kitchen".into(),
            installation: Some("42".into()),
            reference: "refs/heads/main".into(),
            before: String::new(),
            after: COMMIT.to_lowercase(),
            is_deleted: false,
            is_skipped: false,
        };
        assert_eq!(read_push(|_| ()), Facts::Push(expected));
    }

    #[test]
    fn the_skip_mark_counts_in_the_pushed_commit_alone() {
        let is_skipped = |facts| matches!(facts, Facts::Push(Push { is_skipped: true, .. }));
        for mark in ["[skip ci]", "Fix\n\n[CI Skip]", "x [Skip CI] y"] {
            assert!(is_skipped(read_push(|body| body["head_commit"]["message"] = mark.into())), "{mark}");
        }
        assert!(!is_skipped(read_push(|body| body["commits"] = json!([{"id": "a", "message": "[skip ci]"}]))));
        let without_head = |body: &mut Value| {
            body["head_commit"] = Value::Null;
            body["commits"] = json!([{"id": "a", "message": "no"}, {"id": COMMIT, "message": "[skip ci]"}]);
        };
        assert!(is_skipped(read_push(without_head)));
    }

    #[test]
    fn a_deleted_branch_is_told_by_its_flag_or_its_zeros() {
        let is_deleted = |facts| matches!(facts, Facts::Push(Push { is_deleted: true, .. }));
        assert!(is_deleted(read_push(|body| body["deleted"] = true.into())));
        assert!(is_deleted(read_push(|body| body["after"] = "0".repeat(40).into())));
    }

    #[test]
    fn other_shapes_are_unreadable_and_other_events_are_none_of_ours() {
        type Spoil = fn(&mut Value);
        let spoils: [Spoil; 8] = [
            |body| body["after"] = "main".into(),
            |body| body["after"] = Value::Null,
            |body| body["ref"] = 7.into(),
            |body| body["ref"] = "x".repeat(2000).into(),
            |body| body["repository"]["full_name"] = "".into(),
            |body| body["repository"] = Value::Null,
            |body| body["installation"]["id"] = json!([1]),
            |body| *body = json!([1]),
        ];
        for spoil in spoils {
            assert_eq!(read_push(spoil), Facts::Unreadable);
        }
        for body in [&b""[..], b"{", b"\xff\xfe", &b"[".repeat(100_000)] {
            assert_eq!(read("push", body), Facts::Unreadable);
            assert_eq!(read("star", body), Facts::Other);
        }
    }

    #[test]
    fn installations_come_with_numbers_and_texts() {
        let body =
            json!({"action": "suspend", "installation": {"id": "7", "account": {"login": "studio"}, "repository_selection": "selected"}});
        let expected = InstallationChange {
            action: "suspend".into(),
            installation: "7".into(),
            account: "studio".into(),
            repository_selection: "selected".into(),
        };
        assert_eq!(read("installation", body.to_string().as_bytes()), Facts::Installation(expected));
        let body = json!({"installation": {"id": 7}, "repository_selection": "selected", "repositories_removed": [{"full_name": "studio/kitchen"}]});
        let expected = RepositoriesChange {
            installation: "7".into(),
            repository_selection: "selected".into(),
            removed: vec!["studio/kitchen".into()],
        };
        assert_eq!(read("installation_repositories", body.to_string().as_bytes()), Facts::Repositories(expected));
    }
}
