//! Which artifacts retention may delete, and when. The one place that knows; what is shown and what is done agree.

use std::collections::HashMap;

use crate::model::retention::Keep;
use crate::model::{Build, BuildSetting, Id, Organization, Timestamp};
use crate::store::key::Key;
use crate::store::tables::BUILDS_WITH_ARTIFACT_BY_SETTING;
use crate::store::{Order, Read, StoreError};

/// Answers for several builds over one state of the store; what was looked up is remembered.
#[derive(Debug, Default)]
pub struct Keeping {
    host: Keep,
    organizations: HashMap<Id<Organization>, Keep>,
    /// The oldest build of a setting that its number keeps; `None`: its number keeps none.
    oldest_kept: HashMap<Id<BuildSetting>, Option<Id<Build>>>,
}

impl Keeping {
    /// With what the configuration says.
    pub fn new(host: Keep) -> Keeping {
        Keeping { host, ..Keeping::default() }
    }

    /// When the artifact of this build may be deleted; `None`: it has none, or it is kept for ever as things stand: it is
    /// pinned, or one of the newest of its setting. A deleted setting keeps by age only.
    pub fn ends(&mut self, rows: &impl Read, build: &Build) -> Result<Option<Timestamp>, StoreError> {
        if build.kept_artifact().is_none() || build.pinned {
            return Ok(None);
        }
        let keep = self.keep(rows, build.organization_id)?;
        let oldest = match self.oldest_kept.get(&build.build_setting_id) {
            Some(oldest) => *oldest,
            None => {
                let oldest = oldest_kept(rows, build, keep)?;
                self.oldest_kept.insert(build.build_setting_id, oldest);
                oldest
            }
        };
        Ok(keep.end_by_age(build).filter(|_| oldest.is_none_or(|oldest| build.id < oldest)))
    }

    /// The same builds with `expiresAt` as it is now.
    pub fn show<'a>(&mut self, rows: &impl Read, builds: impl IntoIterator<Item = &'a mut Build>) -> Result<(), StoreError> {
        for build in builds {
            let ends = self.ends(rows, build)?;
            if let Some(artifact) = &mut build.artifact
                && artifact.deleted_at.is_none()
            {
                artifact.expires_at = ends;
            }
        }
        Ok(())
    }

    fn keep(&mut self, rows: &impl Read, organization: Id<Organization>) -> Result<Keep, StoreError> {
        if let Some(keep) = self.organizations.get(&organization) {
            return Ok(*keep);
        }
        let found: Option<Organization> = rows.get(organization, organization)?;
        let keep = found.map_or(self.host, |found| self.host.of(&found.default_project_settings));
        self.organizations.insert(organization, keep);
        Ok(keep)
    }
}

fn oldest_kept(rows: &impl Read, build: &Build, keep: Keep) -> Result<Option<Id<Build>>, StoreError> {
    let (organization, setting) = (build.organization_id, build.build_setting_id);
    if keep.last == 0 || rows.get::<BuildSetting>(organization, setting)?.is_none() {
        return Ok(None);
    }
    let count = usize::try_from(keep.last).unwrap_or(usize::MAX);
    let newest = rows.ids_of(organization, &BUILDS_WITH_ARTIFACT_BY_SETTING, &Key::of_id(setting), Order::NewestFirst, count)?;
    Ok(newest.last().copied())
}
