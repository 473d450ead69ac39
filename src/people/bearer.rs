//! The form of tokens: prefix, 30 base62 characters of chance, 6 of their CRC32, so that secret scanners know one when
//! they see it and a mistyped one never reaches the store.

use sha2::{Digest, Sha256};

use crate::model::Secret;
use crate::model::token::TOKEN_PREFIX;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const CHANCE: usize = 30;
const CHECK: usize = 6;

/// What a bearer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An API token.
    Token,
    /// A signed-in session.
    Session,
    /// The one-time token of the first start.
    Setup,
    /// The one-time token of somebody who was invited.
    Invitation,
    /// The right to open one stream.
    Ticket,
}

/// All of them.
const KINDS: [Kind; 5] = [Kind::Token, Kind::Session, Kind::Setup, Kind::Invitation, Kind::Ticket];

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Kind::Token => TOKEN_PREFIX,
            Kind::Session => "cks_",
            Kind::Setup => "setup_",
            Kind::Invitation => "invite_",
            Kind::Ticket => "ckt_",
        }
    }
}

/// The machine has no randomness; nothing secret can be made.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gave no random bytes")]
pub struct NoRandomness;

/// A new bearer.
pub fn new(kind: Kind) -> Result<Secret, NoRandomness> {
    let mut text = String::from(kind.prefix());
    let start = text.len();
    while text.len() < start + CHANCE {
        let mut bytes = [0u8; 64];
        getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
        // Values past the last multiple of 62 are thrown away: every character is equally likely.
        let fair = bytes.iter().filter(|byte| **byte < 248).map(|byte| char::from(ALPHABET[usize::from(byte % 62)]));
        text.extend(fair.take(start + CHANCE - text.len()));
    }
    let check = check_of(&text[start..]);
    text.push_str(&check);
    Ok(Secret::new(text))
}

/// Which kind of bearer a text is, if its form and its checksum are right.
pub fn kind_of(text: &str) -> Option<Kind> {
    let kind = KINDS.into_iter().find(|kind| text.starts_with(kind.prefix()))?;
    let rest = text.get(kind.prefix().len()..)?;
    if rest.len() != CHANCE + CHECK || !rest.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    (check_of(&rest[..CHANCE]) == rest[CHANCE..]).then_some(kind)
}

/// How a bearer is stored and looked up: lower-case hex of its SHA-256. Its 178 bits of chance need no slow hash.
pub fn hash(bearer: &str) -> String {
    Sha256::digest(bearer.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check_of(chance: &str) -> String {
    let mut rest = crc32fast::hash(chance.as_bytes());
    let mut characters = [b'0'; CHECK];
    for character in characters.iter_mut().rev() {
        *character = ALPHABET[(rest % 62) as usize];
        rest /= 62;
    }
    characters.iter().map(|character| char::from(*character)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_is_known_by_its_form_and_a_changed_one_is_not() {
        for kind in KINDS {
            let bearer = new(kind).unwrap();
            assert_eq!(kind_of(bearer.reveal()), Some(kind));
            let mut changed = bearer.reveal().clone().into_bytes();
            let last = changed.len() - 10;
            changed[last] = if changed[last] == b'a' { b'b' } else { b'a' };
            assert_eq!(kind_of(std::str::from_utf8(&changed).unwrap()), None);
        }
        assert_eq!(new(Kind::Token).unwrap().reveal().len(), 40);
        assert!(["", "ckh_", "ckh_\u{e4}", "Bearer x", &"ckh_".repeat(10)].iter().all(|text| kind_of(text).is_none()));
    }
}
