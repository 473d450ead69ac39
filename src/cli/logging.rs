//! What the service says of itself while it runs.

use std::fmt;
use std::io::IsTerminal;
use std::sync::Mutex;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::log_file::LogFile;
use crate::config::Log;

/// Begins to log to standard error, or to a file in its place. Other people's crates speak only of trouble, unless somebody asks for everything.
pub(crate) fn start(log: &Log, file: Option<LogFile>) -> Result<(), TryInitError> {
    let level: Level = log.level.parse().unwrap_or(Level::INFO);
    let others = if level == Level::TRACE { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let filter = Targets::new().with_default(others).with_target(env!("CARGO_CRATE_NAME"), level);
    let is_terminal = file.is_none() && std::io::stderr().is_terminal();
    let writer = file.map_or_else(|| BoxMakeWriter::new(std::io::stderr), |file| BoxMakeWriter::new(Mutex::new(file)));
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    let registry = tracing_subscriber::registry().with(filter);
    if log.json {
        return registry.with(layer.json().flatten_event(true).with_timer(Clock::default())).try_init();
    }
    let layer = layer.with_target(level < Level::INFO).with_ansi(is_terminal && console::colors_enabled_stderr());
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
