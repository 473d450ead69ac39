//! A repository that the git host calls something else now: its projects follow, and so does what was seen of its branches.

use super::Builds;
use crate::model::delivery::TrackedHead;
use crate::model::project::SourceLink;
use crate::model::{BuildSetting, Id, Organization, Project};
use crate::store::key::Key;
use crate::store::tables::{BUILD_SETTINGS_BY_PROJECT, PROJECTS_BY_SOURCE, project_source_key, project_source_prefix};
use crate::store::{Change, Order, Read, StoreError};

impl Builds {
    /// Lets the projects of a repository follow to its new name, in the caller's transaction; how many did. One stays behind where
    /// a project of the new name has the same project file already.
    pub(super) fn follow_rename(
        &self,
        tx: &Change,
        organization: Id<Organization>,
        from: &str,
        to: &str,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<usize, StoreError> {
        let linked: Vec<Project> =
            tx.find_all(organization, &PROJECTS_BY_SOURCE, &project_source_prefix("githost", from), Order::OldestFirst, usize::MAX)?;
        let now = self.0.parts.clock.now();
        let mut count = 0;
        for mut project in linked {
            let SourceLink::Githost { installation_id, repo_full_name, .. } = &mut project.source else { continue };
            let is_same = repo_full_name.eq_ignore_ascii_case(to);
            let taken: Option<Project> =
                tx.find(organization, &PROJECTS_BY_SOURCE, &project_source_key("githost", to, &project.uproject_path))?;
            if !is_meant(installation_id) || (taken.is_some() && !is_same) {
                continue;
            }
            to.clone_into(repo_full_name);
            project.updated_at = now;
            project.version += 1;
            tx.put(&project)?;
            count += 1;
            let settings: Vec<BuildSetting> =
                tx.find_all(organization, &BUILD_SETTINGS_BY_PROJECT, &Key::of_id(project.id), Order::OldestFirst, usize::MAX)?;
            for setting in settings {
                let head: Option<TrackedHead> = tx.get(organization, setting.id.cast())?;
                if let Some(mut head) = head.filter(|head| head.repository.eq_ignore_ascii_case(from)) {
                    to.clone_into(&mut head.repository);
                    tx.put(&head)?;
                }
            }
        }
        Ok(count)
    }
}
