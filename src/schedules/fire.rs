//! The one transaction in which a due schedule moves: the records of its slots, its build and its next time are on disk
//! together, or none of them is.

use super::due::{Due, Missed, due, is_on_time};
use crate::builds::{Builds, Overrides, Request, TriggerError};
use crate::model::build_setting::{Schedule, Trigger};
use crate::model::project::SourceLink;
use crate::model::schedule::Starts;
use crate::model::schedule_slot::{ScheduleSlot, SkipReason, SlotOutcome};
use crate::model::{Build, BuildSetting, Id, Organization, Project, Timestamp, TriggeredBy};
use crate::store::build_list::{self, BuildFilter};
use crate::store::{Change, Read, StoreError};

/// Builds that are looked at for the commit of the last one.
const LOOKED_AT: usize = 20;

/// What is due of `setting` at `now`. `head` is its newest revision, where somebody could say. Answers the build, if
/// there is one.
pub fn fire(
    tx: &Change,
    builds: &Builds,
    (organization, id): (Id<Organization>, Id<BuildSetting>),
    head: Option<&str>,
    now: Timestamp,
) -> Result<Option<Build>, StoreError> {
    let Some(mut setting) = tx.get::<BuildSetting>(organization, id)? else { return Ok(None) };
    let Trigger::Scheduled(mut schedule) = setting.trigger.clone() else { return Ok(None) };
    // Somebody may have changed it, or it may have been fired, since the index was read.
    let Some(planned) = schedule.next_run_at.filter(|next| schedule.enabled && *next <= now) else { return Ok(None) };
    let mut firing = Firing { tx, builds, setting: &setting, now, build: None };
    match Starts::parse(&schedule.cron, &schedule.timezone) {
        Ok(starts) => {
            let due = due(&starts, planned, now);
            schedule.next_run_at = first_open(tx, &setting, &starts, due.next)?;
            firing.settle(&mut schedule, due, head)?;
        }
        Err(sentence) => {
            schedule.next_run_at = None;
            schedule.last_error = Some(sentence);
        }
    }
    let build = firing.build;
    setting.trigger = Trigger::Scheduled(schedule);
    setting.version += 1;
    tx.put(&setting)?;
    Ok(build)
}

struct Firing<'a> {
    tx: &'a Change,
    builds: &'a Builds,
    setting: &'a BuildSetting,
    now: Timestamp,
    build: Option<Build>,
}

