//! `cookhouse serve`

use std::path::Path;

use crate::api::server::ServerError;
use crate::appliance::{self, Appliance, StartError};
use crate::config::Loaded;
use crate::keys::KeyError;
use crate::platform::lock::LockError;
use crate::platform::service::{self, Service};
use crate::platform::signals::shutdown_signals;
use crate::vault::VaultError;

use super::arguments::Serve;
use super::log_file::LogFile;
use super::{Exit, Failure, logging};

/// Where a service of Windows logs, in the data directory.
const LOG_FILE: &str = "service.log";
const LARGEST_LOG: u64 = 32 << 20;

/// Runs until a signal comes, or until the service manager wants it to end.
pub(crate) fn run(arguments: &Serve) -> Result<(), Failure> {
    let service = service::join();
    let ended = run_until_told(arguments, service.as_ref());
    if let Some(service) = service {
        if let Err(failure) = &ended {
            tracing::error!("{}", failure.message);
        }
        service.end(ended.as_ref().map_or_else(|failure| failure.exit as u8, |()| 0));
    }
    ended
}

fn run_until_told(arguments: &Serve, service: Option<&Service>) -> Result<(), Failure> {
    let loaded = arguments.load()?;
    let file = service.map(|_| open_log(&loaded.config.data_dir)).transpose()?;
    logging::start(&loaded.config.log, file)
        .map_err(|error| Failure::new(Exit::Internal, format!("logging did not start: {error}"), ""))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Internal, format!("the runtime did not start: {error}"), ""))?;
    let ended = runtime.block_on(serve(&loaded, service));
    // Whoever is still busy now was told to stop at once.
    runtime.shutdown_background();
    ended
}

fn open_log(data_dir: &Path) -> Result<LogFile, Failure> {
    appliance::prepare_directory(data_dir)?;
    LogFile::open(&data_dir.join(LOG_FILE), LARGEST_LOG).map_err(|error| Failure::new(Exit::Failed, format!("{LOG_FILE}: {error}"), ""))
}

async fn serve(loaded: &Loaded, service: Option<&Service>) -> Result<(), Failure> {
    // Before anything starts: a signal that comes during the start is a request to stop too.
    let mut signals = shutdown_signals().map_err(|error| Failure::new(Exit::Internal, format!("no signals: {error}"), ""))?;
    let appliance = Appliance::start(&loaded.config).await?;
    announce(loaded, &appliance);
    if let Some(service) = service {
        service.ready();
    }
    let broken = tokio::select! {
        () = signals.next() => false,
        () = appliance.failed() => true,
    };
    if let Some(service) = service {
        service.stopping();
    }
    if broken {
        tracing::error!("the disk refused to keep what was written: stopping, so that nothing is promised that is not kept");
    } else {
        let grace = loaded.config.executor.shutdown_grace_seconds;
        tracing::info!("stopping: running builds get {grace} seconds to finish; a second signal stops at once");
    }
    tokio::select! {
        () = appliance.stop() => {}
        () = signals.next() => {
            tracing::warn!("stopped at once; the next start brings in order what was interrupted");
            return Ok(());
        }
    }
    tracing::info!("stopped");
    if broken {
        return Err(Failure::new(
            Exit::Failed,
            "the disk refused to keep what was written",
            "Look at the disk, then start again: everything that was accepted is kept.",
        ));
    }
    Ok(())
}

fn announce(loaded: &Loaded, appliance: &Appliance) {
    let config = &loaded.config;
    let file = loaded.file.as_ref().map_or_else(|| "defaults".to_owned(), |path| path.display().to_string());
    tracing::info!("Cookhouse {}, configuration: {file}", env!("CARGO_PKG_VERSION"));
    tracing::info!("data directory: {}", config.data_dir.display());
    let recovered = appliance.recovered();
    if recovered.ended_processes > 0 {
        tracing::info!("ended {} processes of the last run", recovered.ended_processes);
    }
    for (build, successor) in &recovered.interrupted {
        let next = successor.map_or_else(|| "not repeated".to_owned(), |id| format!("repeated as {id}"));
        tracing::info!("build {build} was interrupted by the end of the last run; {next}");
    }
    for engine in &appliance.app().builds.engines().engines {
        tracing::info!("engine {} at {}", engine.label, engine.root.display());
    }
    for finding in crate::config::machine::look(config) {
        tracing::warn!("{}", finding.message);
    }
    tracing::info!("ready on {}", appliance.url());
    if let Some(token) = appliance.setup_token() {
        let token = token.reveal();
        tracing::info!(
            "first start: make the first account with POST {}/v1/setup and the setup token {token} (24 hours), or with \
             `cookhouse admin create --data {} --email YOU@STUDIO`",
            appliance.url(),
            config.data_dir.display()
        );
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let (exit, advice) = match &error {
            StartError::Directory { .. } => (Exit::Usage, "Name another one with --data, or make it accessible to this user."),
            StartError::Lock(LockError::Held { .. }) => (Exit::Locked, ""),
            StartError::Lock(LockError::Io { .. }) => (Exit::Failed, "The user of the service needs to own the data directory."),
            StartError::Store(_) => (Exit::Failed, "Nothing was changed."),
            StartError::Key(KeyError::Vault(VaultError::NotOurs)) => (
                Exit::Usage,
                "Write the key into the file of `secrets.key_file` and take it out of the environment and the credentials first.",
            ),
            StartError::Key(KeyError::Forgotten(_) | KeyError::Interrupted) => (Exit::Internal, "Please report it."),
            StartError::Key(KeyError::Store(_)) => (Exit::Failed, "Nothing was changed."),
            StartError::Key(KeyError::Vault(_)) => {
                (Exit::Usage, "Without its key, stored secrets stay closed. Give back the former key; `secrets.key_file` names its file.")
            }
            StartError::Isolation(_) => (Exit::Usage, ""),
            StartError::Outbound(_) | StartError::MailPassword(_) | StartError::Server(ServerError::Tls(_)) => {
                (Exit::Usage, "`cookhouse check-config` looks at every file that the configuration names.")
            }
            StartError::Server(ServerError::Listen(..)) => {
                (Exit::Unavailable, "Choose another address with --listen, or stop what listens there.")
            }
            StartError::People(_)
            | StartError::Plugins(_)
            | StartError::Artifacts(_)
            | StartError::Logs(_)
            | StartError::Recovery(_)
            | StartError::Control(_) => (Exit::Failed, "The service did not start; nothing was lost."),
            StartError::Routes(_) => (Exit::Internal, "This is a mistake of the program; please report it."),
        };
        Failure::new(exit, error.to_string(), advice)
    }
}
