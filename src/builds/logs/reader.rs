//! Reading a build's log, while it is written and after.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use super::frame::frames;
use super::segment::{Extent, Segment};
use crate::model::log::LogLine;

/// One page holds no more text than this, whatever the number of its lines.
const PAGE_TEXT: usize = 4 << 20;

/// What was on disk of a log when it was asked for. Lines that come later are not in it; what is in it stays readable at the
/// same place.
#[derive(Debug, Clone)]
pub struct LogReader {
    pub(super) directory: PathBuf,
    pub(super) extent: Extent,
    /// Nobody writes to it any more, so the tail of a long log has its place in the rendering.
    pub(super) is_closed: bool,
}

impl LogReader {
    /// Lines written so far: the `seq` of the last. Those of a log that was too long are counted too.
    pub fn line_count(&self) -> u64 {
        self.extent.last_seq
    }

    /// The newest lines, oldest first, at most `count`.
    pub async fn tail(self, count: usize) -> io::Result<Vec<LogLine>> {
        blocking(move || {
            let mut pages: Vec<Vec<LogLine>> = Vec::new();
            let mut missing = count;
            for segment in self.extent.segments.iter().rev() {
                if missing == 0 {
                    break;
                }
                let mut page = self.lines_of(segment, 0, usize::MAX)?;
                page.drain(..page.len().saturating_sub(missing));
                missing -= page.len();
                pages.push(page);
            }
            Ok(pages.into_iter().rev().flatten().collect())
        })
        .await
    }

    /// Lines after the one with number `after`, oldest first: at most `limit`, fewer when they are long.
    pub async fn lines(self, after: u64, limit: usize) -> io::Result<Vec<LogLine>> {
        blocking(move || {
            let mut page: Vec<LogLine> = Vec::new();
            let mut text = 0;
            let later = self.extent.segments.partition_point(|segment| segment.first_seq <= after.saturating_add(1));
            for segment in &self.extent.segments[later.saturating_sub(1)..] {
                if page.len() >= limit || text > PAGE_TEXT {
                    break;
                }
                let more = self.lines_of(segment, after, limit - page.len())?;
                text += more.iter().map(|line| line.text.len()).sum::<usize>();
                page.extend(more);
            }
            Ok(page)
        })
        .await
    }

    /// Bytes of the plain text: every line's text and a line feed, nothing else. Grows only at its end while the build runs, so
    /// a byte once read stays where it is.
    pub fn text_length(&self) -> u64 {
        self.extent.head_text + self.tail_text()
    }

    fn tail_text(&self) -> u64 {
        // While the ring of the tail turns, nothing in it has a place.
        match self.extent.tail_begin() {
            Some(begin) if self.is_closed => self.extent.tail_text_end - begin,
            _ => 0,
        }
    }

    /// Some of the plain text from `offset` on, at most `limit` bytes; empty at its end only. A damaged place on the disk
    /// reads as empty lines.
    pub async fn text(&self, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
        let reader = self.clone();
        blocking(move || reader.text_now(offset, limit)).await
    }

    /// The same, for callers that may wait for the disk themselves.
    pub fn text_now(&self, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
        let ends = self.text_length().min(offset.saturating_add(limit as u64));
        // One segment's text at a time: the memory of a download is that of a segment.
        let Some((segment, place)) = self.segment_at(offset, ends) else { return Ok(Vec::new()) };
        let wanted = offset..ends.min(place.end);
        let mut text = vec![b'\n'; (wanted.end - wanted.start) as usize];
        let bytes = segment.read(&self.directory)?;
        for frame in frames(&bytes) {
            let moved = |in_file: u64| in_file.saturating_sub(segment.text_offset) + place.start;
            if moved(frame.text_end()) <= wanted.start {
                continue;
            }
            for (at, line) in frame.lines() {
                copy(&mut text, &wanted, moved(at), line.text.as_bytes());
            }
        }
        Ok(text)
    }

    /// The segment that holds the byte, and the places of its text in the rendering.
    fn segment_at(&self, offset: u64, ends: u64) -> Option<(Segment, Range<u64>)> {
        if offset >= ends {
            return None;
        }
        let begin = |segment: &Segment| match segment.is_tail {
            true => self.extent.head_text + segment.text_offset - self.extent.tail_begin().unwrap_or(0),
            false => segment.text_offset,
        };
        let later = self.extent.segments.partition_point(|segment| begin(segment) <= offset);
        let segment = *self.extent.segments.get(later.checked_sub(1)?)?;
        let end = self.extent.segments.get(later).map_or(self.text_length(), begin);
        Some((segment, begin(&segment)..end.min(self.text_length())))
    }

    fn lines_of(&self, segment: &Segment, after: u64, limit: usize) -> io::Result<Vec<LogLine>> {
        let bytes = segment.read(&self.directory)?;
        let mut lines = Vec::new();
        for frame in frames(&bytes) {
            if frame.first_seq + frame.count <= after.saturating_add(1) {
                continue;
            }
            let new = frame.lines().map(|(_, line)| line).filter(|line| line.seq > after);
            lines.extend(new.take(limit - lines.len()).map(|line| line.to_line()));
            if lines.len() >= limit {
                break;
            }
        }
        Ok(lines)
    }
}

/// Puts the part of a line that is wanted into its place; its end is there already.
fn copy(text: &mut [u8], wanted: &Range<u64>, at: u64, line: &[u8]) {
    let (from, to) = (at.max(wanted.start), (at + line.len() as u64).min(wanted.end));
    if from < to {
        let source = &line[(from - at) as usize..(to - at) as usize];
        text[(from - wanted.start) as usize..(to - wanted.start) as usize].copy_from_slice(source);
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
