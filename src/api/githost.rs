//! Asking an organization's git host, and what its answers mean to a client.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::auth::Caller;
use super::error::{ApiError, Problem, Result};
use crate::app::App;
use crate::builds::connections::{self, ConnectionError, ServiceLog};
use crate::model::Organization;
use crate::model::organization::GithostStatus;
use crate::model::project::UprojectInfo;
use crate::model::validation::{Invalid, InvalidCode};
use crate::seams::{CallContext, PluginBinding, Revision, SourceError, SourceProblem};
use crate::store::Read;
use crate::uproject::{self, DetectError};

/// The longest that one question to the host may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Project files that are looked at before the client is asked which one is meant.
const CANDIDATES: u32 = 100;

/// A connection that can be asked.
pub(super) struct Githost {
    app: Arc<App>,
    binding: PluginBinding,
}

impl Githost {
    /// The caller's organization's connection; 409 without one, 404 if it has no such installation.
    pub(super) fn of(app: &Arc<App>, caller: &Caller, installation_id: &str) -> Result<Self> {
        let id = caller.organization();
        let organization: Option<Organization> = app.store.read(|snapshot| snapshot.get(id, id))?;
        let organization = organization.ok_or(Problem::NotFound)?;
        let connection = organization.githost.as_ref().filter(|connection| connection.status == GithostStatus::Connected);
        let connection = connection.ok_or(Problem::GithostNotConnected)?;
        if !connection.installations.iter().any(|installation| installation.id == installation_id) {
            return Err(Problem::InstallationNotFound.into());
        }
        let binding = connections::githost(&app.vault, &organization, installation_id).map_err(|error| match error {
            ConnectionError::NotConnected => Problem::GithostNotConnected.into(),
            ConnectionError::Vault(error) => ApiError::internal(error),
        })?;
        Ok(Githost { app: app.clone(), binding })
    }

    /// A connection that is about to be made.
    pub(super) fn with(app: &Arc<App>, binding: PluginBinding) -> Self {
        Githost { app: app.clone(), binding }
    }

    /// The binding, for calls that this has no word for.
    pub(super) fn binding(&self) -> &PluginBinding {
        &self.binding
    }

    /// The plugin's side of one question.
    pub(super) fn call(&self) -> CallContext {
        CallContext {
            log: Arc::new(ServiceLog),
            cancel: CancellationToken::new(),
            wall: PATIENCE,
            process_marker: self.app.builds.process_marker("api"),
        }
    }

    /// The newest revision of a branch.
    pub(super) async fn head(&self, repository: &str, branch: &str) -> Result<Revision> {
        self.app.source_control.resolve_head(&self.binding, repository, branch, self.call()).await.map_err(refusal)
    }

    /// The project file at `path`, or the only one there is, and what it says.
    pub(super) async fn uproject(&self, repository: &str, revision: &str, path: Option<&str>) -> Result<UprojectInfo> {
        let path = match path {
            Some(path) => path.to_owned(),
            None => self.detect(repository, revision).await?,
        };
        let limit = uproject::MAXIMUM_BYTES as u32;
        let bytes = self.app.source_control.read_file(&self.binding, repository, revision, &path, limit, self.call()).await;
        let bytes = bytes.map_err(|error| match error.problem {
            SourceProblem::NotFound if error.reason.as_deref() == Some("file") => {
                ApiError::new(Problem::UprojectNotFound, format!("The repository has no file {path} on this branch."))
            }
            SourceProblem::TooLarge => unreadable(&path, &format!("it is larger than {limit} bytes")),
            _ => refusal(error),
        })?;
        uproject::read(&bytes, &path).map_err(|error| unreadable(&path, &error.to_string()))
    }

    /// Whether a revision holds a project file where one may lie.
    pub(super) async fn holds_uproject(&self, repository: &str, revision: &str) -> Result<bool> {
        let paths = self.project_files(repository, revision).await?;
        Ok(!matches!(uproject::detect(&paths), Err(DetectError::NotFound)))
    }

    async fn project_files(&self, repository: &str, revision: &str) -> Result<Vec<String>> {
        let depth = uproject::MAXIMUM_DEPTH as u32;
        let found =
            self.app.source_control.find_files(&self.binding, repository, revision, "**/*.uproject", depth, CANDIDATES, self.call());
        Ok(found.await.map_err(refusal)?.0)
    }

    async fn detect(&self, repository: &str, revision: &str) -> Result<String> {
        let paths = self.project_files(repository, revision).await?;
        uproject::detect(&paths).map_err(|error| match error {
            DetectError::NotFound => {
                ApiError::new(Problem::UprojectNotFound, "The repository has no .uproject file within three directories of its root.")
            }
            DetectError::Several(paths) => {
                let detail = Invalid::new("uprojectPath", InvalidCode::Required, "several files match; name one of them");
                ApiError::from(Problem::MultipleUprojects).with_detail(Invalid { allowed: paths, ..detail })
            }
        })
    }
}

pub(super) fn unreadable(path: &str, reason: &str) -> ApiError {
    ApiError::field("uprojectPath", InvalidCode::InvalidValue, format!("{path} is no project file that can be built: {reason}"))
}

/// What a failure of the host means to the client that asked for something of it.
pub(super) fn refusal(error: SourceError) -> ApiError {
    let upstream = |text: &str| ApiError::new(Problem::UpstreamError, text);
    match (error.problem, error.reason.as_deref()) {
        (SourceProblem::NotFound, Some("branch" | "revision")) => Problem::BranchNotFound.into(),
        (SourceProblem::NotFound, Some("file")) => Problem::UprojectNotFound.into(),
        (SourceProblem::NotFound, _) => Problem::RepositoryNotFound.into(),
        (SourceProblem::Invalid, Some("branch")) => ApiError::field("defaultBranch", InvalidCode::InvalidValue, error.message.clone()),
        (SourceProblem::Invalid, Some("repository")) => ApiError::field("repoFullName", InvalidCode::InvalidValue, error.message.clone()),
        (SourceProblem::Unauthenticated, _) => upstream("The git host refuses the stored credentials; an admin has to connect it again."),
        (SourceProblem::Forbidden, _) => upstream("The git host does not allow this to the stored credentials."),
        (SourceProblem::RateLimited, _) => ApiError::from(Problem::UpstreamRateLimited).retry_after(error.retry_after.unwrap_or(60)),
        (SourceProblem::Unavailable, _) => upstream("The git host cannot be reached or is failing; try again later."),
        (SourceProblem::TimedOut, _) => upstream("The git host did not answer in time; try again later."),
        (SourceProblem::StorageFull, _) => Problem::StorageFull.into(),
        (SourceProblem::Cancelled, _) => ApiError::from(Problem::Draining).retry_after(5),
        (SourceProblem::Invalid | SourceProblem::TooLarge | SourceProblem::Broken, _) => {
            upstream("The git host answered something that makes no sense.")
        }
    }
    .because(error)
}
