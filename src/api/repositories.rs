//! The git host as clients see it: repositories, branches and project files of the organization's connection, for
//! whoever makes a project.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::Serialize;

use super::body;
use super::cursor::Cursors;
use super::endpoint::{Call, Ok200};
use super::error::{ApiError, Problem, Result};
use super::githost::{self, Githost};
use super::projects::{branch, repository_name};
use super::query::{FromQuery, Query};
use super::tokens::Paging;
use crate::app::detections::Key;
use crate::model::page::Page;
use crate::model::project::UprojectInfo;
use crate::model::validation::InvalidCode;
use crate::seams::{self, SourceControl};

/// Branches in one answer. Each costs a question to the host, and nobody reads more: `q` narrows.
const MOST_BRANCHES: usize = 100;
/// How often the host is asked for more before what was found is given out.
const TURNS: usize = 20;
/// Repositories that are gone through for a default branch that the client does not name.
const PAGE: u32 = 100;
/// How long a list of repositories waits to know which of them hold a project file.
const DETECTION_BUDGET: Duration = Duration::from_secs(5);

/// A repository at the git host.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Repository")]
pub(super) struct RepositoryView {
    /// The git host's own number.
    #[schemars(example = 7_318)]
    id: u64,
    /// `<owner>/<repo>`.
    #[schemars(example = &"studio/kitchen")]
    full_name: String,
    /// Not everybody can see it.
    private: bool,
    /// The branch when nobody names one.
    #[schemars(example = &"main")]
    default_branch: String,
    /// Whether the default branch holds a project file where one is looked for.
    /// False also while nobody knows: the answer waits a few seconds for what has to be looked up, and the next one knows.
    uproject_detected: bool,
}

/// A branch at the git host.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Branch")]
pub(super) struct BranchView {
    /// Without `refs/heads/`.
    #[schemars(example = &"main")]
    name: String,
    /// Its newest commit.
    commit: CommitView,
    /// The one when nobody names one.
    is_default: bool,
}

/// A commit at the git host.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Commit")]
struct CommitView {
    /// Its full hash.
    #[schemars(example = &"4f6d1c2b9a8e7d6c5b4a39281706f5e4d3c2b1a0")]
    sha: String,
    /// First line of its message.
    #[schemars(example = &"Season the soup")]
    message: String,
    /// Who wrote it.
    #[schemars(example = &"Ada Cook")]
    author: String,
}

/// Some branches; there is no further page, `q` finds the others.
#[derive(Serialize, JsonSchema)]
pub(super) struct Branches {
    /// The default branch first, if it is among them.
    items: Vec<BranchView>,
}

/// What the connection reaches, in the host's order.
pub(super) async fn list(call: Call<String, Paging>) -> Result<Ok200<Page<RepositoryView>>> {
    let host = Arc::new(Githost::of(&call.app, &call.caller, &call.path)?);
    let cursors = Cursors::new(&call.app.vault, call.caller.organization(), "listGithostRepositories", &[Some(&call.path)])?;
    let place = call.query.cursor.as_deref().map(|cursor| cursors.read_foreign(cursor)).transpose()?;
    let limit = u32::try_from(call.query.limit).unwrap_or(PAGE);
    let page = call.app.source_control.list_repositories(host.binding(), place, limit, host.call()).await.map_err(githost::refusal)?;
    let detected = join_all(page.items.iter().map(|repository| detected(&host, &call.app.detections, repository))).await;
    let mut items = Vec::with_capacity(page.items.len());
    for (repository, uproject_detected) in page.items.into_iter().zip(detected) {
        let id = repository.id.parse().map_err(|_| nonsense("a repository's id is no number"))?;
        let seams::Repository { full_name, is_private: private, default_branch, .. } = repository;
        items.push(RepositoryView { id, full_name, private, default_branch, uproject_detected });
    }
    let next_cursor = match page.next_cursor {
        Some(place) => Some(cursors.write_foreign(&place).ok_or_else(|| nonsense("a cursor too long to carry"))?),
        None => None,
    };
    Ok(Ok200(Page { items, next_cursor }))
}

fn nonsense(cause: &'static str) -> ApiError {
    ApiError::new(Problem::UpstreamError, "The git host answered something that makes no sense.").because(cause)
}

