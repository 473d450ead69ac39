//! One build, followed: its events and its log lines in one order, each once, to the end.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::super::auth::Caller;
use super::super::builds::find;
use super::super::error::{ApiError, Result};
use super::message::{End, Gap, Hello, Message, Missing};
use super::outlet::{Ended, Outlet};
use super::unknown_position;
use crate::app::App;
use crate::builds::logs::{LogReader, Place};
use crate::live::{Batch, Kept, Position, Tail, View};
use crate::model::deploy::DeployStatus;
use crate::model::event::What;
use crate::model::{Build, Event, Id, Status, Timestamp};
use crate::store::{EventLog, Read};

/// Events read at once.
const EVENTS: usize = 64;

/// Lines that come next.
enum Next {
    /// Here they are, with lines that the reader knows perhaps before them.
    Lines(Arc<Batch>),
    /// For now there are none.
    Nothing,
    /// They are not to be had any more, up to this one.
    Gone(u64),
}

/// A reader of one build.
pub(super) struct BuildStream {
    app: Arc<App>,
    caller: Caller,
    build: Build,
    position: Position,
    tail: Arc<Tail>,
    changes: watch::Receiver<u64>,
    /// Events that are read, but not said.
    events: VecDeque<Event>,
    /// Lines that are read from the disk, but not said.
    batches: VecDeque<Arc<Batch>>,
    disk: Option<(LogReader, Place)>,
    /// What is missing at the beginning.
    gap: Option<Missing>,
    /// The reader had everything once: from then on it has to keep up.
    was_up_to_date: bool,
    behind_since: Option<Instant>,
}

impl BuildStream {
    /// Begins behind a position, or at the beginning. `None`: the reader was told the end, and nothing came since.
    pub(super) async fn open(app: Arc<App>, caller: Caller, id: Id<Build>, after: Option<&str>) -> Result<Option<Self>> {
        let position: Position = after.map_or(Ok(Position::default()), |after| after.parse().map_err(|_| unknown_position()))?;
        let durable = *app.store.events().borrow();
        let (build, newest, gap) = app.store.read(|snapshot| {
            let build = find(snapshot, &caller, id)?;
            let newest = snapshot.newest_event_of(build.organization_id, id)?;
            let gap = missing(snapshot, &build, position)?;
            Ok::<_, ApiError>((build, newest, gap))
        })?;
        let lines = app.logs.reader(id).await.map_err(ApiError::internal)?.line_count();
        if position.event > durable.max(newest) || position.line > lines.max(build.log_lines) {
            return Err(unknown_position());
        }
        let has_all = position.event >= newest && position.line >= lines;
        if position.is_end && has_all && is_final(&build) && app.logs.follow(id).is_none() {
            return Ok(None);
        }
        let tail = app.live.tail(build.organization_id, id);
        let changes = tail.changes();
        Ok(Some(BuildStream {
            app,
            caller,
            build,
            position: Position { is_end: false, ..position },
            tail,
            changes,
            events: VecDeque::new(),
            batches: VecDeque::new(),
            disk: None,
            gap,
            was_up_to_date: false,
            behind_since: None,
        }))
    }

    /// Sends until the end, whatever that is.
    pub(super) async fn run(mut self, outlet: Outlet) {
        if let Err(ended) = self.follow(&outlet).await {
            outlet.finish(ended, &format!("build:{}", self.build.id), &self.position.to_string());
        }
    }

