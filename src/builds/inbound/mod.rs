//! What git hosts tell us by themselves.
//!
//! ```text
//! delivery ─ receive    whose secret signed these bytes? one write: ledger entry and body; then the git host is answered
//!    └─ settle          woken by a hint, reads the index of waiting deliveries: one write for each
//!         ├─ push           matching settings: a pending build, once for each commit
//!         └─ installation   what is known of the connection
//! reconcile             at start and every ten minutes: heads that moved without a delivery
//! ```
//!
//! Bytes are read as JSON only after their signature was found good.

mod changelists;
mod installation;
mod payload;
mod push;
mod reconcile;
pub mod signature;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::connections::githost_webhook_place;
use super::{Builds, TriggerError};
use crate::model::delivery::{DeliveryBody, Facts, Outcome};
use crate::model::{Build, Delivery, Id, Organization};
use crate::store::key::Key;
use crate::store::tables::{DELIVERIES_BY_NAME, DELIVERIES_WAITING, ORGANIZATIONS_ALL};
use crate::store::{Change, Read, StoreError};
use signature::Signature;

/// The largest body that is taken; git hosts send none that is larger.
pub const MAXIMUM_BODY: usize = 25 << 20;
/// Secrets that one body is tried with: each costs a pass over it.
const MOST_SECRETS: usize = 64;
/// How long a lost hint delays a delivery.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// Deliveries that are read from the index at once.
const BATCH: usize = 100;

/// A delivery as it came.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The git host's name for it.
    pub delivery_id: String,
    /// What happened, in the git host's word.
    pub event: String,
    /// What it says it is signed with.
    pub signature: Signature,
    /// The raw bytes.
    pub body: Bytes,
    /// Only this organization's secrets are tried.
    pub organization: Option<Id<Organization>>,
}

/// Why a delivery was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// No connected organization has the secret that this was signed with.
    #[error("the signature was not made with the webhook secret of a connection")]
    NotSigned,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a delivery came to in the end.
type Verdict = (Outcome, String, Vec<Id<Build>>);

fn ignored(why: impl Into<String>) -> Verdict {
    (Outcome::Ignored, why.into(), Vec::new())
}

impl Builds {
    /// Takes a delivery; it is on disk when this returns. False: it was known already, and nothing was stored.
    pub async fn receive(&self, arrival: Arrival) -> Result<bool, ReceiveError> {
        let builds = self.clone();
        let verified = tokio::task::spawn_blocking(move || {
            let signers = builds.signers(&arrival)?;
            let base64 = if signers.is_empty() { String::new() } else { STANDARD.encode(&arrival.body) };
            Ok::<_, StoreError>((signers, base64, arrival))
        });
        let (signers, base64, arrival) = verified.await.map_err(|_| StoreError::Closed)??;
        if signers.is_empty() {
            return Err(ReceiveError::NotSigned);
        }
        let builds = self.clone();
        let job = move |tx: &Change| {
            let mut is_new = false;
            for organization in signers {
                if tx.find(organization, &DELIVERIES_BY_NAME, &Key::of_text(&arrival.delivery_id))?.is_some() {
                    continue;
                }
                is_new = true;
                let clock = &builds.0.parts.clock;
                let delivery = Delivery {
                    id: clock.new_id(),
                    organization_id: organization,
                    delivery_id: arrival.delivery_id.clone(),
                    event: arrival.event.clone(),
                    received_at: clock.now(),
                    size: arrival.body.len() as u64,
                    facts: None,
                    processed_at: None,
                    outcome: None,
                    message: String::new(),
                    build_ids: Vec::new(),
                };
                tx.put(&DeliveryBody { id: delivery.id.cast(), organization_id: organization, base64: base64.clone() })?;
                tx.put(&delivery)?;
            }
            tx.after_commit(move || builds.0.deliveries.notify_one());
            Ok::<_, StoreError>(is_new)
        };
        Ok(self.0.parts.store.write(job).await?)
    }

