//! The git host says what became of the app's installations.

use super::{Verdict, ignored};
use crate::builds::Builds;
use crate::model::delivery::{InstallationChange, Outcome, RepositoriesChange, RepositoryRename};
use crate::model::organization::{GithostConnection, GithostStatus, Installation};
use crate::model::project::SourceLink;
use crate::model::{Id, Organization, Project};
use crate::store::tables::{PROJECTS_BY_SOURCE, project_source_prefix};
use crate::store::{Change, Order, Read, StoreError};

impl Builds {
    /// Installed, removed, suspended, brought back.
    pub(super) fn installation_changed(
        &self,
        tx: &Change,
        organization: Id<Organization>,
        change: &InstallationChange,
    ) -> Result<Verdict, StoreError> {
        self.connection_changed(tx, organization, |connection| {
            let place = connection.installations.iter().position(|installation| installation.id == change.installation);
            if place.is_none() && connection.app.is_some() && change.action == "created" {
                connection.installations.push(Installation {
                    id: change.installation.clone(),
                    account: change.account.clone(),
                    repository_selection: change.repository_selection.clone(),
                    suspended: false,
                });
                connection.status = connection.status_by_installations();
                return (Outcome::Updated, format!("The app was installed for {}.", change.account), Vec::new());
            }
            let Some(place) = place else { return ignored(UNKNOWN) };
            let message = match change.action.as_str() {
                "deleted" => {
                    connection.installations.remove(place);
                    "The app was uninstalled."
                }
                "suspend" | "suspended" => {
                    connection.installations[place].suspended = true;
                    "The installation was suspended."
                }
                "unsuspend" | "unsuspended" => {
                    connection.installations[place].suspended = false;
                    "The installation is no longer suspended."
                }
                _ => return ignored("This change of an installation changes nothing here."),
            };
            connection.status = connection.status_by_installations();
            (Outcome::Updated, message.to_owned(), Vec::new())
        })
    }

    /// An installation reaches other repositories than before.
    pub(super) fn repositories_changed(
        &self,
        tx: &Change,
        organization: Id<Organization>,
        change: &RepositoriesChange,
    ) -> Result<Verdict, StoreError> {
        let mut lost = 0;
        for repository in &change.removed {
            let prefix = project_source_prefix("githost", repository);
            let linked: Vec<Project> = tx.find_all(organization, &PROJECTS_BY_SOURCE, &prefix, Order::OldestFirst, usize::MAX)?;
            let is_lost = |project: &&Project| matches!(&project.source, SourceLink::Githost { installation_id, .. } if *installation_id == change.installation);
            lost += linked.iter().filter(is_lost).count();
        }
        self.connection_changed(tx, organization, |connection| {
            let found = connection.installations.iter_mut().find(|installation| installation.id == change.installation);
            let Some(installation) = found else { return ignored(UNKNOWN) };
            installation.repository_selection.clone_from(&change.repository_selection);
            let message = match lost {
                0 => "The installation reaches other repositories now.".to_owned(),
                lost => format!("The installation no longer reaches the repositories of {lost} projects: their builds will fail."),
            };
            (Outcome::Updated, message, Vec::new())
        })
    }

    /// A repository has another name: its projects follow.
    pub(super) fn repository_renamed(
        &self,
        tx: &Change,
        organization: Id<Organization>,
        rename: &RepositoryRename,
    ) -> Result<Verdict, StoreError> {
        let stored: Option<Organization> = tx.get(organization, organization)?;
        let Some(connection) = stored.and_then(|organization| organization.githost) else { return Ok(ignored(UNKNOWN)) };
        let is_ours = |id: &str| connection.is_of(rename.installation.as_deref(), id);
        let count = self.follow_rename(tx, organization, &rename.from, &rename.to, is_ours)?;
        Ok(match count {
            0 => ignored(format!("No project is linked to {}.", rename.from)),
            count => (Outcome::Updated, format!("{count} projects follow {} to {}.", rename.from, rename.to), Vec::new()),
        })
    }

    fn connection_changed(
        &self,
        tx: &Change,
        organization: Id<Organization>,
        change: impl FnOnce(&mut GithostConnection) -> Verdict,
    ) -> Result<Verdict, StoreError> {
        let Some(mut stored) = tx.get::<Organization>(organization, organization)? else { return Ok(ignored(UNKNOWN)) };
        let Some(connection) = stored.githost.as_mut() else { return Ok(ignored(UNKNOWN)) };
        let before = connection.clone();
        let verdict = change(connection);
        if *connection != before {
            if before.status != GithostStatus::Connected || connection.status != GithostStatus::Connected {
                tracing::info!(organization.id = %organization, status = ?connection.status, "the git host changed the connection");
            }
            stored.updated_at = self.0.parts.clock.now();
            stored.version += 1;
            tx.put(&stored)?;
        }
        Ok(verdict)
    }
}

const UNKNOWN: &str = "It concerns no installation of this connection.";
