//! Step 1: exactly one revision of the code into the workspace.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::bounds;
use super::connections::{self, ConnectionError};
use super::lifecycle;
use super::run::{Job, failure};
use crate::model::Build;
use crate::model::build::{Failure, FailureCode, StepName};
use crate::model::project::{SourceLink, is_repository_name};
use crate::platform::accounts;
use crate::seams::{CallContext, Revision, SourceError, SourceProblem};
use crate::store::StoreError;
use crate::store::build_list::{self, BuildFilter};

/// The longest that a build waits for a server's limits, in all: they are counted by the hour.
const LONGEST_WAIT: Duration = Duration::from_secs(65 * 60);
/// Builds that are looked at for the last one that began.
const LOOKED_AT: usize = 50;
/// Longest first line of a commit's message that is kept, in characters.
const LONGEST_MESSAGE: usize = 500;

impl Job {
    /// Resolves the revision, notes it on the build, and brings the workspace to it.
    pub(super) async fn sync(&self) -> Result<(), Failure> {
        let build = &self.claimed.build;
        let (organization, link) = (&self.claimed.organization, &self.claimed.project.source);
        let connection = connections::source(&self.builds.0.parts.vault, organization, link, &build.branch);
        let (binding, repository) = connection.map_err(|error| match error {
            ConnectionError::NotConnected => failure(
                FailureCode::IntegrationDisconnected,
                StepName::Sync,
                "The connection to the source control is not set up. An administrator has to connect it.".into(),
            ),
            ConnectionError::Vault(error) => failure(FailureCode::SourceUnavailable, StepName::Sync, sentence(&error.to_string())),
        })?;
        let source = &self.builds.0.parts.source_control;
        let call = || self.call("sync");
        let mut resolved = self
            .patiently(&self.stop.token, || match &build.requested_revision {
                Some(revision) => source.describe_revision(&binding, repository, revision, call()),
                None => source.resolve_head(&binding, repository, &build.branch, call()),
            })
            .await;
        if let (Err(error), Some(changelist)) = (&resolved, &build.changelist)
            && error.reason.as_deref() == Some("elsewhere")
            && lifecycle::is_automatic(build, &self.claimed.setting)
        {
            // A server's trigger tells of every changelist there is, and the build of this one may have superseded the build
            // of the last one that the stream has.
            self.say(&format!("Changelist {changelist} changes nothing in {}; building the one before it", build.branch));
            resolved = source.resolve_head(&binding, repository, &format!("{}@{changelist}", build.branch), call()).await;
        }
        let revision = resolved.map_err(|error| self.source_failure(&error))?;
        let first_line: String = revision.message.lines().next().unwrap_or_default().chars().take(LONGEST_MESSAGE).collect();
        let is_stream = matches!(self.claimed.project.source, SourceLink::Streamvc { .. });
        self.notes.revision(revision.id.clone(), first_line.clone(), is_stream);
        self.say(&format!("Syncing {repository} at {} ({}): {first_line}", revision.id, build.branch));
        self.materialise(&binding, repository, &revision).await
    }

    async fn materialise(&self, binding: &crate::seams::PluginBinding, repository: &str, revision: &Revision) -> Result<(), Failure> {
        let (workspace, wants_clean) = (self.workspace.clone(), self.claimed.setting.clean_build);
        let was_cut_off = self.last_was_cut_off();
        let work = move || {
            let is_usable = workspace.begin(wants_clean)?;
            if is_usable && was_cut_off {
                workspace.forget_compiled()?;
            }
            Ok(is_usable)
        };
        let is_incremental = self.on_disk(StepName::Sync, work).await?;
        if is_incremental && was_cut_off {
            self.say("The last build here was cut off: everything is compiled anew.");
        }
        let source = &self.builds.0.parts.source_control;
        let (branch, place) = (&self.claimed.build.branch, self.workspace.source());
        let cancel = self.stop.token.child_token();
        let materialise = || {
            let call = CallContext { cancel: cancel.clone(), ..self.call("sync") };
            source.materialise(binding, repository, branch, &revision.id, place.clone(), is_incremental, call)
        };
        // The mark stays where the sync failed: the next build then begins from an empty directory.
        let materialised = match self.within_size(&cancel, self.patiently(&cancel, materialise)).await {
            Ok(materialised) => materialised,
            Err(error) => {
                if error.reason.as_deref() == Some(bounds::TOO_LARGE) {
                    // Nobody else should have to do with the disk that it left.
                    let workspace = self.workspace.clone();
                    self.on_disk(StepName::Sync, move || workspace.discard()).await?;
                }
                return Err(self.source_failure(&error));
            }
        };
        if let Some(name) = materialised.renamed.as_deref().filter(|name| is_repository_name(name)) {
            self.follow(repository, name).await;
        }
        self.say(&format!(
            "Synced {} files{}",
            materialised.files,
            if is_incremental { "; what earlier builds left in the workspace is kept" } else { " into an empty workspace" }
        ));
        let (workspace, reusable) = (self.workspace.clone(), materialised.reusable);
        let account = self.builds.0.settings.isolation.account.clone();
        let work = move || {
            if reusable {
                workspace.synced()?;
            }
            // What the service fetched becomes the build's own, and what it makes there later is the build's anyway.
            account.map_or(Ok(()), |account| accounts::hand_over(workspace.root(), &account))
        };
        self.on_disk(StepName::Sync, work).await
    }

