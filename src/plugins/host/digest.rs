//! Digests, authentication codes and signatures that the host computes for guests.

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512};
use ring::{hmac, rand, signature};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;

use super::super::bindings::secrets::SignatureAlgorithm;
use super::super::bindings::types::{ErrorCode, HashAlgorithm};
use super::Failure;

/// A digest under way.
pub(crate) enum Digest {
    Md5(md5::Md5),
    Ring(Context),
    Crc32c(u32),
}

impl Digest {
    pub(crate) fn new(algorithm: HashAlgorithm) -> Digest {
        match algorithm {
            HashAlgorithm::Md5 => Digest::Md5(md5::Digest::new()),
            HashAlgorithm::Sha1 => Digest::Ring(Context::new(&SHA1_FOR_LEGACY_USE_ONLY)),
            HashAlgorithm::Sha256 => Digest::Ring(Context::new(&SHA256)),
            HashAlgorithm::Sha512 => Digest::Ring(Context::new(&SHA512)),
            HashAlgorithm::Crc32c => Digest::Crc32c(!0),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Digest::Md5(digest) => md5::Digest::update(digest, bytes),
            Digest::Ring(context) => context.update(bytes),
            Digest::Crc32c(state) => {
                *state = bytes.iter().fold(*state, |state, byte| (state >> 8) ^ CRC32C[usize::from(state as u8 ^ byte)])
            }
        }
    }

    /// CRC-32C is four bytes, the most significant first.
    pub(crate) fn finish(self) -> Vec<u8> {
        match self {
            Digest::Md5(digest) => md5::Digest::finalize(digest).to_vec(),
            Digest::Ring(context) => context.finish().as_ref().to_vec(),
            Digest::Crc32c(state) => (!state).to_be_bytes().to_vec(),
        }
    }
}

/// One entry per byte; the reflected Castagnoli polynomial.
const CRC32C: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut place = 0;
    while place < 256 {
        let mut value = place as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0x82f6_3b78 } else { value >> 1 };
            bit += 1;
        }
        table[place] = value;
        place += 1;
    }
    table
};

/// HMAC with a secret as the key.
pub(crate) fn authenticate(algorithm: HashAlgorithm, key: &[u8], message: &[u8]) -> Result<Vec<u8>, Failure> {
    let algorithm = match algorithm {
        HashAlgorithm::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        HashAlgorithm::Sha256 => hmac::HMAC_SHA256,
        HashAlgorithm::Sha512 => hmac::HMAC_SHA512,
        HashAlgorithm::Md5 | HashAlgorithm::Crc32c => return Err(Failure::said(ErrorCode::Unsupported, "no HMAC with this hash")),
    };
    Ok(hmac::sign(&hmac::Key::new(algorithm, key), message).as_ref().to_vec())
}

/// A signature with a private key in PEM (PKCS #1 or PKCS #8).
pub(crate) fn sign(algorithm: SignatureAlgorithm, key: &[u8], message: &[u8]) -> Result<Vec<u8>, Failure> {
    let unusable = || Failure::said(ErrorCode::InvalidConfig, "the secret is no private key for this signature");
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| unusable())?;
    let random = rand::SystemRandom::new();
    match (algorithm, &key) {
        (SignatureAlgorithm::Rs256, _) => {
            let pair = match &key {
                PrivateKeyDer::Pkcs1(der) => signature::RsaKeyPair::from_der(der.secret_pkcs1_der()),
                PrivateKeyDer::Pkcs8(der) => signature::RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
                _ => return Err(unusable()),
            }
            .map_err(|_| unusable())?;
            let mut out = vec![0; pair.public().modulus_len()];
            pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut out).map_err(|_| unusable())?;
            Ok(out)
        }
        (SignatureAlgorithm::Es256, PrivateKeyDer::Pkcs8(der)) => {
            let algorithm = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
            let pair = signature::EcdsaKeyPair::from_pkcs8(algorithm, der.secret_pkcs8_der(), &random).map_err(|_| unusable())?;
            Ok(pair.sign(&random, message).map_err(|_| unusable())?.as_ref().to_vec())
        }
        (SignatureAlgorithm::Ed25519, PrivateKeyDer::Pkcs8(der)) => {
            let pair = signature::Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()).map_err(|_| unusable())?;
            Ok(pair.sign(message).as_ref().to_vec())
        }
        (SignatureAlgorithm::Es256 | SignatureAlgorithm::Ed25519, _) => Err(unusable()),
    }
}

/// Whether a text is a private key, PEM, that an app's token can be signed with (RS256).
pub fn can_sign(key: &str) -> bool {
    sign(SignatureAlgorithm::Rs256, key.as_bytes(), b"probe").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn digests_are_the_known_ones() {
        let of = |algorithm| {
            let mut digest = Digest::new(algorithm);
            digest.update(b"1234");
            digest.update(b"56789");
            hex(&digest.finish())
        };
        assert_eq!(of(HashAlgorithm::Md5), "25f9e794323b453885f5181f1b624d0b");
        assert_eq!(of(HashAlgorithm::Sha1), "f7c3bc1d808e04732adf679965ccc34ca7ae3441");
        assert_eq!(of(HashAlgorithm::Sha256), "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225");
        assert_eq!(of(HashAlgorithm::Crc32c), "e3069283");
    }

    #[test]
    fn the_webhook_example_of_the_git_host_is_authenticated() {
        let mac = authenticate(HashAlgorithm::Sha256, b"It's a Secret to Everybody", b"Hello, World!");
        assert_eq!(mac.ok().map(|mac| hex(&mac)).as_deref(), Some("757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"));
        assert!(authenticate(HashAlgorithm::Md5, b"k", b"m").is_err());
        assert!(sign(SignatureAlgorithm::Rs256, b"no key", b"m").is_err());
    }
}
