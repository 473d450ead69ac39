//! Writing to a build's log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::frame::NewLine;
use super::lines::Lines;
use super::masker::{Masker, Waiting};
use super::{Live, LogError};
use crate::clock::Clock;
use crate::model::Timestamp;
use crate::model::log::LogStream;
use crate::seams::LogSink;

/// Progress of one phase is told this often.
const PROGRESS: Duration = Duration::from_secs(10);

/// A handle for writing to one log; clones write to the same one. When the last is dropped, what was written is stored and the
/// log is closed. What is not yet a whole line is kept back until it is, or until [`LogWriter::end_lines`].
#[derive(Clone)]
pub struct LogWriter {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    live: Arc<Live>,
    clock: Arc<Clock>,
    intake: Mutex<Intake>,
    /// Lines that were there before.
    before: u64,
}

#[derive(Default)]
struct Intake {
    masker: Masker,
    stdout: Lines,
    stderr: Lines,
    progress: Option<Progress>,
}

/// How far a phase is, as far as it was told.
struct Progress {
    phase: String,
    told_at: Timestamp,
    /// The newest that was not told yet.
    untold: Option<(u64, Option<u64>)>,
    is_complete: bool,
}

impl Progress {
    /// The line of what was not told, once.
    fn take_untold(&mut self) -> Option<String> {
        let (done, total) = self.untold.take()?;
        Some(match total {
            Some(total) if total > 0 => {
                let percent = u128::from(done.min(total)) * 100 / u128::from(total);
                format!("{}: {percent} % ({done} of {total})", self.phase)
            }
            _ => format!("{}: {done}", self.phase),
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end_lines();
        self.live.queue.close();
    }
}

impl Inner {
    fn intake(&self) -> MutexGuard<'_, Intake> {
        self.intake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_lines(&self) {
        let mut intake = self.intake();
        let Intake { masker, stdout, stderr, progress } = &mut *intake;
        if let Some(untold) = progress.as_mut().and_then(Progress::take_untold) {
            self.put(LogStream::System, untold);
        }
        stdout.finish(masker, &mut |text| self.put(LogStream::Stdout, text));
        stderr.finish(masker, &mut |text| self.put(LogStream::Stderr, text));
    }

    fn put(&self, stream: LogStream, text: String) {
        self.live.queue.put(NewLine { at: self.clock.now(), stream, text });
    }
}

impl LogWriter {
    pub(super) fn new(live: Arc<Live>, clock: Arc<Clock>) -> Self {
        let before = live.shown.borrow().extent.last_seq;
        LogWriter { inner: Arc::new(Inner { live, clock, intake: Mutex::default(), before }) }
    }

    /// Bytes as a program printed them, cut anywhere. Waits when the disk does not keep up, so that nothing is lost and the
    /// program is slowed down instead.
    pub async fn output(&self, stream: LogStream, bytes: &[u8]) {
        self.inner.live.queue.has_room().await;
        let mut intake = self.inner.intake();
        let Intake { masker, stdout, stderr, .. } = &mut *intake;
        let mut put = |text| self.inner.put(stream, text);
        match stream {
            LogStream::Stdout => stdout.push(bytes, masker, &mut put),
            LogStream::Stderr => stderr.push(bytes, masker, &mut put),
            LogStream::System => whole(bytes, masker, &mut put),
        }
    }

    /// A line of the service itself.
    pub fn system(&self, text: &str) {
        self.line(LogStream::System, text);
    }

    /// A text as the log would show it: what is taken from output for other records must not show more.
    pub fn masked(&self, text: &str) -> String {
        let (mut waiting, mut out) = (Waiting::new(text.as_bytes()), Vec::with_capacity(text.len()));
        self.inner.intake().masker.process(&mut waiting, true, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Ends lines that were begun on stdout and stderr: their program has ended.
    pub fn end_lines(&self) {
        self.inner.end_lines();
    }

    /// The number of the last whole line written so far; the next one has the next, unless somebody else writes as well.
    pub fn position(&self) -> u64 {
        self.inner.before + self.inner.live.queue.count()
    }

    /// Bytes on disk so far.
    pub fn stored_bytes(&self) -> u64 {
        self.inner.live.shown.borrow().extent.segments.iter().map(|segment| segment.length).sum()
    }

    /// Waits until everything written before is on disk and shown. An error says that something could not be stored since
    /// the log was opened; what could be is there.
    pub async fn flush(&self) -> Result<(), LogError> {
        let count = self.inner.live.queue.count();
        self.inner.live.settled(count).await
    }
}

impl LogSink for LogWriter {
    fn line(&self, stream: LogStream, text: &str) {
        let mut intake = self.inner.intake();
        // The service goes on to the next thing: how far it came with the last is told before that.
        if stream == LogStream::System
            && let Some(untold) = intake.progress.as_mut().and_then(Progress::take_untold)
        {
            self.inner.put(LogStream::System, untold);
        }
        whole(text.as_bytes(), &intake.masker, &mut |text| self.inner.put(stream, text));
    }

    fn mask(&self, secret: &str) {
        self.inner.intake().masker.add(secret);
    }

    fn progress(&self, phase: &str, done: u64, total: Option<u64>) {
        let now = self.inner.clock.now();
        let mut intake = self.inner.intake();
        if intake.progress.as_ref().is_none_or(|progress| progress.phase != phase) {
            let new = Progress { phase: phase.to_owned(), told_at: Timestamp(0), untold: None, is_complete: false };
            // What the phase before came to is told before this one begins.
            if let Some(untold) = intake.progress.replace(new).and_then(|mut before| before.take_untold()) {
                self.inner.put(LogStream::System, untold);
            }
        }
        let Some(progress) = &mut intake.progress else { return };
        if progress.is_complete && total == Some(done) {
            return;
        }
        progress.is_complete = total == Some(done);
        progress.untold = Some((done, total));
        if (progress.is_complete || now.since(progress.told_at) >= PROGRESS.as_millis() as u64)
            && let Some(line) = progress.take_untold()
        {
            progress.told_at = now;
            self.inner.put(LogStream::System, line);
        }
    }
}

/// Complete lines, independent of what is begun on any stream.
fn whole(bytes: &[u8], masker: &Masker, put: &mut dyn FnMut(String)) {
    let mut lines = Lines::default();
    lines.push(bytes, masker, put);
    if bytes.is_empty() {
        put(String::new());
    }
    lines.finish(masker, put);
}
