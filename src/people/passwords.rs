//! Password hashing: argon2id, a few at a time, and as slow for people who do not exist.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;

use super::PeopleError;
use crate::model::Secret;

/// The shortest password, in characters.
pub const MINIMUM_PASSWORD: usize = 10;
/// The longest, in characters: hashing time must not be the client's choice.
pub const MAXIMUM_PASSWORD: usize = 256;
/// Memory of one hash, in KiB, and passes over it: about 0.2 s of one core.
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;
/// Hashes at once: bounds the memory to twice the above.
const AT_ONCE: usize = 2;
/// Callers who may wait for their turn.
const WAITING: usize = 64;

/// Hashes and checks passwords.
pub struct Passwords {
    turns: Semaphore,
    waiting: AtomicUsize,
}

impl Default for Passwords {
    fn default() -> Self {
        Passwords { turns: Semaphore::new(AT_ONCE), waiting: AtomicUsize::new(0) }
    }
}

impl Passwords {
    /// The PHC string of a password.
    pub async fn hash(&self, password: &Secret) -> Result<String, PeopleError> {
        let password = password.clone();
        self.in_turn(move || {
            let hash = hasher()?.hash_password(password.reveal().as_bytes());
            hash.map(|hash| hash.to_string()).map_err(|error| PeopleError::Hash(error.to_string()))
        })
        .await
    }

    /// Whether a password is the one of this PHC string. Without a string (nobody of that name) it takes as long.
    pub async fn matches(&self, password: &Secret, hash: Option<&str>) -> Result<bool, PeopleError> {
        let password = password.clone();
        let hash = hash.map(Arc::<str>::from);
        self.in_turn(move || {
            let hasher = hasher()?;
            match hash {
                Some(hash) => Ok(hasher.verify_password(password.reveal().as_bytes(), hash.as_ref()).is_ok()),
                None => {
                    let _ = hasher.hash_password_with_salt(password.reveal().as_bytes(), &[0; 16]);
                    Ok(false)
                }
            }
        })
        .await
    }

    async fn in_turn<T: Send + 'static>(&self, job: impl FnOnce() -> Result<T, PeopleError> + Send + 'static) -> Result<T, PeopleError> {
        let _waiting = Waiting::join(&self.waiting)?;
        let _turn = self.turns.acquire().await.map_err(|_| PeopleError::Busy)?;
        tokio::task::spawn_blocking(job).await.map_err(|error| PeopleError::Hash(error.to_string()))?
    }
}

/// A place in the line; given back however the wait ends.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn join(waiting: &'a AtomicUsize) -> Result<Self, PeopleError> {
        let place = Waiting(waiting);
        if waiting.fetch_add(1, Ordering::Relaxed) >= WAITING { Err(PeopleError::Busy) } else { Ok(place) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn hasher() -> Result<Argon2<'static>, PeopleError> {
    let params = Params::new(MEMORY_KIB, PASSES, 1, None).map_err(|error| PeopleError::Hash(error.to_string()))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_matches_its_own_hash_only() {
        let passwords = Passwords::default();
        let hash = passwords.hash(&Secret::new("correct horse".to_owned())).await.unwrap();
        assert!(hash.starts_with("$argon2id$"));
        assert!(passwords.matches(&Secret::new("correct horse".to_owned()), Some(&hash)).await.unwrap());
        assert!(!passwords.matches(&Secret::new("correct hors".to_owned()), Some(&hash)).await.unwrap());
        assert!(!passwords.matches(&Secret::new("correct horse".to_owned()), None).await.unwrap());
    }
}
