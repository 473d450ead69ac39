//! Links to artifacts that need no header and expire (decisions 10):
//! `/artifacts/<buildId>.tar.gz?expires=<unix>&key=<id>&signature=<base64url HMAC-SHA256>`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::file_name;
use crate::model::{Build, Id, Secret, Timestamp};

/// How long a link is good for, in seconds (the specification's 24 hours).
pub const LIFETIME_SECONDS: i64 = 24 * 60 * 60;

/// Makes and checks links. The key comes from the vault, so links survive restarts and end with the key.
#[derive(Debug, Clone)]
pub struct LinkSigner {
    key: Secret<[u8; 32]>,
    key_id: String,
}

/// Why a link is not good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// It was good once.
    #[error("this link has expired; ask for a new one")]
    Expired,
    /// Changed, incomplete, made with another key, or for another build.
    #[error("this link is not complete or was changed; ask for a new one")]
    SignatureInvalid,
}

impl LinkSigner {
    /// `key` belongs to links alone (see `Vault::derive`).
    pub fn new(key: [u8; 32]) -> Self {
        let key_id = URL_SAFE_NO_PAD.encode(&tag(&key, b"name of this key").finalize().into_bytes()[..6]);
        LinkSigner { key: Secret::new(key), key_id }
    }

    /// Path and query of a link that is good before `expires` (whole seconds count).
    pub fn sign(&self, build: Id<Build>, expires: Timestamp) -> String {
        let expires = expires.seconds();
        let signature = URL_SAFE_NO_PAD.encode(self.signature(build, expires).finalize().into_bytes());
        format!("/artifacts/{}?expires={expires}&key={}&signature={signature}", file_name(build), self.key_id)
    }

    /// Whether this query, as it stood in the request, lets its bearer read the artifact of `build`.
    pub fn check(&self, build: Id<Build>, query: &str, now: Timestamp) -> Result<(), LinkError> {
        let parameters = Parameters::read(query).ok_or(LinkError::SignatureInvalid)?;
        if parameters.key != self.key_id {
            return Err(LinkError::SignatureInvalid);
        }
        let signature = URL_SAFE_NO_PAD.decode(parameters.signature).map_err(|_| LinkError::SignatureInvalid)?;
        // In constant time. Only of a link that we made is it said that it has expired.
        self.signature(build, parameters.expires).verify_slice(&signature).map_err(|_| LinkError::SignatureInvalid)?;
        if now.seconds() < parameters.expires { Ok(()) } else { Err(LinkError::Expired) }
    }

    fn signature(&self, build: Id<Build>, expires: i64) -> Hmac<Sha256> {
        tag(self.key.reveal(), format!("read artifact\n{build}\n{expires}").as_bytes())
    }
}

fn tag(key: &[u8; 32], message: &[u8]) -> Hmac<Sha256> {
    // HMAC fills a key up to a whole block with zeros; done here, no length can be wrong.
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    mac.update(message);
    mac
}

struct Parameters<'a> {
    expires: i64,
    key: &'a str,
    signature: &'a str,
}

impl<'a> Parameters<'a> {
    /// Each exactly once, nothing else, nothing encoded: we write them only so.
    fn read(query: &'a str) -> Option<Self> {
        let (mut expires, mut key, mut signature) = (None, None, None);
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=')?;
            let place = match name {
                "expires" => &mut expires,
                "key" => &mut key,
                "signature" => &mut signature,
                _ => return None,
            };
            if place.replace(value).is_some() {
                return None;
            }
        }
        let text: &str = expires?;
        let number: i64 = text.parse().ok()?;
        // One spelling of each number, so that one link has one form.
        (number.to_string() == text).then_some(Parameters { expires: number, key: key?, signature: signature? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer() -> LinkSigner {
        LinkSigner::new([7; 32])
    }

    fn build(chance: u128) -> Id<Build> {
        Id::from_parts(1_700_000_000_000, chance)
    }

    fn query(link: &str) -> String {
        link.split_once('?').unwrap().1.to_owned()
    }

    #[test]
    fn a_link_is_good_until_it_expires_and_with_the_same_key_only() {
        let link = signer().sign(build(1), Timestamp(10_000));
        assert!(link.starts_with(&format!("/artifacts/{}.tar.gz?expires=10&key=", build(1))));
        let query = query(&link);
        assert_eq!(signer().check(build(1), &query, Timestamp(9_999)), Ok(()));
        assert_eq!(signer().check(build(1), &query, Timestamp(10_000)), Err(LinkError::Expired));
        assert_eq!(signer().check(build(2), &query, Timestamp(0)), Err(LinkError::SignatureInvalid));
        assert_eq!(LinkSigner::new([8; 32]).check(build(1), &query, Timestamp(0)), Err(LinkError::SignatureInvalid));
    }

    #[test]
    fn no_change_of_any_character_is_accepted() {
        let query = query(&signer().sign(build(1), Timestamp(2_000_000_000_000)));
        for at in 0..query.len() {
            for replacement in ["", "0", "A", "-", "&", "=", "%41"] {
                let changed = format!("{}{replacement}{}", &query[..at], &query[at + 1..]);
                if changed != query {
                    assert_eq!(signer().check(build(1), &changed, Timestamp(0)), Err(LinkError::SignatureInvalid), "{changed}");
                }
            }
        }
    }

    #[test]
    fn missing_repeated_foreign_and_garbled_parameters_are_refused() {
        let query = query(&signer().sign(build(1), Timestamp(2_000_000_000_000)));
        let [expires, key, signature] = query.split('&').collect::<Vec<_>>().try_into().unwrap();
        let bad = [
            String::new(),
            "&&".to_owned(),
            format!("{expires}&{key}"),
            format!("{expires}&{signature}"),
            format!("{key}&{signature}"),
            format!("{query}&{expires}"),
            format!("{query}&expires=9999999999"),
            format!("expires=9999999999&{query}"),
            format!("{query}&"),
            format!("{query}&download=1"),
            query.replace("expires=", "expires=0"),
            query.replace("expires=", "expires=+"),
            query.replace("expires=", "expires=-"),
            format!("expires=99999999999999999999&{key}&{signature}"),
            format!("{query}="),
        ];
        for query in bad {
            assert_eq!(signer().check(build(1), &query, Timestamp(0)), Err(LinkError::SignatureInvalid), "{query}");
        }
        // The order carries nothing.
        assert_eq!(signer().check(build(1), &format!("{signature}&{expires}&{key}"), Timestamp(0)), Ok(()));
    }
}
