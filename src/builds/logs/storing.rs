//! The thread that puts one log's lines on disk. It takes what is waiting, writes it as frames, syncs, and only then shows it:
//! a line that somebody saw survives a power loss. While it syncs the next lines gather, so a busy log costs few syncs and
//! a quiet one waits for nothing.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::frame::{self, NewLine};
use super::segment::{Extent, SEGMENT, Segment};
use super::{Limits, Live, LogError};
use crate::clock::Clock;
use crate::model::log::LogStream;
use crate::platform::files;

/// Lines are gathered into frames of this size.
const FRAME: usize = 128 * 1024;
/// After a failed write, before the next attempt.
const PAUSE: Duration = Duration::from_millis(250);

/// What the thread knows.
pub(super) struct Storing {
    pub directory: PathBuf,
    pub limits: Limits,
    pub live: Arc<Live>,
    pub clock: Arc<Clock>,
    /// What is on disk for good.
    pub extent: Extent,
    /// The file that is written to.
    pub current: Option<File>,
    /// Bytes of all files.
    pub stored: u64,
    /// Lines that found no place on disk.
    pub lost: u64,
}

impl Storing {
    /// Runs until the last writer is gone and everything is on disk.
    pub(super) fn run(mut self) {
        while let Some(lines) = self.live.queue.take() {
            let count = lines.len() as u64;
            let stored = self.store(lines);
            let failure = stored.err().map(|error| {
                self.lost += count;
                self.abandon();
                LogError::from_disk(error)
            });
            let failed = failure.is_some();
            self.live.show(&self.extent, count, failure);
            if failed {
                std::thread::sleep(PAUSE);
            }
        }
        self.live.close(&self.extent);
    }

    fn store(&mut self, lines: Vec<NewLine>) -> io::Result<()> {
        let mut next = self.extent.clone();
        let mut touched = Touched::default();
        if self.lost > 0 {
            let text = format!("{} lines are missing here: they could not be stored, the disk was full or failed.", self.lost);
            self.append(&mut next, vec![self.system(text)], &mut touched)?;
        }
        let mut frame = Vec::new();
        let mut length = 0;
        for line in lines {
            length += line.stored_length();
            frame.push(line);
            if length >= FRAME {
                length = 0;
                self.append(&mut next, std::mem::take(&mut frame), &mut touched)?;
            }
        }
        if !frame.is_empty() {
            self.append(&mut next, frame, &mut touched)?;
        }
        if let Some(file) = &self.current {
            file.sync_data()?;
        }
        if touched.has_new_names {
            files::sync_directory(&self.directory)?;
        }
        self.extent = next;
        self.lost = 0;
        for segment in touched.gone {
            // What cannot be removed is only too much.
            let _ = fs::remove_file(self.directory.join(segment.name()));
            self.stored = self.stored.saturating_sub(segment.length);
        }
        Ok(())
    }

    fn append(&mut self, extent: &mut Extent, lines: Vec<NewLine>, touched: &mut Touched) -> io::Result<()> {
        let is_tail = extent.segments.last().is_some_and(|segment| segment.is_tail);
        if !is_tail && self.stored >= self.limits.log.saturating_sub(self.limits.tail) {
            let text = format!(
                "The log has reached its limit of {} MiB. Of what follows only the newest {} MiB are kept; they appear here when the build has ended.",
                self.limits.log >> 20,
                self.limits.tail >> 20
            );
            let notice = vec![self.system(text)];
            self.append_to(extent, false, notice, touched)?;
            self.append_to(extent, true, lines, touched)
        } else {
            self.append_to(extent, is_tail, lines, touched)
        }
    }

    fn append_to(&mut self, extent: &mut Extent, is_tail: bool, lines: Vec<NewLine>, touched: &mut Touched) -> io::Result<()> {
        let text_offset = if is_tail { extent.tail_text_end } else { extent.head_text };
        let last = extent.segments.last().filter(|segment| segment.is_tail == is_tail && segment.length < SEGMENT);
        if last.is_none() || self.current.is_none() {
            // Before the next file exists: after a power loss only the last one can be torn.
            if let Some(full) = self.current.take() {
                full.sync_data()?;
            }
            let segment = Segment { first_seq: extent.last_seq + 1, text_offset, is_tail, length: 0 };
            self.current = Some(files::create_private_file(&self.directory.join(segment.name()))?);
            touched.has_new_names = true;
            extent.segments.push(segment);
            if is_tail {
                self.shorten_tail(extent, touched);
            }
        }
        let mut bytes = Vec::with_capacity(FRAME + FRAME / 4);
        frame::append(&mut bytes, extent.last_seq + 1, text_offset, &lines);
        if let Some(file) = &mut self.current {
            file.write_all(&bytes)?;
        }
        if let Some(segment) = extent.segments.last_mut() {
            segment.length += bytes.len() as u64;
        }
        self.stored += bytes.len() as u64;
        extent.last_seq += lines.len() as u64;
        let text: u64 = lines.iter().map(NewLine::text_length).sum();
        *(if is_tail { &mut extent.tail_text_end } else { &mut extent.head_text }) += text;
        Ok(())
    }

    /// Lets go of the oldest segments of the tail that are not needed to keep the promised length.
    fn shorten_tail(&self, extent: &mut Extent, touched: &mut Touched) {
        // Of a log that was closed before, the tail has its place in the rendering; it stays as long as may be.
        let kept = if self.live.tail_has_place { 2 * self.limits.tail } else { self.limits.tail };
        loop {
            let mut tail = extent.segments.iter().enumerate().filter(|(_, segment)| segment.is_tail);
            let Some((oldest, _)) = tail.next() else { return };
            if tail.map(|(_, segment)| segment.length).sum::<u64>() < kept {
                return;
            }
            touched.gone.push(extent.segments.remove(oldest));
        }
    }

    fn system(&self, text: String) -> NewLine {
        NewLine { at: self.clock.now(), stream: LogStream::System, text }
    }

    /// After a failed write or sync nothing in the open file behind what was synced may be believed; the next attempt begins
    /// a new one.
    fn abandon(&mut self) {
        self.current = None;
        let kept = |segment: &Segment| self.extent.segments.iter().find(|kept| kept.name() == segment.name()).map_or(0, |kept| kept.length);
        let Ok(found) = Extent::scan(&self.directory) else { return };
        for segment in found.segments {
            let path = self.directory.join(segment.name());
            let length = kept(&segment);
            let _ = if length == 0 {
                fs::remove_file(&path)
            } else if length < segment.length {
                File::options().write(true).open(&path).and_then(|file| file.set_len(length))
            } else {
                Ok(())
            };
        }
        self.stored = self.extent.segments.iter().map(|segment| segment.length).sum();
    }
}

/// What one round of storing has to finish with.
#[derive(Default)]
struct Touched {
    has_new_names: bool,
    gone: Vec<Segment>,
}
