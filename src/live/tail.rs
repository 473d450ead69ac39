//! The newest of a followed build, kept once for all who follow it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Batch, KEPT};

/// Lives as long as somebody follows the build. Every line in it is on disk for good, and every event it speaks of.
#[derive(Default)]
pub struct Tail {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    pub(super) abandoned: CancellationToken,
}

#[derive(Default)]
struct State {
    batches: VecDeque<Arc<Batch>>,
    bytes: usize,
    /// The last line that is not kept.
    behind: u64,
    /// The last line there is.
    last: u64,
    events_to: u64,
    is_over: bool,
    has_begun: bool,
    has_failed: bool,
}

/// What a reader finds at its place.
#[derive(Debug)]
pub struct View {
    /// Events of the build up to here are durable, and so are the lines that were there before them.
    pub events_to: u64,
    /// Lines for this reader.
    pub lines: Kept,
    /// The build has its final status, its deploy too, nobody writes to its log, and all of it is here.
    pub is_over: bool,
    /// The disk cannot be read: following has to begin anew.
    pub has_failed: bool,
}

/// Lines behind a reader's place.
#[derive(Debug)]
pub enum Kept {
    /// Here they are, with lines that the reader knows perhaps before them.
    Batch(Arc<Batch>),
    /// There are none.
    None,
    /// They are on disk only, those up to this number at least.
    OnDisk(u64),
}

impl Tail {
    /// What there is behind line `line`.
    pub fn view(&self, line: u64) -> View {
        let state = self.state();
        let lines = match () {
            () if !state.has_begun || line >= state.last => Kept::None,
            () if line < state.behind => Kept::OnDisk(state.behind),
            () => {
                let place = state.batches.partition_point(|batch| batch.last() <= line);
                state.batches.get(place).map_or(Kept::None, |batch| Kept::Batch(batch.clone()))
            }
        };
        View { events_to: state.events_to, lines, is_over: state.is_over, has_failed: state.has_failed }
    }

    /// Whether more than what is kept lies behind line `line`.
    pub fn is_far_behind(&self, line: u64) -> bool {
        line < self.state().behind
    }

    /// Wakes when there is more.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn begin(&self, line: u64) {
        let mut state = self.state();
        (state.behind, state.last) = (line, line);
    }

    pub(super) fn push(&self, batches: Vec<Batch>) {
        if batches.is_empty() {
            return;
        }
        let mut state = self.state();
        for batch in batches {
            state.last = batch.last();
            state.bytes += batch.size();
            state.batches.push_back(Arc::new(batch));
        }
        while state.bytes > KEPT
            && let Some(oldest) = state.batches.pop_front()
        {
            state.bytes -= oldest.size();
            state.behind = oldest.last();
        }
        state.has_begun = true;
        drop(state);
        self.wake();
    }

    pub(super) fn tell(&self, events_to: u64, is_over: bool) {
        {
            let mut state = self.state();
            if state.has_begun && (state.events_to, state.is_over) == (events_to, is_over) {
                return;
            }
            (state.events_to, state.is_over, state.has_begun) = (events_to, is_over, true);
        }
        self.wake();
    }

    pub(super) fn fail(&self) {
        self.state().has_failed = true;
        self.wake();
    }

    fn wake(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.abandoned.cancel();
    }
}
