//! Who the demo signs in as: kept beside the data, so that a second run finds its own way in.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::platform::files::write_private_file_atomically;

use super::DemoError;

/// The demo's account.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Account {
    pub(super) email: String,
    pub(super) password: String,
}

impl Account {
    /// The one of an earlier run, or a new one with a password nobody could guess. The flag: it is new.
    pub(super) fn open(path: &Path) -> Result<(Account, bool), DemoError> {
        if let Ok(text) = std::fs::read(path) {
            let account =
                serde_json::from_slice(&text).map_err(|error| DemoError::failed(format!("{} is damaged: {error}", path.display())))?;
            return Ok((account, false));
        }
        let account = Account { email: "chef@kitchen.example".into(), password: random(12)? };
        let text = serde_json::to_vec(&account).map_err(|error| DemoError::failed(error.to_string()))?;
        write_private_file_atomically(path, &text).map_err(|error| DemoError::failed(format!("{}: {error}", path.display())))?;
        Ok((account, true))
    }
}

/// So many random bytes in hex.
pub(super) fn random(bytes: usize) -> Result<String, DemoError> {
    let mut buffer = vec![0; bytes];
    getrandom::fill(&mut buffer).map_err(|_| DemoError::failed("the operating system gave no random bytes"))?;
    Ok(super::receiver::hex(&buffer))
}
