//! Takes known secrets out of a stream of bytes, in the forms in which tools print them. Best effort by nature: a build that
//! wants to can print a secret backwards.

use std::collections::BTreeSet;

use aho_corasick::AhoCorasick;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// What stands in a secret's place.
pub(super) const MASK: &str = "***";
/// Shorter values are not masked: the log would become unreadable and the value guessable.
const SHORTEST: usize = 4;
/// Shorter encoded forms would match by chance.
const SHORTEST_ENCODED: usize = 6;
/// Longer values are masked piece by piece, to bound what has to be held back of a line.
const LONGEST: usize = 4096;
/// All forms together, in bytes. A log with more secrets shows nothing at all.
const MOST_BYTES: usize = 8 << 20;

/// All secrets of one log.
#[derive(Default)]
pub(super) struct Masker {
    patterns: BTreeSet<Vec<u8>>,
    search: Option<AhoCorasick>,
    longest: usize,
}

impl Masker {
    /// From here on this value is masked, as it is and encoded.
    pub(super) fn add(&mut self, secret: &str) {
        let known = self.patterns.len();
        for value in parts(secret).into_iter().flat_map(pieces) {
            self.patterns.extend(forms(value));
        }
        if self.patterns.len() == known {
            return;
        }
        self.longest = self.patterns.iter().map(Vec::len).max().unwrap_or(0);
        let fits = self.patterns.iter().map(Vec::len).sum::<usize>() <= MOST_BYTES;
        self.search = if fits { AhoCorasick::new(&self.patterns).ok() } else { None };
    }

    /// The longest form: so many bytes may be the beginning of a secret.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Moves what is certain from `waiting` to `out`, masked; all of it if `is_end`.
    pub(super) fn process(&self, waiting: &mut Waiting, is_end: bool, out: &mut Vec<u8>) {
        let Waiting { bytes, covered } = waiting;
        let cut = if is_end { bytes.len() } else { bytes.len().saturating_sub(self.longest.saturating_sub(1)) };
        let (mut done, mut still_covered) = (0, 0);
        for (start, end, is_shown) in self.intervals(bytes, *covered) {
            if start >= cut {
                break;
            }
            out.extend_from_slice(&bytes[done..start]);
            if !is_shown {
                out.extend_from_slice(MASK.as_bytes());
            }
            done = end.min(cut);
            still_covered = end - done;
        }
        out.extend_from_slice(&bytes[done..cut]);
        bytes.drain(..cut);
        *covered = still_covered;
    }

    /// What to mask, in order, overlapping secrets joined; the flag says that the mask is out already.
    fn intervals(&self, bytes: &[u8], covered: usize) -> Vec<(usize, usize, bool)> {
        let mut found: Vec<(usize, usize, bool)> = Vec::new();
        if covered > 0 {
            found.push((0, covered, true));
        }
        let Some(search) = &self.search else {
            if !self.patterns.is_empty() {
                found.push((0, bytes.len(), false));
            }
            return found;
        };
        let mut matches: Vec<(usize, usize)> = search.find_overlapping_iter(bytes).map(|one| (one.start(), one.end())).collect();
        matches.sort_unstable();
        for (start, end) in matches {
            match found.last_mut() {
                Some(last) if start < last.1 => last.1 = last.1.max(end),
                _ => found.push((start, end, false)),
            }
        }
        found
    }
}

/// Bytes that may still turn out to be a secret.
#[derive(Default)]
pub(super) struct Waiting {
    pub bytes: Vec<u8>,
    /// So many at the start belong to a secret whose mask is out.
    covered: usize,
}

impl Waiting {
    /// All of a text.
    pub(super) fn new(bytes: &[u8]) -> Self {
        Waiting { bytes: bytes.to_vec(), covered: 0 }
    }
}

/// The value itself, its lines (a key in PEM form is printed line by line), and its words without a leading scheme
/// (`Bearer ...` is often printed without the first).
fn parts(secret: &str) -> Vec<&str> {
    let mut parts = vec![secret, secret.trim()];
    parts.extend(secret.lines().map(str::trim));
    if let Some((scheme, rest)) = secret.trim().split_once(' ')
        && scheme.bytes().all(|byte| byte.is_ascii_alphabetic())
    {
        parts.push(rest.trim());
    }
    parts.retain(|part| part.len() >= SHORTEST && !part.starts_with("-----"));
    parts
}

fn pieces(mut value: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while value.len() > LONGEST {
        let end = (1..=LONGEST).rev().find(|end| value.is_char_boundary(*end)).unwrap_or(value.len());
        let (piece, rest) = value.split_at(end);
        pieces.push(piece);
        value = rest;
    }
    pieces.push(value);
    pieces
}

fn forms(secret: &str) -> Vec<Vec<u8>> {
    let value = secret.as_bytes();
    let mut forms: Vec<Vec<u8>> = Vec::new();
    for offset in 0..3 {
        forms.push(inside_base64(value, offset, &STANDARD_NO_PAD));
        forms.push(inside_base64(value, offset, &URL_SAFE_NO_PAD));
    }
    forms.push(escaped(value, |byte| format!("{byte:02x}"), |_| false));
    forms.push(escaped(value, |byte| format!("{byte:02X}"), |_| false));
    forms.retain(|form| form.len() >= SHORTEST_ENCODED);
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    // What browsers' encodeURIComponent leaves as it is, and what forms and paths leave.
    for more in [&b""[..], b"!'()*", b"!$&'()*+,;=:@", b"!$&'()*+,;=:@/?"] {
        let kept = move |byte: u8| unreserved(byte) || more.contains(&byte);
        forms.push(escaped(value, |byte| format!("%{byte:02X}"), kept));
        forms.push(escaped(value, |byte| format!("%{byte:02x}"), kept));
        forms.push(escaped(value, |byte| if byte == b' ' { "+".to_owned() } else { format!("%{byte:02X}") }, kept));
    }
    if let Ok(json) = serde_json::to_string(secret) {
        let inner = &json[1..json.len() - 1];
        forms.push(inner.as_bytes().to_vec());
        forms.push(inner.replace('/', "\\/").into_bytes());
    }
    forms.push(value.to_vec());
    // A line never holds its own end.
    forms.retain(|form| !form.contains(&b'\n'));
    forms
}

