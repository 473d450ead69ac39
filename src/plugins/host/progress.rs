//! `progress`: how far a call is, whether it should stop, and what the next attempt should know.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::super::bindings::progress::{self, Unit};
use super::super::bindings::types::ErrorCode;
use super::{CallState, Failure};
use crate::seams::LogSink;

const LARGEST_CHECKPOINT: usize = 64 * 1024;
const LONGEST_PHASE: usize = 80;
const EVERY: Duration = Duration::from_millis(250);

/// Passes on at most four reports a second, and always the last one of a phase.
pub(crate) struct Throttle {
    log: Arc<dyn LogSink>,
    last: Mutex<Option<Instant>>,
}

impl Throttle {
    pub(crate) fn new(log: Arc<dyn LogSink>) -> Self {
        Throttle { log, last: Mutex::new(None) }
    }

    pub(crate) fn report(&self, phase: &str, done: u64, total: Option<u64>) {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = last.is_some_and(|last| now.duration_since(last) < EVERY);
        if is_early && total != Some(done) {
            return;
        }
        *last = Some(now);
        drop(last);
        self.log.progress(phase, done, total);
    }
}

impl progress::Host for CallState {
    async fn report(
        &mut self,
        phase: String,
        done: u64,
        total: Option<u64>,
        _unit: Unit,
        _message: Option<String>,
    ) -> wasmtime::Result<()> {
        let phase = self.shown(&phase, LONGEST_PHASE);
        self.progress.report(&phase, done, total);
        Ok(())
    }

    async fn is_cancelled(&mut self) -> wasmtime::Result<bool> {
        Ok(self.call.cancel.is_cancelled())
    }

    async fn checkpoint(&mut self, state: Vec<u8>) -> Result<(), Failure> {
        if state.len() > LARGEST_CHECKPOINT {
            return Err(Failure::said(ErrorCode::TooLarge, "a checkpoint has at most 64 KiB"));
        }
        self.checkpoint = Some(state);
        Ok(())
    }
}
