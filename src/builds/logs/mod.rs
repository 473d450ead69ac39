//! Logs of builds on disk: masked before anything is stored, shown only when on disk for good, readable at any place at the
//! cost of a page.
//!
//! A log is a directory `<directory>/<aa>/<buildId>/` of segments (`segment`), each a file of checked frames of lines (`frame`). It
//! is written by one thread (`storing`) and read without a lock. After a crash it ends at the first bad frame, and goes on in
//! a new segment. At its limit one line says so, and a ring of segments keeps the newest lines.
//!
//! - `builds` writes: [`Logs::writer`] gives a [`LogWriter`], which is a [`crate::seams::LogSink`] and takes raw output too.
//! - `api` reads: [`Logs::reader`] gives a [`LogReader`] for pages of lines and ranges of the plain text; [`Logs::follow`]
//!   wakes whoever waits for more.

mod frame;
mod lines;
mod masker;
mod old;
mod place;
mod queue;
mod reader;
mod segment;
mod storing;
mod writer;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::watch;

use crate::clock::Clock;
use crate::model::{Build, Id};
use crate::platform::files;
use queue::Queue;
use segment::Extent;
use storing::Storing;

pub use place::Place;
pub use reader::LogReader;
pub use writer::LogWriter;

/// Where logs lie and how long one gets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Holds the logs and nothing else.
    pub directory: PathBuf,
    /// The size of one log.
    pub limits: Limits,
}

/// The size of one log on disk, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// In all. A quarter of a mebibyte more is possible.
    pub log: u64,
    /// How much of it is for the newest lines of a log that got too long.
    pub tail: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { log: 512 << 20, tail: 16 << 20 }
    }
}

/// What went wrong with storing lines.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogError {
    /// The disk is full; lines were lost, and the log says how many.
    #[error("the disk that holds the logs is full")]
    StorageFull,
    /// Anything else the disk said.
    #[error("the log cannot be stored: {0}")]
    Disk(Arc<io::Error>),
}

impl LogError {
    fn from_disk(error: io::Error) -> Self {
        if files::is_storage_full(&error) { LogError::StorageFull } else { LogError::Disk(Arc::new(error)) }
    }
}

/// The logs of all builds. A cheap handle.
#[derive(Clone)]
pub struct Logs {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    clock: Arc<Clock>,
    open: Mutex<HashMap<Id<Build>, Open>>,
    /// One log is opened for writing at a time; never held together with a wait for anything but the disk.
    opening: Mutex<()>,
    /// Counts the logs that were opened for writing.
    opened: watch::Sender<u64>,
}

struct Open {
    live: Arc<Live>,
    writer: Weak<writer::Inner>,
}

/// A log that is being written, as its writers, its readers and its thread share it.
struct Live {
    queue: Queue,
    /// The log was too long already when it was opened; see [`LogReader::text_length`].
    tail_has_place: bool,
    shown: watch::Sender<Shown>,
}

#[derive(Clone, Default)]
struct Shown {
    extent: Arc<Extent>,
    /// Lines taken from the queue, stored or lost.
    settled: u64,
    failure: Option<LogError>,
    is_closed: bool,
}

impl Live {
    fn show(&self, extent: &Extent, settled: u64, failure: Option<LogError>) {
        self.shown.send_modify(|shown| {
            shown.extent = Arc::new(extent.clone());
            shown.settled += settled;
            shown.failure = failure.or_else(|| shown.failure.take());
        });
    }

    fn close(&self, extent: &Extent) {
        self.shown.send_modify(|shown| {
            shown.extent = Arc::new(extent.clone());
            shown.is_closed = true;
        });
    }

    async fn settled(&self, count: u64) -> Result<(), LogError> {
        let mut shown = self.shown.subscribe();
        // The sender is `self`: it cannot be gone.
        match shown.wait_for(|shown| shown.settled >= count || shown.is_closed).await {
            Ok(shown) => shown.failure.clone().map_or(Ok(()), Err),
            Err(_) => Ok(()),
        }
    }
}

/// Wakes when a log has grown; ends when it is closed.
pub struct Follower {
    shown: watch::Receiver<Shown>,
}

impl Follower {
    /// Waits until there is a line after number `after`. `false`: there is none, and there will be none from this writer.
    pub async fn grown(&mut self, after: u64) -> bool {
        match self.shown.wait_for(|shown| shown.extent.last_seq > after || shown.is_closed).await {
            Ok(shown) => shown.extent.last_seq > after,
            Err(_) => false,
        }
    }
}

