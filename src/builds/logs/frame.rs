//! The form of a log on disk: frames of whole lines, each with a checksum. What follows a bad frame does not count.

use crate::model::Timestamp;
use crate::model::log::{LogLine, LogStream};

/// Length of the rest, checksum of everything after the checksum.
const PREFIX: usize = 8;
/// First `seq`, offset of its text in the rendering, number of lines.
const HEADER: usize = 20;
/// Time, stream, length.
const LINE_HEADER: usize = 11;
/// A longer one is damage.
const LONGEST_FRAME: usize = 1 << 20;

/// A line that has no number yet.
pub(super) struct NewLine {
    pub at: Timestamp,
    pub stream: LogStream,
    pub text: String,
}

impl NewLine {
    /// Its bytes in a frame.
    pub(super) fn stored_length(&self) -> usize {
        LINE_HEADER + self.text.len()
    }

    /// Its bytes in the rendering, with its end.
    pub(super) fn text_length(&self) -> u64 {
        self.text.len() as u64 + 1
    }
}

/// Appends one frame. The lines together stay well below a mebibyte, each below 64 KiB.
pub(super) fn append(out: &mut Vec<u8>, first_seq: u64, text_offset: u64, lines: &[NewLine]) {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    out.extend_from_slice(&first_seq.to_le_bytes());
    out.extend_from_slice(&text_offset.to_le_bytes());
    out.extend_from_slice(&(lines.len() as u32).to_le_bytes());
    for line in lines {
        out.extend_from_slice(&line.at.0.to_le_bytes());
        out.push(match line.stream {
            LogStream::Stdout => 1,
            LogStream::Stderr => 2,
            LogStream::System => 3,
        });
        out.extend_from_slice(&(line.text.len() as u16).to_le_bytes());
        out.extend_from_slice(line.text.as_bytes());
    }
    let length = (out.len() - start - PREFIX) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32fast::hash(&out[start + PREFIX..]);
    out[start + 4..start + PREFIX].copy_from_slice(&checksum.to_le_bytes());
}

/// A good frame.
pub(super) struct Frame<'a> {
    pub first_seq: u64,
    pub text_offset: u64,
    pub count: u64,
    lines: &'a [u8],
}

impl Frame<'_> {
    /// Its bytes in the file.
    pub(super) fn stored_length(&self) -> u64 {
        (PREFIX + HEADER + self.lines.len()) as u64
    }
}

impl<'a> Frame<'a> {
    /// Its lines with their numbers and the offsets of their texts.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, StoredLine<'a>)> {
        let (mut rest, mut offset, mut seq) = (self.lines, self.text_offset, self.first_seq);
        std::iter::from_fn(move || {
            let line = StoredLine::read(&mut rest, seq)?;
            let here = offset;
            offset += line.text.len() as u64 + 1;
            seq += 1;
            Some((here, line))
        })
    }

    /// Where the rendering of the next frame begins.
    pub(super) fn text_end(&self) -> u64 {
        self.text_offset + (self.lines.len() as u64).saturating_sub(self.count * (LINE_HEADER as u64 - 1))
    }
}

/// A line as it lies in a frame.
pub(super) struct StoredLine<'a> {
    pub seq: u64,
    at: i64,
    stream: LogStream,
    pub text: &'a str,
}

impl<'a> StoredLine<'a> {
    fn read(rest: &mut &'a [u8], seq: u64) -> Option<Self> {
        let at = i64::from_le_bytes(*take(rest)?);
        let stream = match take::<1>(rest)? {
            [1] => LogStream::Stdout,
            [2] => LogStream::Stderr,
            [3] => LogStream::System,
            _ => return None,
        };
        let length = usize::from(u16::from_le_bytes(*take(rest)?));
        let (text, after) = rest.split_at_checked(length)?;
        *rest = after;
        Some(StoredLine { seq, at, stream, text: std::str::from_utf8(text).ok()? })
    }

    /// As the API shows it.
    pub(super) fn to_line(&self) -> LogLine {
        LogLine { seq: self.seq, at: Timestamp(self.at), stream: self.stream, text: self.text.to_owned() }
    }
}

/// The frames of a segment up to the first bad one.
pub(super) fn frames(mut bytes: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    std::iter::from_fn(move || {
        let length = u32::from_le_bytes(*take(&mut bytes)?) as usize;
        let checksum = u32::from_le_bytes(*take(&mut bytes)?);
        if !(HEADER..=LONGEST_FRAME).contains(&length) {
            bytes = &[];
        }
        let (frame, after) = bytes.split_at_checked(length)?;
        bytes = after;
        if crc32fast::hash(frame) != checksum {
            bytes = &[];
            return None;
        }
        let mut lines = frame;
        let first_seq = u64::from_le_bytes(*take(&mut lines)?);
        let text_offset = u64::from_le_bytes(*take(&mut lines)?);
        let count = u64::from(u32::from_le_bytes(*take(&mut lines)?));
        Some(Frame { first_seq, text_offset, count, lines })
    })
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> NewLine {
        NewLine { at: Timestamp(5), stream: LogStream::Stderr, text: text.to_owned() }
    }

    #[test]
    fn frames_read_back_and_a_torn_one_ends_them_wherever_it_is_torn() {
        let mut bytes = Vec::new();
        append(&mut bytes, 1, 0, &[line("one"), line("")]);
        let first = bytes.len();
        append(&mut bytes, 3, 5, &[line("drei ü")]);
        let read: Vec<(u64, LogLine)> =
            frames(&bytes).flat_map(|frame| frame.lines().map(|(at, line)| (at, line.to_line())).collect::<Vec<_>>()).collect();
        assert_eq!(
            read.iter().map(|(at, line)| (*at, line.seq, line.text.as_str())).collect::<Vec<_>>(),
            [(0, 1, "one"), (4, 2, ""), (5, 3, "drei ü")]
        );
        assert_eq!(frames(&bytes).map(|frame| frame.text_end()).collect::<Vec<_>>(), [5, 13]);
        for length in 0..bytes.len() {
            assert_eq!(frames(&bytes[..length]).count(), usize::from(length >= first), "{length}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            assert_eq!(frames(&damaged).count(), usize::from(at >= first), "{at}");
        }
    }
}
