//! Why the service does not start.

use std::io;
use std::path::PathBuf;

use crate::api::server::ServerError;
use crate::artifacts::ArtifactError;
use crate::builds::RecoveryError;
use crate::keys::KeyError;
use crate::outbound::SetupError;
use crate::people::PeopleError;
use crate::platform::lock::LockError;
use crate::plugins::PluginError;
use crate::store::StoreError;

/// Each says what is wrong in a sentence that names the thing.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error("the data directory {} cannot be used: {message}", .path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// Another server has it, or the lock file is no good.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The store.
    #[error("the store cannot be opened: {0}")]
    Store(#[from] StoreError),
    /// The key of secrets.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// People.
    #[error(transparent)]
    People(#[from] PeopleError),
    /// The client for other machines.
    #[error(transparent)]
    Outbound(#[from] SetupError),
    /// The password of the mail server.
    #[error("the password of the mail server: {0}")]
    MailPassword(String),
    /// The plugin host.
    #[error("the plugins: {0}")]
    Plugins(#[from] PluginError),
    /// The artifacts.
    #[error("the artifacts: {0}")]
    Artifacts(#[from] ArtifactError),
    /// The logs of builds.
    #[error("the logs of builds: {0}")]
    Logs(io::Error),
    /// Builds cannot be kept apart as the configuration says.
    #[error("{0}")]
    Isolation(String),
    /// The listener.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// What the last run left behind.
    #[error("what the last run left behind cannot be brought in order: {0}")]
    Recovery(#[from] RecoveryError),
    /// The ear for orders from the command line.
    #[error("orders from the command line cannot be taken: {0}")]
    Control(io::Error),
    /// Two routes contradict each other.
    #[error("the routes contradict each other: {0}")]
    Routes(String),
}
