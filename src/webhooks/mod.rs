//! Outbound webhooks: what the store queued (`store::webhook_queue`) is sent, signed, to whoever wants it (decisions 13).
//!
//! ```text
//! queue of an endpoint ─ claim    one write: this message's next try begins
//!                        send     signed anew, through `outbound`, with a deadline
//!                        record   one write: how it ended; and the next message's try begins
//! ```
//!
//! Each endpoint has a queue of its own and at most one message of it on the way: the next one waits until the first was
//! taken or given up. What somebody asks for (a ping, a redelivery) goes past that queue. A crash between two steps means
//! one more try of the same message under the same id, never a message less.

mod figures;
pub mod plan;
mod record;
mod send;
pub mod signature;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::model::webhook::delivery::WebhookDelivery;
use crate::model::{Id, Timestamp, Webhook};
use crate::outbound::{Outbound, OutboundError};
use crate::store::key::Key;
use crate::store::tables::{WEBHOOK_DELIVERIES_ASKED_FOR, WEBHOOK_QUEUE};
use crate::store::{Change, Index, Read, Store, StoreError};
use crate::vault::{Vault, VaultError};
pub use figures::Figures;
use plan::Plan;
use record::Claim;

/// How long a lost hint, or a clock that was set, delays a message.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// Between two tries to write down what happened.
const WRITE_AGAIN: Duration = Duration::from_secs(1);
/// How long answers are waited for when the service stops.
const GRACE: Duration = Duration::from_secs(2);

/// How messages are sent.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The longest that one try takes.
    pub timeout: Duration,
    /// When the next one comes.
    pub plan: Plan,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { timeout: Duration::from_secs(15), plan: Plan::default() }
    }
}

/// What it works with.
pub struct Parts {
    /// Endpoints and their queues.
    pub store: Store,
    /// Opens what messages are signed with.
    pub vault: Arc<Vault>,
    /// Now.
    pub clock: Arc<Clock>,
    /// Reaches endpoints.
    pub outbound: Outbound,
}

/// A cheap handle; [`Webhooks::run`] does the work.
#[derive(Clone)]
pub struct Webhooks(Arc<Inner>);

struct Inner {
    settings: Settings,
    parts: Parts,
    /// A hint that something is due.
    due: Notify,
    tries: figures::Tries,
}

/// One of an endpoint's two ways: its queue, or what somebody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Lane {
    webhook: Id<Webhook>,
    is_asked_for: bool,
}

impl Lane {
    fn of(delivery: &WebhookDelivery) -> Lane {
        Lane { webhook: delivery.webhook_id, is_asked_for: delivery.is_asked_for }
    }

    fn index(self) -> &'static Index<WebhookDelivery> {
        if self.is_asked_for { &WEBHOOK_DELIVERIES_ASKED_FOR } else { &WEBHOOK_QUEUE }
    }

    /// What is sent next.
    fn head(self, rows: &impl Read) -> Result<Option<WebhookDelivery>, StoreError> {
        Ok(rows.find_on_host(self.index(), &Key::of_id(self.webhook), 1)?.pop())
    }
}

impl Webhooks {
    /// The handle; nothing is sent yet.
    pub fn new(settings: Settings, parts: Parts) -> Webhooks {
        Webhooks(Arc::new(Inner { settings, parts, due: Notify::new(), tries: Default::default() }))
    }