/// Whether a repository holds a project file: from memory, or by asking within the budget.
async fn detected(host: &Arc<Githost>, detections: &crate::app::detections::Detections, repository: &seams::Repository) -> bool {
    let key = Key { organization: host.binding().organization, repository: repository.full_name.clone() };
    let remembered = detections.remembered(&key);
    if let Some((found, true)) = remembered {
        return found;
    }
    let stale = remembered.is_some_and(|(found, _)| found);
    let Some(work) = detections.begin(key) else { return stale };
    let (host, repository) = (host.clone(), repository.clone());
    // Goes on when this answer no longer waits for it: the next one knows.
    let asking = tokio::spawn(async move {
        let known_head = work.known_head();
        let turn = work.turn().await;
        let head = match host.head(&repository.full_name, &repository.default_branch).await {
            Ok(head) => head.id,
            // An empty repository has no branch.
            Err(error) if matches!(error.problem, Problem::BranchNotFound) => {
                work.remember(String::new(), false);
                return Some(false);
            }
            Err(_) => return None,
        };
        let found = match known_head {
            Some((known, found)) if known == head => found,
            _ => host.holds_uproject(&repository.full_name, &head).await.ok()?,
        };
        drop(turn);
        work.remember(head, found);
        Some(found)
    });
    match tokio::time::timeout(DETECTION_BUDGET, asking).await {
        Ok(Ok(Some(found))) => found,
        _ => stale,
    }
}

/// GET `/gitghost/branches/:installationId`
pub(super) struct FindBranches {
    repo_full_name: String,
    q: Option<String>,
}

impl FromQuery for FindBranches {
    fn read(query: &mut Query) -> Result<Option<Self>> {
        let repo_full_name = query.required("repoFullName", repository_name());
        let q = query.checked("q", body::text(250).about("Only branches whose name contains this, in any case."));
        Ok(repo_full_name.map(|repo_full_name| FindBranches { repo_full_name, q }))
    }
}

/// Up to 100 branches whose name contains `q`, in any case.
pub(super) async fn branches(call: Call<String, FindBranches>) -> Result<Ok200<Branches>> {
    let FindBranches { repo_full_name, q } = call.query;
    let host = Githost::of(&call.app, &call.caller, &call.path)?;
    let (mut items, mut place) = (Vec::new(), None);
    for _ in 0..TURNS {
        let limit = u32::try_from(MOST_BRANCHES - items.len()).unwrap_or(PAGE);
        let page = call.app.source_control.list_branches(host.binding(), &repo_full_name, q.clone(), place, limit, host.call());
        let page = page.await.map_err(githost::refusal)?;
        items.extend(page.items);
        place = page.next_cursor;
        if place.is_none() || items.len() >= MOST_BRANCHES {
            break;
        }
    }
    items.truncate(MOST_BRANCHES);
    let view = |branch: seams::Branch| BranchView {
        name: branch.name,
        commit: CommitView { sha: branch.head.id, message: branch.head.message, author: branch.head.author },
        is_default: branch.is_default,
    };
    Ok(Ok200(Branches { items: items.into_iter().map(view).collect() }))
}

/// GET `/gitghost/uproject/:installationId`
pub(super) struct FindUproject {
    repo_full_name: String,
    branch: Option<String>,
}

impl FromQuery for FindUproject {
    fn read(query: &mut Query) -> Result<Option<Self>> {
        let repo_full_name = query.required("repoFullName", repository_name());
        let branch = query.checked("branch", branch().about("Which branch; absent: the default branch."));
        Ok(repo_full_name.map(|repo_full_name| FindUproject { repo_full_name, branch }))
    }
}

/// The only project file of a branch, and what it says.
pub(super) async fn uproject(call: Call<String, FindUproject>) -> Result<Ok200<UprojectInfo>> {
    let FindUproject { repo_full_name, branch } = call.query;
    let host = Githost::of(&call.app, &call.caller, &call.path)?;
    let branch = match branch {
        Some(branch) => branch,
        None => default_branch(&*call.app.source_control, &host, &repo_full_name).await?,
    };
    let asked_of_a_query = |error: ApiError| error.with_field_renamed("defaultBranch", "branch");
    let head = host.head(&repo_full_name, &branch).await.map_err(asked_of_a_query)?;
    let found = host.uproject(&repo_full_name, &head.id, None).await;
    found.map(Ok200).map_err(|error| match (&error.problem, error.details.first()) {
        // The request is right; what the repository holds is not.
        (Problem::ValidationFailed, Some(detail)) if detail.code == InvalidCode::InvalidValue => {
            ApiError::new(Problem::UprojectNotFound, detail.message.clone())
        }
        _ => error,
    })
}

/// The host tells it in its list of repositories.
async fn default_branch(source_control: &dyn SourceControl, host: &Githost, repository: &str) -> Result<String> {
    let mut place = None;
    for _ in 0..TURNS {
        let page = source_control.list_repositories(host.binding(), place, PAGE, host.call()).await.map_err(githost::refusal)?;
        if let Some(found) = page.items.into_iter().find(|found| found.full_name.eq_ignore_ascii_case(repository)) {
            return Ok(found.default_branch);
        }
        place = page.next_cursor;
        if place.is_none() {
            break;
        }
    }
    Err(Problem::RepositoryNotFound.into())
}
