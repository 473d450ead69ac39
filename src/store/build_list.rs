//! The list of builds: every combination of filters at the cost of a page, however many builds there are.
//!
//! Two kinds of filters. Projects, settings and branches have no bound on their number: each combination of them is a
//! [`Scope`], and an index has a row for every scope that a build is in. Platforms, types and states are a handful of words:
//! a second index has them behind each scope, and a page is merged from the lists of those words that the filter admits. What
//! that costs is bounded by the number of words, of which a configuration has some dozens of combinations, and by the page.

use std::collections::BinaryHeap;

use super::key::Key;
use super::tables::{BUILDS_BY_SCOPE, BUILDS_BY_SCOPE_AND_WORDS};
use super::{Order, Page, Read, StoreError};
use crate::model::{Build, BuildSetting, Id, Organization, Project, Status};

/// What a list of builds may be asked for; `None` is anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildFilter {
    /// Only of this project.
    pub project_id: Option<Id<Project>>,
    /// Only of this setting.
    pub build_setting_id: Option<Id<BuildSetting>>,
    /// Only in this status.
    pub status: Option<Status>,
    /// Only for this platform.
    pub platform: Option<String>,
    /// Only of this type.
    pub build_type: Option<String>,
    /// Only of this branch or stream.
    pub branch: Option<String>,
}

/// Where builds belong, and their branch.
struct Scope<'a> {
    place: Place,
    branch: Option<&'a str>,
}

#[derive(Clone, Copy)]
enum Place {
    Anywhere,
    Project(Id<Project>),
    Setting(Id<BuildSetting>),
}

impl Scope<'_> {
    /// All that a build is in.
    fn all(build: &Build) -> impl Iterator<Item = Scope<'_>> {
        let places = [Place::Anywhere, Place::Project(build.project_id), Place::Setting(build.build_setting_id)];
        places.into_iter().flat_map(|place| [None, Some(build.branch.as_str())].map(|branch| Scope { place, branch }))
    }

    /// Every build is in it: the table itself is its list.
    fn is_everything(&self) -> bool {
        matches!(self, Scope { place: Place::Anywhere, branch: None })
    }

    fn key(&self) -> Key {
        let key = match self.place {
            Place::Anywhere => Key::of_text("any"),
            Place::Project(id) => Key::of_text("project").and_id(id),
            Place::Setting(id) => Key::of_text("setting").and_id(id),
        };
        match self.branch {
            None => key.and_text("any"),
            Some(branch) => key.and_text("branch").and_text(branch),
        }
    }
}

/// The keys of a build in [`BUILDS_BY_SCOPE`].
pub(super) fn scopes(build: &Build) -> Vec<Key> {
    Scope::all(build).filter(|scope| !scope.is_everything()).map(|scope| scope.key()).collect()
}

/// The keys of a build in [`BUILDS_BY_SCOPE_AND_WORDS`].
pub(super) fn scopes_and_words(build: &Build) -> Vec<Key> {
    let words = |key: Key| key.and_text(&build.platform).and_text(&build.build_type).and_text(build.status.as_str());
    Scope::all(build).map(|scope| words(scope.key())).collect()
}

impl BuildFilter {
    /// A setting's builds are all of its project: that much narrows nothing.
    fn scope(&self) -> Scope<'_> {
        let place = match (self.build_setting_id, self.project_id) {
            (Some(setting), _) => Place::Setting(setting),
            (None, Some(project)) => Place::Project(project),
            (None, None) => Place::Anywhere,
        };
        Scope { place, branch: self.branch.as_deref() }
    }

    /// In the order of the index.
    fn words(&self) -> [Option<&str>; 3] {
        [self.platform.as_deref(), self.build_type.as_deref(), self.status.map(Status::as_str)]
    }
}

/// One page of an organization's builds, newest first, beginning behind `after`.
pub fn page(
    rows: &impl Read,
    organization: Id<Organization>,
    filter: &BuildFilter,
    after: Option<Id<Build>>,
    limit: usize,
) -> Result<Page<Build>, StoreError> {
    let scope = filter.scope();
    let page = if filter.words().iter().any(Option::is_some) {
        let lists = lists(rows, organization, filter)?;
        merged(rows, organization, &lists, after, limit)?
    } else {
        let walk = (!scope.is_everything()).then(|| (&BUILDS_BY_SCOPE, scope.key()));
        rows.page(organization, walk, after, Order::NewestFirst, limit)?
    };
    // The setting of another project: nothing is in both.
    let is_elsewhere = page.items.first().is_some_and(|build| filter.project_id.is_some_and(|project| project != build.project_id));
    Ok(if is_elsewhere { Page { items: Vec::new(), next: None } } else { page })
}

/// The lists that a filter admits: a word that it leaves open is every word that there is.
fn lists(rows: &impl Read, organization: Id<Organization>, filter: &BuildFilter) -> Result<Vec<Key>, StoreError> {
    let mut lists = vec![filter.scope().key()];
    for word in filter.words() {
        let mut longer = Vec::new();
        for key in lists {
            match word {
                Some(word) => longer.push(key.and_text(word)),
                None => longer.extend(rows.keys_behind(organization, &BUILDS_BY_SCOPE_AND_WORDS, &key)?),
            }
        }
        lists = longer;
    }
    Ok(lists)
}

fn merged(
    rows: &impl Read,
    organization: Id<Organization>,
    lists: &[Key],
    after: Option<Id<Build>>,
    limit: usize,
) -> Result<Page<Build>, StoreError> {
    let behind = |list: &Key, after| rows.next_id(organization, (&BUILDS_BY_SCOPE_AND_WORDS, list), after, Order::NewestFirst);
    let mut ends = BinaryHeap::new();
    for (place, list) in lists.iter().enumerate() {
        ends.extend(behind(list, after)?.map(|id| (id, place)));
    }
    let mut items = Vec::with_capacity(limit);
    while items.len() < limit
        && let Some((id, place)) = ends.pop()
    {
        items.extend(rows.get(organization, id)?);
        ends.extend(behind(&lists[place], Some(id))?.map(|id| (id, place)));
    }
    let next = items.last().map(|build: &Build| build.id).filter(|_| !ends.is_empty());
    Ok(Page { items, next })
}
