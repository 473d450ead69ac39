//! A push starts the settings that track its branch.

use super::{Verdict, ignored};
use crate::builds::{Builds, Overrides, Request, TriggerError};
use crate::model::build_setting::Trigger;
use crate::model::delivery::{Outcome, Push, TrackedHead};
use crate::model::organization::GithostStatus;
use crate::model::project::SourceLink;
use crate::model::revision::check_branch;
use crate::model::{Build, BuildSetting, Id, Organization, Project, Status, TriggeredBy};
use crate::store::key::Key;
use crate::store::tables::{BUILD_SETTINGS_BY_PROJECT, BUILDS_BY_PUSH, PROJECTS_BY_SOURCE, project_source_prefix};
use crate::store::{Change, Order, Read, StoreError};

impl Builds {
    /// What a push comes to, in the caller's transaction.
    pub(super) fn pushed(&self, tx: &Change, organization: Id<Organization>, push: &Push) -> Result<Verdict, TriggerError> {
        let Some(branch) = push.reference.strip_prefix("refs/heads/") else {
            return Ok(ignored(format!("{} is no branch.", push.reference)));
        };
        if push.is_deleted {
            return Ok(ignored(format!("The branch {branch} was deleted.")));
        }
        if let Err(reason) = check_branch(branch) {
            return Ok(ignored(reason));
        }
        let stored: Option<Organization> = tx.get(organization, organization)?;
        let connection = stored.and_then(|organization| organization.githost);
        let Some(connection) = connection.filter(|connection| connection.status == GithostStatus::Connected) else {
            return Ok(ignored("The organization is not connected to its git host."));
        };
        let is_ours = |id: &str| connection.is_of(push.installation.as_deref(), id);
        let mut projects: Vec<Project> = tx.find_all(
            organization,
            &PROJECTS_BY_SOURCE,
            &project_source_prefix("githost", &push.repository),
            Order::OldestFirst,
            usize::MAX,
        )?;
        projects.retain(|project| matches!(&project.source, SourceLink::Githost { installation_id, .. } if is_ours(installation_id)));
        if projects.is_empty() {
            return Ok(ignored(format!("No project is linked to {}.", push.repository)));
        }
        let mut settings: Vec<BuildSetting> = Vec::new();
        for project in &projects {
            settings.extend(tx.find_all(
                organization,
                &BUILD_SETTINGS_BY_PROJECT,
                &Key::of_id(project.id),
                Order::OldestFirst,
                usize::MAX,
            )?);
        }
        settings.retain(|setting| setting.trigger == Trigger::Push && setting.branch == branch);
        if settings.is_empty() {
            return Ok(ignored(format!("No build setting is started by pushes to {branch}.")));
        }
        let mut started = Vec::new();
        for setting in &settings {
            let build = self.arrived(tx, setting, &push.repository, &push.after, Some(&push.before), push.is_skipped)?;
            started.extend(build.map(|build| build.id));
        }
        let count = settings.len();
        Ok(match started.len() {
            0 if push.is_skipped => ignored("The commit's message asks for no build."),
            0 => ignored("This commit was built already, or a newer one came before it."),
            new if new == count => (Outcome::Built, format!("{new} builds were started."), started),
            new => (Outcome::Built, format!("{new} builds were started; {} settings had this commit already.", count - new), started),
        })
    }

    /// A setting's branch stands at this commit now: notes it, and builds it unless that was done before.
    ///
    /// `came_from` is the commit before, where that is known: who sets a branch back to a commit whose build was superseded
    /// wants it built; who delivers an old push again does not.
    pub(super) fn arrived(
        &self,
        tx: &Change,
        setting: &BuildSetting,
        repository: &str,
        commit: &str,
        came_from: Option<&str>,
        is_skipped: bool,
    ) -> Result<Option<Build>, TriggerError> {
        let organization = setting.organization_id;
        let known = known_head(tx, setting, repository)?;
        let key = Key::of_id(setting.id).and_text(commit);
        let earlier: Vec<Build> = tx.find_all(organization, &BUILDS_BY_PUSH, &key, Order::NewestFirst, 100)?;
        let follows = known.as_ref().is_some_and(|known| came_from == Some(known.commit.as_str()) && known.commit != commit);
        let is_set_back = follows && earlier.iter().all(|build| build.status == Status::Superseded);
        // Deliveries may come in another order than the pushes did.
        let is_overtaken = !follows && known.as_ref().is_some_and(|known| known.came_from.as_deref() == Some(commit));
        if is_overtaken || !(earlier.is_empty() || is_set_back) {
            return Ok(None);
        }
        note_head(tx, setting, repository, commit, came_from, self.0.parts.clock.now())?;
        if is_skipped {
            return Ok(None);
        }
        let request = Request {
            organization,
            project: setting.project_id,
            setting: setting.id,
            by: TriggeredBy::Push(commit.to_owned()),
            overrides: Overrides { commit: Some(commit.to_owned()), ..Overrides::default() },
        };
        self.trigger_in(tx, &request).map(Some)
    }
}

/// The head that was last seen for a setting, unless it tracks another branch by now.
pub(super) fn known_head(tx: &impl Read, setting: &BuildSetting, repository: &str) -> Result<Option<TrackedHead>, StoreError> {
    let head: Option<TrackedHead> = tx.get(setting.organization_id, setting.id.cast())?;
    Ok(head.filter(|head| head.branch == setting.branch && head.repository.eq_ignore_ascii_case(repository)))
}

/// Notes the head of a setting's branch.
pub(super) fn note_head(
    tx: &Change,
    setting: &BuildSetting,
    repository: &str,
    commit: &str,
    came_from: Option<&str>,
    now: crate::model::Timestamp,
) -> Result<(), StoreError> {
    tx.put(&TrackedHead {
        id: setting.id.cast(),
        organization_id: setting.organization_id,
        repository: repository.to_owned(),
        branch: setting.branch.clone(),
        commit: commit.to_owned(),
        came_from: came_from.map(str::to_owned),
        seen_at: now,
    })
}
