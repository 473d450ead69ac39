//! `artifacts`: a finished build's tarball, read from disk. The handle is the capability.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::component::Resource;

use super::super::bindings::artifacts;
use super::super::bindings::types::{ByteRange, ErrorCode, HashAlgorithm};
use super::digest::Digest;
use super::{CallState, Failure, blocking};
use crate::seams::ArtifactFile;

/// Largest single read by a guest.
const LARGEST_READ: u32 = 4 << 20;
/// Bytes that are read at a time for a digest.
const STEP: usize = 1 << 20;

/// A file that is read at places by several readers. The name may be gone: it was opened once.
#[derive(Clone)]
pub(crate) struct SharedFile {
    file: Arc<Mutex<File>>,
}

impl SharedFile {
    pub(crate) fn new(file: File) -> Self {
        SharedFile { file: Arc::new(Mutex::new(file)) }
    }

    /// Fills `buffer` from `offset`; short only at the end of the file.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// The same, away from the runtime's threads. `length` is a size that the host chose.
    pub(crate) async fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let file = self.clone();
        blocking(move || {
            let mut buffer = vec![0; length];
            let filled = file.read_at(offset, &mut buffer)?;
            buffer.truncate(filled);
            Ok(buffer)
        })
        .await
    }
}

/// The tarball as a guest holds it.
#[derive(Clone)]
pub struct Artifact {
    pub(crate) file: SharedFile,
    pub(crate) facts: Arc<ArtifactFile>,
}

impl Artifact {
    /// Opens the file and checks that it is the one that was recorded.
    ///
    /// # Errors
    /// When it is not there, or has another size.
    pub(crate) fn open(facts: ArtifactFile) -> io::Result<Artifact> {
        let file = File::open(&facts.path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.len() != facts.size {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the artifact is not the file that was recorded"));
        }
        Ok(Artifact { file: SharedFile::new(file), facts: Arc::new(facts) })
    }

    /// A range inside the file; the whole file when none is given.
    pub(crate) fn range(&self, range: Option<ByteRange>) -> Result<(u64, u64), Failure> {
        range_within(range, self.facts.size)
    }
}

/// Offset and length of a range inside `size` bytes.
pub(crate) fn range_within(range: Option<ByteRange>, size: u64) -> Result<(u64, u64), Failure> {
    let Some(range) = range else { return Ok((0, size)) };
    match range.offset.checked_add(range.length) {
        Some(end) if end <= size => Ok((range.offset, range.length)),
        _ => Err(Failure::said(ErrorCode::InvalidArgument, "the range leaves the file")),
    }
}

impl artifacts::Host for CallState {}

impl artifacts::HostArtifact for CallState {
    async fn file_name(&mut self, artifact: Resource<Artifact>) -> wasmtime::Result<String> {
        Ok(self.table.get(&artifact)?.facts.file_name.clone())
    }

    async fn content_type(&mut self, artifact: Resource<Artifact>) -> wasmtime::Result<String> {
        self.table.get(&artifact)?;
        Ok("application/gzip".to_owned())
    }

    async fn size(&mut self, artifact: Resource<Artifact>) -> wasmtime::Result<u64> {
        Ok(self.table.get(&artifact)?.facts.size)
    }

    async fn digest(
        &mut self,
        artifact: Resource<Artifact>,
        algorithm: HashAlgorithm,
        range: Option<ByteRange>,
    ) -> Result<Vec<u8>, Failure> {
        let artifact = self.table.get(&artifact)?.clone();
        let (mut offset, mut left) = artifact.range(range)?;
        if left == artifact.facts.size {
            let known = match algorithm {
                HashAlgorithm::Md5 => from_hex(&artifact.facts.md5),
                HashAlgorithm::Sha256 => from_hex(&artifact.facts.sha256),
                HashAlgorithm::Sha1 | HashAlgorithm::Sha512 | HashAlgorithm::Crc32c => None,
            };
            if let Some(known) = known {
                return Ok(known);
            }
        }
        let mut digest = Digest::new(algorithm);
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(STEP).min(STEP);
            let bytes =
                self.unless_cancelled(artifact.file.read(offset, step)).await?.map_err(|error| Failure::io(&error, "the artifact"))?;
            if bytes.is_empty() {
                return Err(Failure::said(ErrorCode::Io, "the artifact became shorter"));
            }
            digest.update(&bytes);
            offset += bytes.len() as u64;
            left -= bytes.len() as u64;
        }
        Ok(digest.finish())
    }

    async fn read(&mut self, artifact: Resource<Artifact>, offset: u64, max: u32) -> Result<Vec<u8>, Failure> {
        let artifact = self.table.get(&artifact)?.clone();
        let left = artifact.facts.size.saturating_sub(offset);
        let length = u64::from(max.min(LARGEST_READ)).min(left) as usize;
        self.unless_cancelled(artifact.file.read(offset, length)).await?.map_err(|error| Failure::io(&error, "the artifact"))
    }

    async fn drop(&mut self, artifact: Resource<Artifact>) -> wasmtime::Result<()> {
        self.table.delete(artifact)?;
        Ok(())
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || text.is_empty() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|place| u8::from_str_radix(&text[place..place + 2], 16).ok()).collect()
}
