//! All events of an organization, followed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::auth::Caller;
use super::super::error::{ApiError, Result};
use super::message::{Gap, Hello, Message, Missing, TYPES, name_of};
use super::outlet::{Ended, Outlet};
use super::unknown_position;
use crate::app::App;
use crate::live::position_number;
use crate::model::permission::Permission;
use crate::model::{Build, Event, Id, Project};
use crate::store::{EventLog, Read};

/// Events read at once.
const EVENTS: usize = 128;

/// Types of events.
pub(super) type Types = BTreeSet<&'static str>;

/// The types of these names; `None` if there is no such type among them.
pub(super) fn types_named<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Types> {
    names.into_iter().map(|name| TYPES.into_iter().find(|known| *known == name.trim())).collect()
}

/// Which events are wanted.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    /// Only of this project; `Some(None)`: of one that cannot exist.
    project: Option<Option<Id<Project>>>,
    types: Option<Types>,
}

impl Filter {
    /// Of a project, if one is named, and of some types.
    pub(super) fn new(project: Option<&str>, types: Option<Types>) -> Self {
        Filter { project: project.map(|project| project.parse().ok()), types }
    }

    fn lets_through(&self, event: &Event) -> bool {
        self.project.is_none_or(|project| project == Some(event.project_id))
            && self.types.as_ref().is_none_or(|types| types.contains(name_of(event)))
    }
}

/// A reader of an organization's events.
pub(super) struct OrganizationStream {
    app: Arc<App>,
    caller: Caller,
    filter: Filter,
    position: u64,
    gap: Option<Missing>,
}

impl OrganizationStream {
    /// Begins behind a position, or now.
    pub(super) fn open(app: Arc<App>, caller: Caller, filter: Filter, after: Option<&str>) -> Result<Self> {
        caller.check(Permission::Read)?;
        let newest = *app.store.events().borrow();
        let after = after.map(|after| position_number(after).map_err(|_| unknown_position())).transpose()?;
        if after.is_some_and(|after| after > newest) {
            return Err(unknown_position());
        }
        let pruned = app.store.read(|snapshot| snapshot.pruned_events(caller.organization()))?;
        let position = after.unwrap_or(newest);
        let gap = (pruned > position).then_some(Missing { after: position, to: pruned });
        Ok(OrganizationStream { app, caller, filter, position, gap })
    }

    /// Sends until the reader goes away.
    pub(super) async fn run(mut self, outlet: Outlet) {
        let Err(ended) = self.follow(&outlet).await;
        outlet.finish(ended, "org", &self.position.to_string());
    }

    async fn follow(&mut self, outlet: &Outlet) -> std::result::Result<std::convert::Infallible, Ended> {
        let mut newest = self.app.store.events();
        let hello = Hello::Organization { organization_id: self.caller.organization() };
        self.say(outlet, Message::new("hello", self.position, &hello)).await?;
        if let Some(events) = self.gap.take() {
            self.position = events.to;
            let gap = Gap { events: Some(events), ..Gap::default() };
            self.say(outlet, Message::new("gap", self.position, &gap)).await?;
        }
        let mut looked = tokio::time::interval(self.app.live.settings().ping);
        looked.tick().await;
        loop {
            let durable = *newest.borrow_and_update();
            while self.position < durable {
                for (event, is_wanted) in self.read(durable)? {
                    self.position = event.sequence();
                    if is_wanted {
                        self.say(outlet, Message::event(&event, self.position)).await?;
                    }
                }
            }
            tokio::select! {
                changed = newest.changed() => changed.map_err(|_| Ended::Failed)?,
                () = outlet.left() => return Err(Ended::Left),
                () = outlet.link.stop.cancelled() => return Err(Ended::Stopping),
                _ = looked.tick() => {
                    self.look_again()?;
                    outlet.ping(&self.position.to_string());
                }
            }
        }
    }

    /// The next events up to `durable`, and whether each is for this reader. None: there are no more, and the position says so.
    fn read(&mut self, durable: u64) -> std::result::Result<Vec<(Event, bool)>, Ended> {
        let (organization, after) = (self.caller.organization(), self.position);
        let read = self.app.store.read(|snapshot| {
            let mut events = snapshot.events_after(organization, None, after, EVENTS)?;
            events.retain(|event| event.sequence() <= durable);
            let judged = events.into_iter().map(|event| {
                let is_wanted = self.filter.lets_through(&event) && self.may_see(snapshot, &event)?;
                Ok((event, is_wanted))
            });
            judged.collect::<Result<Vec<_>>>()
        });
        let events: Vec<(Event, bool)> = read.map_err(|_: ApiError| Ended::Failed)?;
        if events.is_empty() {
            self.position = durable;
        }
        Ok(events)
    }

    fn may_see(&self, rows: &impl Read, event: &Event) -> Result<bool> {
        if !self.caller.is_limited() {
            return Ok(true);
        }
        match event.build_id {
            None => Ok(self.caller.reaches_project(event.project_id)),
            Some(id) => {
                let build: Option<Build> = rows.get(event.organization_id, id)?;
                Ok(build.is_some_and(|build| self.caller.may_see(&build)))
            }
        }
    }

    async fn say(&self, outlet: &Outlet, message: Message) -> std::result::Result<(), Ended> {
        // Events are few: a reader who takes none is left to the connection's own patience.
        outlet.send(&message, std::future::pending()).await
    }

    fn look_again(&mut self) -> std::result::Result<(), Ended> {
        let again = self.caller.again(&self.app).and_then(|caller| caller.check(Permission::Read).map(|()| caller));
        self.caller = again.map_err(Ended::Refused)?;
        Ok(())
    }
}
