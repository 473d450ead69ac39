//! The git host as the caller's connection shows it: repositories, branches, project files (specification, git-hosting
//! proxy).

use futures_util::StreamExt;
use serde::Serialize;

use super::endpoint::{Call, Ok200};
use super::error::{ApiError, Result};
use super::githost::{Githost, refusal};
use super::projects::{check_branch_name, check_repository_name};
use super::query::{FromQuery, Pairs, Query};
use crate::model::page::Page;
use crate::model::project::UprojectInfo;
use crate::model::validation::InvalidCode;

/// Repositories that are looked into at once.
const AT_ONCE: usize = 4;
/// Branches of one answer; `q` finds the others.
const MOST_BRANCHES: u32 = 100;
/// The plugin's cursor comes from the client: it is only handed on, but not at any length.
const LONGEST_CURSOR: usize = 1024;

/// The specification's repository.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RepositoryView {
    id: u64,
    full_name: String,
    private: bool,
    default_branch: String,
    uproject_detected: bool,
}

/// The specification's branch.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BranchView {
    name: String,
    commit: CommitView,
    is_default: bool,
}

#[derive(Serialize)]
struct CommitView {
    sha: String,
    message: String,
    author: String,
}

/// The branches' answer has no cursor.
#[derive(Serialize)]
pub(super) struct Branches {
    items: Vec<BranchView>,
}

/// GET `/gitghost/repos/:installationId`
pub(super) struct ListRepositories {
    limit: usize,
    cursor: Option<String>,
}

impl FromQuery for ListRepositories {
    fn from_query(pairs: Pairs) -> Result<Self> {
        let mut query = Query::new(pairs);
        let list = ListRepositories { limit: query.limit()?, cursor: query.text("cursor") };
        query.finish()?;
        if list.cursor.as_ref().is_some_and(|cursor| cursor.len() > LONGEST_CURSOR || cursor.chars().any(char::is_control)) {
            return Err(super::error::Problem::InvalidCursor.into());
        }
        Ok(list)
    }
}

/// What the connection reaches.
pub(super) async fn list(call: Call<String, ListRepositories>) -> Result<Ok200<Page<RepositoryView>>> {
    let host = Githost::of(&call.app, &call.caller, &call.path)?;
    let ListRepositories { limit, cursor } = call.query;
    let limit = u32::try_from(limit).unwrap_or(MOST_BRANCHES);
    let page = call.app.source_control.list_repositories(host.binding(), cursor, limit, host.call()).await.map_err(refusal)?;
    let views = page.items.into_iter().map(|repository| {
        let host = &host;
        async move {
            // An empty repository, or one that cannot be looked into, has none as far as anybody can tell.
            let uproject_detected = host.has_uproject(&repository.full_name, &repository.default_branch).await;
            RepositoryView {
                id: repository.id.parse().unwrap_or(0),
                full_name: repository.full_name,
                private: repository.is_private,
                default_branch: repository.default_branch,
                uproject_detected,
            }
        }
    });
    let items = futures_util::stream::iter(views).buffered(AT_ONCE).collect().await;
    Ok(Ok200(Page { items, next_cursor: page.next_cursor }))
}

/// GET `/gitghost/branches/:installationId` and `/gitghost/uproject/:installationId`
pub(super) struct OfRepository {
    repo_full_name: String,
    branch: Option<String>,
    q: Option<String>,
}

impl FromQuery for OfRepository {
    fn from_query(pairs: Pairs) -> Result<Self> {
        let mut query = Query::new(pairs);
        let name = query.text("repoFullName");
        let (branch, q) = (query.text("branch"), query.text("q"));
        match &name {
            None => query.refuse("repoFullName", InvalidCode::Required, "is required"),
            Some(name) if !check_repository_name(name) => {
                query.refuse("repoFullName", InvalidCode::InvalidValue, "must look like owner/repository")
            }
            Some(_) => {}
        }
        if let Some(Err(message)) = branch.as_deref().map(check_branch_name) {
            query.refuse("branch", InvalidCode::InvalidValue, message);
        }
        if q.as_ref().is_some_and(|q| q.len() > 200 || q.chars().any(char::is_control)) {
            query.refuse("q", InvalidCode::InvalidValue, "must have at most 200 bytes and no control characters");
        }
        query.finish()?;
        let repo_full_name = name.ok_or_else(|| ApiError::validation(Vec::new()))?;
        Ok(OfRepository { repo_full_name, branch, q })
    }
}

/// Branches whose name contains `q`.
pub(super) async fn branches(call: Call<String, OfRepository>) -> Result<Ok200<Branches>> {
    let host = Githost::of(&call.app, &call.caller, &call.path)?;
    let OfRepository { repo_full_name, q, branch: _ } = call.query;
    let page = call.app.source_control.list_branches(host.binding(), &repo_full_name, q, None, MOST_BRANCHES, host.call()).await;
    let items = page.map_err(refusal)?.items.into_iter().map(|branch| BranchView {
        name: branch.name,
        commit: CommitView { sha: branch.head.id, message: branch.head.message, author: branch.head.author },
        is_default: branch.is_default,
    });
    Ok(Ok200(Branches { items: items.collect() }))
}

/// The only project file of a branch, and what it says.
pub(super) async fn uproject(call: Call<String, OfRepository>) -> Result<Ok200<UprojectInfo>> {
    let host = Githost::of(&call.app, &call.caller, &call.path)?;
    let OfRepository { repo_full_name, branch, q: _ } = call.query;
    let branch = match branch {
        Some(branch) => branch,
        None => host.default_branch(&repo_full_name).await?,
    };
    let head = host.head(&repo_full_name, &branch).await?;
    Ok(Ok200(host.uproject(&repo_full_name, &head.id, None).await?))
}
