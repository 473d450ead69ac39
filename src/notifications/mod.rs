//! Telling people that a build has ended: by mail, and in Slack, Discord and Microsoft Teams (decisions 15).
//!
//! ```text
//! builds::notices   in the transaction that ends a build: one record for each of those who are told
//!    └─ run         woken by the event log, or by the time of the next try: reads the index of what is due
//!         └─ lane   an organization's way out (mail, or one chat): one message after the other
//!              begin    one write: this try is counted
//!              report   what there is to say, made fit to be shown; mail or chat lays it out and sends
//!              end      one write: sent, given up, or when it is tried again, and the build's notificationStatus
//! ```
//!
//! A message is sent at least once: where the service ends between sending and noting it, it is sent again, a mail with the
//! same Message-ID. Failures in a burst are told together (see [`crate::builds::notices::BURST`]).
//!
//! Everything in a message but its layout is somebody else's text. [`text`] makes it fit to be shown before any format sees
//! it; each format escapes what is left, or uses parts that know no markup.

mod chat;
mod figures;
mod ledger;
mod links;
mod mail;
mod notices;
mod outcome;
mod report;
mod sending;
mod text;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::builds::logs::Logs;
use crate::clock::Clock;
use crate::outbound::Outbound;
use crate::store::{Store, StoreError};
use crate::vault::Vault;
pub use figures::Figures;
pub use ledger::of_build;
use ledger::{Lane, due};
use links::Links;
pub use mail::smtp::MailServer;
pub use outcome::Plan;
pub use sending::Trial;

/// How long a lost hint delays a message.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// Ways out that are worked on at the same time. They wait for others, not for this machine.
const LANES: usize = 16;
/// Messages that administrators have sent to try their settings, at the same time.
const TRIALS: usize = 4;
/// How often what is over is looked for.
const SWEEP: Duration = Duration::from_secs(60 * 60);

/// What an administrator of the host decides.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Base of links to this service, without a slash at the end.
    pub base_url: String,
    /// The mail server of organizations that have none of their own.
    pub mail: Option<MailServer>,
    /// How often and how fast.
    pub plan: Plan,
}

/// What it works with.
pub struct Parts {
    /// What has to be told.
    pub store: Store,
    /// Opens the addresses of chats and the passwords of mail servers.
    pub vault: Arc<Vault>,
    /// Now.
    pub clock: Arc<Clock>,
    /// The last lines of failed builds.
    pub logs: Logs,
    /// The way out.
    pub outbound: Outbound,
}

/// Tells people. Cheap to clone.
#[derive(Clone)]
pub struct Notifications(Arc<Inner>);

struct Inner {
    settings: Settings,
    parts: Parts,
    links: Links,
    trials: Semaphore,
    tries: figures::Tries,
}

impl Notifications {
    /// Nothing is sent yet.
    pub fn new(settings: Settings, parts: Parts) -> Notifications {
        let links = Links::new(&settings.base_url);
        Notifications(Arc::new(Inner { settings, parts, links, trials: Semaphore::new(TRIALS), tries: Default::default() }))
    }

    /// Sends what is due until `stop`. What is in the middle then is sent again at the next start.
    pub async fn run(&self, stop: CancellationToken) {
        let _ = stop.run_until_cancelled(async { tokio::join!(self.work(), self.sweep(), self.tell_administrators()) }).await;
    }

    async fn work(&self) {
        let mut events = self.0.parts.store.events();
        let mut busy: HashSet<Lane> = HashSet::new();
        let mut under_way = FuturesUnordered::new();
        loop {
            // Seen before the index is read: what comes in between wakes again.
            events.borrow_and_update();
            let now = self.0.parts.clock.now();
            let mut sleep = LOOK_AGAIN;
            match self.0.parts.store.read(|snapshot| due(snapshot, now, &busy)) {
                Ok((lanes, next)) => {
                    if let Some(next) = next {
                        sleep = sleep.min(Duration::from_millis(next.since(now).max(1)));
                    }
                    for (lane, waiting) in lanes.into_iter().take(LANES.saturating_sub(busy.len())) {
                        busy.insert(lane);
                        let this = self.clone();
                        // A task of its own: a panic is the end of one visit.
                        let visit = tokio::spawn(async move { this.visit(lane, waiting).await });
                        let guard = AbortOnDrop(visit.abort_handle());
                        under_way.push(async move {
                            let result = visit.await;
                            drop(guard);
                            (lane, result)
                        });
                    }
                }
                Err(error) => tracing::warn!(%error, "what has to be told could not be looked up"),
            }
            tokio::select! {
                _ = events.changed() => {}
                Some((lane, result)) = under_way.next(), if !under_way.is_empty() => {
                    busy.remove(&lane);
                    match result {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => {
                            tracing::warn!(%error, "what came of a notification could not be recorded; it may be sent again");
                            tokio::time::sleep(Duration::from_secs(1)).await;
                        }
                        Err(error) => {
                            tracing::error!(%error, "a notification ended in a panic");
                            tokio::time::sleep(Duration::from_secs(1)).await;
                        }
                    }
                }
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    async fn sweep(&self) {
        loop {
            if let Err(error) = self.forget().await {
                tracing::warn!(%error, "old records of notifications could not be removed");
            }
            tokio::time::sleep(SWEEP).await;
        }
    }

    /// Removes records of what was over long ago; how many.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn forget(&self) -> Result<usize, StoreError> {
        let now = self.0.parts.clock.now();
        let until = now.minus(self.0.settings.plan.kept);
        let mut removed = 0;
        loop {
            match self.0.parts.store.write(move |tx| ledger::forget(tx, until)).await? {
                0 => return Ok(removed),
                some => removed += some,
            }
        }
    }
}

/// Visits end with whoever waits for them.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
