//! Where notifications stand, for monitoring.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Notifications;
use crate::model::Notification;
use crate::model::notification::Channel;
use crate::store::key::Key;
use crate::store::tables::NOTIFICATIONS_DUE;
use crate::store::{Read, StoreError};

/// Tries since the start: sent and failed, by channel.
#[derive(Debug, Default)]
pub(super) struct Tries([[AtomicU64; 2]; Channel::ALL.len()]);

impl Tries {
    fn of(&self, channel: Channel) -> Option<&[AtomicU64; 2]> {
        Channel::ALL.iter().position(|other| *other == channel).and_then(|place| self.0.get(place))
    }

    pub(super) fn note(&self, channel: Channel, is_sent: bool) {
        if let Some(counts) = self.of(channel) {
            counts[usize::from(!is_sent)].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Figures over the whole host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figures {
    /// Messages that are still to be sent, or to be tried again.
    pub waiting: u64,
    /// For how long the first of them could have been sent already, in milliseconds; 0 where none is due.
    pub overdue_ms: u64,
    /// Tries since the start by channel: those that the other side took, and those that it did not.
    pub tries: Vec<(Channel, u64, u64)>,
}

impl Notifications {
    /// The figures of this moment. Costs a look at the first message, however many wait.
    pub fn figures(&self) -> Result<Figures, StoreError> {
        let now = self.0.parts.clock.now();
        let (waiting, first) = self.0.parts.store.read(|snapshot| {
            let first: Option<Notification> = snapshot.find_on_host(&NOTIFICATIONS_DUE, &Key::all(), 1)?.pop();
            Ok::<_, StoreError>((snapshot.size_of(&NOTIFICATIONS_DUE)?, first))
        })?;
        let counts = |channel| {
            let [sent, failed] = self.0.tries.of(channel)?;
            Some((channel, sent.load(Ordering::Relaxed), failed.load(Ordering::Relaxed)))
        };
        Ok(Figures {
            waiting,
            overdue_ms: first.map_or(0, |first| now.since(first.due_at)),
            tries: Channel::ALL.into_iter().filter_map(counts).collect(),
        })
    }
}
