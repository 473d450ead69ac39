//! The signature of a delivery: HMAC-SHA256 over its raw bytes.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::model::Secret;

const BYTES: usize = 32;

/// A signature of the right form; whether it is good, [`Signature::is_of`] says.
#[derive(Debug, Clone, Copy)]
pub struct Signature([u8; BYTES]);

impl Signature {
    /// Reads 64 hexadecimal digits.
    pub fn parse(hex: &str) -> Option<Self> {
        if hex.len() != 2 * BYTES || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; BYTES];
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * place..2 * place + 2], 16).ok()?;
        }
        Some(Signature(bytes))
    }

    /// Whether this secret made it for this body, in a time that does not depend on how much of it is right.
    pub fn is_of(&self, secret: &Secret, body: &[u8]) -> bool {
        // HMAC takes keys of any length; the empty one would be everybody's.
        let key = secret.reveal().as_bytes();
        let Ok(mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(key) else { return false };
        !key.is_empty() && mac.chain_update(body).verify_slice(&self.0).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_example_is_good_and_nothing_near_it() {
        let (secret, body) = (Secret::new("It's a Secret to Everybody".to_owned()), b"Hello, World!");
        let good = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert!(Signature::parse(good).is_some_and(|signature| signature.is_of(&secret, body)));
        assert!(Signature::parse(&good.to_uppercase()).is_some_and(|signature| signature.is_of(&secret, body)));
        for other in [&good[..62], &good[1..], "", &format!("{good}00"), &good.replace('e', "g"), &good.replace('7', "é")] {
            assert!(Signature::parse(other).is_none(), "{other}");
        }
        let signature = Signature::parse(good).unwrap();
        assert!(!signature.is_of(&secret, b"Hello, World") && !signature.is_of(&Secret::new(String::new()), body));
        assert!(!Signature::parse(&good.replace("757", "758")).unwrap().is_of(&secret, body));
    }
}
