//! A directory as a `.tar.gz`: entries sorted, sane modes, owner 0, the same bytes for the same tree.

use std::fs::File;
use std::io::{Read, Write};

use cap_std::fs::Dir;

use super::ArtifactError;
use super::pipeline::{Chunks, Written, compress};
use super::tar_header::{self, Kind};
use super::tree::{self, Entry, EntryKind};
use crate::platform::tree::open_beneath;

/// How a tarball is made.
pub(super) struct Job<'a> {
    /// Compressing threads.
    pub threads: usize,
    /// The largest tarball, in bytes.
    pub limit: u64,
    /// Asked often.
    pub is_stopped: &'a dyn Fn() -> bool,
    /// Told the bytes of files done, and of all files.
    pub progress: &'a dyn Fn(u64, u64),
}

/// Writes the tarball of everything in `root`. Returns also what was left out, for people.
pub(super) fn write<W: Write + Send>(root: &Dir, output: W, job: &Job<'_>) -> Result<(Written, Vec<String>), ArtifactError> {
    let tree = tree::list(root, job.is_stopped)?;
    let written = compress(output, job.threads, job.limit, job.is_stopped, |chunks| {
        let mut done = 0;
        for entry in &tree.entries {
            append(root, entry, chunks)?;
            if let EntryKind::File { size, .. } = entry.kind {
                done += size;
                (job.progress)(done, tree.bytes);
            }
        }
        chunks.push(&tar_header::END)
    })?;
    Ok((written, tree.skipped))
}

fn append(root: &Dir, entry: &Entry, chunks: &mut Chunks<'_>) -> Result<(), ArtifactError> {
    let mut header = Vec::with_capacity(2048);
    let path = tree::bytes(&entry.path);
    match &entry.kind {
        EntryKind::Directory => tar_header::append(&mut header, &path, Kind::Directory, entry.modified),
        EntryKind::Link { target } => {
            tar_header::append(&mut header, &path, Kind::Link { target: &tree::bytes(target) }, entry.modified);
        }
        EntryKind::File { size, executable } => {
            tar_header::append(&mut header, &path, Kind::File { size: *size, executable: *executable }, entry.modified);
            chunks.push(&header)?;
            return append_content(root, entry, *size, chunks);
        }
    }
    chunks.push(&header)
}

fn append_content(root: &Dir, entry: &Entry, size: u64, chunks: &mut Chunks<'_>) -> Result<(), ArtifactError> {
    let path = || tree::shown(&entry.path);
    let mut file = open_beneath(root, &entry.path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => ArtifactError::SourceChanged { path: path() },
        _ => ArtifactError::Unreadable { path: path(), source },
    })?;
    let unreadable = |source| ArtifactError::Unreadable { path: path(), source };
    let changed = || Err(ArtifactError::SourceChanged { path: path() });
    let before = file.metadata().map_err(unreadable)?;
    if !before.is_file() || before.len() != size {
        return changed();
    }
    if chunks.read(&mut file, size)?.map_err(unreadable)? != size || !at_end(&mut file).map_err(unreadable)? {
        return changed();
    }
    let after = file.metadata().map_err(unreadable)?;
    if after.len() != size || after.modified().ok() != before.modified().ok() {
        return changed();
    }
    chunks.push(&[0; 512][..tar_header::padding(size)])
}

fn at_end(file: &mut File) -> std::io::Result<bool> {
    Ok(file.read(&mut [0])? == 0)
}
