//! Reading a log on and on: each line is read from the disk once, however often one comes back for more.

use std::io;

use super::LogReader;
use super::frame::frames;
use super::segment::Segment;
use crate::model::log::LogLine;

/// What is read at once, unless a frame is longer.
const PIECE: u64 = 256 * 1024;
/// No frame is longer.
const LONGEST: u64 = (1 << 20) + 64;
/// Enough text for one step.
const ENOUGH: usize = 64 * 1024;

/// How far somebody has read a log, and where that is on the disk.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// The last line that was read.
    seq: u64,
    /// The segment whose frames come next, by its first line, and how far into it.
    segment: Option<(u64, u64)>,
}

impl Place {
    /// Behind the line with this number.
    pub fn behind(seq: u64) -> Self {
        Place { seq, segment: None }
    }

    /// The number of the last line that was read.
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

impl LogReader {
    /// Reads on behind a place: some lines, and none only if there are no more in what this reader knows of. A number that
    /// is not the next one says that the lines between are gone.
    pub async fn read_on(self, mut place: Place) -> io::Result<(Place, Vec<LogLine>)> {
        let work = move || {
            let lines = self.read_on_now(&mut place)?;
            Ok((place, lines))
        };
        tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
    }

    fn read_on_now(&self, place: &mut Place) -> io::Result<Vec<LogLine>> {
        let mut lines: Vec<LogLine> = Vec::new();
        while lines.is_empty() && place.seq < self.extent.last_seq {
            let Some((segment, mut offset)) = self.find(place) else { break };
            let mut bytes = segment.read_from(&self.directory, offset, PIECE)?;
            if frames(&bytes).next().is_none() && bytes.len() as u64 == PIECE {
                bytes = segment.read_from(&self.directory, offset, LONGEST)?;
            }
            let mut text = 0;
            let mut is_damaged = true;
            for frame in frames(&bytes) {
                is_damaged = false;
                offset += frame.stored_length();
                for (_, line) in frame.lines() {
                    if line.seq > place.seq {
                        place.seq = line.seq;
                        text += line.text.len();
                        lines.push(line.to_line());
                    }
                }
                if text >= ENOUGH {
                    break;
                }
            }
            place.segment = Some((segment.first_seq, offset));
            if is_damaged {
                self.leave(&segment, place);
            }
        }
        Ok(lines)
    }

    /// The segment to read from, and where in it.
    fn find(&self, place: &Place) -> Option<(Segment, u64)> {
        let segments = &self.extent.segments;
        let wanted = place.seq.saturating_add(1);
        let later = segments.partition_point(|segment| segment.first_seq <= wanted);
        // Where the ring of the tail went over the wanted line, its oldest segment is the next there is.
        let segment = *segments.get(later.saturating_sub(1))?;
        match place.segment {
            Some((first, offset)) if first == segment.first_seq => Some((segment, offset)),
            _ => Some((segment, 0)),
        }
    }

    /// Nothing more is to be had of a segment: the next one begins behind what is lost.
    fn leave(&self, segment: &Segment, place: &mut Place) {
        let next = self.extent.segments.iter().find(|other| other.first_seq > segment.first_seq);
        let last = next.map_or(self.extent.last_seq, |next| next.first_seq - 1);
        place.seq = place.seq.max(last);
        place.segment = None;
    }
}
