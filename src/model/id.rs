//! Resource ids: 24 lower-case Crockford base32 characters, 48 bits of time and 72 of chance (decisions 2).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::Ulid;

/// How many characters every id has.
pub const ID_LENGTH: usize = 24;

const RANDOM_BITS: u32 = 72;

/// The id of an `R`. Sorts by creation, as text and as a value; the type keeps a project's id out of a build's place.
pub struct Id<R> {
    text: [u8; ID_LENGTH],
    resource: PhantomData<fn() -> R>,
}

/// The text is no resource id. A client that sent it gets `not_found`: such a resource cannot exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a resource id has 24 lower-case characters of Crockford's base32")]
pub struct NotAnId;

impl<R> Id<R> {
    /// Made from Unix milliseconds (48 bits are kept) and 72 random bits (the low ones are kept).
    pub fn from_parts(milliseconds: u64, random: u128) -> Self {
        let mask = (1u128 << RANDOM_BITS) - 1;
        let value = (u128::from(milliseconds & 0xffff_ffff_ffff) << RANDOM_BITS) | (random & mask);
        // 26 base32 characters hold 130 bits, ours has 120: the first two are always zeros.
        let long = Ulid(value).to_string().to_ascii_lowercase();
        let mut text = [b'0'; ID_LENGTH];
        text.copy_from_slice(&long.as_bytes()[2..]);
        Id { text, resource: PhantomData }
    }

    /// The 24 characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text).unwrap_or_default()
    }

    /// The characters as the bytes that the store keys by.
    pub fn as_bytes(&self) -> &[u8; ID_LENGTH] {
        &self.text
    }

    /// The same characters as the id of another kind of resource; for places that hold ids of several kinds.
    pub fn cast<S>(&self) -> Id<S> {
        Id { text: self.text, resource: PhantomData }
    }

    /// When it was made, in Unix milliseconds.
    pub fn milliseconds(&self) -> u64 {
        Ulid::from_string(&format!("00{}", self.as_str().to_ascii_uppercase())).map_or(0, |ulid| (ulid.0 >> RANDOM_BITS) as u64)
    }
}

impl<R> FromStr for Id<R> {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let bytes: [u8; ID_LENGTH] = text.as_bytes().try_into().map_err(|_| NotAnId)?;
        let ours = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'h' | b'j' | b'k' | b'm' | b'n' | b'p'..=b't' | b'v'..=b'z');
        bytes.iter().all(ours).then_some(Id { text: bytes, resource: PhantomData }).ok_or(NotAnId)
    }
}

impl<R> Clone for Id<R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for Id<R> {}
impl<R> PartialEq for Id<R> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
impl<R> Eq for Id<R> {}
impl<R> PartialOrd for Id<R> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<R> Ord for Id<R> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}
impl<R> Hash for Id<R> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}
impl<R> fmt::Display for Id<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
impl<R> fmt::Debug for Id<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
impl<R> Serialize for Id<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
impl<'de, R> Deserialize<'de> for Id<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
impl<R> JsonSchema for Id<R> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Id".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "24 lower-case characters of Crockford's base32. Sorts by creation time, as text.",
            "pattern": "^[0-9a-hjkmnp-tv-z]{24}$",
            "minLength": ID_LENGTH,
            "maxLength": ID_LENGTH,
            "examples": ["01k7f9zq4v6m2x8c3b5n0t7h"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_sorts_by_its_time_and_reads_back() {
        let early: Id<()> = Id::from_parts(1_700_000_000_000, u128::MAX);
        let late: Id<()> = Id::from_parts(1_700_000_000_001, 0);
        assert!(early < late && early.as_str() < late.as_str());
        assert_eq!(early.as_str().parse::<Id<()>>(), Ok(early));
        assert_eq!(late.milliseconds(), 1_700_000_000_001);
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in
            ["", "short", "01HZZZZZZZZZZZZZZZZZZZZZ", "01hzzzzzzzzzzzzzzzzzzzzi", "01hzzzzzzzzzzzzzzzzzzzz/", "01hzzzzzzzzzzzzzzzzzzzzzz"]
        {
            assert!(text.parse::<Id<()>>().is_err(), "{text}");
        }
    }
}
