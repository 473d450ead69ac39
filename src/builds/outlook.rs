//! What can be told of a build that waits: its place, why it does not begin yet, and when it may.

use std::collections::HashMap;
use std::time::Duration;

use super::turns;
use super::{Builds, Running};
use crate::model::{Build, BuildSetting, Id, Organization, Status, Timestamp};
use crate::store::build_list::{self, BuildFilter};
use crate::store::key::Key;
use crate::store::tables::BUILDS_RUNNING;
use crate::store::{Read, StoreError};

/// Waiting builds that are counted at the most: a list must not cost a walk along an endless queue.
const COUNTED: usize = 1000;
/// Waiting builds that are looked at for a guess about the time.
const GUESSED: usize = 100;
/// Complete builds of a setting that a guess rests on.
const REMEMBERED: usize = 5;

/// What can be told of a waiting build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outlook {
    /// How many builds of this host begin before it, plus one; `None` so far behind that it was not counted.
    pub position: Option<usize>,
    /// Why it does not begin yet.
    pub reason: Option<String>,
    /// When it may begin, by how long earlier builds took; `None` where these do not say.
    pub expected_start_at: Option<Timestamp>,
}

impl Builds {
    /// The outlook of each of these builds; `None` for one that does not wait.
    pub fn outlooks(&self, builds: &[Build]) -> Result<Vec<Option<Outlook>>, StoreError> {
        if builds.iter().all(|build| build.status != Status::Pending) {
            return Ok(vec![None; builds.len()]);
        }
        let now = self.0.parts.clock.now();
        let running: Vec<Running> = self.0.running().values().cloned().collect();
        self.0.parts.store.read(|snapshot| {
            let order = turns::order(snapshot, now, COUNTED)?;
            let places: HashMap<Id<Build>, usize> = order.iter().enumerate().map(|(place, (_, id))| (*id, place + 1)).collect();
            let furthest = builds.iter().filter_map(|build| places.get(&build.id)).filter(|place| **place <= GUESSED).max();
            let starts = match furthest {
                Some(furthest) if !self.is_draining() => self.guess(snapshot, &order[..*furthest], now)?,
                _ => HashMap::new(),
            };
            let outlook = |build: &Build| {
                if build.status != Status::Pending {
                    return Ok(None);
                }
                let position = places.get(&build.id).copied();
                let is_paused = turns::pause_of(snapshot, build.organization_id)?.is_some();
                let reason = self.reason(build, position, is_paused, &running).map(str::to_owned);
                let expected_start_at = starts.get(&build.id).copied().filter(|_| !is_paused);
                Ok(Some(Outlook { position, reason: reason.or_else(|| build.pending_reason.clone()), expected_start_at }))
            };
            builds.iter().map(outlook).collect()
        })
    }

    /// The same of one build.
    pub fn outlook(&self, build: &Build) -> Result<Option<Outlook>, StoreError> {
        Ok(self.outlooks(std::slice::from_ref(build))?.pop().flatten())
    }

    /// Somebody's wish comes before a lack of something, and what is on record after both.
    fn reason(&self, build: &Build, position: Option<usize>, is_paused: bool, running: &[Running]) -> Option<&'static str> {
        if self.is_draining() {
            return Some("draining");
        }
        if is_paused {
            return Some("queue_paused");
        }
        if build.pending_reason.is_some() {
            return None;
        }
        if running.iter().any(|running| running.setting == build.build_setting_id) {
            return Some("setting_busy");
        }
        if running.iter().any(|running| running.ue_version == build.ue_version) {
            return Some("engine_busy");
        }
        match running.len() >= self.0.settings.slots {
            true => Some("no_free_slot"),
            false => position.filter(|position| *position > 1).map(|_| "not_its_turn"),
        }
    }

    /// Lets the queue run in the mind, with each build as long as those of its setting were.
    fn guess(
        &self,
        rows: &impl Read,
        order: &[(Id<Organization>, Id<Build>)],
        now: Timestamp,
    ) -> Result<HashMap<Id<Build>, Timestamp>, StoreError> {
        let mut lengths: HashMap<Id<BuildSetting>, Option<Duration>> = HashMap::new();
        let mut length = |build: &Build| -> Result<Option<Duration>, StoreError> {
            if let Some(known) = lengths.get(&build.build_setting_id) {
                return Ok(*known);
            }
            let found = usual_length(rows, build)?;
            lengths.insert(build.build_setting_id, found);
            Ok(found)
        };
        let mut machine = Machine::new(self.0.settings.slots);
        for build in rows.find_on_host(&BUILDS_RUNNING, &Key::all(), usize::MAX)? {
            let end = length(&build)?.map(|length| build.started_at.unwrap_or(now).plus(length).max(now));
            machine.occupy(&build, end);
        }
        let mut starts = HashMap::new();
        for (organization, id) in order {
            let Some(build) = rows.get::<Build>(*organization, *id)? else { continue };
            let start = machine.first_start(&build, now);
            let end = start.zip(length(&build)?).map(|(start, length)| start.plus(length));
            machine.occupy(&build, end);
            starts.extend(start.map(|start| (build.id, start)));
        }
        Ok(starts)
    }
}

/// The middle one of the newest complete builds of a setting.
fn usual_length(rows: &impl Read, build: &Build) -> Result<Option<Duration>, StoreError> {
    let filter = BuildFilter { build_setting_id: Some(build.build_setting_id), status: Some(Status::Complete), ..BuildFilter::default() };
    let builds = build_list::page(rows, build.organization_id, &filter, None, REMEMBERED)?.items;
    let mut lengths: Vec<u64> = builds.iter().filter_map(Build::duration_ms).collect();
    lengths.sort_unstable();
    Ok(lengths.get(lengths.len() / 2).copied().map(Duration::from_millis))
}

/// When what is free. An end that nobody can guess is never.
struct Machine {
    /// One for each slot.
    slots: Vec<Option<Timestamp>>,
    settings: HashMap<Id<BuildSetting>, Option<Timestamp>>,
    engines: HashMap<String, Option<Timestamp>>,
}

impl Machine {
    fn new(slots: usize) -> Machine {
        Machine { slots: vec![Some(Timestamp(0)); slots.max(1)], settings: HashMap::new(), engines: HashMap::new() }
    }

    /// The slot that is free first.
    fn first_slot(&mut self) -> Option<&mut Option<Timestamp>> {
        self.slots.iter_mut().min_by_key(|end| end.map_or(i64::MAX, |end| end.0))
    }

    fn first_start(&mut self, build: &Build, now: Timestamp) -> Option<Timestamp> {
        let slot = (*self.first_slot()?)?;
        let setting = self.settings.get(&build.build_setting_id).copied().unwrap_or(Some(now))?;
        let engine = self.engines.get(&build.ue_version).copied().unwrap_or(Some(now))?;
        Some(now.max(slot).max(setting).max(engine))
    }

    fn occupy(&mut self, build: &Build, end: Option<Timestamp>) {
        if let Some(slot) = self.first_slot() {
            *slot = end;
        }
        self.settings.insert(build.build_setting_id, end);
        self.engines.insert(build.ue_version.clone(), end);
    }
}
