//! `log`: lines of the plugin in the build's log, within a rate and a total.

use tokio::time::Instant;

use super::super::bindings::log::{self, Level};
use super::CallState;
use crate::model::log::LogStream;

/// Longest line.
const LONGEST: usize = 16 * 1024;
/// Lines at once.
const BURST: f64 = 1000.0;
/// Lines per second in the long run.
const RATE: f64 = 200.0;
/// All lines of one call.
const MOST_BYTES: usize = 8 << 20;
/// Pairs that are shown behind a message.
const MOST_FIELDS: usize = 32;

/// How much a call may still say.
pub(crate) struct Meter {
    lines: f64,
    at: Instant,
    bytes: usize,
    told: bool,
}

impl Meter {
    pub(crate) fn new(now: Instant) -> Self {
        Meter { lines: BURST, at: now, bytes: 0, told: false }
    }

    /// Whether a line of this length is kept.
    fn admit(&mut self, now: Instant, bytes: usize) -> bool {
        self.lines = (self.lines + now.duration_since(self.at).as_secs_f64() * RATE).min(BURST);
        self.at = now;
        if self.lines < 1.0 || self.bytes + bytes > MOST_BYTES {
            return false;
        }
        self.lines -= 1.0;
        self.bytes += bytes;
        true
    }
}

impl log::Host for CallState {
    async fn log(&mut self, level: Level, message: String, fields: Vec<(String, String)>) -> wasmtime::Result<()> {
        let mut text = message;
        for (name, value) in fields.iter().take(MOST_FIELDS) {
            if text.len() > LONGEST {
                break;
            }
            text.push_str(&format!(" {name}={value}"));
        }
        // The secret first: a cut in the middle of one would hide it from the search.
        let text = self.shown(&text, LONGEST);
        self.say(level, &text);
        Ok(())
    }
}

impl CallState {
    fn say(&mut self, level: Level, text: &str) {
        if !self.meter.admit(Instant::now(), text.len()) {
            if !self.meter.told {
                self.meter.told = true;
                self.call.log.line(LogStream::System, &format!("[{}] logs too much; some of its lines are left out", self.plugin));
            }
            return;
        }
        match level {
            Level::Trace | Level::Debug => tracing::debug!(plugin = &*self.plugin, "{text}"),
            Level::Info => self.call.log.line(LogStream::System, text),
            Level::Warn => self.call.log.line(LogStream::System, &format!("warning: {text}")),
            Level::Error => self.call.log.line(LogStream::System, &format!("error: {text}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_is_cut_and_time_gives_new_lines() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        assert_eq!((0..5000).filter(|_| meter.admit(start, 10)).count(), 1000);
        assert_eq!((0..5000).filter(|_| meter.admit(start + Duration::from_secs(1), 10)).count(), 200);
        assert!(!meter.admit(start + Duration::from_secs(100), MOST_BYTES));
    }
}
