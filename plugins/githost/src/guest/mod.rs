//! The exports: what the host calls. `web` asks the REST API, `source` answers from it, `files` finds and reads files, `tool`
//! runs git, `checkout` puts a commit into a workspace.

mod checkout;
mod credentials;
mod files;
mod pruning;
mod source;
mod submodules;
mod tool;
mod web;

pub(crate) mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "source-control-credentials-plugin" });
}

use bindings::cookhouse::plugin::config;
use bindings::cookhouse::plugin::secrets::Secret;
use bindings::cookhouse::plugin::types::{Error, ErrorCode};
use bindings::cookhouse::plugin::workspaces::Workspace;
use bindings::exports::cookhouse::plugin::source_control::{
    BranchPage, CheckoutOptions, Found, Guest, Materialised, PageRequest, RepositoryPage, Revision, Server,
};

use guest_support::{Code, Problem};

use crate::names::{BranchName, CommitName, FilePath, RepositoryName};
use crate::settings::Settings;
use web::Web;

guest_support::problem_into_error!(Error);

struct Githost;

impl Guest for Githost {
    fn check() -> Result<Server, Error> {
        source::check(&web()?)
    }

    fn list_repositories(page: PageRequest) -> Result<RepositoryPage, Error> {
        source::list_repositories(&web()?, &page)
    }

    fn list_branches(repository: String, query: Option<String>, page: PageRequest) -> Result<BranchPage, Error> {
        let repository = RepositoryName::parse(&repository)?;
        source::list_branches(&of(&repository)?, &repository, query.as_deref(), &page)
    }

    fn resolve_head(repository: String, branch: String) -> Result<Revision, Error> {
        let repository = RepositoryName::parse(&repository)?;
        source::resolve_head(&of(&repository)?, &repository, &BranchName::parse(&branch)?)
    }

    fn describe_revision(repository: String, revision: String) -> Result<Revision, Error> {
        let repository = RepositoryName::parse(&repository)?;
        source::describe_revision(&of(&repository)?, &repository, &CommitName::parse(&revision)?)
    }

    fn read_file(repository: String, revision: String, path: String, limit: u32) -> Result<Vec<u8>, Error> {
        let repository = RepositoryName::parse(&repository)?;
        files::read(&of(&repository)?, &repository, &CommitName::parse(&revision)?, &FilePath::parse(&path)?, limit)
    }

    fn find_files(repository: String, revision: String, pattern: String, max_depth: u32, limit: u32) -> Result<Found, Error> {
        let repository = RepositoryName::parse(&repository)?;
        files::find(&of(&repository)?, &repository, &CommitName::parse(&revision)?, &pattern, max_depth, limit)
    }

    fn materialise(
        repository: String,
        branch: String,
        revision: String,
        workspace: &Workspace,
        options: CheckoutOptions,
    ) -> Result<Materialised, Error> {
        let repository = RepositoryName::parse(&repository)?;
        let branch = BranchName::parse(&branch)?;
        let mut commit = CommitName::parse(&revision)?;
        if !commit.is_whole() {
            commit = CommitName::parse(&source::describe_revision(&of(&repository)?, &repository, &commit)?.id)?;
        }
        checkout::materialise(&settings()?, &repository, &branch, &commit, workspace, &options)
    }
}

impl bindings::exports::cookhouse::plugin::credentials::Guest for Githost {
    fn password(remote: String) -> Result<Secret, Error> {
        let settings = settings()?;
        let Some(repository) = settings.repository_at(&remote) else {
            return Err(Problem::new(Code::InvalidArgument, "the remote is no repository of this git host").into());
        };
        // Asking for anything tells whether the token that is kept is still taken, and makes a new one of it where it is not.
        match source::facts(&Web::new(settings.clone(), Some(repository.clone())), &repository) {
            Err(error) if error.retryable || error.code == ErrorCode::Unauthenticated => return Err(error),
            _ => {}
        }
        let secret = credentials::of(&settings, Some(&repository))?;
        secret.ok_or_else(|| Problem::new(Code::NotFound, "nobody entered a token").into())
    }
}

fn settings() -> Result<Settings, Error> {
    Ok(Settings::parse(&config::document())?)
}

fn web() -> Result<Web, Error> {
    Ok(Web::new(settings()?, None))
}

/// The API with the reach of one repository.
fn of(repository: &RepositoryName) -> Result<Web, Error> {
    Ok(Web::new(settings()?, Some(repository.clone())))
}

impl From<crate::answers::Revision> for Revision {
    fn from(found: crate::answers::Revision) -> Self {
        Revision { id: found.id, message: found.message, author: found.author, time_ms: found.time_ms, extra: Vec::new() }
    }
}

bindings::export!(Githost with_types_in bindings);
