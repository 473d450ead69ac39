//! Lines on their way from writers to the thread that stores them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::frame::NewLine;

/// Above this many waiting bytes a writer that can wait does.
const HIGH: usize = 2 << 20;
/// Above this many a line of a writer that cannot wait is dropped.
const FULL: usize = 16 << 20;

/// Bounded in bytes.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    taken: Notify,
}

#[derive(Default)]
struct State {
    lines: Vec<NewLine>,
    bytes: usize,
    /// Lines put in so far.
    count: u64,
    dropped: u64,
    is_closed: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never waits.
    pub(super) fn put(&self, line: NewLine) {
        let mut state = self.state();
        if state.bytes > FULL {
            state.dropped += 1;
            return;
        }
        if state.dropped > 0 {
            let text = format!("{} lines are missing here: they came faster than the disk takes them.", std::mem::take(&mut state.dropped));
            let stream = crate::model::log::LogStream::System;
            state.push(NewLine { at: line.at, stream, text });
        }
        state.push(line);
        drop(state);
        self.arrived.notify_one();
    }

    /// Lines put in so far.
    pub(super) fn count(&self) -> u64 {
        self.state().count
    }

    /// Waits while too much is waiting already.
    pub(super) async fn has_room(&self) {
        loop {
            let taken = self.taken.notified();
            tokio::pin!(taken);
            taken.as_mut().enable();
            if self.state().bytes <= HIGH {
                return;
            }
            taken.await;
        }
    }

    /// Everything that waits; waits for it. `None` when it is closed and empty.
    pub(super) fn take(&self) -> Option<Vec<NewLine>> {
        let mut state = self.state();
        while state.lines.is_empty() {
            if state.is_closed {
                return None;
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes = 0;
        let lines = std::mem::take(&mut state.lines);
        drop(state);
        self.taken.notify_waiters();
        Some(lines)
    }

    /// No more lines come.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.arrived.notify_one();
    }
}

impl State {
    fn push(&mut self, line: NewLine) {
        self.bytes += line.stored_length() + size_of::<NewLine>();
        self.count += 1;
        self.lines.push(line);
    }
}
