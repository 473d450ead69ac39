//! Lines of a log as they are sent: turned into JSON once, whoever reads them.

use bytes::Bytes;

use crate::model::Timestamp;
use crate::model::log::LogLine;

/// A batch has no more lines than this.
const LINES: usize = 64;
/// Nor more bytes, unless its first line alone has.
const BYTES: usize = 64 * 1024;

/// Some lines that follow one another.
#[derive(Debug)]
pub struct Batch {
    /// The lines as JSON, with commas between.
    json: Bytes,
    lines: Vec<Mark>,
}

/// One line of a batch.
#[derive(Debug, Clone, Copy)]
struct Mark {
    seq: u64,
    at: Timestamp,
    /// Where its JSON ends.
    end: usize,
}

impl Batch {
    /// Cuts lines into batches. A batch has no gap in its numbers.
    pub fn cut(lines: &[LogLine]) -> Vec<Batch> {
        let mut batches = Vec::new();
        let mut json = Vec::new();
        let mut marks: Vec<Mark> = Vec::new();
        for line in lines {
            let is_next = marks.last().is_none_or(|last| last.seq + 1 == line.seq);
            if !is_next || marks.len() >= LINES || json.len() >= BYTES {
                batches.push(Batch { json: std::mem::take(&mut json).into(), lines: std::mem::take(&mut marks) });
            }
            if !marks.is_empty() {
                json.push(b',');
            }
            // Writing text and numbers to memory does not fail.
            let _ = serde_json::to_writer(&mut json, line);
            marks.push(Mark { seq: line.seq, at: line.at, end: json.len() });
        }
        if !marks.is_empty() {
            batches.push(Batch { json: json.into(), lines: marks });
        }
        batches
    }

    /// The number of its last line.
    pub fn last(&self) -> u64 {
        self.lines.last().map_or(0, |line| line.seq)
    }

    /// The number of its first line.
    pub fn first(&self) -> u64 {
        self.lines.first().map_or(0, |line| line.seq)
    }

    /// Bytes of memory.
    pub fn size(&self) -> usize {
        self.json.len() + self.lines.len() * size_of::<Mark>()
    }

    /// The lines behind number `after` that were read no later than `until`: the numbers of the first and the last, and
    /// their JSON with commas between. `None` if there are none.
    pub fn part(&self, after: u64, until: Option<Timestamp>) -> Option<(u64, u64, Bytes)> {
        let begin = self.lines.partition_point(|line| line.seq <= after);
        let wanted = &self.lines[begin..];
        let count = until.map_or(wanted.len(), |until| wanted.iter().position(|line| line.at > until).unwrap_or(wanted.len()));
        let (first, last) = (wanted.first()?, wanted.get(count.checked_sub(1)?)?);
        let start = begin.checked_sub(1).map_or(0, |before| self.lines[before].end + 1);
        Some((first.seq, last.seq, self.json.slice(start..last.end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::log::LogStream;

    fn lines(numbers: impl IntoIterator<Item = u64>, length: usize) -> Vec<LogLine> {
        let line = |seq: u64| LogLine { seq, at: Timestamp(seq as i64), stream: LogStream::Stdout, text: "x".repeat(length) };
        numbers.into_iter().map(line).collect()
    }

    #[test]
    fn batches_are_bounded_in_lines_and_bytes_and_have_no_gaps() {
        let ends = |batches: &[Batch]| batches.iter().map(|batch| (batch.first(), batch.last())).collect::<Vec<_>>();
        assert_eq!(ends(&Batch::cut(&lines(1..=130, 3))), [(1, 64), (65, 128), (129, 130)]);
        assert_eq!(ends(&Batch::cut(&lines([1, 2, 5], 3))), [(1, 2), (5, 5)]);
        assert_eq!(Batch::cut(&lines(1..=10, 16_000)).len(), 2);
    }

    #[test]
    fn a_part_is_json_wherever_it_is_cut() {
        let batch = Batch::cut(&lines(1..=20, 3)).remove(0);
        for after in 0..20 {
            for until in after + 1..=20 {
                let (first, last, json) = batch.part(after, Some(Timestamp(until as i64))).unwrap();
                let read: Vec<LogLine> = serde_json::from_str(&format!("[{}]", std::str::from_utf8(&json).unwrap())).unwrap();
                assert_eq!((first, last, read), (after + 1, until, lines(after + 1..=until, 3)));
            }
        }
        assert!(batch.part(20, None).is_none() && batch.part(0, Some(Timestamp(0))).is_none());
    }
}
