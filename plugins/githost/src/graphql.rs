//! Branches by GraphQL: one request gives a page of them with their commits, and the server searches by name.

use guest_support::{Code, Problem};
use serde::Deserialize;
use serde_json::json;

use crate::answers::{self, Revision};
use crate::names::RepositoryName;
use crate::status::Limits;
use crate::{paging, status};

/// Marks a cursor as one of these lists.
const MARK: &str = "g.";
const LONGEST_CURSOR: usize = 512;

const BRANCHES: &str = "query($owner:String!,$name:String!,$text:String,$first:Int!,$after:String){repository(owner:$owner,name:$name){\
defaultBranchRef{name} refs(refPrefix:\"refs/heads/\",query:$text,first:$first,after:$after,orderBy:{field:ALPHABETICAL,direction:ASC}){\
nodes{name target{oid ... on Commit{message author{name}}}} pageInfo{hasNextPage endCursor}}}}";

/// The body of a request for branches whose name contains `text`. `after` is a cursor of ours.
pub fn branches(repository: &RepositoryName, text: Option<&str>, first: u32, after: Option<&str>) -> Result<String, Problem> {
    let place = after.map(place).transpose()?;
    let (owner, name) = (repository.owner(), repository.name());
    let variables = json!({"owner": owner, "name": name, "text": text, "first": first.clamp(1, paging::LARGEST_PAGE), "after": place});
    Ok(json!({"query": BRANCHES, "variables": variables}).to_string())
}

/// Whether a cursor came from here.
pub fn is_ours(cursor: &str) -> bool {
    cursor.starts_with(MARK)
}

fn place(cursor: &str) -> Result<&str, Problem> {
    let is_plain = |text: &&str| {
        (1..=LONGEST_CURSOR).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-:.".contains(&byte))
    };
    let text = cursor.strip_prefix(MARK).filter(is_plain);
    text.ok_or_else(|| Problem::new(Code::InvalidArgument, "the cursor is not one of this git host's"))
}

/// What the server answered.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// A page.
    Page(Page),
    /// There is no such repository for these credentials.
    NoRepository,
    /// It cannot, or may not, answer this; the REST API may.
    Useless,
}

