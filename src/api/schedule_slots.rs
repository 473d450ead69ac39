//! What became of the times at which a build setting's schedule was due.

use schemars::JsonSchema;
use serde::Serialize;

use super::auth::Caller;
use super::build_settings::{SettingPath, find};
use super::cursor::Cursors;
use super::endpoint::{Call, Ok200};
use super::error::{ApiError, Result};
use super::tokens::Paging;
use crate::model::page::Page;
use crate::model::schedule_slot::{SkipReason, SlotOutcome};
use crate::model::{Build, Id, ScheduleSlot, Timestamp};
use crate::store::key::Key;
use crate::store::{Order, Read, tables};

/// A time at which a schedule was due, and what became of it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ScheduleSlot")]
pub(super) struct SlotView {
    /// When it was due.
    due_at: Timestamp,
    /// Not one time but all up to this one, too old to be looked at one by one; null for one.
    until: Option<Timestamp>,
    /// A build was made; a later time that came due together with it stands for it; or none of these, and `reason` says why.
    #[schemars(extend("enum" = ["built", "coalesced", "skipped"]))]
    outcome: &'static str,
    /// The build; null unless it was built.
    build_id: Option<Id<Build>>,
    /// The later time that stands for it; null unless it was coalesced.
    coalesced_into: Option<Timestamp>,
    /// Why there is no build: the newest revision was built already, the service did not run, or the build was refused.
    /// Null unless it was skipped.
    reason: Option<SkipReason>,
    /// When that was decided.
    decided_at: Timestamp,
}

impl From<ScheduleSlot> for SlotView {
    fn from(slot: ScheduleSlot) -> Self {
        let (outcome, build_id, coalesced_into, reason) = match slot.outcome {
            SlotOutcome::Built { build_id } => ("built", Some(build_id), None, None),
            SlotOutcome::Coalesced { into } => ("coalesced", None, Some(into), None),
            SlotOutcome::Skipped { reason } => ("skipped", None, None, Some(reason)),
        };
        SlotView { due_at: slot.due_at, until: slot.until, outcome, build_id, coalesced_into, reason, decided_at: slot.decided_at }
    }
}

/// The newest first, as far back as they are kept.
pub(super) async fn list(call: Call<SettingPath, Paging>) -> Result<Ok200<Page<SlotView>>> {
    let (caller, path): (&Caller, SettingPath) = (&call.caller, call.path);
    let cursors = Cursors::new(&call.app.vault, caller.organization(), "listScheduleSlots", &[Some(path.1.as_str())])?;
    let after = call.query.cursor.as_deref().map(|cursor| cursors.read::<ScheduleSlot>(cursor)).transpose()?;
    let page = call.app.store.read(|snapshot| {
        find(snapshot, caller, path)?;
        let walk = (&tables::SCHEDULE_SLOTS_BY_SETTING, Key::of_id(path.1));
        Ok::<_, ApiError>(snapshot.page(caller.organization(), Some(walk), after, Order::NewestFirst, call.query.limit)?)
    })?;
    let next_cursor = page.next.map(|last| cursors.write(last));
    Ok(Ok200(Page { items: page.items.into_iter().map(SlotView::from).collect(), next_cursor }))
}
