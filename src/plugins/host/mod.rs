//! What a guest can call: one file per interface of `wit/`, all over the state of one call.
//!
//! Every function here is called by code that may be hostile: sizes are checked before anything is allocated, every
//! wait ends when the call is asked to stop, and every text is cleaned and redacted before it is kept.
#![expect(unreachable_pub, reason = "the generated bindings re-export the resources' types with `pub`")]

pub(crate) mod artifacts;
mod basics;
pub(crate) mod cache;
pub(crate) mod command;
pub(crate) mod digest;
pub(crate) mod http;
pub(crate) mod log;
pub(crate) mod progress;
pub(crate) mod secrets;
pub(crate) mod workspaces;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use wasmtime::component::{ResourceTable, ResourceTableError};

use super::bindings::types::{self, ErrorCode};
use super::capability::Grants;
use super::git::desk::Renewed;
use super::redaction::Redactor;
use super::runtime::MemoryLimiter;
use super::text::clean;
use crate::model::Secret;
use crate::outbound::Outbound;
use crate::seams::CallContext;

/// Longest text of an error that a guest gives or gets.
const LONGEST_MESSAGE: usize = 2000;
/// Bytes of request bodies that a guest may have the host hold at one time.
const HELD_BYTES: usize = 64 << 20;

/// Everything one call may use. It lives in the call's own store and ends with it.
pub struct CallState {
    pub(crate) table: ResourceTable,
    pub(crate) limiter: MemoryLimiter,
    pub(crate) ticks: u64,
    pub(crate) grants: Arc<Grants>,
    pub(crate) call: CallContext,
    pub(crate) deadline: Instant,
    pub(crate) started: Instant,
    pub(crate) plugin: Arc<str>,
    pub(crate) redactor: Redactor,
    pub(crate) config: Arc<serde_json::Value>,
    pub(crate) secrets: Arc<BTreeMap<String, Secret>>,
    pub(crate) cache: Arc<cache::BindingCache>,
    pub(crate) outbound: Outbound,
    pub(crate) tools: Arc<command::Tools>,
    pub(crate) meter: log::Meter,
    pub(crate) progress: Arc<progress::Throttle>,
    pub(crate) checkpoint: Option<Vec<u8>>,
    pub(crate) held: Arc<AtomicUsize>,
    pub(crate) written: workspaces::Quota,
    pub(crate) live_exchanges: Slots,
    pub(crate) live_processes: Slots,
    /// The first git of a call also removes stale locks.
    pub(crate) has_run_git: bool,
    /// Asks the plugin for what signs in at a remote now, for tools that ask again.
    pub(crate) renewal: Option<RemoteRenewal>,
    /// The first p4 of a call in a workspace also removes links that lead out of it.
    pub(crate) has_run_p4: bool,
}

/// See [`CallState::renewal`].
pub(crate) type RemoteRenewal = Arc<dyn Fn(String) -> BoxFuture<'static, Renewed> + Send + Sync>;

impl CallState {
    /// Waits for `work`, but no longer than the call may live: `cancelled` as soon as it should stop.
    /// The future does not borrow the state, which no other thread may look at.
    pub(crate) fn unless_cancelled<T, F: Future<Output = T> + Send>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, Failure>> + Send + use<T, F> {
        let cancel = self.call.cancel.clone();
        async move { unless_cancelled(&cancel, work).await }
    }

    /// What is left of the call's time.
    pub(crate) fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Guest text as it may be kept and shown.
    pub(crate) fn shown(&self, text: &str, limit: usize) -> String {
        clean(&self.redactor.redact(text), limit)
    }

    /// Counts bytes that the host holds for the guest.
    pub(crate) fn hold(&self, length: usize) -> Result<Held, Failure> {
        let before = self.held.fetch_add(length, Ordering::Relaxed);
        let held = Held { counter: self.held.clone(), length };
        if before + length > HELD_BYTES {
            return Err(Failure::said(ErrorCode::TooLarge, "more than 64 MiB of request bodies are held at one time"));
        }
        Ok(held)
    }
}

