//! The list of builds: every combination of filters at the cost of a page.
//!
//! No filter, or one, is a walk along one index. Several are walked side by side: each index in turn is asked for its
//! newest build that is no newer than where the others stand, and where all agree is a match. Where lanes (see `model::lane`)
//! are few, or matches so rare that this finds little, the page is merged from the lanes that match, each of which is a
//! list of builds by age: what that costs depends on the lanes and not on the builds.

use std::collections::BinaryHeap;

use super::key::Key;
use super::tables::{
    BUILDS_BY_BRANCH, BUILDS_BY_LANE, BUILDS_BY_LANE_AND_STATUS, BUILDS_BY_PLATFORM, BUILDS_BY_PROJECT, BUILDS_BY_SETTING,
    BUILDS_BY_STATUS, BUILDS_BY_TYPE, LANES_BY_BRANCH, LANES_BY_PLATFORM, LANES_BY_PROJECT, LANES_BY_SETTING,
};
use super::{Index, Order, Page, Read, StoreError};
use crate::model::{Build, BuildSetting, Id, Lane, Organization, Project, Status};

/// How often indexes are asked before lanes are. A page of matches that are one in ten takes less; beyond it they are rare.
const PATIENCE: usize = 1000;

/// So few lanes are looked at rather than indexes.
const FEW_LANES: usize = 40;
/// Lanes are counted up to this.
const MOST_COUNTED: usize = 1000;

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

impl BuildFilter {
    /// Each condition as a walk along one index.
    fn walks(&self) -> Vec<(&'static Index<Build>, Key)> {
        let text = |index, text: &Option<String>| text.as_ref().map(|text| (index, Key::of_text(text)));
        [
            self.project_id.map(|id| (&BUILDS_BY_PROJECT, Key::of_id(id))),
            self.build_setting_id.map(|id| (&BUILDS_BY_SETTING, Key::of_id(id))),
            self.status.map(|status| (&BUILDS_BY_STATUS, Key::of_text(status.as_str()))),
            text(&BUILDS_BY_PLATFORM, &self.platform),
            text(&BUILDS_BY_TYPE, &self.build_type),
            text(&BUILDS_BY_BRANCH, &self.branch),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The lists of lanes that hold all lanes of this filter.
    fn lanes(&self) -> Vec<(&'static Index<Lane>, Key)> {
        let text = |index, text: &Option<String>| text.as_ref().map(|text| (index, Key::of_text(text)));
        [
            self.build_setting_id.map(|id| (&LANES_BY_SETTING, Key::of_id(id))),
            self.project_id.map(|id| (&LANES_BY_PROJECT, Key::of_id(id))),
            text(&LANES_BY_BRANCH, &self.branch),
            text(&LANES_BY_PLATFORM, &self.platform),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn admits(&self, lane: &Lane) -> bool {
        fn agrees<T: PartialEq>(wanted: &Option<T>, found: &T) -> bool {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        }
        agrees(&self.project_id, &lane.project_id)
            && agrees(&self.build_setting_id, &lane.build_setting_id)
            && agrees(&self.platform, &lane.platform)
            && agrees(&self.build_type, &lane.build_type)
            && agrees(&self.branch, &lane.branch)
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
    let mut walks = filter.walks();
    if walks.len() < 2 {
        return rows.page(organization, walks.pop(), after, Order::NewestFirst, limit);
    }
    let mut found = Found { items: Vec::with_capacity(limit), behind: after, is_complete: false, has_more: false };
    let lanes = shortest_list(rows, organization, filter)?;
    if lanes.length > FEW_LANES {
        walk_side_by_side(rows, organization, &walks, limit, &mut found)?;
    }
    if !found.is_complete {
        merge_lanes(rows, organization, filter, lanes, limit, &mut found)?;
    }
    let next = found.items.last().map(|build| build.id).filter(|_| found.has_more);
    Ok(Page { items: found.items, next })
}

/// Lanes to look at for a filter.
struct Lanes {
    /// `None`: all there are.
    list: Option<(&'static Index<Lane>, Key)>,
    /// How many, as far as it was counted.
    length: usize,
}

fn shortest_list(rows: &impl Read, organization: Id<Organization>, filter: &BuildFilter) -> Result<Lanes, StoreError> {
    let mut shortest = Lanes { list: None, length: usize::MAX };
    for (index, key) in filter.lanes() {
        let length = rows.count_up_to(organization, (index, &key), MOST_COUNTED)?;
        if length < shortest.length {
            shortest = Lanes { list: Some((index, key)), length };
        }
    }
    Ok(shortest)
}

/// A page on the way.
struct Found {
    items: Vec<Build>,
    /// Everything newer than this was looked at.
    behind: Option<Id<Build>>,
    /// Nothing is left to look at.
    is_complete: bool,
    /// A further match lies behind the page.
    has_more: bool,
}

fn walk_side_by_side(
    rows: &impl Read,
    organization: Id<Organization>,
    walks: &[(&'static Index<Build>, Key)],
    limit: usize,
    found: &mut Found,
) -> Result<(), StoreError> {
    let (mut place, mut agreed) = (None, 0);
    for (index, key) in walks.iter().cycle().take(PATIENCE) {
        let id = match place {
            None => rows.next_id(organization, (index, key), found.behind, Order::NewestFirst)?,
            Some(place) => rows.id_at_or_behind(organization, (index, key), place, Order::NewestFirst)?,
        };
        let Some(id) = id else {
            found.is_complete = true;
            return Ok(());
        };
        agreed = if place == Some(id) { agreed + 1 } else { 1 };
        place = Some(id);
        if agreed < walks.len() {
            continue;
        }
        if found.items.len() == limit {
            (found.is_complete, found.has_more) = (true, true);
            return Ok(());
        }
        found.items.extend(rows.get(organization, id)?);
        (found.behind, place, agreed) = (Some(id), None, 0);
    }
    Ok(())
}

fn merge_lanes(
    rows: &impl Read,
    organization: Id<Organization>,
    filter: &BuildFilter,
    lanes: Lanes,
    limit: usize,
    found: &mut Found,
) -> Result<(), StoreError> {
    let lists = matching_lists(rows, organization, filter, lanes)?;
    let behind = |list: &Key, after| -> Result<Option<Id<Build>>, StoreError> {
        let index = if filter.status.is_some() { &BUILDS_BY_LANE_AND_STATUS } else { &BUILDS_BY_LANE };
        rows.next_id(organization, (index, list), after, Order::NewestFirst)
    };
    let mut ends = BinaryHeap::new();
    for (place, list) in lists.iter().enumerate() {
        ends.extend(behind(list, found.behind)?.map(|id| (id, place)));
    }
    while found.items.len() < limit
        && let Some((id, place)) = ends.pop()
    {
        found.items.extend(rows.get(organization, id)?);
        ends.extend(behind(&lists[place], Some(id))?.map(|id| (id, place)));
    }
    found.has_more = !ends.is_empty();
    Ok(())
}

/// The keys of the lists that a page is merged from.
fn matching_lists(rows: &impl Read, organization: Id<Organization>, filter: &BuildFilter, lanes: Lanes) -> Result<Vec<Key>, StoreError> {
    let mut lists = Vec::new();
    rows.for_each(organization, lanes.list, |lane| {
        if filter.admits(&lane) {
            let list = Key::of_id(lane.id);
            lists.push(match filter.status {
                Some(status) => list.and_text(status.as_str()),
                None => list,
            });
        }
        Ok(true)
    })?;
    Ok(lists)
}
