//! Signatures of Standard Webhooks 1.0 (https://www.standardwebhooks.com): symmetric, `v1`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::model::Secret;
use crate::vault::VaultError;

/// What a secret begins with as text.
const PREFIX: &str = "whsec_";
/// Random bytes of a secret; the standard takes 24 to 64.
const SECRET_BYTES: usize = 32;

/// A new secret, as text.
///
/// # Errors
/// When the machine has no randomness.
pub fn new_secret() -> Result<Secret, VaultError> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(|_| VaultError::NoRandomness)?;
    Ok(Secret::new(format!("{PREFIX}{}", STANDARD.encode(bytes))))
}

/// The value of `webhook-signature` for a message: one signature for each secret. `None`: a secret is none.
pub fn sign<'a>(secrets: impl IntoIterator<Item = &'a Secret>, id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
    let head = format!("{id}.{timestamp}.");
    let signatures = secrets.into_iter().map(|secret| {
        let key = STANDARD.decode(secret.reveal().strip_prefix(PREFIX)?).ok()?;
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
        mac.update(head.as_bytes());
        mac.update(body);
        Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    });
    let signatures: Vec<String> = signatures.collect::<Option<_>>()?;
    Some(signatures.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_signed_as_the_standards_own_library_does() {
        // From the tests of the reference libraries.
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned());
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", br#"{"test": 2432232314}"#);
        let signature = sign([&secret], id, 1_614_265_330, body);
        assert_eq!(signature.as_deref(), Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
        let other = new_secret().unwrap();
        let both = sign([&other, &secret], id, 1_614_265_330, body).unwrap();
        assert!(both.ends_with(" v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=") && both.matches("v1,").count() == 2, "{both}");
    }

    #[test]
    fn secrets_are_long_and_differ() {
        let (one, other) = (new_secret().unwrap(), new_secret().unwrap());
        assert_ne!(one.reveal(), other.reveal());
        assert_eq!(STANDARD.decode(one.reveal().strip_prefix(PREFIX).unwrap()).unwrap().len(), SECRET_BYTES);
        assert_eq!(sign([&Secret::new("hunter2".to_owned())], "id", 1, b""), None);
    }
}
