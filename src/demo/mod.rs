//! The demo: a server, a git server and a receiver on loopback, and one build through all of it.
//!
//! The service is the real one. The demo is its customer and knows it by its public API alone; what a studio would
//! bring (a git host or a Perforce server, an engine, an endpoint for finished builds) is played by the small servers here and by the stand-in
//! engine, which lie inside the binary.

mod account;
pub mod certificate;
mod client;
mod download;
pub mod files;
mod follow;
pub mod git_server;
pub mod receiver;
pub mod screen;
mod story;
mod stream;
mod studio;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::appliance::StartError;
use crate::config::machine::find_program;
use crate::config::size;
use crate::platform::signals::ShutdownSignals;

use screen::Screen;
use studio::Studio;

/// What the demo is told.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where everything is kept; `None`: in a temporary directory that goes with the demo.
    pub data: Option<PathBuf>,
    /// Where the service listens.
    pub listen: SocketAddr,
    /// Leave when everything was shown.
    pub exit: bool,
    /// The project is in a stream instead of a git repository.
    pub is_stream: bool,
}

/// Why the demo did not get to its end.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Programs that it needs are not on this machine.
    #[error("the demo needs {0}")]
    Missing(String),
    /// The service did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Something did not go as it should.
    #[error("{message}")]
    Failed {
        /// What.
        message: String,
        /// The API's code, where the API refused something.
        code: Option<String>,
    },
}

impl DemoError {
    fn failed(message: impl Into<String>) -> Self {
        DemoError::Failed { message: message.into(), code: None }
    }
}

/// Plays the demo, then stays until a signal comes, or leaves at once with [`Options::exit`].
pub async fn run(options: Options, signals: &mut ShutdownSignals) -> Result<(), DemoError> {
    require_programs(options.is_stream)?;
    let mut screen = Screen::default();
    let mut studio = Studio::open(&mut screen, &options).await?;
    let played = tokio::select! {
        played = story::play(&mut screen, &mut studio) => Some(played),
        () = signals.next() => None,
    };
    screen.still();
    match played {
        Some(Ok(end)) => {
            story::go_on(&screen, &studio, &end, options.exit);
            if !options.exit {
                signals.next().await;
                screen.line("");
            }
            studio.close(&screen).await;
            Ok(())
        }
        Some(Err(error)) => {
            studio.close(&screen).await;
            Err(error)
        }
        None => {
            screen.line("");
            studio.close(&screen).await;
            Err(DemoError::failed("the demo was interrupted"))
        }
    }
}

/// The stand-in engine's tools, and those of every git-hosted build, or of a server's trigger.
fn require_programs(is_stream: bool) -> Result<(), DemoError> {
    let missing = |names: &[&str]| names.iter().all(|name| find_program(name).is_none());
    let source: &[(&[&str], &str)] = match is_stream {
        true if cfg!(windows) => &[],
        true => &[(&["curl"], "curl")],
        false => &[(&["git"], "git"), (&["git-lfs"], "git-lfs")],
    };
    let tools: [(&[&str], &str); 2] = [(&["bash"], "bash"), (&["g++", "clang++"], "a C++ compiler (g++ or clang++)")];
    let needed = source.iter().chain(&tools);
    let mut lacking: Vec<&str> = needed.filter(|(names, _)| missing(names)).map(|(_, what)| *what).collect();
    if is_stream && stream::stand_in().is_none() {
        lacking.push("the stand-in for p4 beside this program (`cargo build --bin p4-standin`)");
    }
    if lacking.is_empty() { Ok(()) } else { Err(DemoError::Missing(lacking.join(", "))) }
}
