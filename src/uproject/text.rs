//! From bytes to text: byte order marks, UTF-16, Git LFS pointers.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::LfsPointer;

/// Git LFS's own bound on the size of a pointer.
const LARGEST_POINTER: usize = 1024;
const POINTER_VERSIONS: [&str; 2] = ["version https://git-lfs.github.com/spec/v1", "version https://hawser.github.com/spec/v1"];

/// The pointer, if the bytes are one.
pub(super) fn lfs_pointer(bytes: &[u8]) -> Option<LfsPointer> {
    if bytes.len() > LARGEST_POINTER {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    if !POINTER_VERSIONS.contains(&lines.next()?) {
        return None;
    }
    let value = |key: &str| lines.clone().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let oid = value("oid sha256:").filter(|oid| oid.len() == 64 && oid.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let size = value("size ")?.parse().ok()?;
    Some(LfsPointer { oid: oid.to_owned(), size })
}

/// Text by its byte order mark; without one UTF-8, or UTF-16 if the first character says so. What is not
/// valid becomes U+FFFD: the editor saves descriptions in the code page of old days, and nobody builds by them.
pub(super) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8_lossy(rest),
        [0xFF, 0xFE, rest @ ..] => Cow::Owned(utf16(rest, u16::from_le_bytes)),
        [0xFE, 0xFF, rest @ ..] => Cow::Owned(utf16(rest, u16::from_be_bytes)),
        [first, 0, ..] if *first != 0 => Cow::Owned(utf16(bytes, u16::from_le_bytes)),
        [0, second, ..] if *second != 0 => Cow::Owned(utf16(bytes, u16::from_be_bytes)),
        _ => String::from_utf8_lossy(bytes),
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let mut text: String =
        char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).map(|decoded| decoded.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    if !rest.is_empty() {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    text
}

/// A string, or a number written where a string belongs (`"EngineAssociation": 5.4`), which the editor takes too.
#[derive(Default)]
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Text;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text")
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Text, E> {
                Ok(Text(value.to_owned()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Text, E> {
                // Debug keeps the `.0` of 5.0.
                Ok(Text(format!("{value:?}")))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}