/// One page of branches.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    /// Name, newest commit, whether it is the default branch.
    pub branches: Vec<(String, Revision, bool)>,
    /// Of ours.
    pub next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Body {
    data: Option<Data>,
    errors: Option<Vec<Fault>>,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Data {
    repository: Option<Repository>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Repository {
    default_branch_ref: Option<Named>,
    refs: Option<References>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct References {
    nodes: Vec<Option<Reference>>,
    page_info: PageInfo,
}

#[derive(Deserialize)]
struct Reference {
    name: String,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    oid: String,
    message: Option<String>,
    author: Option<Author>,
}

#[derive(Deserialize)]
struct Author {
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageInfo {
    has_next_page: bool,
    end_cursor: Option<String>,
}

/// Reads an answer. Anything that is no such page is useless rather than wrong: there is another way to ask. A spent limit is an error.
pub fn read(bytes: &[u8], limits: &Limits, now_ms: u64) -> Result<Answer, Problem> {
    let Ok(body) = serde_json::from_slice::<Body>(bytes) else { return Ok(Answer::Useless) };
    // Where anything went wrong, what came beside it may be a part only.
    let kinds: Vec<String> = body.errors.unwrap_or_default().into_iter().map(|fault| fault.kind.unwrap_or_default()).collect();
    if kinds.iter().any(|kind| kind.starts_with("RATE_LIMIT")) {
        return Err(status::limited(429, limits, now_ms));
    }
    let Some(data) = body.data else { return Ok(Answer::Useless) };
    let Some(repository) = data.repository else {
        return Ok(if kinds.iter().any(|kind| kind == "NOT_FOUND") { Answer::NoRepository } else { Answer::Useless });
    };
    let Some(references) = repository.refs.filter(|_| kinds.is_empty()) else { return Ok(Answer::Useless) };
    let default = repository.default_branch_ref.map(|reference| reference.name);
    let mut branches = Vec::with_capacity(references.nodes.len());
    for reference in references.nodes.into_iter().flatten() {
        // A reference to something that is no commit is no branch that could be built.
        let Some(Target { oid, message: Some(message), author }) = reference.target else { continue };
        if !answers::is_hash(&oid) {
            return Ok(Answer::Useless);
        }
        let author = author.and_then(|author| author.name).unwrap_or_default();
        let is_default = default.as_ref() == Some(&reference.name);
        branches.push((reference.name, Revision { id: oid, message, author, time_ms: None }, is_default));
    }
    let end = references.page_info.end_cursor.filter(|_| references.page_info.has_next_page);
    Ok(Answer::Page(Page { branches, next_cursor: end.map(|end| format!("{MARK}{end}")) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d";

    fn read_text(text: &str) -> Answer {
        read(text.as_bytes(), &Limits::default(), 0).unwrap()
    }

    #[test]
    fn values_are_variables_and_cursors_are_checked() {
        let repository = RepositoryName::parse("studio/game").unwrap();
        let body = branches(&repository, Some("\"}{"), 500, Some("g.Y3Vyc29yOnYyOpHOAA==")).unwrap();
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["query"], BRANCHES);
        let variables = json!({"owner": "studio", "name": "game", "text": "\"}{", "first": 100, "after": "Y3Vyc29yOnYyOpHOAA=="});
        assert_eq!(body["variables"], variables);
        for cursor in ["1.2.3", "g.", "g.a b", "g.\"", &format!("g.{}", "a".repeat(600))] {
            assert_eq!(branches(&repository, None, 1, Some(cursor)).unwrap_err().code, Code::InvalidArgument, "{cursor}");
        }
        assert!(is_ours("g.x") && !is_ours("1.2.3"));
    }

    #[test]
    fn a_page_is_read() {
        let text = json!({"data": {"repository": {"defaultBranchRef": {"name": "main"}, "refs": {"nodes": [
            {"name": "feature/x", "target": {"oid": HASH, "message": "Title\n\nBody", "author": {"name": "Ada"}}},
            {"name": "main", "target": {"oid": HASH, "message": "m", "author": null}}, null, {"name": "a-tag", "target": {"oid": HASH}}],
            "pageInfo": {"hasNextPage": true, "endCursor": "Y3M="}}}}});
        let Answer::Page(page) = read_text(&text.to_string()) else { panic!() };
        let found: Vec<_> =
            page.branches.iter().map(|(name, head, is_default)| (name.as_str(), head.author.as_str(), *is_default)).collect();
        assert_eq!((found, page.next_cursor.as_deref()), (vec![("feature/x", "Ada", false), ("main", "", true)], Some("g.Y3M=")));
    }

    #[test]
    fn what_is_no_page_is_told_apart() {
        for (text, answer) in [
            (r#"{"data":{"repository":null},"errors":[{"type":"NOT_FOUND","message":"m"}]}"#, Answer::NoRepository),
            (r#"{"data":{"repository":null},"errors":[{"type":"FORBIDDEN"}]}"#, Answer::Useless),
            (r#"{"errors":[{"message":"Parse error"}]}"#, Answer::Useless),
            (r#"{"message":"Not Found"}"#, Answer::Useless),
            ("<html>", Answer::Useless),
            (r#"{"data":{"repository":{"refs":null}}}"#, Answer::Useless),
            (r#"{"data":{"repository":{"refs":{"nodes":null,"pageInfo":{"hasNextPage":false}}}}}"#, Answer::Useless),
            (
                r#"{"data":{"repository":{"refs":{"nodes":[],"pageInfo":{"hasNextPage":false}}}},"errors":[{"message":"Something went wrong"}]}"#,
                Answer::Useless,
            ),
            (
                r#"{"data":{"repository":{"refs":{"nodes":[{"name":"a","target":{"oid":"--x","message":""}}],"pageInfo":{"hasNextPage":false}}}}}"#,
                Answer::Useless,
            ),
        ] {
            assert_eq!(read_text(text), answer, "{text}");
        }
        for kind in ["RATE_LIMITED", "RATE_LIMIT"] {
            let text = format!(r#"{{"data":null,"errors":[{{"type":"{kind}"}}]}}"#);
            let spent = read(text.as_bytes(), &Limits { reset: Some("90".into()), ..Limits::default() }, 0);
            assert_eq!(spent.unwrap_err().retry_after_ms, Some(90_000), "{kind}");
        }
        let empty =
            r#"{"data":{"repository":{"defaultBranchRef":null,"refs":{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}}"#;
        assert_eq!(read_text(empty), Answer::Page(Page { branches: Vec::new(), next_cursor: None }));
    }
}
