//! Files of a log: which there are, and what they hold.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::frame::frames;

/// A new file begins when one has reached this size: what is read to find any one line.
pub(super) const SEGMENT: u64 = 512 * 1024;

/// One file of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    /// The number of its first line.
    pub first_seq: u64,
    /// Where its text begins: in the rendering, or, of the tail, counted from the tail's first line.
    pub text_offset: u64,
    /// It belongs to the end of a log that was too long.
    pub is_tail: bool,
    /// Bytes of the file that count.
    pub length: u64,
}

impl Segment {
    /// Its file's name; sorts by `first_seq`.
    pub(super) fn name(&self) -> String {
        let kind = if self.is_tail { "tail" } else { "log" };
        format!("{:012}-{:012}.{kind}", self.first_seq, self.text_offset)
    }

    fn parse(name: &str, length: u64) -> Option<Self> {
        let (numbers, kind) = name.split_once('.')?;
        let (first_seq, text_offset) = numbers.split_once('-')?;
        let is_tail = match kind {
            "log" => false,
            "tail" => true,
            _ => return None,
        };
        Some(Segment { first_seq: first_seq.parse().ok()?, text_offset: text_offset.parse().ok()?, is_tail, length })
    }

    /// What counts of it. Empty when the ring of the tail went over it meanwhile.
    pub(super) fn read(&self, directory: &Path) -> io::Result<Vec<u8>> {
        let file = match File::open(directory.join(self.name())) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::with_capacity(usize::try_from(self.length).unwrap_or(0).min(2 << 20));
        file.take(self.length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// At most `limit` bytes of it from `offset` on, which counts from its beginning.
    pub(super) fn read_from(&self, directory: &Path, offset: u64, limit: u64) -> io::Result<Vec<u8>> {
        let mut file = match File::open(directory.join(self.name())) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(self.length.saturating_sub(offset).min(limit)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// All of a log that is on disk for good.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// In the order of their lines, the tail last.
    pub segments: Vec<Segment>,
    /// The number of the last line, 0 if there is none.
    pub last_seq: u64,
    /// Bytes of the rendering before the tail.
    pub head_text: u64,
    /// Where the text of the tail ends, counted from the tail's first line.
    pub tail_text_end: u64,
}

impl Extent {
    /// What is there of a log that nobody writes; empty if there is none.
    pub(super) fn scan(directory: &Path) -> io::Result<Self> {
        let mut extent = Extent::default();
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(extent),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            if let Some(segment) = entry.file_name().to_str().and_then(|name| Segment::parse(name, 0)) {
                extent.segments.push(Segment { length: entry.metadata()?.len(), ..segment });
            }
        }
        extent.segments.sort_unstable_by_key(|segment| (segment.first_seq, segment.text_offset));
        // The last of each kind says where its text ends; one that was torn at its first frame ends where it begins.
        for is_tail in [false, true] {
            let Some(segment) = extent.segments.iter().rev().find(|segment| segment.is_tail == is_tail) else { continue };
            let bytes = segment.read(directory)?;
            let last = frames(&bytes).last();
            let (last_seq, end) = last.map_or((segment.first_seq.saturating_sub(1), segment.text_offset), |frame| {
                (frame.first_seq + frame.count - 1, frame.text_end())
            });
            extent.last_seq = extent.last_seq.max(last_seq);
            if is_tail { extent.tail_text_end = end } else { extent.head_text = end }
        }
        Ok(extent)
    }

    /// The first segment of the tail that is still there.
    pub(super) fn tail_begin(&self) -> Option<u64> {
        self.segments.iter().find(|segment| segment.is_tail).map(|segment| segment.text_offset)
    }
}