fn escaped(value: &[u8], escape: impl Fn(u8) -> String, is_kept: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut form = Vec::with_capacity(value.len() * 3);
    for byte in value {
        if is_kept(*byte) {
            form.push(*byte);
        } else {
            form.extend_from_slice(escape(*byte).as_bytes());
        }
    }
    form
}

/// The characters that depend on the value alone when `offset` bytes of something else come before it, and whatever after it.
fn inside_base64(value: &[u8], offset: usize, engine: &impl Engine) -> Vec<u8> {
    let mut shifted = vec![0; offset];
    shifted.extend_from_slice(value);
    let encoded = engine.encode(&shifted).into_bytes();
    let first = [0, 2, 3][offset];
    // The last character holds bits of what follows, unless the value ends a group of three.
    let last = encoded.len() - usize::from(!shifted.len().is_multiple_of(3));
    encoded.get(first..last).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked(secrets: &[&str], chunks: &[&[u8]]) -> String {
        let mut masker = Masker::default();
        for secret in secrets {
            masker.add(secret);
        }
        let (mut waiting, mut out) = (Waiting::default(), Vec::new());
        for chunk in chunks {
            waiting.bytes.extend_from_slice(chunk);
            masker.process(&mut waiting, false, &mut out);
        }
        masker.process(&mut waiting, true, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn every_encoding_is_masked_wherever_it_is_cut() {
        let secret = "pa55/w\"rd+Ünïcode&<tok en>~";
        let base64 = |prefix: &str| STANDARD_NO_PAD.encode(format!("{prefix}{secret}--"));
        let hex = escaped(secret.as_bytes(), |byte| format!("{byte:02x}"), |_| false);
        let percent = escaped(secret.as_bytes(), |byte| format!("%{byte:02X}"), |byte| byte.is_ascii_alphanumeric());
        let encodings = [
            secret.to_owned(),
            base64(""),
            base64("a"),
            base64("ab"),
            base64("x-access-token:"),
            String::from_utf8(hex.clone()).unwrap(),
            String::from_utf8(hex).unwrap().to_uppercase(),
            String::from_utf8(percent).unwrap().replace("%7E", "~"),
            serde_json::to_string(secret).unwrap(),
        ];
        for encoding in &encodings {
            let text = format!("before {encoding} after");
            for at in 0..text.len() {
                let shown = masked(&[secret], &[&text.as_bytes()[..at], &text.as_bytes()[at..]]);
                assert!(shown.starts_with("before ") && shown.ends_with(" after") && shown.contains(MASK), "{shown}");
                // At most the characters at the edge of a base64 group are left.
                assert!(shown.len() <= "before *** after".len() + 28, "{encoding} -> {shown}");
            }
        }
    }

    #[test]
    fn a_header_is_masked_with_and_without_its_scheme_and_a_key_line_by_line() {
        assert_eq!(masked(&["Bearer abcdef123"], &[b"got Bearer abcdef123, sent abcdef123"]), "got ***, sent ***");
        let key = "-----BEGIN KEY-----\nMIIEowIBAAKC\nAQEAvYb9\n-----END KEY-----\n";
        assert_eq!(masked(&[key], &[b"MIIEowIBAAKC|AQEAvYb9|-----BEGIN KEY-----"]), "***|***|-----BEGIN KEY-----");
    }

    #[test]
    fn secrets_that_overlap_are_masked_as_one_and_short_ones_not_at_all() {
        assert_eq!(masked(&["abcdef", "defghi"], &[b"xabcdefghix"]), "x***x");
        assert_eq!(masked(&["abab"], &[b"ab", b"ab", b"ab", b"ab-"]), "***-");
        assert_eq!(masked(&["a", "", "abc"], &[b"abcabc"]), "abcabc");
    }

    proptest! {
        #[test]
        fn no_chunking_lets_a_secret_through(
            secrets in prop::collection::vec("[ab]{4,9}", 1..4),
            pieces in prop::collection::vec((any::<prop::sample::Index>(), "[abc ]{0,12}"), 1..12),
            cuts in prop::collection::vec(1usize..7, 1..40),
        ) {
            let mut text = String::new();
            for (which, noise) in &pieces {
                text += noise;
                text += &secrets[which.index(secrets.len())];
            }
            let mut chunks: Vec<&[u8]> = Vec::new();
            let (mut rest, mut cuts) = (text.as_bytes(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (chunk, after) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            let references: Vec<&str> = secrets.iter().map(String::as_str).collect();
            let shown = masked(&references, &chunks);
            prop_assert_eq!(&shown, &masked(&references, &[text.as_bytes()]));
            for secret in &secrets {
                prop_assert!(!shown.contains(secret.as_str()), "{} shows {}", shown, secret);
            }
        }
    }
}
