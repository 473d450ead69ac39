//! Where the master key comes from, and how its file is made and replaced.
//!
//! While a key is being replaced there are two files: the key in use, and beside it (`.next`) the one that takes its place
//! once everything is sealed with it. `.former` keeps the one before: backups of that time open with nothing else.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{KEY_BYTES, Settings, VaultError};
use crate::platform::files::{create_private_file, rename, sync_directory};

type Bytes = [u8; KEY_BYTES];

/// A key, and whether it came from the file, which is the only place that we may write to.
pub(super) struct Found {
    pub(super) key: Bytes,
    pub(super) is_in_file: bool,
}

/// The key in use; made when there is none at all.
pub(super) fn find(settings: &Settings) -> Result<Found, VaultError> {
    let elsewhere = |key| Ok(Found { key, is_in_file: false });
    if let Some(key) = &settings.key {
        return elsewhere(parse(key.reveal(), "COOKHOUSE_SECRET_KEY")?);
    }
    if let Some(text) = read(settings.credentials_directory.as_ref().map(|directory| directory.join("cookhouse.key")).as_deref())? {
        return elsewhere(parse(&text, "the service manager's credential")?);
    }
    if let Some(text) = read(Some(&settings.key_file))? {
        return Ok(Found { key: parse(&text, "the key file")?, is_in_file: true });
    }
    // A new key would hide that the right one was lost.
    if read(Some(&next(settings)))?.is_some() || read(Some(&former(settings)))?.is_some() {
        return Err(VaultError::KeyFileMissing);
    }
    Ok(Found { key: create(&settings.key_file)?, is_in_file: true })
}

/// The key that waits to take the other's place.
pub(super) fn find_next(settings: &Settings) -> Result<Option<Bytes>, VaultError> {
    read(Some(&next(settings)))?.map(|text| parse(&text, "the next key's file")).transpose()
}

/// Makes the next key, durable when this returns.
pub(super) fn create_next(settings: &Settings) -> Result<Bytes, VaultError> {
    create(&next(settings))
}

/// The key in use is kept as the former one, beside itself.
pub(super) fn keep_former(settings: &Settings, key: &Bytes) -> Result<PathBuf, VaultError> {
    let path = former(settings);
    write(&path, key)?;
    Ok(path)
}

/// The next key takes the other's place, in one step.
pub(super) fn switch(settings: &Settings) -> Result<(), VaultError> {
    rename(&next(settings), &settings.key_file)?;
    Ok(sync_directory(directory_of(&settings.key_file))?)
}

/// The next key is not wanted: nothing is sealed with it.
pub(super) fn discard_next(settings: &Settings) -> Result<(), VaultError> {
    std::fs::remove_file(next(settings))?;
    Ok(sync_directory(directory_of(&settings.key_file))?)
}

fn next(settings: &Settings) -> PathBuf {
    beside(&settings.key_file, ".next")
}

fn former(settings: &Settings) -> PathBuf {
    beside(&settings.key_file, ".former")
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn parse(text: &str, source: &'static str) -> Result<Bytes, VaultError> {
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

fn create(path: &Path) -> Result<Bytes, VaultError> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|_| VaultError::NoRandomness)?;
    write(path, &key)?;
    Ok(key)
}

/// Made under another name, so that a crash leaves no half key behind which secrets would be sealed.
fn write(path: &Path, key: &Bytes) -> Result<(), VaultError> {
    let directory = directory_of(path);
    std::fs::create_dir_all(directory)?;
    let new = beside(path, ".new");
    let _ = std::fs::remove_file(&new);
    let mut file = create_private_file(&new)?;
    writeln!(file, "{}", STANDARD.encode(key))?;
    file.sync_all()?;
    let mut permissions = file.metadata()?.permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&new, permissions)?;
    rename(&new, path)?;
    Ok(sync_directory(directory)?)
}