impl Firing<'_> {
    fn settle(&mut self, schedule: &mut Schedule, due: Due, head: Option<&str>) -> Result<(), StoreError> {
        schedule.last_error = due.missed.map(|missed| sentence(&missed));
        if let Some(missed) = due.missed {
            self.record(missed.first, Some(missed.until), SlotOutcome::Skipped { reason: SkipReason::Missed })?;
        }
        let Some(newest) = due.newest else { return Ok(()) };
        let is_caught_up = is_on_time(newest, self.now) || schedule.catch_up;
        for slot in due.earlier {
            let outcome = match schedule.catch_up {
                true => SlotOutcome::Coalesced { into: newest },
                false => SlotOutcome::Skipped { reason: SkipReason::Missed },
            };
            self.record(slot, None, outcome)?;
        }
        // A clock that went back comes to the same time again.
        if self.is_recorded(newest)? {
            return Ok(());
        }
        let outcome = if !is_caught_up {
            schedule.last_error = Some(format!("The run of {newest} was missed: the service did not run then."));
            SlotOutcome::Skipped { reason: SkipReason::Missed }
        } else {
            schedule.last_run_at = Some(self.now);
            match schedule.only_if_changed && head.is_some() && self.last_commit()?.as_deref() == head {
                true => SlotOutcome::Skipped { reason: SkipReason::Unchanged },
                false => self.build(schedule, head)?,
            }
        };
        self.record(newest, None, outcome)
    }

    fn build(&mut self, schedule: &mut Schedule, head: Option<&str>) -> Result<SlotOutcome, StoreError> {
        let setting = self.setting;
        let project: Option<Project> = self.tx.get(setting.organization_id, setting.project_id)?;
        let is_git = project.is_some_and(|project| matches!(project.source, SourceLink::Githost { .. }));
        let head = head.map(str::to_owned);
        let request = Request {
            organization: setting.organization_id,
            project: setting.project_id,
            setting: setting.id,
            by: TriggeredBy::Cron,
            // The newest revision of this moment, not of the one at which the build begins.
            overrides: Overrides { branch: None, commit: head.clone().filter(|_| is_git), changelist: head.filter(|_| !is_git) },
        };
        let made = match self.builds.trigger_in(self.tx, &request) {
            // A plugin's word for a revision may not be ours; the build then asks itself.
            Err(TriggerError::Invalid(_)) => self.builds.trigger_in(self.tx, &Request { overrides: Overrides::default(), ..request }),
            made => made,
        };
        match made {
            Ok(build) => {
                let build_id = build.id;
                self.build = Some(build);
                Ok(SlotOutcome::Built { build_id })
            }
            Err(TriggerError::Store(error)) => Err(error),
            Err(error @ (TriggerError::NoSuchSetting | TriggerError::Invalid(_))) => {
                schedule.last_error = Some(format!("No build was made: {error}."));
                Ok(SlotOutcome::Skipped { reason: SkipReason::Refused })
            }
        }
    }

    /// The revision of the last build of the setting's branch that got as far as having one.
    fn last_commit(&self) -> Result<Option<String>, StoreError> {
        let setting = self.setting;
        let filter = BuildFilter {
            build_setting_id: Some(setting.id),
            branch: Some(setting.stream_path.clone().unwrap_or_else(|| setting.branch.clone())),
            ..BuildFilter::default()
        };
        let builds = build_list::page(self.tx, setting.organization_id, &filter, None, LOOKED_AT)?.items;
        let commit = |build: Build| match build.commit.is_empty() {
            false => Some(build.commit),
            // It waits, and will build what it was made for.
            true => build.requested_revision.filter(|_| build.status.is_unfinished()),
        };
        Ok(builds.into_iter().find_map(commit))
    }

    fn is_recorded(&self, slot: Timestamp) -> Result<bool, StoreError> {
        is_recorded(self.tx, self.setting, slot)
    }

    /// The first record of a slot stays.
    fn record(&self, due_at: Timestamp, until: Option<Timestamp>, outcome: SlotOutcome) -> Result<(), StoreError> {
        if self.is_recorded(due_at)? {
            return Ok(());
        }
        let setting = self.setting;
        self.tx.put(&ScheduleSlot {
            id: ScheduleSlot::id_of(setting.id, due_at),
            organization_id: setting.organization_id,
            project_id: setting.project_id,
            build_setting_id: setting.id,
            due_at,
            until,
            outcome,
            decided_at: self.now,
        })
    }
}

/// The first slot from `slot` on that nobody decided about: a clock that went back comes to decided ones again.
fn first_open(
    rows: &impl Read,
    setting: &BuildSetting,
    starts: &Starts,
    mut slot: Option<Timestamp>,
) -> Result<Option<Timestamp>, StoreError> {
    while let Some(due) = slot
        && is_recorded(rows, setting, due)?
    {
        slot = starts.after(due);
    }
    Ok(slot)
}

/// Whether it was decided before what becomes of a slot.
pub(super) fn is_recorded(rows: &impl Read, setting: &BuildSetting, slot: Timestamp) -> Result<bool, StoreError> {
    Ok(rows.get::<ScheduleSlot>(setting.organization_id, ScheduleSlot::id_of(setting.id, slot))?.is_some())
}

fn sentence(missed: &Missed) -> String {
    let more = if missed.and_more { "More than " } else { "" };
    let runs = if missed.count == 1 { "run was" } else { "runs were" };
    format!("{more}{} {runs} missed between {} and {}: the service did not run then.", missed.count, missed.first, missed.until)
}
