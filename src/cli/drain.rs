//! `cookhouse drain`: the server starts no more builds; the command waits until none runs.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::appliance::{self, StartError};
use crate::control::client::{self, ClientError};
use crate::control::{Done, Order};
use crate::platform::lock::{LockError, lock};

use super::arguments::Drain;
use super::{Exit, Failure, style};

/// How often the server is asked.
const EVERY: Duration = Duration::from_millis(500);

/// Waits; the exit code tells whether builds still run.
pub(crate) fn run(arguments: &Drain) -> Result<(), Failure> {
    let config = arguments.place.load(&[])?.config;
    appliance::expect_directory(&config.data_dir)?;
    match lock(&config.data_dir) {
        Err(LockError::Held { .. }) => {}
        Ok(_) => {
            let message = "no server runs on this data directory, so no builds are started";
            return Err(Failure::new(Exit::Unavailable, message, "Name the server's data directory with --data or --config."));
        }
        Err(error @ LockError::Io { .. }) => return Err(StartError::from(error).into()),
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Internal, format!("the runtime did not start: {error}"), ""))?;
    let patience = arguments.timeout_minutes.map(|minutes| Duration::from_secs(u64::from(minutes) * 60));
    runtime.block_on(async {
        match arguments.undo {
            true => undo(&config.data_dir).await,
            false => drain(&config.data_dir, patience).await,
        }
    })
}

async fn undo(data_dir: &Path) -> Result<(), Failure> {
    ask(data_dir, Order::EndDrain).await?;
    println!("{} builds are started again.", style::good("Done:"));
    Ok(())
}

async fn drain(data_dir: &Path, patience: Option<Duration>) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut told = Vec::new();
    loop {
        let Done::Draining { running } = ask(data_dir, Order::Drain).await? else {
            return Err(Failure::new(Exit::Internal, "the server answered something else", ""));
        };
        if running.is_empty() {
            println!("{} no build runs, and none is started until the service starts anew.", style::good("Done:"));
            return Ok(());
        }
        if patience.is_some_and(|patience| begun.elapsed() >= patience) {
            let message = format!("still running: {}", running.join(", "));
            let advice = "None is started any more. Wait again, cancel them, or stop the service: it repeats what it interrupts.";
            return Err(Failure::new(Exit::Failed, message, advice));
        }
        if running != told {
            eprintln!("{}", style::faint(format!("No new builds are started; waiting for {}", running.join(", "))));
            told = running;
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn ask(data_dir: &Path, order: Order) -> Result<Done, Failure> {
    client::ask(data_dir, order).await.map_err(|error| match error {
        ClientError::Refused(refusal) => refusal.into(),
        ClientError::Unreachable(_) => Failure::new(Exit::Unavailable, error.to_string(), "Try again in a moment."),
    })
}
