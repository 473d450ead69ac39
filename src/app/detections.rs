//! Which repositories hold a project file, remembered by their heads. Memory only: a restart asks again.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::model::{Id, Organization};

/// For so long nobody asks whether the head moved.
const FRESH: Duration = Duration::from_secs(5 * 60);
/// Repositories remembered at once.
const REMEMBERED: usize = 5_000;
/// Repositories being asked about or waiting for it.
const UNDER_WAY: usize = 500;
/// Of those, how many ask at the same time.
const AT_ONCE: usize = 8;

/// A repository of an organization's connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Whose connection sees it.
    pub organization: Id<Organization>,
    /// `<owner>/<repo>`
    pub repository: String,
}

/// The memory. A cheap handle.
#[derive(Clone)]
pub struct Detections {
    state: Arc<Mutex<State>>,
    turns: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    known: HashMap<Key, Known>,
    under_way: HashSet<Key>,
}

struct Known {
    head: String,
    found: bool,
    at: Instant,
}

impl Default for Detections {
    fn default() -> Self {
        Detections { state: Arc::default(), turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Detections {
    /// What was found, and whether that is fresh enough not to ask.
    pub fn remembered(&self, key: &Key) -> Option<(bool, bool)> {
        self.lock().known.get(key).map(|known| (known.found, known.at.elapsed() < FRESH))
    }

    /// The right to ask about a repository; nothing when somebody asks already, or too much is asked.
    pub fn begin(&self, key: Key) -> Option<Asking> {
        let mut state = self.lock();
        let is_free = state.under_way.len() < UNDER_WAY && state.under_way.insert(key.clone());
        is_free.then(|| Asking { detections: self.clone(), key })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to ask about one repository; given back when dropped.
pub struct Asking {
    detections: Detections,
    key: Key,
}

impl Asking {
    /// The head that was looked at last, and what was found there.
    pub fn known_head(&self) -> Option<(String, bool)> {
        self.detections.lock().known.get(&self.key).map(|known| (known.head.clone(), known.found))
    }

    /// Waits for a place among those who ask at the same time; held until dropped.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.detections.turns.clone().acquire_owned().await.ok()
    }

    /// What was found at this head.
    pub fn remember(&self, head: String, found: bool) {
        let mut state = self.detections.lock();
        if state.known.len() >= REMEMBERED && !state.known.contains_key(&self.key) {
            state.known.retain(|_, known| known.at.elapsed() < FRESH);
            if state.known.len() >= REMEMBERED {
                state.known.clear();
            }
        }
        state.known.insert(self.key.clone(), Known { head, found, at: Instant::now() });
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.detections.lock().under_way.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key { organization: Id::from_parts(1, 1), repository: format!("studio/{number}") }
    }

    #[test]
    fn one_asks_at_a_time_and_memory_is_bounded() {
        let detections = Detections::default();
        let asking = detections.begin(key(0)).unwrap();
        assert!(detections.begin(key(0)).is_none());
        asking.remember("a".into(), true);
        drop(asking);
        assert_eq!(detections.remembered(&key(0)), Some((true, true)));
        assert_eq!(detections.begin(key(0)).unwrap().known_head(), Some(("a".to_owned(), true)));
        for number in 1..2 * REMEMBERED {
            detections.begin(key(number)).unwrap().remember("a".into(), false);
            assert!(detections.lock().known.len() <= REMEMBERED);
        }
        let held: Vec<_> = (0..2 * UNDER_WAY).filter_map(|number| detections.begin(key(number))).collect();
        assert_eq!(held.len(), UNDER_WAY);
    }
}
