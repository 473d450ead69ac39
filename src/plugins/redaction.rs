//! Secrets of one call, and the text without them.

use std::sync::{Arc, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// What stands where a secret was.
const MASK: &str = "***";
/// Shorter values would mask ordinary words.
const SHORTEST: usize = 4;
/// Shorter values are not looked for in their encodings.
const SHORTEST_ENCODED: usize = 8;

/// The secrets of one call in every form in which they are looked for. Clones share them: a secret that is
/// registered late is masked in all output that comes after.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    forms: Arc<RwLock<Vec<String>>>,
}

impl Redactor {
    /// From here on this value is masked: itself, each of its lines, and its base64, URL and JSON forms. Of a value
    /// like `Bearer abc` the part after the scheme is a secret of its own.
    pub(crate) fn add(&self, secret: &str) {
        let mut found = Vec::new();
        let mut parts: Vec<&str> = vec![secret];
        parts.extend(secret.lines().filter(|line| line.len() >= SHORTEST_ENCODED));
        parts.extend(secret.split_once(' ').map(|(_, rest)| rest.trim()).filter(|rest| rest.len() >= SHORTEST_ENCODED));
        for part in parts {
            if part.len() < SHORTEST {
                continue;
            }
            found.push(part.to_owned());
            if part.len() >= SHORTEST_ENCODED {
                for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
                    found.push(engine.encode(part));
                }
                found.push(utf8_percent_encode(part, NON_ALPHANUMERIC).to_string());
                found.push(serde_json::Value::from(part).to_string().trim_matches('"').to_owned());
            }
        }
        let mut forms = self.forms.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        forms.extend(found);
        // The longest first: a secret that contains another one is masked as a whole.
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
    }

    /// The text with every secret masked.
    pub(crate) fn redact(&self, text: &str) -> String {
        let forms = self.forms.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut text = text.to_owned();
        for form in forms.iter() {
            if text.contains(form.as_str()) {
                text = text.replace(form.as_str(), MASK);
            }
        }
        text
    }

    /// The same for output that need not be text.
    pub(crate) fn redact_bytes(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        let forms = self.forms.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        for form in forms.iter().map(String::as_bytes) {
            let mut from = 0;
            while let Some(found) = bytes[from..].windows(form.len()).position(|window| window == form) {
                bytes.splice(from + found..from + found + form.len(), MASK.bytes());
                from += found + MASK.len();
            }
        }
        bytes
    }

    /// Where a text of unfinished output may be cut so that no secret is cut in two: at `at` or before. The text
    /// must hold [`Redactor::longest`] more bytes than `at`.
    pub(crate) fn cut(&self, text: &str, at: usize) -> usize {
        let forms = self.forms.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut cut = text.floor_char_boundary(at);
        for form in forms.iter() {
            let from = text.floor_char_boundary(cut.saturating_sub(form.len()));
            if let Some(start) = text[from..].find(form.as_str()).map(|found| from + found)
                && start < cut
                && start + form.len() > cut
            {
                cut = start;
            }
        }
        cut
    }

    /// Length of the longest form.
    pub(crate) fn longest(&self) -> usize {
        let forms = self.forms.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        forms.first().map_or(0, String::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_secret_is_masked() {
        let redactor = Redactor::default();
        redactor.add("Bearer s3cr3t/to+ken=");
        for text in ["Bearer s3cr3t/to+ken=", "s3cr3t/to+ken=", &STANDARD.encode("s3cr3t/to+ken="), "s3cr3t%2Fto%2Bken%3D"] {
            let masked = redactor.redact(&format!("<{text}>"));
            assert_eq!(masked, "<***>");
        }
        assert_eq!(redactor.redact("nothing here"), "nothing here");
        assert_eq!(redactor.redact_bytes(b"\xff s3cr3t/to+ken= s3cr3t/to+ken=".to_vec()), b"\xff *** ***");
    }

    #[test]
    fn a_short_value_is_not_looked_for() {
        let redactor = Redactor::default();
        redactor.add("ab");
        assert_eq!(redactor.redact("cab"), "cab");
    }

    #[test]
    fn output_is_never_cut_inside_a_secret() {
        let redactor = Redactor::default();
        redactor.add("0123456789");
        let text = format!("{}0123456789{}", "x".repeat(10), "y".repeat(20));
        assert_eq!(redactor.cut(&text, 15), 10);
        assert_eq!(redactor.cut(&text, 20), 20);
        assert_eq!(redactor.cut(&text, 5), 5);
    }
}
