//! The one task that reads a followed build for all its readers.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{Batch, Tail};
use crate::builds::logs::{Logs, Place};
use crate::model::deploy::DeployStatus;
use crate::model::{Build, Id, Organization};
use crate::store::{EventLog, Read, Store, StoreError};

struct Pump {
    store: Store,
    logs: Logs,
    organization: Id<Organization>,
    build: Id<Build>,
    place: Place,
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Log(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Begins to read. Ends when the last reader is gone.
pub(super) fn start(store: Store, logs: Logs, organization: Id<Organization>, build: Id<Build>, tail: &Arc<Tail>) {
    let (weak, abandoned) = (Arc::downgrade(tail), tail.abandoned.clone());
    tokio::spawn(async move {
        let pump = Pump { store, logs, organization, build, place: Place::default() };
        let result = tokio::select! {
            () = abandoned.cancelled() => return,
            result = pump.run(&weak) => result,
        };
        if let Err(error) = result {
            tracing::warn!(%error, build.id = %build, "the live channel of a build broke off");
        }
        if let Some(tail) = weak.upgrade() {
            tail.fail();
        }
    });
}

impl Pump {
    async fn run(mut self, tail: &Weak<Tail>) -> Result<(), Failed> {
        let (mut events, mut opened) = (self.store.events(), self.logs.opened());
        // Readers find on disk what is there already.
        let begin = self.logs.reader(self.build).await?.line_count();
        self.place = Place::behind(begin);
        if let Some(tail) = tail.upgrade() {
            tail.begin(begin);
        }
        loop {
            // In this order: whatever is written after it was looked for wakes this task again, and the lines that a build
            // had before an event are shown before the event.
            opened.borrow_and_update();
            let durable = *events.borrow_and_update();
            let mut writing = self.logs.follow(self.build);
            let (newest, is_final) = self.store.read(|snapshot| {
                let build: Option<Build> = snapshot.get(self.organization, self.build)?;
                let newest = snapshot.newest_event_of(self.organization, self.build)?;
                Ok::<_, StoreError>((newest, build.is_none_or(|build| is_final(&build))))
            })?;
            let Some(tail) = tail.upgrade() else { return Ok(()) };
            self.read_lines(&tail).await?;
            tail.tell(newest.min(durable), is_final && newest <= durable && writing.is_none());
            drop(tail);
            let seq = self.place.seq();
            let grown = async {
                match &mut writing {
                    None => std::future::pending().await,
                    Some(writing) => writing.grown(seq).await,
                }
            };
            tokio::select! {
                changed = events.changed() => if changed.is_err() { return Ok(()) },
                changed = opened.changed() => if changed.is_err() { return Ok(()) },
                grown = grown => if !grown {
                    // Closed; in a moment the logs have forgotten it, too.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                },
            }
        }
    }

    async fn read_lines(&mut self, tail: &Tail) -> io::Result<()> {
        let reader = self.logs.reader(self.build).await?;
        while self.place.seq() < reader.line_count() {
            let (place, lines) = reader.clone().read_on(std::mem::take(&mut self.place)).await?;
            self.place = place;
            tail.push(Batch::cut(&lines));
        }
        Ok(())
    }
}

/// Nothing more happens to it by itself.
fn is_final(build: &Build) -> bool {
    !build.status.is_unfinished() && !matches!(build.auto_deploy_status, Some(DeployStatus::Pending | DeployStatus::InProgress))
}