    async fn follow(&mut self, outlet: &Outlet) -> std::result::Result<(), Ended> {
        let log_lines = self.app.logs.reader(self.build.id).await.map_err(|_| Ended::Failed)?.line_count();
        let hello = Hello::Build { build_id: self.build.id, status: self.build.status, log_lines };
        self.say(outlet, Message::new("hello", self.position, &hello)).await?;
        if let Some(events) = self.gap.take() {
            self.position.event = events.to;
            let gap = Gap { build_id: Some(self.build.id), events: Some(events), lines: None };
            self.say(outlet, Message::new("gap", self.position, &gap)).await?;
        }
        let mut looked = tokio::time::interval(self.app.live.settings().ping);
        looked.tick().await;
        loop {
            if outlet.link.stop.is_cancelled() {
                return Err(Ended::Stopping);
            }
            self.changes.borrow_and_update();
            let view = self.tail.view(self.position.line);
            if view.has_failed {
                return Err(Ended::Failed);
            }
            let (is_over, events_to) = (view.is_over, view.events_to);
            if self.step(outlet, view).await? {
                // A reader who never has everything is looked at, too.
                if futures_util::FutureExt::now_or_never(looked.tick()).is_some() {
                    self.look_again()?;
                }
                self.check_pace()?;
                continue;
            }
            self.was_up_to_date = true;
            self.behind_since = None;
            if is_over && self.position.event >= events_to {
                return self.end(outlet).await;
            }
            tokio::select! {
                changed = self.changes.changed() => changed.map_err(|_| Ended::Failed)?,
                () = outlet.left() => return Err(Ended::Left),
                () = outlet.link.stop.cancelled() => return Err(Ended::Stopping),
                _ = looked.tick() => {
                    self.look_again()?;
                    outlet.ping(&self.position.to_string());
                }
            }
        }
    }

    /// Says what comes next; false: there is nothing for now. Lines come before the events that happened after them.
    async fn step(&mut self, outlet: &Outlet, view: View) -> std::result::Result<bool, Ended> {
        if self.events.is_empty() && self.position.event < view.events_to {
            let (organization, id, after) = (self.build.organization_id, self.build.id, self.position.event);
            let events = self.app.store.read(|snapshot| snapshot.events_after(organization, Some(id), after, EVENTS));
            self.events = events.map_err(|_| Ended::Failed)?.into();
            self.events.retain(|event| event.sequence() <= view.events_to);
            if self.events.is_empty() {
                self.position.event = view.events_to;
            }
        }
        let until = self.events.front().map(|event| match event.what.begins_something() {
            // Both may be of one millisecond: what begins comes before its lines, what ends behind them.
            true => Timestamp(event.at.0 - 1),
            false => event.at,
        });
        match self.lines(view.lines).await? {
            Next::Lines(batch) => {
                if let Some((first, last, json)) = batch.part(self.position.line, until) {
                    if first > self.position.line + 1 {
                        self.miss_lines(outlet, first - 1).await?;
                    }
                    self.position.line = last;
                    self.say(outlet, Message::log(self.build.id, self.position, &json)).await?;
                    return Ok(true);
                }
                if until.is_none() {
                    // All of it is known; the next one comes.
                    return Ok(true);
                }
            }
            Next::Gone(to) => {
                self.miss_lines(outlet, to).await?;
                return Ok(true);
            }
            Next::Nothing => {}
        }
        let Some(event) = self.events.pop_front() else { return Ok(false) };
        self.position.event = event.sequence();
        self.say(outlet, Message::event(&event, self.position)).await?;
        Ok(true)
    }

    /// Lines behind the position: from what is shared, or from the disk.
    async fn lines(&mut self, kept: Kept) -> std::result::Result<Next, Ended> {
        while self.batches.front().is_some_and(|batch| batch.last() <= self.position.line) {
            self.batches.pop_front();
        }
        if let Some(batch) = self.batches.front() {
            return Ok(Next::Lines(batch.clone()));
        }
        match kept {
            Kept::Batch(batch) => {
                self.disk = None;
                Ok(Next::Lines(batch))
            }
            Kept::None => Ok(Next::Nothing),
            Kept::OnDisk(to) => {
                let (reader, place) = match self.disk.take() {
                    Some((reader, place)) if place.seq() < reader.line_count() => (reader, place),
                    other => {
                        let reader = self.app.logs.reader(self.build.id).await.map_err(|_| Ended::Failed)?;
                        let place = other.map(|(_, place)| place).filter(|place| place.seq() == self.position.line);
                        (reader, place.unwrap_or_else(|| Place::behind(self.position.line)))
                    }
                };
                let (place, lines) = reader.clone().read_on(place).await.map_err(|_| Ended::Failed)?;
                let to = if place.seq() > self.position.line { to.min(place.seq()) } else { to };
                self.disk = Some((reader, place));
                self.batches = Batch::cut(&lines).into_iter().map(Arc::new).collect();
                // Retention may have deleted the log under us: what it had is a gap, what comes is told by the tail.
                Ok(self.batches.front().map_or(Next::Gone(to), |batch| Next::Lines(batch.clone())))
            }
        }
    }

