//! The master key and what is sealed with it, brought together: the store's secrets and the vault's key have to change in
//! step, whatever happens in between.
//!
//! ```text
//! 1  the new key beside the old one        a crash after it: the new one is thrown away at the next start
//! 2  the old key kept for old backups
//! 3  everything sealed anew, and the new key's name noted, in one transaction
//! 4  the new key takes the old one's place     a crash before it: it is done at the next start
//! ```

use std::path::PathBuf;
use std::sync::Arc;

use crate::store::{Store, StoreError};
use crate::vault::{Settings, Vault, VaultError};

/// Why the key cannot be changed, or had.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The vault.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A mistake of the program: it would have lost a secret.
    #[error("a secret in the table {0} was not sealed anew; nothing was changed")]
    Forgotten(&'static str),
    /// A test ended it here.
    #[error("interrupted")]
    Interrupted,
}

/// Points at which a change of the key may be interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The new key is there.
    Staged,
    /// So is a copy of the old one.
    FormerKept,
    /// The transaction that seals everything anew is about to end.
    Resealing,
    /// It has ended.
    Resealed,
}

impl Step {
    /// In order.
    pub const ALL: [Step; 4] = [Step::Staged, Step::FormerKept, Step::Resealing, Step::Resealed];
}

/// What was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotated {
    /// How many secrets were sealed anew.
    pub secrets: u64,
    /// Where the former key is kept.
    pub former: PathBuf,
}

/// Opens the vault of a store, and ends a change of the key that was interrupted.
pub async fn open(settings: &Settings, store: &Store) -> Result<Vault, KeyError> {
    let noted = store.sealed_with()?;
    let vault = Vault::open(settings)?.settle(noted.as_deref())?;
    match noted {
        None => {
            let name = vault.key_name().to_owned();
            store.write(move |change| change.set_sealed_with(&name)).await?;
        }
        Some(name) if name != vault.key_name() => {
            tracing::warn!(
                "stored secrets were sealed with another key (named {name}, this one is {}): they cannot be opened before the former key \
                 is given back or they are entered again",
                vault.key_name()
            );
        }
        Some(_) => {}
    }
    Ok(vault)
}

/// Gives the host a new master key. Nobody else may have the store open. `pause` is asked at each step whether to go on.
pub async fn rotate(
    settings: &Settings,
    store: &Store,
    pause: impl Fn(Step) -> Result<(), KeyError> + Send + Sync + 'static,
) -> Result<Rotated, KeyError> {
    let mut vault = open(settings, store).await?;
    vault.stage_next()?;
    pause(Step::Staged)?;
    let former = vault.keep_former()?;
    pause(Step::FormerKept)?;
    let vault = Arc::new(vault);
    let sealing = vault.clone();
    let pause = Arc::new(pause);
    let going_on = pause.clone();
    let secrets = store
        .write(move |change| {
            let secrets = change.reseal(|place, sealed| sealing.reseal(place, sealed).map_err(KeyError::from))?;
            if let Some(table) = change.table_with(&format!("\"{}", sealing.sealed_prefix()))? {
                return Err(KeyError::Forgotten(table));
            }
            change.set_sealed_with(sealing.next_name().unwrap_or_default())?;
            going_on(Step::Resealing)?;
            Ok(secrets)
        })
        .await;
    let secrets = match secrets {
        // Nothing is sealed with the next key; a crash here would leave that to the next start.
        Err(error) if !matches!(error, KeyError::Interrupted) => {
            open(settings, store).await?;
            return Err(error);
        }
        secrets => secrets?,
    };
    pause(Step::Resealed)?;
    // Settles on the new key.
    open(settings, store).await?;
    Ok(Rotated { secrets, former })
}
