//! Bytes of one stream become lines: masked, UTF-8, none longer than 16 KiB.

use super::masker::{Masker, Waiting};

/// A longer line is cut into several.
pub(super) const LONGEST_LINE: usize = 16 * 1024;

/// The line of one stream that has not ended yet.
#[derive(Default)]
pub(super) struct Lines {
    waiting: Waiting,
    /// Masked, but the last character may be incomplete.
    masked: Vec<u8>,
    text: String,
    is_begun: bool,
}

impl Lines {
    /// Takes the next bytes and tells every line that they end.
    pub(super) fn push(&mut self, bytes: &[u8], masker: &Masker, tell: &mut dyn FnMut(String)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.is_begun = true;
            match piece.strip_suffix(b"\n") {
                Some(piece) => {
                    self.waiting.bytes.extend_from_slice(piece);
                    self.end(masker, tell);
                }
                None => {
                    self.waiting.bytes.extend_from_slice(piece);
                    // Masked in large steps: each looks again at what may be the beginning of a secret.
                    if self.waiting.bytes.len() > LONGEST_LINE + 2 * masker.longest() {
                        masker.process(&mut self.waiting, false, &mut self.masked);
                        self.take_text(false, tell);
                    }
                }
            }
        }
    }

    /// Ends the line, if one was begun.
    pub(super) fn finish(&mut self, masker: &Masker, tell: &mut dyn FnMut(String)) {
        if self.is_begun {
            self.end(masker, tell);
        }
    }

    fn end(&mut self, masker: &Masker, tell: &mut dyn FnMut(String)) {
        masker.process(&mut self.waiting, true, &mut self.masked);
        if self.masked.last() == Some(&b'\r') {
            self.masked.pop();
        }
        self.take_text(true, tell);
        tell(std::mem::take(&mut self.text));
        self.is_begun = false;
    }

    fn take_text(&mut self, is_end: bool, tell: &mut dyn FnMut(String)) {
        let ready = if is_end { self.masked.len() } else { self.masked.len() - incomplete_end(&self.masked) };
        self.text.push_str(&String::from_utf8_lossy(&self.masked[..ready]));
        self.masked.drain(..ready);
        while self.text.len() > LONGEST_LINE {
            let cut = (0..=LONGEST_LINE).rev().find(|cut| self.text.is_char_boundary(*cut)).unwrap_or(LONGEST_LINE);
            let rest = self.text.split_off(cut);
            tell(std::mem::replace(&mut self.text, rest));
        }
    }
}

/// How many bytes at the end may be the beginning of a character, or the first half of a line's end.
fn incomplete_end(bytes: &[u8]) -> usize {
    if bytes.last() == Some(&b'\r') {
        return 1;
    }
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        if byte & 0b1100_0000 != 0b1000_0000 {
            let length = match byte {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => 1,
            };
            return if length > back { back } else { 0 };
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(chunks: &[&[u8]], secret: &str) -> Vec<String> {
        let (mut lines, mut masker, mut told) = (Lines::default(), Masker::default(), Vec::new());
        masker.add(secret);
        for chunk in chunks {
            lines.push(chunk, &masker, &mut |line| told.push(line));
        }
        lines.finish(&masker, &mut |line| told.push(line));
        told
    }

    #[test]
    fn lines_end_at_both_kinds_of_end_and_at_the_end_of_all() {
        assert_eq!(lines(&[b"one\r\n", b"\ntw", b"o\nthree"], ""), ["one", "", "two", "three"]);
        assert_eq!(lines(&[b"one\r", b"\ntwo\r"], ""), ["one", "two"]);
        assert_eq!(lines(&[b""], ""), Vec::<String>::new());
        assert_eq!(lines(&[b"bad \xff\xc3 text \xe6\x97"], ""), ["bad \u{fffd}\u{fffd} text \u{fffd}"]);
    }

    #[test]
    fn a_long_line_is_cut_between_characters_and_still_masked() {
        let long = format!("{}secret-token{}", "ü".repeat(LONGEST_LINE / 2 - 4), "日".repeat(LONGEST_LINE));
        for size in [1, 7, 4096, 100_000] {
            let chunks: Vec<&[u8]> = long.as_bytes().chunks(size).collect();
            let told = lines(&chunks, "secret-token");
            assert!(told.len() > 3 && told.iter().all(|line| line.len() <= LONGEST_LINE));
            assert_eq!(told.concat(), long.replace("secret-token", "***"));
        }
    }

    proptest! {
        #[test]
        fn the_chunks_do_not_show_in_the_lines(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 1usize..20) {
            let chunks: Vec<&[u8]> = bytes.chunks(cut).collect();
            prop_assert_eq!(lines(&chunks, "secret"), lines(&[&bytes], "secret"));
        }
    }
}