    async fn miss_lines(&mut self, outlet: &Outlet, to: u64) -> std::result::Result<(), Ended> {
        let lines = Some(Missing { after: self.position.line, to });
        self.position.line = to;
        let gap = Gap { build_id: Some(self.build.id), events: None, lines };
        self.say(outlet, Message::new("gap", self.position, &gap)).await
    }

    async fn end(&mut self, outlet: &Outlet) -> std::result::Result<(), Ended> {
        let (organization, id) = (self.build.organization_id, self.build.id);
        let build: Option<Build> =
            self.app.store.read(|snapshot| snapshot.get(organization, id)).map_err(|_: crate::store::StoreError| Ended::Failed)?;
        let log_lines = build.as_ref().map_or(0, |build| build.log_lines).max(self.position.line);
        if log_lines > self.position.line {
            self.miss_lines(outlet, log_lines).await?;
        }
        self.position.is_end = true;
        let status: Option<Status> = build.map(|build| build.status);
        self.say(outlet, Message::new("end", self.position, &End { build_id: id, status, log_lines })).await
    }

    async fn say(&mut self, outlet: &Outlet, message: Message) -> std::result::Result<(), Ended> {
        let (tail, line, patience) = (self.tail.clone(), self.position.line, self.app.live.settings().patience);
        let (was_up_to_date, behind_since) = (self.was_up_to_date, self.behind_since);
        let overdue = async move {
            if !was_up_to_date {
                // Who catches up reads as fast as they can; the connection has a patience of its own.
                std::future::pending::<()>().await;
            }
            let mut changes = tail.changes();
            while !tail.is_far_behind(line) {
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
            tokio::time::sleep_until(behind_since.unwrap_or_else(Instant::now) + patience).await;
        };
        outlet.send(&message, overdue).await
    }

    /// A reader who once had everything and stays far behind is cut off: it can come back and catch up at its own pace.
    fn check_pace(&mut self) -> std::result::Result<(), Ended> {
        if !self.was_up_to_date || !self.tail.is_far_behind(self.position.line) {
            self.behind_since = None;
            return Ok(());
        }
        let since = *self.behind_since.get_or_insert_with(Instant::now);
        if since.elapsed() > self.app.live.settings().patience { Err(Ended::TooSlow) } else { Ok(()) }
    }

    /// Whether the reader may still see the build.
    fn look_again(&mut self) -> std::result::Result<(), Ended> {
        let again = self.caller.again(&self.app).and_then(|caller| {
            caller.check(crate::model::permission::Permission::ReadBuild)?;
            self.app.store.read(|snapshot| find(snapshot, &caller, self.build.id))?;
            Ok(caller)
        });
        self.caller = again.map_err(Ended::Refused)?;
        Ok(())
    }
}

/// Events behind a position that are not kept any more.
fn missing(rows: &impl EventLog, build: &Build, position: Position) -> Result<Option<Missing>> {
    let pruned = rows.pruned_events(build.organization_id)?;
    if pruned <= position.event {
        return Ok(None);
    }
    if position.event > 0 {
        let own: Option<Event> = rows.get(build.organization_id, Event::id_of(position.event))?;
        if own.is_some() {
            return Ok(None);
        }
    } else if let Some(first) = rows.events_after(build.organization_id, Some(build.id), 0, 1)?.first() {
        // A build's first event is always that it waits.
        if matches!(first.what, What::Status { status: Status::Pending, .. }) {
            return Ok(None);
        }
    }
    Ok(Some(Missing { after: position.event, to: pruned }))
}

fn is_final(build: &Build) -> bool {
    !build.status.is_unfinished() && !matches!(build.auto_deploy_status, Some(DeployStatus::Pending | DeployStatus::InProgress))
}
