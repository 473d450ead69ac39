//! Bytes of other people's programs become lines of text.

use std::borrow::Cow;

/// The longest line, in bytes of UTF-8. A longer one becomes several.
pub const LONGEST_LINE: usize = 16 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Cuts a stream of bytes into lines. The lines depend on the bytes alone, not on how they were cut into pieces.
///
/// LF and CR LF end a line; so does a CR alone, with which programs draw their progress; several CRs are one end.
/// Invalid UTF-8 becomes U+FFFD, zero bytes (UTF-16 read as bytes) and a byte order mark at the start of a line are
/// left out. Never holds more than one longest line.
#[derive(Debug, Default)]
pub struct LineSplitter {
    pending: Vec<u8>,
    /// Pending bytes continue a line of which a part was given away.
    is_continuation: bool,
    /// The last byte was a CR, which ended a line: an LF or CR now belongs to it.
    is_after_return: bool,
}

impl LineSplitter {
    /// Takes the next bytes and adds the lines that are complete.
    pub fn push(&mut self, mut bytes: &[u8], lines: &mut Vec<String>) {
        while let Some(first) = bytes.first() {
            if self.is_after_return {
                match first {
                    b'\n' => {
                        self.is_after_return = false;
                        bytes = &bytes[1..];
                        continue;
                    }
                    b'\r' => {
                        bytes = &bytes[1..];
                        continue;
                    }
                    _ => self.is_after_return = false,
                }
            }
            let room = LONGEST_LINE - self.pending.len();
            let end = bytes.iter().take(room + 1).position(|byte| matches!(byte, b'\n' | b'\r'));
            match end {
                Some(end) => {
                    self.is_after_return = bytes[end] == b'\r';
                    if self.pending.is_empty() {
                        // The usual case, without a copy of the bytes.
                        emit(&bytes[..end], self.is_continuation, lines);
                    } else {
                        self.pending.extend_from_slice(&bytes[..end]);
                        emit(&self.pending, self.is_continuation, lines);
                        self.pending.clear();
                    }
                    self.is_continuation = false;
                    bytes = &bytes[end + 1..];
                }
                None if bytes.len() <= room => {
                    self.pending.extend_from_slice(bytes);
                    return;
                }
                None => {
                    self.pending.extend_from_slice(&bytes[..room]);
                    bytes = &bytes[room..];
                    let whole = whole_characters(&self.pending);
                    emit(&self.pending[..whole], self.is_continuation, lines);
                    self.pending.drain(..whole);
                    self.is_continuation = true;
                }
            }
        }
    }

    /// The stream has ended: adds what is left, a line without an end.
    pub fn finish(self, lines: &mut Vec<String>) {
        if !self.pending.is_empty() {
            emit(&self.pending, self.is_continuation, lines);
        }
    }
}

/// How many of the bytes do not belong to a character whose rest is still to come.
fn whole_characters(bytes: &[u8]) -> usize {
    for back in 1..=3.min(bytes.len()) {
        let at = bytes.len() - back;
        let needs = match bytes[at] {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if needs > back { at } else { bytes.len() };
    }
    bytes.len()
}

fn emit(mut bytes: &[u8], is_continuation: bool, lines: &mut Vec<String>) {
    if !is_continuation {
        bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    }
    let without_zeros: Cow<'_, [u8]> =
        if bytes.contains(&0) { bytes.iter().copied().filter(|byte| *byte != 0).collect() } else { bytes.into() };
    let text = String::from_utf8_lossy(&without_zeros);
    // A replacement character is three times as long as the byte it stands for.
    let mut rest: &str = &text;
    while rest.len() > LONGEST_LINE {
        let (line, after) = rest.split_at(rest.floor_char_boundary(LONGEST_LINE));
        lines.push(line.to_owned());
        rest = after;
    }
    lines.push(rest.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let (mut splitter, mut lines) = (LineSplitter::default(), Vec::new());
        for piece in pieces {
            splitter.push(piece, &mut lines);
            assert!(splitter.pending.len() <= LONGEST_LINE);
        }
        splitter.finish(&mut lines);
        lines
    }

    fn one(bytes: &[u8]) -> Vec<String> {
        split([bytes])
    }

    #[test]
    fn lines_end_in_every_way_that_programs_know() {
        assert_eq!(one(b"a\nb\r\nc\rd\r\r\ne"), ["a", "b", "c", "d", "e"]);
        assert_eq!(one(b"\n\n x \n"), ["", "", " x "]);
        assert_eq!(one(b"10%\r20%\r\n"), ["10%", "20%"]);
        assert_eq!(one(b"\r\n\r\n"), ["", ""]);
        assert!(one(b"").is_empty());
    }

    #[test]
    fn what_is_no_text_becomes_text() {
        assert_eq!(one(b"Cr\xe9ation\n\xff\xfe"), ["Cr\u{fffd}ation", "\u{fffd}\u{fffd}"]);
        assert_eq!(one(b"\xef\xbb\xbffirst\n\xef\xbb\xbfsecond \xef\xbb\xbf\n"), ["first", "second \u{feff}"]);
        assert_eq!(one(b"L\0o\0g\0\n\0W\0"), ["Log", "W"]);
    }

    #[test]
    fn long_lines_are_cut_between_characters_and_lose_nothing() {
        let exact = "x".repeat(LONGEST_LINE);
        assert_eq!(one(format!("{exact}\ny").as_bytes()), [exact.as_str(), "y"]);
        assert_eq!(one(format!("{exact}y\n").as_bytes()), [exact.as_str(), "y"]);
        for shift in 0..4 {
            let long = format!("{}{}\n", "x".repeat(shift), "\u{1F600}\u{20AC}\u{e9}".repeat(12_000));
            let lines = one(long.as_bytes());
            assert!(lines.iter().all(|line| line.len() <= LONGEST_LINE && !line.contains('\u{fffd}')));
            assert!(lines[..lines.len() - 1].iter().all(|line| line.len() > LONGEST_LINE - 4));
            assert_eq!(lines.concat(), long.trim_end());
        }
        let garbage = one(&[0xff; 3 * LONGEST_LINE]);
        assert!(garbage.iter().all(|line| line.len() <= LONGEST_LINE));
        assert_eq!(garbage.concat().chars().count(), 3 * LONGEST_LINE);
    }

    proptest! {
        #[test]
        fn the_lines_do_not_depend_on_the_pieces(
            parts in prop::collection::vec(prop_oneof![
                Just(b"\n".to_vec()), Just(b"\r".to_vec()), Just(b"\r\n".to_vec()), Just(b"\xef\xbb\xbf".to_vec()), Just(b"\0".to_vec()),
                prop::collection::vec(any::<u8>(), 0..40),
                (LONGEST_LINE - 3..LONGEST_LINE + 3).prop_map(|length| vec![b'x'; length]),
                Just("\u{20AC}\u{1F600}".repeat(3000).into_bytes()),
            ], 0..12),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let bytes = parts.concat();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
            places.sort_unstable();
            let pieces = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            let lines = split(pieces);
            prop_assert_eq!(&lines, &one(&bytes));
            prop_assert!(lines.iter().all(|line| line.len() <= LONGEST_LINE && !line.contains(['\n', '\r', '\0'])));
        }
    }
}
