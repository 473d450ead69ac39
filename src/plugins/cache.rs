//! Compiled plugins on disk. Machine code is run as it is read, so it is believed only with our own code of
//! authenticity, over the very bytes that are then loaded. What nobody believes is compiled again.

use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

use ring::hmac;
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::platform::files;

/// A private directory of compiled components.
pub(crate) struct CompileCache {
    directory: PathBuf,
    key: hmac::Key,
}

impl CompileCache {
    /// Opens or makes the directory, readable by this user alone.
    ///
    /// # Errors
    /// When it cannot be made private.
    pub(crate) fn open(directory: &Path, key: [u8; 32]) -> io::Result<CompileCache> {
        files::create_private_directory(directory)?;
        Ok(CompileCache { directory: directory.to_owned(), key: hmac::Key::new(hmac::HMAC_SHA256, &key) })
    }

    /// The component, from the cache or compiled now (and then kept for the next start).
    ///
    /// # Errors
    /// When the bytes are no component that this runtime can compile.
    pub(crate) fn component(&self, engine: &Engine, wasm: &[u8]) -> wasmtime::Result<Component> {
        let name = name_of(engine, wasm);
        match self.read(engine, &name) {
            Ok(Some(component)) => return Ok(component),
            Ok(None) => {}
            Err(error) => tracing::warn!(error = format!("{error:#}"), "a compiled plugin is not usable and is compiled again"),
        }
        let code = engine.precompile_component(wasm)?;
        if let Err(error) = self.write(&name, &code) {
            tracing::warn!(%error, "a compiled plugin cannot be kept; the next start compiles it again");
        }
        deserialize(engine, &code)
    }

    /// Removes what belongs to none of these components: other versions, other runtimes, unfinished files.
    pub(crate) fn sweep(&self, engine: &Engine, known: &[&[u8]]) -> io::Result<()> {
        let names: Vec<String> = known.iter().map(|wasm| name_of(engine, wasm)).collect();
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_ours = name.ends_with(".cwasm") || name.ends_with(".mac") || name.ends_with(".temporary");
            let is_known =
                names.iter().any(|known| name.strip_prefix(known.as_str()).is_some_and(|rest| matches!(rest, ".cwasm" | ".mac")));
            if is_ours && !is_known && entry.file_type()?.is_file() {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// None when there is nothing; an error when there is something that must not be loaded.
    fn read(&self, engine: &Engine, name: &str) -> wasmtime::Result<Option<Component>> {
        let absent = |result: io::Result<Vec<u8>>| match result {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let (Some(code), Some(mac)) = (absent(std::fs::read(self.path(name, "cwasm")))?, absent(std::fs::read(self.path(name, "mac")))?)
        else {
            return Ok(None);
        };
        hmac::verify(&self.key, &covered(name, &code), &mac)
            .map_err(|_| wasmtime::Error::msg("its code of authenticity does not match"))?;
        deserialize(engine, &code).map(Some)
    }

    fn write(&self, name: &str, code: &[u8]) -> io::Result<()> {
        files::write_private_file_atomically(&self.path(name, "cwasm"), code)?;
        files::write_private_file_atomically(&self.path(name, "mac"), hmac::sign(&self.key, &covered(name, code)).as_ref())
    }

    fn path(&self, name: &str, extension: &str) -> PathBuf {
        self.directory.join(format!("{name}.{extension}"))
    }
}

/// The name is covered too: a file that was renamed is another file.
fn covered(name: &str, code: &[u8]) -> Vec<u8> {
    let mut covered = name.as_bytes().to_vec();
    covered.push(0);
    covered.extend_from_slice(code);
    covered
}

/// The component's digest, and what the runtime and its configuration come to.
fn name_of(engine: &Engine, wasm: &[u8]) -> String {
    let mut hasher = std::hash::DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let digest: String = Sha256::digest(wasm).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digest}-{:016x}", hasher.finish())
}

#[allow(unsafe_code)]
fn deserialize(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: these bytes were made by `precompile_component` of this very runtime: either just now in this process,
    // or by one that held the key of the code of authenticity that was checked over exactly this slice. They are in
    // memory, so that nobody can change them between the check and the load.
    unsafe { Component::deserialize(engine, code) }
}
