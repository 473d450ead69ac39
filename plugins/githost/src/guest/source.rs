//! Repositories, branches and commits.

use guest_support::{Code, Problem};

use super::bindings::cookhouse::plugin::types::{Error, ErrorCode};
use super::bindings::cookhouse::plugin::{cache, clock};
use super::bindings::exports::cookhouse::plugin::source_control::{
    Branch, BranchPage, Features, PageRequest, Repository, RepositoryPage, Revision, Server,
};
use super::web::{self, JSON, Web, finish, is_status};
use crate::answers::{self, Commit, User, Version};
use crate::app::{App, Installation, Reached};
use crate::endpoints;
use crate::graphql::{self, Answer};
use crate::names::{BranchName, CommitName, RepositoryName};
use crate::paging::{LARGEST_PAGE, Position, has_next};
use crate::settings::Mode;

/// Pages of branches that one search looks through before it gives out a cursor.
const PAGES_PER_SEARCH: u32 = 50;
/// Commits that are asked for at the same time.
const AT_ONCE: usize = 8;

/// In the cache while the server is known not to answer GraphQL.
const NO_GRAPHQL: &str = "no graphql";
const NO_GRAPHQL_MS: u64 = 3_600_000;
/// Pages of a hundred installations that are listed.
const PAGES_OF_INSTALLATIONS: u32 = 10;

pub(super) fn check(web: &Web) -> Result<Server, Error> {
    let features = Features::REPOSITORIES | Features::BRANCHES | Features::REMOTE_READ | Features::LARGE_FILES;
    if matches!(web.settings().mode(), Mode::App { .. }) {
        let (account, installations) = installations(web)?;
        let extra = vec![("installations".to_owned(), installations.to_string())];
        return Ok(Server { product: "GitHub".to_owned(), version: String::new(), account: Some(account), features, extra });
    }
    let response = match web.send(endpoints::USER, "application/json") {
        Ok(response) => response,
        Err(error) if is_status(&error, 404) => {
            return Err(Problem::new(Code::InvalidConfig, "apiBaseUrl is not the base of a git host's REST API")
                .because("http-status-404")
                .into());
        }
        Err(error) => return Err(error),
    };
    let enterprise = response.header("x-github-enterprise-version");
    let is_original = response.header("x-github-media-type").is_some();
    let user: User = web::read("user", &response)?;
    let (product, version) = match enterprise {
        Some(version) => ("GitHub Enterprise Server".to_owned(), version),
        None if is_original => ("GitHub".to_owned(), String::new()),
        None => match web.get::<Version>("version", endpoints::VERSION) {
            Ok(Version { version }) if version.contains("+gitea") => ("Forgejo".to_owned(), version),
            Ok(Version { version }) => ("Gitea".to_owned(), version),
            Err(_) => ("GitHub compatible".to_owned(), String::new()),
        },
    };
    Ok(Server { product, version, account: Some(user.name().to_owned()).filter(|name| !name.is_empty()), features, extra: Vec::new() })
}

/// The app's name, and where it is installed.
fn installations(web: &Web) -> Result<(String, serde_json::Value), Error> {
    let app: Option<App> = web.get("app", endpoints::APP)?;
    let mut found = Vec::new();
    for page in 1..=PAGES_OF_INSTALLATIONS {
        let response = web.send(&endpoints::installations(page), JSON)?;
        let link = response.header("link");
        let some: Vec<Installation> = web::read("installations", &response)?;
        let is_last = some.is_empty() || !has_next(link.as_deref(), some.len(), LARGEST_PAGE);
        found.extend(some.iter().map(Installation::described));
        if is_last {
            break;
        }
    }
    Ok((app.unwrap_or_default().called(), serde_json::Value::Array(found)))
}

