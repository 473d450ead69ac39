//! In which order waiting builds begin: the projects of the host take turns, and within a project the oldest is first.
//!
//! The turn is the project's whose last build began longest ago (one that never had a turn is before all others), and of
//! equal ones the project's whose first build waits longest. So one project's hundred builds do not keep another's single
//! one waiting for longer than one build, and where only one project waits, the oldest build is first. What cannot begin
//! at its turn (its setting or its engine is busy) lets the next go before it and keeps its place.
//!
//! Turns are on record, so a restart changes nothing of the order.

use std::collections::VecDeque;

use crate::model::queue::{ProjectTurn, QueuePause};
use crate::model::{Build, Id, Organization, Project, Timestamp};
use crate::store::key::Key;
use crate::store::tables::BUILDS_PENDING_BY_PROJECT;
use crate::store::{Change, Read, StoreError};

/// The waiting builds of one project.
#[derive(Debug)]
pub(super) struct Line {
    organization: Id<Organization>,
    project: Id<Project>,
    /// Its organization has paused its builds.
    pub(super) is_paused: bool,
    turn: Option<Timestamp>,
    first: Id<Build>,
}

impl Line {
    /// Its builds, the oldest first.
    pub(super) fn key(&self) -> Key {
        Key::of_id(self.project)
    }
}

/// Every project that has waiting builds, the next one's turn first, paused ones last.
pub(super) fn lines(rows: &impl Read, now: Timestamp) -> Result<Vec<Line>, StoreError> {
    let mut lines = Vec::new();
    for first in rows.first_of_each_on_host::<Build>(&BUILDS_PENDING_BY_PROJECT)? {
        let (organization, project) = (first.organization_id, first.project_id);
        let turn: Option<ProjectTurn> = rows.get(organization, ProjectTurn::id_of(project))?;
        lines.push(Line {
            organization,
            project,
            is_paused: pause_of(rows, organization)?.is_some(),
            // A clock that was put back must not make anybody wait for the time that it lost.
            turn: turn.map(|turn| turn.begun_at.min(now)),
            first: first.id,
        });
    }
    lines.sort_unstable_by_key(|line| (line.is_paused, line.turn, line.first));
    Ok(lines)
}

/// A waiting build and whose it is.
type Waiting = (Id<Organization>, Id<Build>);

/// The first `limit` waiting builds of the host in the order in which they would begin, if each could at its turn.
pub(super) fn order(rows: &impl Read, now: Timestamp, limit: usize) -> Result<Vec<Waiting>, StoreError> {
    let mut order = Vec::new();
    let (paused, others): (Vec<Line>, Vec<Line>) = lines(rows, now)?.into_iter().partition(|line| line.is_paused);
    for group in [others, paused] {
        let mut round = VecDeque::new();
        for line in group {
            let ids = rows.ids_on_host(&BUILDS_PENDING_BY_PROJECT, &line.key(), limit)?;
            round.push_back(ids.into_iter().map(|id| (line.organization, id)).collect::<VecDeque<_>>());
        }
        while order.len() < limit
            && let Some(mut line) = round.pop_front()
        {
            order.extend(line.pop_front());
            if !line.is_empty() {
                round.push_back(line);
            }
        }
    }
    Ok(order)
}

/// Notes that a project has had its turn.
pub(super) fn begun(tx: &Change, organization_id: Id<Organization>, project: Id<Project>, begun_at: Timestamp) -> Result<(), StoreError> {
    tx.put(&ProjectTurn { id: ProjectTurn::id_of(project), organization_id, begun_at })
}

/// The pause of an organization, while there is one.
pub(super) fn pause_of(rows: &impl Read, organization: Id<Organization>) -> Result<Option<QueuePause>, StoreError> {
    rows.get(organization, organization.cast())
}
