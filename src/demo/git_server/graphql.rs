//! The one GraphQL query that plugins ask: a page of branches with their commits. Answered in the shapes of GitHub's schema.

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};

use super::answer::{Answer, document, internal, message};
use super::{Shared, repositories};

/// Where GitHub Enterprise Server has it.
pub(super) const PATH: &str = "/api/graphql";
const REQUEST_LIMIT: usize = 64 << 10;

pub(super) async fn answer(server: &Shared, request: Request<Incoming>) -> Answer {
    if request.method() != Method::POST || !server.settings.speaks_graphql {
        return message(StatusCode::NOT_FOUND, "Not Found");
    }
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, REQUEST_LIMIT).collect().await else {
        return message(StatusCode::PAYLOAD_TOO_LARGE, "The request is too large");
    };
    let Ok(asked) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return message(StatusCode::BAD_REQUEST, "Problems parsing JSON");
    };
    let variables = &asked["variables"];
    let text = |name: &str| variables[name].as_str().unwrap_or_default();
    let name = server.repositories.current(&format!("{}/{}", text("owner"), text("name")));
    if !server.is_authorized(&head.headers, Some(&name), PATH) {
        // A token of another repository is a good one, and sees nothing here.
        return match server.is_known(&head.headers) {
            true => document(&no_repository()),
            false => message(StatusCode::UNAUTHORIZED, "Bad credentials"),
        };
    }
    if !asked["query"].as_str().is_some_and(|query| query.contains("refs(refPrefix:\"refs/heads/\"")) {
        return document(&json!({"errors": [{"message": "This server knows one query"}]}));
    }
    let Some(directory) = server.repositories.directory_of(&name) else { return document(&no_repository()) };
    let wanted = text("text").to_lowercase();
    let after = text("after").to_owned();
    let first = usize::try_from(variables["first"].as_u64().unwrap_or(100)).unwrap_or(100).clamp(1, 100);
    let page = async {
        let mut all = repositories::branches(&directory).await?;
        all.retain(|(name, _)| name.to_lowercase().contains(&wanted) && cursor(name) > after);
        let mut nodes = Vec::new();
        for (name, hash) in all.iter().take(first) {
            let Some(commit) = repositories::describe(&directory, hash).await? else { continue };
            nodes.push(json!({"name": name, "target": {"oid": hash, "message": commit.message, "author": {"name": commit.author}}}));
        }
        let end = all.get(first.min(all.len()).wrapping_sub(1)).map(|(name, _)| cursor(name));
        let page = json!({"nodes": nodes, "pageInfo": {"hasNextPage": all.len() > first, "endCursor": end}});
        let default = repositories::default_branch(&directory).await?;
        Ok::<_, std::io::Error>(json!({"data": {"repository": {"defaultBranchRef": {"name": default}, "refs": page}}}))
    };
    match page.await {
        Ok(page) => document(&page),
        Err(error) => internal(&error),
    }
}

fn no_repository() -> Value {
    json!({"data": {"repository": null}, "errors": [{"type": "NOT_FOUND", "path": ["repository"], "message": "Could not resolve to a Repository"}]})
}

/// Sorts as the names do.
fn cursor(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}
