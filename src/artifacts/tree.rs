//! What a directory holds, in the order in which it is packaged.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use cap_std::fs::{Dir, Metadata};

use super::ArtifactError;
use crate::platform::tree::is_program;

/// Files, directories and links of one artifact; each costs about 150 bytes of memory while it is packaged.
const MOST_ENTRIES: usize = 1_000_000;
/// How many of the skipped entries are named.
const MOST_NOTES: usize = 50;

/// One thing to package.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Relative to the packaged directory.
    pub path: PathBuf,
    /// In Unix seconds.
    pub modified: u64,
    /// What it is.
    pub kind: EntryKind,
}

/// What an entry is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    File { size: u64, executable: bool },
    Directory,
    Link { target: PathBuf },
}

/// Everything in the directory.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Each directory before what is in it, names sorted by their bytes.
    pub entries: Vec<Entry>,
    /// Bytes in all files.
    pub bytes: u64,
    /// What was left out, for people.
    pub skipped: Vec<String>,
}

/// Lists the directory. Never follows a link, never leaves `root`.
pub(super) fn list(root: &Dir, is_stopped: &dyn Fn() -> bool) -> Result<Tree, ArtifactError> {
    let mut tree = Tree::default();
    let mut left_out = 0usize;
    // Directories still to be read, the next one last.
    let mut waiting = vec![PathBuf::new()];
    let mut finished: Vec<Entry> = Vec::new();
    while let Some(directory) = waiting.pop() {
        if is_stopped() {
            return Err(ArtifactError::Cancelled);
        }
        let unreadable = |source| ArtifactError::Unreadable { path: shown(&directory), source };
        let here = if directory.as_os_str().is_empty() { root.try_clone() } else { root.open_dir(&directory) }.map_err(unreadable)?;
        for entry in here.entries().map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = directory.join(entry.file_name());
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(ArtifactError::SourceChanged { path: shown(&path) });
                }
                Err(source) => return Err(ArtifactError::Unreadable { path: shown(&path), source }),
            };
            let kind = if metadata.is_dir() {
                waiting.push(path.clone());
                EntryKind::Directory
            } else if metadata.is_file() {
                tree.bytes = tree.bytes.saturating_add(metadata.len());
                EntryKind::File { size: metadata.len(), executable: is_program(root, &path, &metadata) }
            } else if metadata.is_symlink() {
                let target = here.read_link_contents(entry.file_name()).map_err(unreadable)?;
                if leaves(root, &path, &target) {
                    return Err(ArtifactError::LinkLeaves { path: shown(&path) });
                }
                EntryKind::Link { target }
            } else {
                left_out += 1;
                if left_out <= MOST_NOTES {
                    tree.skipped.push(format!("{:?} is neither a file, a directory nor a link and was left out", shown(&path)));
                }
                continue;
            };
            if finished.len() >= MOST_ENTRIES {
                return Err(ArtifactError::TooManyFiles { limit: MOST_ENTRIES });
            }
            finished.push(Entry { path, modified: seconds(&metadata), kind });
        }
    }
    if left_out > MOST_NOTES {
        tree.skipped.push(format!("{} more were left out", left_out - MOST_NOTES));
    }
    // Compares name by name, so that what a directory holds comes right after the directory.
    finished.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    tree.entries = finished;
    Ok(tree)
}

/// A path as error texts and tar headers write it: `/` between the names.
pub(super) fn shown(path: &Path) -> String {
    String::from_utf8_lossy(&bytes(path)).into_owned()
}

/// The same, in the bytes that the file system has.
pub(super) fn bytes(path: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for component in path.components() {
        if !all.is_empty() {
            all.push(b'/');
        }
        all.extend_from_slice(component.as_os_str().as_encoded_bytes());
    }
    all
}

fn seconds(metadata: &Metadata) -> u64 {
    metadata.modified().ok().and_then(|time| time.into_std().duration_since(UNIX_EPOCH).ok()).map_or(0, |since| since.as_secs())
}

/// By its text, and by what it resolves to through other links, which the text alone does not show.
fn leaves(root: &Dir, link: &Path, target: &Path) -> bool {
    let mut depth = link.components().count() - 1;
    for component in target.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    // This is how cap-std says that a path led outside. One that leads to nothing, or in circles, is inside as far as it goes.
    root.canonicalize(link).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}
