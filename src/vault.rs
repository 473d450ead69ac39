//! Secrets at rest, and the keys that everything else is derived from.
//!
//! One master key, from a systemd credential, an environment variable or a file; it never touches the store. Each
//! sealed value is bound to its place (the row and field that it belongs to): moved elsewhere it does not open.

mod key_file;

use std::io;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::model::Secret;
use crate::model::secret::Sealed;

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
    /// There is a next or a former key, but not the one in use.
    #[error("the secret key's file is gone, though a former or a next one lies beside it; give it back, or rename the one that is right")]
    KeyFileMissing,
    /// The key comes from the environment or the service manager.
    #[error("the secret key does not come from a file that this program may replace")]
    NotOurs,
    /// A sealed value does not open: another key, another place, or changed bytes.
    #[error("a stored secret cannot be opened: it was sealed with another key; enter it again, or start with the former key")]
    WrongKey,
}

/// Seals and opens secrets. One per process.
pub struct Vault {
    settings: Settings,
    is_in_file: bool,
    key: MasterKey,
    /// The key that is taking the place of the other one: what is sealed with it opens too.
    next: Option<MasterKey>,
}

struct MasterKey {
    /// Its name, which every sealed value carries. Tells nothing of the key.
    name: String,
    master: Secret<[u8; KEY_BYTES]>,
    cipher: XChaCha20Poly1305,
}

impl MasterKey {
    fn new(key: [u8; KEY_BYTES]) -> Self {
        let name = derive(&key, "name of the key").iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let cipher = XChaCha20Poly1305::new(&Key::from(derive(&key, "seal secrets at rest")));
        MasterKey { name, master: Secret::new(key), cipher }
    }

    fn prefix(&self) -> String {
        format!("{FORM}{}.", self.name)
    }

    fn seal(&self, place: &str, secret: &str) -> Result<Sealed, VaultError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| VaultError::NoRandomness)?;
        let payload = Payload { msg: secret.as_bytes(), aad: place.as_bytes() };
        let encrypted = self.cipher.encrypt(&XNonce::from(nonce), payload).map_err(|_| VaultError::WrongKey)?;
        Ok(Sealed(format!("{}{}", self.prefix(), URL_SAFE_NO_PAD.encode([nonce.as_slice(), &encrypted].concat()))))
    }

    fn open(&self, place: &str, sealed: &str) -> Result<Secret, VaultError> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| VaultError::WrongKey)?;
        let (nonce, encrypted) = bytes.split_first_chunk::<NONCE_BYTES>().ok_or(VaultError::WrongKey)?;
        let payload = Payload { msg: encrypted, aad: place.as_bytes() };
        let plain = self.cipher.decrypt(&XNonce::from(*nonce), payload).map_err(|_| VaultError::WrongKey)?;
        String::from_utf8(plain).map(Secret::new).map_err(|_| VaultError::WrongKey)
    }
}

impl Vault {
    /// Finds the master key, or makes the key file when there is no key at all. Prefer `keys::open`, which also finishes a
    /// change of the key that was interrupted.
    pub fn open(settings: &Settings) -> Result<Vault, VaultError> {
        let found = key_file::find(settings)?;
        let next = if found.is_in_file { key_file::find_next(settings)?.map(MasterKey::new) } else { None };
        Ok(Vault { settings: settings.clone(), is_in_file: found.is_in_file, key: MasterKey::new(found.key), next })
    }

    /// Encrypts a secret for one place, such as `build_setting/<id>/uploadBuildAuthHeader`.
    pub fn seal(&self, place: &str, secret: &str) -> Result<Sealed, VaultError> {
        self.key.seal(place, secret)
    }

    /// Decrypts what was sealed for this place.
    pub fn open_sealed(&self, place: &str, sealed: &Sealed) -> Result<Secret, VaultError> {
        let opened = std::iter::once(&self.key)
            .chain(&self.next)
            .find_map(|key| sealed.0.strip_prefix(&key.prefix()).map(|sealed| key.open(place, sealed)));
        opened.unwrap_or(Err(VaultError::WrongKey))
    }

    /// A key of its own for each purpose (cursors, signed URLs, the compile cache), the same at every start until the
    /// master key is changed.
    pub fn derive(&self, purpose: &str) -> [u8; KEY_BYTES] {
        derive(self.key.master.reveal(), purpose)
    }

    /// The name of the key that secrets are sealed with.
    pub fn key_name(&self) -> &str {
        &self.key.name
    }

    /// What every value begins with that is sealed with this key.
    pub fn sealed_prefix(&self) -> String {
        self.key.prefix()
    }

    /// Ends a change of the key that was interrupted: with the new key if everything is sealed with it, else with the old.
    pub fn settle(mut self, sealed_with: Option<&str>) -> Result<Vault, VaultError> {
        let Some(next) = self.next.take() else { return Ok(self) };
        if sealed_with == Some(next.name.as_str()) {
            key_file::switch(&self.settings)?;
            self.key = next;
        } else {
            key_file::discard_next(&self.settings)?;
        }
        Ok(self)
    }

    /// Begins a change of the key: the new one lies beside the old one. Nothing is sealed with it yet.
    ///
    /// # Errors
    /// [`VaultError::NotOurs`] when the key comes from somewhere else than the file.
    pub fn stage_next(&mut self) -> Result<(), VaultError> {
        if !self.is_in_file {
            return Err(VaultError::NotOurs);
        }
        self.next = Some(MasterKey::new(key_file::create_next(&self.settings)?));
        Ok(())
    }

    /// The name of the next key.
    pub fn next_name(&self) -> Option<&str> {
        self.next.as_ref().map(|next| next.name.as_str())
    }

    /// Seals a value with the next key.
    pub fn reseal(&self, place: &str, sealed: &Sealed) -> Result<Sealed, VaultError> {
        let next = self.next.as_ref().ok_or(VaultError::NotOurs)?;
        next.seal(place, self.open_sealed(place, sealed)?.reveal())
    }

    /// Keeps the key in use beside itself, for backups made before now.
    pub fn keep_former(&self) -> Result<PathBuf, VaultError> {
        key_file::keep_former(&self.settings, self.key.master.reveal())
    }
}

fn derive(master: &[u8; KEY_BYTES], purpose: &str) -> [u8; KEY_BYTES] {
    // HMAC as a pseudo-random function: HKDF's extract step is not needed for a key that is uniform already.
    let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(master).expect("HMAC takes a key of any length");
    mac.update(purpose.as_bytes());
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

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