pub(super) fn list_repositories(web: &Web, page: &PageRequest) -> Result<RepositoryPage, Error> {
    let position = Position::from_cursor(page.cursor.as_deref(), page.limit)?;
    let is_app = matches!(web.settings().mode(), Mode::App { .. });
    let address = if is_app { endpoints::installed_repositories(position) } else { endpoints::repositories(position) };
    let response = web.send(&address, JSON)?;
    let link = response.header("link");
    let found: Vec<answers::Repository> =
        if is_app { web::read::<Reached>("repositories", &response)?.repositories } else { web::read("repositories", &response)? };
    let next_cursor = has_next(link.as_deref(), found.len(), position.size).then(|| position.next_page().to_cursor());
    let items = found
        .into_iter()
        .map(|repository| Repository {
            id: repository.id.to_string(),
            full_name: repository.full_name,
            is_private: repository.private,
            default_branch: repository.default_branch,
            extra: Vec::new(),
        })
        .collect();
    Ok(RepositoryPage { items, next_cursor })
}

pub(super) fn list_branches(web: &Web, repository: &RepositoryName, query: Option<&str>, page: &PageRequest) -> Result<BranchPage, Error> {
    let wanted = query.map(str::to_lowercase).filter(|query| !query.is_empty());
    let limit = page.limit.clamp(1, LARGEST_PAGE) as usize;
    if let Some(page) = branches_at_once(web, repository, wanted.as_deref(), page)? {
        return Ok(page);
    }
    let mut position = Position::from_cursor(page.cursor.as_deref(), if wanted.is_some() { LARGEST_PAGE } else { page.limit })?;
    let default_branch = facts(web, repository)?.default_branch;

    let mut found: Vec<answers::Branch> = Vec::new();
    let mut next = None;
    'pages: for turn in 0.. {
        if turn == PAGES_PER_SEARCH {
            next = Some(position);
            break;
        }
        let response = web.send(&endpoints::branches(repository, position), JSON)?;
        let link = response.header("link");
        let branches: Vec<answers::Branch> = web::read("branches", &response)?;
        let count = branches.len();
        for (index, branch) in branches.into_iter().enumerate().skip(position.skip as usize) {
            if wanted.as_ref().is_some_and(|wanted| !branch.name.to_lowercase().contains(wanted)) {
                continue;
            }
            if found.len() == limit {
                next = Some(Position { skip: index as u32, ..position });
                break 'pages;
            }
            found.push(branch);
        }
        if !has_next(link.as_deref(), count, position.size) {
            break;
        }
        position = position.next_page();
        if found.len() == limit {
            next = Some(position);
            break;
        }
    }

    let mut items = Vec::with_capacity(found.len());
    for some in found.chunks(AT_ONCE) {
        for (branch, head) in some.iter().zip(heads(web, repository, some)?) {
            items.push(Branch { name: branch.name.clone(), head, is_default: branch.name == default_branch, extra: Vec::new() });
        }
    }
    Ok(BranchPage { items, next_cursor: next.map(Position::to_cursor) })
}

/// By GraphQL, where the server speaks it: one request instead of one for each branch. `None`: by REST, then.
fn branches_at_once(web: &Web, repository: &RepositoryName, wanted: Option<&str>, page: &PageRequest) -> Result<Option<BranchPage>, Error> {
    let cursor = page.cursor.as_deref();
    let is_begun = cursor.is_some_and(graphql::is_ours);
    let Some(address) = web.settings().graphql().filter(|_| is_begun || (cursor.is_none() && cache::get(NO_GRAPHQL).is_none())) else {
        return Ok(None);
    };
    let body = graphql::branches(repository, wanted, page.limit, cursor)?;
    let answer = match web.query(&address, &body) {
        Ok(response) => {
            let limits = web::limits(&response);
            let bytes = response.read_all(web::ANSWER_LIMIT)?;
            graphql::read(&bytes, &limits, clock::now_ms())?
        }
        // Not there, or not for these credentials.
        Err(error) if [403, 404, 405, 410, 501].iter().any(|status| is_status(&error, *status)) && error.retry_after_ms.is_none() => {
            Answer::Useless
        }
        Err(error) => return Err(error),
    };
    match answer {
        Answer::Page(found) => {
            let branches = found.branches.into_iter();
            // What a server takes for a match is its own affair.
            let branches = branches.filter(|(name, ..)| wanted.is_none_or(|wanted| name.to_lowercase().contains(wanted)));
            let branch = |(name, head, is_default): (String, answers::Revision, bool)| Branch {
                name,
                head: head.into(),
                is_default,
                extra: Vec::new(),
            };
            Ok(Some(BranchPage { items: branches.map(branch).collect(), next_cursor: found.next_cursor }))
        }
        Answer::NoRepository => Err(no_repository(repository)),
        Answer::Useless if is_begun => {
            Err(Problem::new(Code::Protocol, "the git host's answer (branches) is not what its API promises").into())
        }
        Answer::Useless => {
            cache::put(NO_GRAPHQL, b"1", NO_GRAPHQL_MS);
            Ok(None)
        }
    }
}

