//! What the service says of itself while it runs.

use std::fmt;
use std::io::IsTerminal;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::config::Log;

/// Begins to log to standard error. Other people's crates speak only of trouble, unless somebody asks for everything.
pub(crate) fn start(log: &Log) -> Result<(), TryInitError> {
    let level: Level = log.level.parse().unwrap_or(Level::INFO);
    let others = if level == Level::TRACE { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let filter = Targets::new().with_default(others).with_target(env!("CARGO_CRATE_NAME"), level);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    if log.json {
        return registry.with(layer.json().flatten_event(true).with_timer(Clock::default())).try_init();
    }
    let layer = layer.with_target(level < Level::INFO).with_ansi(std::io::stderr().is_terminal() && console::colors_enabled_stderr());
    // The journal notes the time of every line by itself.
    match std::env::var_os("JOURNAL_STREAM") {
        Some(_) => registry.with(layer.without_time()).try_init(),
        None => registry.with(layer.with_timer(Clock::default())).try_init(),
    }
}

/// The API's own form of a time.
#[derive(Default)]
struct Clock(crate::clock::Clock);

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{}", self.0.now())
    }
}