impl Logs {
    /// Makes the directory where it is missing.
    pub fn open(settings: Settings, clock: Arc<Clock>) -> io::Result<Self> {
        files::create_private_directory(&settings.directory)?;
        Ok(Logs {
            inner: Arc::new(Inner { settings, clock, open: Mutex::default(), opening: Mutex::default(), opened: watch::Sender::new(0) }),
        })
    }

    /// Opens a build's log for writing; a new one, or at the end of what is there. All writers of a build share one log and
    /// its masked secrets, as long as one of them is there.
    pub async fn writer(&self, build: Id<Build>) -> io::Result<LogWriter> {
        loop {
            let mut closing = match self.open_logs().get(&build) {
                None => break,
                Some(open) => match open.writer.upgrade() {
                    Some(inner) => return Ok(LogWriter { inner }),
                    None => open.live.shown.subscribe(),
                },
            };
            let _ = closing.wait_for(|shown| shown.is_closed).await;
            self.forget_closed();
        }
        let logs = self.clone();
        tokio::task::spawn_blocking(move || logs.open_writer(build)).await.map_err(io::Error::other)?
    }

    fn open_writer(&self, build: Id<Build>) -> io::Result<LogWriter> {
        let _opening = self.inner.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let already = self.open_logs().get(&build).map(|open| (open.writer.upgrade(), open.live.shown.borrow().is_closed));
        match already {
            Some((Some(inner), _)) => return Ok(LogWriter { inner }),
            Some((None, false)) => return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the log is being closed")),
            Some((None, true)) | None => {}
        }
        let directory = self.directory(build);
        if !directory.is_dir() {
            files::create_private_directory(&directory)?;
            for parent in directory.ancestors().skip(1).take(2) {
                files::sync_directory(parent)?;
            }
        }
        let mut extent = Extent::scan(&directory)?;
        while let Some(last) = extent.segments.last() {
            let path = directory.join(last.name());
            if frame::frames(&last.read(&directory)?).next().is_some() {
                // Written by a run that ended before it could sync; from now on it is shown.
                fs::File::options().write(true).open(path)?.sync_all()?;
                break;
            }
            // Torn at its first frame: its name is needed for what comes next.
            fs::remove_file(path)?;
            extent.segments.pop();
        }
        let shown = Shown { extent: Arc::new(extent.clone()), ..Shown::default() };
        let tail_has_place = extent.tail_begin().is_some();
        let live = Arc::new(Live { queue: Queue::default(), tail_has_place, shown: watch::Sender::new(shown) });
        let stored = extent.segments.iter().map(|segment| segment.length).sum();
        let (clock, limits) = (Arc::clone(&self.inner.clock), self.inner.settings.limits);
        let storing = Storing { directory, limits, live: Arc::clone(&live), clock, extent, current: None, stored, lost: 0 };
        let logs = self.clone();
        std::thread::Builder::new().name("build log".to_owned()).spawn(move || {
            storing.run();
            logs.forget_closed();
        })?;
        let writer = LogWriter::new(Arc::clone(&live), Arc::clone(&self.inner.clock));
        self.open_logs().insert(build, Open { live, writer: Arc::downgrade(&writer.inner) });
        self.inner.opened.send_modify(|count| *count += 1);
        Ok(writer)
    }

    /// What is there of a build's log; an empty one if it has none.
    pub async fn reader(&self, build: Id<Build>) -> io::Result<LogReader> {
        let directory = self.directory(build);
        let live = self.open_logs().get(&build).map(|open| (open.live.shown.borrow().clone(), open.live.tail_has_place));
        if let Some((shown, tail_has_place)) = live {
            return Ok(LogReader { directory, extent: (*shown.extent).clone(), is_closed: shown.is_closed || tail_has_place });
        }
        let scan = move || Ok(LogReader { extent: Extent::scan(&directory)?, directory, is_closed: true });
        tokio::task::spawn_blocking(scan).await.map_err(io::Error::other)?
    }

    /// To wait for lines of a log that is being written; `None` if nobody writes to it.
    pub fn follow(&self, build: Id<Build>) -> Option<Follower> {
        self.open_logs().get(&build).map(|open| Follower { shown: open.live.shown.subscribe() })
    }

    /// Changes whenever a log is opened for writing: [`Logs::follow`] may find it then.
    pub fn opened(&self) -> watch::Receiver<u64> {
        self.inner.opened.subscribe()
    }

    fn forget_closed(&self) {
        self.open_logs().retain(|_, open| !open.live.shown.borrow().is_closed);
    }

    fn directory(&self, build: Id<Build>) -> PathBuf {
        let id = build.as_str();
        self.inner.settings.directory.join(&id[id.len() - 2..]).join(id)
    }

    fn open_logs(&self) -> MutexGuard<'_, HashMap<Id<Build>, Open>> {
        self.inner.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