    /// Whether anything is ever sent to this address, as far as can be told without asking where its name leads.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub fn check_url(&self, url: &str) -> Result<(), OutboundError> {
        self.0.parts.outbound.check_url(url).map(|_| ())
    }

    /// Once the change is on disk, whatever is due is looked for.
    pub fn wake(&self, change: &Change) {
        let webhooks = self.clone();
        change.after_commit(move || webhooks.0.due.notify_one());
    }

    /// The next message of an endpoint's queue is due now, whatever the plan says: it was mended.
    pub fn resume(&self, change: &Change, webhook: Id<Webhook>) -> Result<(), StoreError> {
        if let Some(mut head) = (Lane { webhook, is_asked_for: false }).head(change)?
            && head.next_attempt_at.take().is_some()
        {
            change.put(&head)?;
        }
        self.wake(change);
        Ok(())
    }

    /// A new secret for an endpoint, and the same sealed.
    pub fn new_secret(&self, webhook: Id<Webhook>) -> Result<(crate::model::Secret, crate::model::secret::Sealed), VaultError> {
        let secret = signature::new_secret()?;
        let sealed = self.0.parts.vault.seal(&crate::model::places::webhook_secret(webhook), secret.reveal())?;
        Ok((secret, sealed))
    }

    /// Sends until `stop`. What is on its way then has a moment, and is sent again at the next start if it needed more.
    pub async fn run(&self, stop: CancellationToken) {
        let give_up = CancellationToken::new();
        let (mut busy, mut under_way) = (HashSet::new(), JoinSet::new());
        let mut events = self.0.parts.store.events();
        while !stop.is_cancelled() {
            // Interest is registered before the index is read, so that what comes in between is not missed.
            let mut woken = std::pin::pin!(self.0.due.notified());
            woken.as_mut().enable();
            events.borrow_and_update();
            let mut pause = LOOK_AGAIN;
            match self.look(&busy) {
                Ok((due, next)) => {
                    for lane in due {
                        busy.insert(lane);
                        let (webhooks, stop, give_up) = (self.clone(), stop.clone(), give_up.clone());
                        // A task of its own, so that nobody waits for another endpoint, and a panic is of one alone.
                        under_way.spawn(async move {
                            let work = tokio::spawn(async move { webhooks.work_off(lane, &stop, &give_up).await });
                            (lane, work.await)
                        });
                    }
                    if let Some(next) = next {
                        pause = pause.min(Duration::from_millis(next.since(self.0.parts.clock.now())));
                    }
                }
                Err(error) => tracing::warn!(%error, "webhooks could not be looked for"),
            }
            tokio::select! {
                () = woken => {}
                changed = events.changed() => if changed.is_err() { break },
                Some(ended) = under_way.join_next(), if !under_way.is_empty() => note_end(&mut busy, ended),
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
        let all = async { while under_way.join_next().await.is_some() {} };
        let mut all = std::pin::pin!(all);
        if tokio::time::timeout(GRACE, all.as_mut()).await.is_err() {
            give_up.cancel();
            all.await;
        }
    }

    /// Lanes with something due that nobody works on, and when the next will have.
    fn look(&self, busy: &HashSet<Lane>) -> Result<(Vec<Lane>, Option<Timestamp>), StoreError> {
        let now = self.0.parts.clock.now();
        let (mut due, mut next) = (Vec::new(), None::<Timestamp>);
        self.0.parts.store.read(|snapshot| {
            let asked_for = snapshot.first_of_each_on_host(&WEBHOOK_DELIVERIES_ASKED_FOR)?;
            for head in snapshot.first_of_each_on_host(&WEBHOOK_QUEUE)?.iter().chain(&asked_for) {
                let lane = Lane::of(head);
                if busy.contains(&lane) {
                    continue;
                }
                match due_at(snapshot, head)? {
                    Some(at) if at > now => next = Some(next.map_or(at, |next| next.min(at))),
                    Some(_) => due.push(lane),
                    None => {}
                }
            }
            Ok::<_, StoreError>(())
        })?;
        Ok((due, next))
    }

    /// Sends what is due in a lane, one message after the other.
    async fn work_off(&self, lane: Lane, stop: &CancellationToken, give_up: &CancellationToken) {
        let mut claimed = self.claim(lane).await;
        while let Ok(Some(claim)) = claimed {
            let sent = self.send(&claim, give_up).await;
            claimed = self.record(lane, claim, sent, !stop.is_cancelled()).await;
        }
        if let Err(error) = claimed {
            tracing::warn!(%error, webhook.id = %lane.webhook, "the queue of a webhook could not be worked off");
            tokio::select! {
                () = tokio::time::sleep(WRITE_AGAIN) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    async fn claim(&self, lane: Lane) -> Result<Option<Claim>, StoreError> {
        let webhooks = self.clone();
        self.0.parts.store.write(move |change| record::claim(change, lane, webhooks.0.parts.clock.now())).await
    }
}

/// From when on a queue is to be worked off; `None` while it waits for somebody to switch its endpoint on. One whose
/// endpoint is no more has nothing to wait for: it goes.
fn due_at(rows: &impl Read, head: &WebhookDelivery) -> Result<Option<Timestamp>, StoreError> {
    let at_once = Timestamp(0);
    Ok(match rows.get::<Webhook>(head.organization_id, head.webhook_id)? {
        None => Some(at_once),
        Some(webhook) => (webhook.enabled || head.is_asked_for).then(|| head.next_attempt_at.unwrap_or(at_once)),
    })
}

type Ended = Result<(Lane, Result<(), tokio::task::JoinError>), tokio::task::JoinError>;

fn note_end(busy: &mut HashSet<Lane>, ended: Ended) {
    match ended {
        Ok((lane, Ok(()))) => drop(busy.remove(&lane)),
        // It stays busy: whatever panicked would panic again at once. The next start tries anew.
        Ok((lane, Err(error))) => tracing::error!(%error, webhook.id = %lane.webhook, "sending to a webhook ended in a panic"),
        Err(error) => tracing::error!(%error, "sending to a webhook was cut off"),
    }
}
