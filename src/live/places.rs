//! How many streams there may be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::Live;
use crate::model::{Id, User};

/// Who has how many streams.
#[derive(Default)]
pub(super) struct Places(Mutex<HashMap<Id<User>, usize>>);

/// One stream's place; given back when it is dropped.
pub struct StreamPlace(Arc<Places>, Id<User>);

impl Live {
    /// A place for a stream of this person; `None`: there are too many, of theirs or in all.
    pub fn place(&self, user: Id<User>) -> Option<StreamPlace> {
        let mut places = self.inner.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = places.values().sum();
        let own = places.get(&user).copied().unwrap_or(0);
        if all >= self.inner.settings.streams || own >= self.inner.settings.streams_per_user {
            return None;
        }
        places.insert(user, own + 1);
        Some(StreamPlace(self.inner.places.clone(), user))
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut places = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = places.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                places.remove(&self.1);
            }
        }
    }
}
