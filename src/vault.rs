//! Secrets at rest, and the keys that everything else is derived from.
//!
//! One master key, from a systemd credential, an environment variable or a file; it never touches the store. Each
//! sealed value is bound to its place (the row and field that it belongs to): moved elsewhere it does not open.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::model::Secret;
use crate::model::secret::Sealed;
use crate::platform::files::{create_private_file, sync_directory};

const NONCE_BYTES: usize = 24;
const KEY_BYTES: usize = 32;
/// The form of a sealed value, so that another one can come beside it.
const FORM: &str = "1.";

/// Where the master key comes from, first match wins.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The key itself, base64 of 32 bytes (`COOKHOUSE_SECRET_KEY`).
    pub key: Option<Secret>,
    /// The directory of the service manager's credentials, where `cookhouse.key` is looked for.
    pub credentials_directory: Option<PathBuf>,
    /// The file; made at the first start, readable by the service's user only.
    pub key_file: PathBuf,
}

/// Why a key or a secret cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The key is not what it should be.
    #[error("the secret key from {0} is not base64 of 32 bytes")]
    MalformedKey(&'static str),
    /// Reading or making the key's file failed.
    #[error("the secret key's file: {0}")]
    File(#[from] io::Error),
    /// The machine has no randomness.
    #[error("the operating system gave no random bytes")]
    NoRandomness,
    /// A sealed value does not open: another key, another place, or changed bytes.
    #[error("a stored secret cannot be opened: it was sealed with another key; enter it again, or start with the former key")]
    WrongKey,
}

/// Seals and opens secrets. One per process.
pub struct Vault {
    master: Secret<[u8; KEY_BYTES]>,
    cipher: XChaCha20Poly1305,
}

impl Vault {
    /// Finds the master key, or makes the key file when there is no key at all.
    pub fn open(settings: &Settings) -> Result<Vault, VaultError> {
        let key = find_key(settings)?;
        let vault = Vault { master: Secret::new(key), cipher: XChaCha20Poly1305::new(&Key::from([0; KEY_BYTES])) };
        let sealing = vault.derive("seal secrets at rest");
        Ok(Vault { cipher: XChaCha20Poly1305::new(&Key::from(sealing)), ..vault })
    }

    /// Encrypts a secret for one place, such as `build_setting/<id>/uploadBuildAuthHeader`.
    pub fn seal(&self, place: &str, secret: &str) -> Result<Sealed, VaultError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| VaultError::NoRandomness)?;
        let payload = Payload { msg: secret.as_bytes(), aad: place.as_bytes() };
        let encrypted = self.cipher.encrypt(&XNonce::from(nonce), payload).map_err(|_| VaultError::WrongKey)?;
        Ok(Sealed(format!("{FORM}{}", URL_SAFE_NO_PAD.encode([nonce.as_slice(), &encrypted].concat()))))
    }

    /// Decrypts what was sealed for this place.
    pub fn open_sealed(&self, place: &str, sealed: &Sealed) -> Result<Secret, VaultError> {
        let bytes = sealed.0.strip_prefix(FORM).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()).ok_or(VaultError::WrongKey)?;
        let (nonce, encrypted) = bytes.split_first_chunk::<NONCE_BYTES>().ok_or(VaultError::WrongKey)?;
        let payload = Payload { msg: encrypted, aad: place.as_bytes() };
        let plain = self.cipher.decrypt(&XNonce::from(*nonce), payload).map_err(|_| VaultError::WrongKey)?;
        String::from_utf8(plain).map(Secret::new).map_err(|_| VaultError::WrongKey)
    }

    /// A key of its own for each purpose (cursors, signed URLs, the compile cache), the same at every start.
    pub fn derive(&self, purpose: &str) -> [u8; KEY_BYTES] {
        // HMAC as a pseudo-random function: HKDF's extract step is not needed for a key that is uniform already.
        let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(self.master.reveal()).expect("HMAC takes a key of any length");
        mac.update(purpose.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

fn find_key(settings: &Settings) -> Result<[u8; KEY_BYTES], VaultError> {
    if let Some(key) = &settings.key {
        return parse(key.reveal(), "COOKHOUSE_SECRET_KEY");
    }
    if let Some(text) = read(settings.credentials_directory.as_ref().map(|directory| directory.join("cookhouse.key")).as_deref())? {
        return parse(&text, "the service manager's credential");
    }
    if let Some(text) = read(Some(&settings.key_file))? {
        return parse(&text, "the key file");
    }
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|_| VaultError::NoRandomness)?;
    make_key_file(&settings.key_file, &key)?;
    Ok(key)
}

fn parse(text: &str, source: &'static str) -> Result<[u8; KEY_BYTES], VaultError> {
    let bytes = STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or(VaultError::MalformedKey(source))
}

fn read(path: Option<&Path>) -> Result<Option<String>, VaultError> {
    match path.map(std::fs::read_to_string) {
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(None),
    }
}

/// Made under another name, so that a crash leaves no half key behind which secrets would be sealed.
fn make_key_file(path: &Path, key: &[u8; KEY_BYTES]) -> Result<(), VaultError> {
    use std::io::Write;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let new = path.with_extension("new");
    let _ = std::fs::remove_file(&new);
    let mut file = create_private_file(&new)?;
    writeln!(file, "{}", STANDARD.encode(key))?;
    file.sync_all()?;
    let mut permissions = file.metadata()?.permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&new, permissions)?;
    std::fs::rename(&new, path)?;
    Ok(sync_directory(directory)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(directory: &Path) -> Vault {
        Vault::open(&Settings { key: None, credentials_directory: None, key_file: directory.join("secret.key") }).expect("a vault")
    }

    #[test]
    fn a_secret_opens_in_its_own_place_only_and_survives_a_restart() {
        let directory = tempfile::tempdir().expect("a directory");
        let sealed = vault(directory.path()).seal("setting/1/header", "Bearer x").expect("sealed");
        assert!(!sealed.0.contains("Bearer"));
        let again = vault(directory.path());
        assert_eq!(again.open_sealed("setting/1/header", &sealed).expect("opens").reveal(), "Bearer x");
        assert!(again.open_sealed("setting/2/header", &sealed).is_err());
        let other = tempfile::tempdir().expect("a directory");
        assert!(vault(other.path()).open_sealed("setting/1/header", &sealed).is_err());
    }

    #[test]
    fn a_changed_value_does_not_open() {
        let directory = tempfile::tempdir().expect("a directory");
        let vault = vault(directory.path());
        let sealed = vault.seal("place", "secret").expect("sealed");
        for at in 0..sealed.0.len() {
            let mut text = sealed.0.clone().into_bytes();
            text[at] = if text[at] == b'A' { b'B' } else { b'A' };
            let text = String::from_utf8(text).expect("ASCII");
            assert!(vault.open_sealed("place", &Sealed(text)).is_err(), "byte {at}");
        }
    }

    #[test]
    fn purposes_have_keys_of_their_own() {
        let directory = tempfile::tempdir().expect("a directory");
        let vault = vault(directory.path());
        assert_ne!(vault.derive("cursor"), vault.derive("signed url"));
        assert_eq!(vault.derive("cursor"), self::vault(directory.path()).derive("cursor"));
    }

    #[test]
    fn a_short_key_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let key = Some(Secret::new("c2hvcnQ=".to_owned()));
        let settings = Settings { key, credentials_directory: None, key_file: directory.path().join("unused") };
        assert!(matches!(Vault::open(&settings), Err(VaultError::MalformedKey(_))));
    }
}
