//! Refused changes are recorded, but not so many that strangers could fill the disk with them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::ApiError;
use crate::app::App;
use crate::model::Timestamp;
use crate::model::audit::Actor;
use crate::store::audit::{self, Origin};

/// Refusals that are recorded at once, and the pause after which one more is: of one person, and of all strangers
/// together. The latter come to at most a million entries in the year that they are kept.
const KNOWN: (u64, u64) = (60, 6_000);
const STRANGERS: (u64, u64) = (120, 30_000);
/// People who are counted at once; beyond that they share the strangers' measure.
const COUNTED: usize = 4096;

/// Counts what is refused.
#[derive(Default)]
pub(super) struct Refusals(Mutex<HashMap<String, Measure>>);

/// A bucket that empties by one after each pause.
#[derive(Default)]
struct Measure {
    level: u64,
    since: Timestamp,
    omitted: u64,
}

impl Refusals {
    /// Records a refusal, or counts it.
    pub(super) async fn note(&self, app: &App, origin: Arc<Origin>, error: &ApiError) {
        let key = match origin.actor() {
            Actor::User { user_id } | Actor::Token { user_id, .. } => user_id.to_string(),
            Actor::Host | Actor::Stranger => String::new(),
        };
        let Some(omitted) = self.take(key, app.clock.now()) else { return };
        if let Err(error) = audit::refused(&app.store, origin, error.problem.code(), omitted).await {
            tracing::warn!(%error, "a refused request could not be recorded");
        }
    }

    /// How many were left out before this one; `None`: this one is left out, too.
    fn take(&self, mut key: String, now: Timestamp) -> Option<u64> {
        let mut measures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if measures.len() >= COUNTED && !measures.contains_key(&key) {
            measures.retain(|_, measure| measure.omitted > 0 || measure.level_at(now, KNOWN.1) > 0);
            if measures.len() >= COUNTED {
                key.clear();
            }
        }
        let (burst, pause) = if key.is_empty() { STRANGERS } else { KNOWN };
        let measure = measures.entry(key).or_insert_with(|| Measure { since: now, ..Measure::default() });
        let level = measure.level_at(now, pause);
        if level != measure.level {
            (measure.level, measure.since) = (level, now);
        }
        if level >= burst {
            measure.omitted += 1;
            return None;
        }
        measure.level += 1;
        Some(std::mem::take(&mut measure.omitted))
    }
}

impl Measure {
    fn level_at(&self, now: Timestamp, pause: u64) -> u64 {
        self.level.saturating_sub(now.since(self.since) / pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_told_by_the_next_one_that_is_recorded() {
        let refusals = Refusals::default();
        let start = Timestamp(1_000_000);
        let recorded = (0..10_000).filter(|_| refusals.take(String::new(), start).is_some()).count();
        assert_eq!(recorded as u64, STRANGERS.0);
        assert_eq!(refusals.take("somebody".into(), start), Some(0), "a person has a measure of their own");
        assert_eq!(refusals.take(String::new(), Timestamp(start.0 + 29_999)), None);
        assert_eq!(refusals.take(String::new(), Timestamp(start.0 + 30_000)), Some(9_881));
        assert_eq!(refusals.take(String::new(), Timestamp(start.0 + 30_001)), None);
    }

    #[test]
    fn memory_is_bounded_whoever_comes() {
        let refusals = Refusals::default();
        for number in 0..3 * COUNTED {
            refusals.take(number.to_string(), Timestamp(0));
        }
        assert!(refusals.0.lock().unwrap().len() <= COUNTED + 1);
    }
}