    /// Asks. Where the server allows no more requests for now, waits as long as it says and asks again, unless it is to stop.
    async fn patiently<'a, T>(
        &self,
        stop: &CancellationToken,
        ask: impl Fn() -> BoxFuture<'a, Result<T, SourceError>>,
    ) -> Result<T, SourceError> {
        let began = Instant::now();
        loop {
            let outcome = ask().await;
            let wait = match &outcome {
                Err(SourceError { problem: SourceProblem::RateLimited, retry_after: Some(seconds), .. }) => {
                    Duration::from_secs((*seconds).max(1))
                }
                _ => return outcome,
            };
            if began.elapsed() + wait > LONGEST_WAIT || Instant::now() + wait >= self.deadline {
                return outcome;
            }
            self.say(&format!("The server allows no more requests for now; going on in {} seconds", wait.as_secs()));
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stop.cancelled() => return outcome,
            }
        }
    }

    /// The repository is called something else now. That it is noted is not worth a failed build: the next one finds it as well.
    async fn follow(&self, from: &str, to: &str) {
        self.say(&format!("The repository {from} is called {to} now; the project follows"));
        let (builds, organization, from, to) = (self.builds.clone(), self.claimed.organization.id, from.to_owned(), to.to_owned());
        let followed = self.builds.0.parts.store.write(move |tx| builds.follow_rename(tx, organization, &from, &to, |_| true)).await;
        if let Err(error) = followed {
            tracing::warn!(%error, build.id = %self.claimed.build.id, "a repository's new name cannot be stored");
        }
    }

    /// Whether the build that was in this workspace before ended in the middle of what it wrote: with the service, or with
    /// the machine. The store knows; a mark in the workspace might be lost with the power.
    fn last_was_cut_off(&self) -> bool {
        let build = &self.claimed.build;
        let filter = BuildFilter { build_setting_id: Some(build.build_setting_id), ..BuildFilter::default() };
        let store = &self.builds.0.parts.store;
        let before: Result<_, StoreError> =
            store.read(|snapshot| build_list::page(snapshot, build.organization_id, &filter, Some(build.id), LOOKED_AT));
        let Ok(before) = before else { return true };
        let last = before.items.into_iter().find(|build: &Build| build.started_at.is_some());
        last.and_then(|build| build.failure).is_some_and(|failure| failure.code == FailureCode::Interrupted)
    }

    fn source_failure(&self, error: &SourceError) -> Failure {
        let code = match error.problem {
            SourceProblem::StorageFull => FailureCode::StorageFull,
            // The app was uninstalled or suspended, and nobody told us yet.
            SourceProblem::Forbidden if error.reason.as_deref() == Some("installation") => FailureCode::IntegrationDisconnected,
            // The run knows better why it was asked to stop.
            SourceProblem::Cancelled => FailureCode::Interrupted,
            SourceProblem::Unauthenticated
            | SourceProblem::Forbidden
            | SourceProblem::NotFound
            | SourceProblem::Invalid
            | SourceProblem::RateLimited
            | SourceProblem::Unavailable
            | SourceProblem::TimedOut
            | SourceProblem::TooLarge
            | SourceProblem::Broken => FailureCode::SourceUnavailable,
        };
        let build = &self.claimed.build;
        let message = match (error.problem, error.reason.as_deref()) {
            (SourceProblem::Forbidden, Some("installation")) => {
                "The git host no longer lets the app reach this account: it was uninstalled or suspended. An administrator has to install \
                 or resume it there."
                    .to_owned()
            }
            (SourceProblem::NotFound, Some("branch")) => {
                let kind = if matches!(self.claimed.project.source, SourceLink::Streamvc { .. }) { "stream" } else { "branch" };
                format!("The {kind} {} does not exist.", build.branch)
            }
            (SourceProblem::NotFound, Some("revision")) => {
                format!("The revision {} does not exist.", build.requested_revision.as_deref().unwrap_or(&build.branch))
            }
            (SourceProblem::NotFound, Some("repository")) => {
                format!("The repository {} does not exist, or the credentials do not reach it.", self.claimed.project.source.repo_link())
            }
            _ => sentence(&error.message),
        };
        self.say(&message);
        failure(code, StepName::Sync, message)
    }
}

/// A plugin's words as the end of a sentence of ours.
fn sentence(message: &str) -> String {
    let message: String = message.chars().filter(|character| !character.is_control()).take(1000).collect();
    let message = message.trim().trim_end_matches('.');
    format!("The code could not be fetched: {message}.")
}
