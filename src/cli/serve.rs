//! `cookhouse serve`

use crate::appliance::StartError;
use crate::platform::lock::LockError;

use super::{Exit, Failure};

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let (exit, advice) = match &error {
            StartError::Directory { .. } => (Exit::Usage, "Name another one with --data, or make it accessible to this user."),
            StartError::Lock(LockError::Held { .. }) => (Exit::Locked, ""),
            StartError::Lock(LockError::Io { .. }) => (Exit::Failed, "The user of the service needs to own the data directory."),
            StartError::Store(_) => (Exit::Failed, "Nothing was changed. The log above and README.md say more."),
            StartError::Vault(_) => {
                (Exit::Usage, "Without its key, stored secrets stay closed. Give back the former key; `secrets.key_file` names its file.")
            }
            StartError::People(_) => (Exit::Failed, ""),
        };
        Failure::new(exit, error.to_string(), advice)
    }
}
