//! What is on disk before and after each try, and when an endpoint is switched off.

use std::time::Duration;

use super::send::Sent;
use super::{Lane, WRITE_AGAIN, Webhooks};
use crate::model::webhook::delivery::{AttemptErrorCode, DeliveryStatus, WebhookDelivery};
use crate::model::webhook::message::WebhookMessage;
use crate::model::webhook::{Disabled, DisabledReason};
use crate::model::{Id, Notice, Organization, Timestamp, Webhook};
use crate::store::{Change, Read, StoreError, audit, webhook_queue};

/// Messages of an endpoint that is no more which one transaction removes.
const DROPPED_AT_ONCE: usize = 256;

/// A message whose try has begun.
pub(super) struct Claim {
    pub(super) webhook: Webhook,
    pub(super) message: WebhookMessage,
    pub(super) organization: Id<Organization>,
    pub(super) delivery: Id<WebhookDelivery>,
    pub(super) began: Timestamp,
}

/// Notes that the next try of a lane begins; `None`: nothing is due.
pub(super) fn claim(change: &Change, lane: Lane, now: Timestamp) -> Result<Option<Claim>, StoreError> {
    while let Some(mut head) = lane.head(change)? {
        let Some(webhook) = change.get::<Webhook>(head.organization_id, head.webhook_id)? else {
            change.remove(head.organization_id, head.id)?;
            webhook_queue::drop_queue(change, lane.webhook, DROPPED_AT_ONCE)?;
            return Ok(None);
        };
        if (!webhook.enabled && !lane.is_asked_for) || head.next_attempt_at.is_some_and(|at| at > now) {
            return Ok(None);
        }
        let Some(message) = change.get::<WebhookMessage>(head.organization_id, head.message_id)? else {
            // Kept as long as its entries; nothing can be sent without it.
            head.status = DeliveryStatus::Failed;
            change.put(&head)?;
            continue;
        };
        head.begin(now);
        head.next_attempt_at = None;
        head.url.clone_from(&webhook.url);
        change.put(&head)?;
        let (organization, delivery) = (head.organization_id, head.id);
        return Ok(Some(Claim { webhook, message, organization, delivery, began: now }));
    }
    Ok(None)
}

impl Webhooks {
    /// Writes down what came of a try, and claims the next one in the same transaction if `go_on`.
    pub(super) async fn record(&self, lane: Lane, claim: Claim, sent: Sent, go_on: bool) -> Result<Option<Claim>, StoreError> {
        let mut chance = [0; 2];
        // Without chance all wait equally long.
        let _ = getrandom::fill(&mut chance);
        let chance = u16::from_be_bytes(chance);
        let (claim, sent) = (std::sync::Arc::new(claim), std::sync::Arc::new(sent));
        loop {
            let (webhooks, claim, sent) = (self.clone(), claim.clone(), sent.clone());
            let job = move |change: &Change| {
                let now = webhooks.0.parts.clock.now();
                webhooks.settle(change, &claim, &sent, chance, now)?;
                if go_on { self::claim(change, lane, now) } else { Ok(None) }
            };
            // Switching an endpoint off is a change that the audit log knows of.
            let origin = audit::Origin::of_host(self.0.parts.clock.clone(), "disableWebhook");
            match audit::scope(origin, self.0.parts.store.write(job)).await {
                // What happened outside must be written down, also when the disk is full for a while.
                Err(error) if go_on && !matches!(error, StoreError::Closed) => {
                    tracing::warn!(%error, webhook.id = %lane.webhook, "what became of a message to a webhook cannot be stored; trying again");
                    tokio::time::sleep(WRITE_AGAIN).await;
                }
                result => return result,
            }
        }
    }

    fn settle(&self, change: &Change, claim: &Claim, sent: &Sent, chance: u16, now: Timestamp) -> Result<(), StoreError> {
        let Some(mut delivery) = change.get::<WebhookDelivery>(claim.organization, claim.delivery)? else { return Ok(()) };
        if delivery.status != DeliveryStatus::Pending {
            return Ok(());
        }
        delivery.end(sent.duration_ms, sent.status, sent.error.clone(), sent.response.clone());
        let mut off = None;
        match (&sent.error, sent.status) {
            (None, _) => {
                delivery.status = DeliveryStatus::Delivered;
                if delivery.is_asked_for {
                    // It answers again: what waits need not wait longer.
                    self.resume(change, delivery.webhook_id)?;
                }
            }
            // At the next start.
            (Some(error), _) if error.code == AttemptErrorCode::Interrupted => {}
            (Some(_), Some(410)) => {
                delivery.status = DeliveryStatus::Failed;
                off = Some((DisabledReason::Gone, "It answered 410, which means that it wants nothing more.".to_owned()));
            }
            (Some(_), _) if delivery.is_asked_for => delivery.status = DeliveryStatus::Failed,
            (Some(error), _) => match self.0.settings.plan.pause_after(delivery.tries(), chance, sent.retry_after) {
                Some(pause) => delivery.next_attempt_at = Some(now.plus(pause.max(Duration::from_millis(1)))),
                None => {
                    delivery.status = DeliveryStatus::Failed;
                    let (tries, last) = (delivery.tries(), &error.message);
                    off = Some((
                        DisabledReason::Exhausted,
                        format!("A message was tried {tries} times and never taken. The last time: {last}"),
                    ));
                }
            },
        }
        change.put(&delivery)?;
        let (webhooks, is_delivered) = (self.clone(), sent.error.is_none());
        change.after_commit(move || webhooks.0.tries.note(is_delivered));
        if let Some((reason, why)) = off {
            switch_off(change, claim, reason, &why, now)?;
        }
        Ok(())
    }
}

fn switch_off(change: &Change, claim: &Claim, reason: DisabledReason, why: &str, now: Timestamp) -> Result<(), StoreError> {
    let Some(mut webhook) = change.get::<Webhook>(claim.organization, claim.webhook.id)? else { return Ok(()) };
    // Somebody gave it another address meanwhile, or switched it off.
    if !webhook.enabled || webhook.url != claim.webhook.url {
        return Ok(());
    }
    webhook.enabled = false;
    let message = format!("{why} What is queued waits; mend the endpoint, try it with a ping, then switch it on.");
    // Its path may be a secret.
    let origin: String = webhook.url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    change.put(&Notice {
        id: claim.delivery.cast(),
        organization_id: webhook.organization_id,
        at: now,
        subject: origin,
        reason: message.clone(),
        told: Vec::new(),
        attempts: 0,
        due_at: now,
    })?;
    webhook.disabled = Some(Disabled { at: now, reason, message });
    let (id, why) = (webhook.id, why.to_owned());
    change.after_commit(move || tracing::warn!(webhook.id = %id, "a webhook was switched off: {why}"));
    change.put(&webhook)
}
