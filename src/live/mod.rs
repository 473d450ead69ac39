//! The live channel without its transports: where a reader of a stream is, the newest lines of a followed build kept once for
//! all its readers, tickets, and how many streams there may be.
//!
//! Nothing here is on the way of a build. A build's log goes to the disk; one task per followed build ([`Tail`]) reads what has
//! become durable and keeps the newest mebibyte of it, ready to be sent; readers take from there, or from the disk when they
//! are further behind.

mod batch;
mod places;
mod position;
mod pump;
mod tail;
mod tickets;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

pub use batch::Batch;
pub use places::StreamPlace;
pub use position::{NotAPosition, Position, number as position_number};
pub use tail::{Kept, Tail, View};

use crate::builds::logs::Logs;
use crate::clock::Clock;
use crate::model::{Build, Id, Organization};
use crate::store::Store;
use places::Places;
use tickets::Tickets;

/// Limits of the live channel.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Streams at once, in all.
    pub streams: usize,
    /// Streams at once of one person, their tokens included.
    pub streams_per_user: usize,
    /// How often a quiet stream says that it lives, and how often a stream's permission is looked at again.
    pub ping: Duration,
    /// A reader who was up to date and fell further behind than [`KEPT`] has so long to come back.
    pub patience: Duration,
    /// How long a ticket can be used.
    pub ticket: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            streams: 3072,
            streams_per_user: 1024,
            ping: Duration::from_secs(15),
            patience: Duration::from_secs(5),
            ticket: Duration::from_secs(60),
        }
    }
}

/// Bytes of the newest lines, as they are sent, that are kept in memory for each followed build.
pub const KEPT: usize = 1 << 20;

/// The handle. Cheap to clone.
#[derive(Clone)]
pub struct Live {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    store: Store,
    logs: Logs,
    clock: Arc<Clock>,
    tails: Mutex<HashMap<Id<Build>, Weak<Tail>>>,
    places: Arc<Places>,
    tickets: Tickets,
}

impl Live {
    /// Over these parts.
    pub fn new(settings: Settings, store: Store, logs: Logs, clock: Arc<Clock>) -> Self {
        let inner = Inner { settings, store, logs, clock, tails: Mutex::default(), places: Arc::default(), tickets: Tickets::default() };
        Live { inner: Arc::new(inner) }
    }

    /// The limits.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// What all readers of a build share.
    pub fn tail(&self, organization: Id<Organization>, build: Id<Build>) -> Arc<Tail> {
        let mut tails = self.inner.tails.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tail) = tails.get(&build).and_then(Weak::upgrade) {
            return tail;
        }
        tails.retain(|_, tail| tail.strong_count() > 0);
        let tail = Arc::new(Tail::default());
        tails.insert(build, Arc::downgrade(&tail));
        pump::start(self.inner.store.clone(), self.inner.logs.clone(), organization, build, &tail);
        tail
    }
}
