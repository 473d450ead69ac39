//! Whose turn it is on a connection: ours, or the client's. What waits for its client may be given up for another.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// One connection's state.
#[derive(Debug)]
pub struct Activity {
    /// A request is being answered whose body has arrived.
    works: AtomicBool,
    /// When bytes came or went last, in microseconds of this process.
    moved_at: AtomicU64,
    given_up: CancellationToken,
}

impl Default for Activity {
    fn default() -> Self {
        Activity { works: AtomicBool::new(false), moved_at: AtomicU64::new(now()), given_up: CancellationToken::new() }
    }
}

fn now() -> u64 {
    u64::try_from(START.elapsed().as_micros()).unwrap_or(u64::MAX)
}

impl Activity {
    /// It is our turn: the request is complete.
    pub(super) fn works(&self) {
        self.works.store(true, Relaxed);
    }

    /// It is the client's turn: to send a request or the rest of one, or to take an answer.
    pub(super) fn waits(&self) {
        self.works.store(false, Relaxed);
    }

    /// Bytes came or went.
    pub(super) fn moved(&self) {
        self.moved_at.store(now(), Relaxed);
    }

    /// Whether it is the client's turn.
    pub(super) fn is_waiting(&self) -> bool {
        !self.works.load(Relaxed)
    }

    /// When bytes came or went last.
    pub(super) fn moved_at(&self) -> u64 {
        self.moved_at.load(Relaxed)
    }

    /// Its place is needed.
    pub(super) fn give_up(&self) {
        self.given_up.cancel();
    }

    /// Waits until its place is needed.
    pub(super) async fn given_up(&self) {
        self.given_up.cancelled().await;
    }
}