/// The branches' commits with message and author, asked for at the same time where the list did not have them.
fn heads(web: &Web, repository: &RepositoryName, branches: &[answers::Branch]) -> Result<Vec<Revision>, Error> {
    let mut asked = Vec::with_capacity(branches.len());
    for branch in branches {
        asked.push(match branch.commit.revision()? {
            Some(revision) => Err(revision),
            None => Ok(web.start(&endpoints::commit(repository, &CommitName::parse(branch.commit.hash()?)?))?),
        });
    }
    asked
        .into_iter()
        .map(|entry| match entry {
            Err(revision) => Ok(revision.into()),
            Ok(exchange) => described(finish::<Commit>("commit", &exchange)?),
        })
        .collect()
}

pub(super) fn resolve_head(web: &Web, repository: &RepositoryName, name: &BranchName) -> Result<Revision, Error> {
    let branch: answers::Branch = match web.get("branch", &endpoints::branch(repository, name)) {
        Ok(branch) => branch,
        Err(error) if error.code == ErrorCode::NotFound => {
            facts(web, repository)?;
            return Err(missing(format!("{repository} has no branch {}", name.as_str()), "branch"));
        }
        Err(error) => return Err(error),
    };
    // A renamed branch redirects to its new name; whoever asked means the old one.
    if branch.name != name.as_str() {
        return Err(missing(format!("{repository} has no branch {}; it was renamed to {}", name.as_str(), branch.name), "branch"));
    }
    match branch.commit.revision()? {
        Some(revision) => Ok(revision.into()),
        None => describe_revision(web, repository, &CommitName::parse(branch.commit.hash()?)?),
    }
}

pub(super) fn describe_revision(web: &Web, repository: &RepositoryName, name: &CommitName) -> Result<Revision, Error> {
    let is_missing = |error: &Error| [404, 409, 422].iter().any(|status| is_status(error, *status));
    let mut answer = web.get::<Commit>("commit", &endpoints::commit(repository, name));
    if answer.as_ref().is_err_and(|error| is_status(error, 404)) {
        answer = web.get::<Commit>("commit", &endpoints::git_commit(repository, name));
    }
    let revision = match answer {
        Ok(commit) => described(commit)?,
        Err(error) if is_missing(&error) => {
            facts(web, repository)?;
            return Err(missing(format!("{repository} has no commit {}", name.as_str()), "revision"));
        }
        Err(error) => return Err(error),
    };
    // The address takes branch names as well: one that looks like a hash is not what was asked for.
    if !name.names(&revision.id) {
        return Err(missing(format!("{repository} has no commit {}", name.as_str()), "revision"));
    }
    Ok(revision)
}

/// The repository itself; its absence is an error with the reason `repository`.
pub(super) fn facts(web: &Web, repository: &RepositoryName) -> Result<answers::Repository, Error> {
    match web.get("repository", &endpoints::repository(repository)) {
        Err(error) if error.code == ErrorCode::NotFound => Err(no_repository(repository)),
        other => other,
    }
}

fn no_repository(repository: &RepositoryName) -> Error {
    missing(format!("the git host has no repository {repository}, or the token cannot see it"), "repository")
}

/// A thing that is not there; `reason` says which kind of thing.
pub(super) fn missing(message: String, reason: &str) -> Error {
    Problem::new(Code::NotFound, message).because(reason).into()
}

fn described(commit: Commit) -> Result<Revision, Error> {
    match commit.revision()? {
        Some(revision) => Ok(revision.into()),
        None => Err(Problem::new(Code::Protocol, "the git host's answer names no commit message").into()),
    }
}
