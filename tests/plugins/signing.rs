//! Signatures with keys that a guest never sees, checked with the public halves.

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PublicKeyData as _};
use ring::signature::{self, KeyPair as _, RsaKeyPair, UnparsedPublicKey, VerificationAlgorithm};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivatePkcs1KeyDer, PrivatePkcs8KeyDer};
use serde_json::json;

use super::Host;

/// One key in the two forms that people store; used for nothing but this test.
const RSA: [&str; 2] = [include_str!("keys/rsa-pkcs1.pem"), include_str!("keys/rsa-pkcs8.pem")];
const TEXT: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJhcHAifQ";

async fn signature(host: &Host, algorithm: &str, key: &str) -> Vec<u8> {
    let said = host.misbehave(json!({"do": "sign", "algorithm": algorithm, "key": key, "text": TEXT})).await.unwrap();
    (0..said.len()).step_by(2).map(|place| u8::from_str_radix(&said[place..place + 2], 16).unwrap()).collect()
}

fn assert_verifies(algorithm: &'static dyn VerificationAlgorithm, public: &[u8], signature: &[u8]) {
    let public = UnparsedPublicKey::new(algorithm, public);
    public.verify(TEXT.as_bytes(), signature).unwrap();
    assert!(public.verify(b"another text", signature).is_err());
}

#[tokio::test]
async fn what_the_host_signs_is_believed_by_others() {
    let host = Host::abuse();
    let first = RsaKeyPair::from_der(PrivatePkcs1KeyDer::from_pem_slice(RSA[0].as_bytes()).unwrap().secret_pkcs1_der()).unwrap();
    let second = RsaKeyPair::from_pkcs8(PrivatePkcs8KeyDer::from_pem_slice(RSA[1].as_bytes()).unwrap().secret_pkcs8_der()).unwrap();
    assert_eq!(first.public_key().as_ref(), second.public_key().as_ref());
    for key in RSA {
        let signature = signature(&host, "rs256", key).await;
        assert_verifies(&signature::RSA_PKCS1_2048_8192_SHA256, first.public_key().as_ref(), &signature);
    }
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let signed = signature(&host, "es256", &pair.serialize_pem()).await;
    // As JSON web tokens want it: two numbers of 32 bytes.
    assert_eq!(signed.len(), 64);
    assert_verifies(&signature::ECDSA_P256_SHA256_FIXED, pair.der_bytes(), &signed);
    let pair = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let signed = signature(&host, "ed25519", &pair.serialize_pem()).await;
    assert_verifies(&signature::ED25519, pair.der_bytes(), &signed);
    let log = host.log.text();
    assert!(!RSA[0].lines().any(|line| log.contains(line)) || log.trim().is_empty());
}

#[tokio::test]
async fn keys_that_do_not_fit_and_secrets_that_were_not_granted_for_it_sign_nothing() {
    let host = Host::abuse();
    let curve = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap().serialize_pem();
    let truncated = RSA[1].replacen("MII", "", 1);
    for (algorithm, key) in
        [("rs256", curve.as_str()), ("es256", RSA[1]), ("ed25519", &curve), ("es256", RSA[0]), ("rs256", &truncated), ("rs256", "no key")]
    {
        let error = host.misbehave(json!({"do": "sign", "algorithm": algorithm, "key": key, "text": TEXT})).await.unwrap_err();
        assert!(error.message.contains("no private key for this signature"), "{algorithm}: {error}");
    }
    // A stored secret that was granted for headers only.
    let error = host.misbehave(json!({"do": "sign", "algorithm": "rs256", "text": TEXT})).await.unwrap_err();
    assert_eq!(error.reason.as_deref(), Some("secret-not-granted"), "{error}");
}