/// Waits for `work` unless the token is cancelled first.
pub(crate) async fn unless_cancelled<T>(
    cancel: &tokio_util::sync::CancellationToken,
    work: impl Future<Output = T> + Send,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Failure::said(ErrorCode::Cancelled, "the call was asked to stop").reason("cancelled")),
        done = work => Ok(done),
    }
}

/// Runs blocking file work away from the runtime's own threads.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(std::io::Error::other("the work was given up")))
}

/// Bytes held for a guest, counted until dropped.
pub(crate) struct Held {
    counter: Arc<AtomicUsize>,
    length: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.counter.fetch_sub(self.length, Ordering::Relaxed);
    }
}

/// A fixed number of places; a guest that wants more is told so.
#[derive(Clone)]
pub(crate) struct Slots {
    free: Arc<tokio::sync::Semaphore>,
    what: &'static str,
}

impl Slots {
    pub(crate) fn new(count: usize, what: &'static str) -> Self {
        Slots { free: Arc::new(tokio::sync::Semaphore::new(count)), what }
    }

    pub(crate) fn take(&self) -> Result<tokio::sync::OwnedSemaphorePermit, Failure> {
        let busy = |_| Failure::said(ErrorCode::TooLarge, format!("too many {} at one time", self.what));
        self.free.clone().try_acquire_owned().map_err(busy)
    }
}

/// Why a host function gives no value: an error that the guest sees, or the end of the call.
pub enum Failure {
    /// An answer of the contract.
    Said(types::Error),
    /// The guest broke the contract or a limit; its call ends.
    Trap(wasmtime::Error),
}

impl Failure {
    /// An error for the guest. Not retryable, without a reason.
    pub(crate) fn said(code: ErrorCode, message: impl Into<String>) -> Failure {
        Failure::Said(types::Error { code, message: message.into(), retryable: false, retry_after_ms: None, reason: None })
    }

    /// With a machine-readable reason.
    pub(crate) fn reason(mut self, reason: &str) -> Failure {
        if let Failure::Said(error) = &mut self {
            error.reason = Some(reason.to_owned());
        }
        self
    }

    /// The same call may succeed later.
    pub(crate) fn retryable(mut self) -> Failure {
        if let Failure::Said(error) = &mut self {
            error.retryable = true;
        }
        self
    }

    /// An error of the file system, without host paths.
    pub(crate) fn io(error: &std::io::Error, what: &str) -> Failure {
        use std::io::ErrorKind;
        if crate::platform::files::is_storage_full(error) {
            return Failure::said(ErrorCode::Io, format!("{what}: the disk is full")).reason("storage-full").retryable();
        }
        let (code, text) = match error.kind() {
            ErrorKind::NotFound => (ErrorCode::NotFound, "not found"),
            ErrorKind::AlreadyExists => (ErrorCode::Conflict, "exists already"),
            ErrorKind::PermissionDenied => (ErrorCode::Denied, "not allowed, or it leads out of the workspace"),
            ErrorKind::NotADirectory => (ErrorCode::InvalidArgument, "a part of the path is no directory"),
            ErrorKind::IsADirectory => (ErrorCode::InvalidArgument, "it is a directory"),
            ErrorKind::DirectoryNotEmpty => (ErrorCode::Conflict, "the directory is not empty"),
            ErrorKind::InvalidInput | ErrorKind::InvalidFilename => (ErrorCode::InvalidArgument, "not a usable name"),
            _ => (ErrorCode::Io, "input/output error"),
        };
        Failure::said(code, format!("{what}: {text}"))
    }
}

impl From<ResourceTableError> for Failure {
    fn from(error: ResourceTableError) -> Self {
        Failure::Trap(error.into())
    }
}

impl From<wasmtime::Error> for Failure {
    fn from(error: wasmtime::Error) -> Self {
        Failure::Trap(error)
    }
}

impl types::Host for CallState {
    fn convert_error(&mut self, failure: Failure) -> wasmtime::Result<types::Error> {
        match failure {
            Failure::Said(mut error) => {
                error.message = self.shown(&error.message, LONGEST_MESSAGE);
                Ok(error)
            }
            Failure::Trap(error) => Err(error),
        }
    }
}
