//! Where webhooks stand, for monitoring.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Webhooks;
use crate::model::Webhook;
use crate::store::tables::{WEBHOOK_DELIVERIES_ASKED_FOR, WEBHOOK_QUEUE};
use crate::store::{Read, StoreError};

/// Tries since the start.
#[derive(Debug, Default)]
pub(super) struct Tries {
    delivered: AtomicU64,
    failed: AtomicU64,
}

impl Tries {
    pub(super) fn note(&self, is_delivered: bool) {
        let count = if is_delivered { &self.delivered } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Figures over the whole host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Messages that are still to be sent, those to endpoints that are off included.
    pub waiting: u64,
    /// How long the oldest message to an endpoint that is on has waited, in milliseconds; 0 where none waits.
    pub oldest_waiting_ms: u64,
    /// Endpoints that are sent to.
    pub on: u64,
    /// Endpoints that somebody switched off.
    pub off: u64,
    /// Endpoints that the service itself switched off.
    pub disabled: u64,
    /// Tries since the start that the endpoint took.
    pub delivered: u64,
    /// Tries since the start that it did not take.
    pub failed: u64,
}

impl Webhooks {
    /// The figures of this moment. Costs a look at each endpoint, and none at the messages behind the first.
    pub fn figures(&self) -> Result<Figures, StoreError> {
        let tries = &self.0.tries;
        let mut figures = Figures {
            delivered: tries.delivered.load(Ordering::Relaxed),
            failed: tries.failed.load(Ordering::Relaxed),
            ..Figures::default()
        };
        let now = self.0.parts.clock.now();
        self.0.parts.store.read(|snapshot| {
            figures.waiting = snapshot.size_of(&WEBHOOK_QUEUE)? + snapshot.size_of(&WEBHOOK_DELIVERIES_ASKED_FOR)?;
            snapshot.every(|webhook: Webhook| {
                let count = match (webhook.enabled, &webhook.disabled) {
                    (true, _) => &mut figures.on,
                    (false, None) => &mut figures.off,
                    (false, Some(_)) => &mut figures.disabled,
                };
                *count += 1;
                Ok(true)
            })?;
            for head in snapshot.first_of_each_on_host(&WEBHOOK_QUEUE)? {
                let webhook = snapshot.get::<Webhook>(head.organization_id, head.webhook_id)?;
                if webhook.is_some_and(|webhook| webhook.enabled) {
                    figures.oldest_waiting_ms = figures.oldest_waiting_ms.max(now.since(head.created_at));
                }
            }
            Ok(figures)
        })
    }
}
