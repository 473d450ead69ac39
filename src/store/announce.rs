//! The event log: rows that the store itself adds when it stores what they are about, and the messages about them.

use super::event_log::{EventLog, SEQUENCE};
use super::{Change, StoreError, webhook_queue};
use crate::clock::Clock;
use crate::model::event::{What, of_build};
use crate::model::{Build, Event, Id, Organization, Project};

pub(super) fn build(change: &Change, old: Option<&Build>, new: Option<&Build>) -> Result<(), StoreError> {
    let Some(new) = new else { return Ok(()) };
    of_build(old, new).into_iter().try_for_each(|what| {
        let event = append(change, new.organization_id, new.project_id, Some(new.id), what)?;
        webhook_queue::queue(change, &event, Some(new), None)
    })
}

pub(super) fn project(change: &Change, old: Option<&Project>, new: Option<&Project>) -> Result<(), StoreError> {
    let (project, what) = match (old, new) {
        (None, Some(project)) => (project, What::ProjectCreated),
        (Some(project), None) => (project, What::ProjectDeleted),
        _ => return Ok(()),
    };
    let event = append(change, project.organization_id, project.id, None, what)?;
    webhook_queue::queue(change, &event, None, Some(project))
}

fn append(
    change: &Change,
    organization_id: Id<Organization>,
    project_id: Id<Project>,
    build_id: Option<Id<Build>>,
    what: What,
) -> Result<Event, StoreError> {
    let last = change.newest_event()?;
    change.set_meta(SEQUENCE, &(last + 1).to_be_bytes())?;
    let event = Event { id: Event::id_of(last + 1), organization_id, at: Clock::default().now(), project_id, build_id, what };
    change.put(&event)?;
    change.announced(last + 1);
    Ok(event)
}
