//! `cookhouse key`

use crate::appliance::{self, StartError};
use crate::platform::lock::{LockError, lock};

use super::arguments::{KeyCommand, RotateKey};
use super::people::runtime;
use super::{Exit, Failure, style};

/// Gives the data directory a new master key.
pub(crate) fn run(command: KeyCommand) -> Result<(), Failure> {
    let KeyCommand::Rotate(RotateKey { place }) = command;
    let config = place.load(&[])?.config;
    let rotated = runtime()?.block_on(async {
        appliance::expect_directory(&config.data_dir)?;
        let _lock = lock(&config.data_dir).map_err(|error| match error {
            LockError::Held { .. } => {
                Failure::new(Exit::Locked, "the service runs on this data directory", "Stop it, change the key, start it again.")
            }
            error @ LockError::Io { .. } => StartError::from(error).into(),
        })?;
        appliance::rotate_key(&config).await.map_err(Failure::from)
    })?;
    let secrets = match rotated.secrets {
        1 => "1 secret is".to_owned(),
        count => format!("{count} secrets are"),
    };
    println!("{} {secrets} sealed with a new key.", style::good("Done:"));
    println!("The former key is kept in {}: backups made before now open with nothing else.", rotated.former.display());
    println!("{}", style::faint("Delete it when no such backup is needed any more, or at once if somebody else may have seen it."));
    Ok(())
}