    /// The organizations whose secret signed these bytes. Every candidate is tried, so that time tells nothing.
    fn signers(&self, arrival: &Arrival) -> Result<Vec<Id<Organization>>, StoreError> {
        let now = self.0.parts.clock.now();
        let mut sealed = Vec::new();
        self.0.parts.store.read(|snapshot| {
            snapshot.for_each_on_host(&ORGANIZATIONS_ALL, &Key::all(), |organization: Organization| {
                let is_meant = arrival.organization.is_none_or(|only| only == organization.id);
                if let Some(connection) = organization.githost.filter(|_| is_meant) {
                    sealed.extend(connection.webhook.valid(now).map(|secret| (organization.id, secret.clone())));
                }
                Ok(sealed.len() < MOST_SECRETS)
            })
        })?;
        let mut signers = Vec::new();
        for (organization, secret) in sealed {
            match self.0.parts.vault.open_sealed(&githost_webhook_place(organization), &secret) {
                Ok(secret) if arrival.signature.is_of(&secret, &arrival.body) => signers.push(organization),
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, organization.id = %organization, "a webhook secret cannot be opened"),
            }
        }
        signers.dedup();
        Ok(signers)
    }

    /// Deals with deliveries until `stop`.
    pub(super) async fn run_deliveries(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let mut woken = std::pin::pin!(self.0.deliveries.notified());
            woken.as_mut().enable();
            if let Err(error) = self.settle_deliveries(stop).await {
                tracing::warn!(%error, "deliveries of the git host wait: they could not be dealt with");
            }
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Deals with every delivery that waits, in the order in which they came.
    pub async fn settle_deliveries(&self, stop: &CancellationToken) -> Result<(), StoreError> {
        loop {
            let waiting = self.0.parts.store.read(|snapshot| snapshot.find_on_host(&DELIVERIES_WAITING, &Key::all(), BATCH))?;
            if waiting.is_empty() {
                return Ok(());
            }
            for delivery in waiting {
                if stop.is_cancelled() {
                    return Ok(());
                }
                self.settle(delivery).await?;
            }
        }
    }

    async fn settle(&self, delivery: Delivery) -> Result<(), StoreError> {
        let (organization, id) = (delivery.organization_id, delivery.id);
        let facts = match delivery.facts {
            Some(facts) => facts,
            None => {
                let body = self.0.parts.store.read(|snapshot| snapshot.get::<DeliveryBody>(organization, id.cast()))?;
                let event = delivery.event;
                let read = move || body.and_then(|body| STANDARD.decode(body.base64).ok()).map(|body| payload::read(&event, &body));
                tokio::task::spawn_blocking(read).await.ok().flatten().unwrap_or(Facts::Unreadable)
            }
        };
        let builds = self.clone();
        self.0.parts.store.write(move |tx| builds.settle_in(tx, organization, id, facts)).await
    }

    fn settle_in(&self, tx: &Change, organization: Id<Organization>, id: Id<Delivery>, facts: Facts) -> Result<(), StoreError> {
        let Some(mut delivery) = tx.get::<Delivery>(organization, id)?.filter(|delivery| delivery.processed_at.is_none()) else {
            return Ok(());
        };
        let verdict = match &facts {
            Facts::Push(push) => self.pushed(tx, organization, push),
            Facts::Installation(change) => self.installation_changed(tx, organization, change).map_err(TriggerError::from),
            Facts::Repositories(change) => self.repositories_changed(tx, organization, change).map_err(TriggerError::from),
            Facts::Renamed(rename) => self.repository_renamed(tx, organization, rename).map_err(TriggerError::from),
            Facts::Other => Ok(ignored("This event starts nothing.")),
            Facts::Unreadable => Ok(ignored("The body is not what this event promises.")),
        };
        let (outcome, message, started) = match verdict {
            Ok(verdict) => verdict,
            Err(TriggerError::Store(error)) => return Err(error),
            // Nothing was stored by what refuses.
            Err(error @ (TriggerError::NoSuchSetting | TriggerError::Invalid(_))) => ignored(format!("No build could be made: {error}.")),
        };
        delivery.outcome = Some(outcome);
        delivery.message = message;
        delivery.build_ids.extend(started);
        delivery.facts = Some(facts);
        delivery.processed_at = Some(self.0.parts.clock.now());
        tx.remove::<DeliveryBody>(organization, id.cast())?;
        tx.put(&delivery)
    }

    /// Deals with a delivery once more. `None`: the ledger has no such delivery.
    pub async fn replay(&self, organization: Id<Organization>, id: Id<Delivery>) -> Result<Option<Delivery>, StoreError> {
        let builds = self.clone();
        let job = move |tx: &Change| {
            let Some(mut delivery) = tx.get::<Delivery>(organization, id)? else { return Ok(None) };
            delivery.processed_at = None;
            delivery.outcome = None;
            delivery.message = String::new();
            tx.put(&delivery)?;
            tx.after_commit(move || builds.0.deliveries.notify_one());
            Ok(Some(delivery))
        };
        self.0.parts.store.write(job).await
    }
}
