//! Keys of index rows, built from parts that cannot run into one another.

use crate::model::{Id, Timestamp};

/// The part of an index row's key that a lookup names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Key(Vec<u8>);

impl Key {
    /// A key without parts: every row of the index.
    pub fn all() -> Key {
        Key::default()
    }

    /// Begins with an id.
    pub fn of_id<R>(id: Id<R>) -> Key {
        Key::default().and_id(id)
    }

    /// Begins with a text.
    pub fn of_text(text: &str) -> Key {
        Key::default().and_text(text)
    }

    /// Goes on with an id; ids have one length, so they need no end.
    pub fn and_id<R>(mut self, id: Id<R>) -> Key {
        self.0.extend_from_slice(id.as_bytes());
        self
    }

    /// Begins with a time: keys sort by it.
    pub fn of_time(time: Timestamp) -> Key {
        // With the sign turned around, bytes sort as the numbers do.
        Key((time.0 ^ i64::MIN).to_be_bytes().to_vec())
    }

    /// Goes on with a number: keys sort by it.
    pub fn and_number(mut self, number: u64) -> Key {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// Goes on with a text. It ends with 0 1; a NUL inside becomes 0 2, so that no text is the beginning of another.
    pub fn and_text(mut self, text: &str) -> Key {
        for byte in text.bytes() {
            self.0.push(byte);
            if byte == 0 {
                self.0.push(2);
            }
        }
        self.0.extend_from_slice(&[0, 1]);
        self
    }

    /// Goes on with the text that the rest of a row begins with.
    pub(super) fn with_text_of(&self, rest: &[u8]) -> Option<Key> {
        let end = rest.windows(2).position(|bytes| bytes == [0, 1])? + 2;
        Some(Key([self.0.as_slice(), &rest[..end]].concat()))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The range of every key that begins with `prefix`, as inclusive start and exclusive end; no end means to the last.
pub(super) fn prefix_range(prefix: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return (prefix.to_vec(), Some(end));
        }
    }
    (prefix.to_vec(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_the_beginning_of_another() {
        let texts = ["", "a", "ab", "a\0", "a\0\x01", "\0", "\u{1}"];
        for one in texts {
            for other in texts {
                let begins = Key::of_text(other).bytes().starts_with(Key::of_text(one).bytes());
                assert_eq!(begins, one == other, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_text_is_found_again_at_the_beginning_of_a_row() {
        for text in ["", "ab", "a\0b", "\0", "\u{1}"] {
            let row = Key::of_text(text).and_text("more").and_text("");
            assert_eq!(Key::default().with_text_of(row.bytes()), Some(Key::of_text(text)), "{text:?}");
        }
        assert_eq!(Key::default().with_text_of(b"no end"), None);
    }

    #[test]
    fn times_sort_as_keys() {
        let times = [i64::MIN, -1, 0, 1, 255, 256, 1 << 40, i64::MAX].map(|time| Key::of_time(Timestamp(time)).bytes().to_vec());
        assert!(times.is_sorted());
    }

    #[test]
    fn a_range_ends_after_its_prefix() {
        assert_eq!(prefix_range(b"ab"), (b"ab".to_vec(), Some(b"ac".to_vec())));
        assert_eq!(prefix_range(&[1, 255]), (vec![1, 255], Some(vec![2])));
        assert_eq!(prefix_range(&[]), (vec![], None));
    }
}
