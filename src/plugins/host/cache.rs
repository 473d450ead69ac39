//! What guests keep in memory between calls: one small cache per binding, never shared between two.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const MOST_ENTRIES: usize = 64;
const LONGEST_KEY: usize = 1024;
const LARGEST_VALUE: usize = 64 * 1024;
const LONGEST_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
const MOST_BINDINGS: usize = 256;

/// The cache of one binding: a plugin with one organization's settings and secrets.
#[derive(Default)]
pub(crate) struct BindingCache {
    entries: Mutex<HashMap<String, (Instant, Vec<u8>)>>,
}

impl BindingCache {
    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).filter(|(until, _)| *until > Instant::now()).map(|(_, value)| value.clone())
    }

    /// Keeps the value for a while. Too large ones are not kept: a cache may forget at any time.
    pub(crate) fn put(&self, key: String, value: Vec<u8>, life: Duration) {
        self.keep(key, value, life, |_| true);
    }

    /// The same where nothing is kept under this key; whether it was done.
    pub(crate) fn add(&self, key: String, value: Vec<u8>, life: Duration) -> bool {
        self.keep(key, value, life, |known| known.is_none_or(|until| until <= Instant::now()))
    }

    /// `may` sees until when something is kept under the key already.
    fn keep(&self, key: String, value: Vec<u8>, life: Duration, may: impl FnOnce(Option<Instant>) -> bool) -> bool {
        if key.len() > LONGEST_KEY || value.len() > LARGEST_VALUE {
            return false;
        }
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if !may(entries.get(&key).map(|(until, _)| *until)) {
            return false;
        }
        if entries.len() >= MOST_ENTRIES && !entries.contains_key(&key) {
            entries.retain(|_, (until, _)| *until > now);
            if entries.len() >= MOST_ENTRIES
                && let Some(first) = entries.iter().min_by_key(|(_, (until, _))| *until).map(|(key, _)| key.clone())
            {
                entries.remove(&first);
            }
        }
        entries.insert(key, (now + life.min(LONGEST_LIFE), value));
        true
    }

    pub(crate) fn remove(&self, key: &str) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// All of them. A binding whose secrets change begins with an empty one.
#[derive(Default)]
pub(crate) struct Caches {
    bindings: Mutex<HashMap<[u8; 32], Used>>,
}

/// A cache, and when it was asked for last.
type Used = (Instant, Arc<BindingCache>);

impl Caches {
    /// The cache of a binding, by the digest of all that makes it.
    pub(crate) fn of(&self, binding: [u8; 32]) -> Arc<BindingCache> {
        let now = Instant::now();
        let mut bindings = self.bindings.lock().unwrap_or_else(PoisonError::into_inner);
        if bindings.len() >= MOST_BINDINGS && !bindings.contains_key(&binding) {
            let oldest = bindings.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| *key);
            oldest.map(|key| bindings.remove(&key));
        }
        let (used, cache) = bindings.entry(binding).or_insert_with(|| (now, Arc::default()));
        *used = now;
        cache.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_sizes_and_bindings_are_bounded() {
        let cache = BindingCache::default();
        for number in 0..200 {
            cache.put(number.to_string(), vec![1], Duration::from_secs(1000 + number));
        }
        assert_eq!(cache.entries.lock().unwrap().len(), MOST_ENTRIES);
        assert_eq!(cache.get("199"), Some(vec![1]));
        assert_eq!(cache.get("0"), None);
        cache.put("large".into(), vec![0; LARGEST_VALUE + 1], Duration::from_secs(9));
        cache.put("over".into(), vec![0], Duration::ZERO);
        assert_eq!((cache.get("large"), cache.get("over")), (None, None));
        let add = |life| cache.add("turn".into(), vec![1], Duration::from_secs(life));
        assert_eq!([add(0), add(5000), add(5000)], [true, true, false]);

        let caches = Caches::default();
        caches.of([1; 32]).put("a".into(), vec![7], Duration::from_secs(9));
        assert_eq!(caches.of([2; 32]).get("a"), None);
        assert_eq!(caches.of([1; 32]).get("a"), Some(vec![7]));
    }
}
