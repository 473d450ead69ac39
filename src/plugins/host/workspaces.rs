//! `workspaces`: one directory, and nothing outside of it. Paths are resolved beneath the open directory by the
//! operating system, so that a link that leads out is refused at the moment it would be followed.

use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir, OpenOptions};
use globset::GlobBuilder;
use tokio_util::sync::CancellationToken;
use wasmtime::component::Resource;

use super::super::bindings::types::ErrorCode;
use super::super::bindings::workspaces::{self, Entry, EntryKind};
use super::{CallState, Failure, blocking};
use crate::platform::tree;

/// Largest single read.
const LARGEST_READ: u32 = 4 << 20;
/// Most entries of one answer.
const MOST_ENTRIES: u32 = 10_000;
/// Directory entries that one `find` looks at.
const MOST_VISITED: u64 = 2_000_000;
/// Deepest directory that `find` enters.
const DEEPEST: u32 = 64;
/// Longest path, as the systems have it.
const LONGEST_PATH: usize = 4096;
/// What one call may write by itself; what a tool writes is not counted here.
const MOST_BYTES: u64 = 64 << 30;
/// Files and directories one call may make by itself.
const MOST_FILES: u64 = 100_000;

/// A workspace in a guest's hands.
#[derive(Clone)]
pub struct Workspace {
    pub(crate) directory: Arc<Dir>,
    /// The same directory for tools, which need a name.
    pub(crate) root: Arc<PathBuf>,
}

impl Workspace {
    /// Opens a directory that exists.
    ///
    /// # Errors
    /// When it does not, or cannot be opened.
    pub(crate) fn open(root: &Path) -> io::Result<Workspace> {
        let root = tree::real_path(root)?;
        let directory = Dir::open_ambient_dir(&root, cap_std::ambient_authority())?;
        Ok(Workspace { directory: Arc::new(directory), root: Arc::new(root) })
    }
}

/// What a call wrote so far.
#[derive(Clone, Default)]
pub(crate) struct Quota {
    bytes: Arc<AtomicU64>,
    files: Arc<AtomicU64>,
}

impl Quota {
    /// Counts before it is written.
    pub(crate) fn take(&self, bytes: u64, files: u64) -> Result<(), Failure> {
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let files = self.files.fetch_add(files, Ordering::Relaxed).saturating_add(files);
        if bytes > MOST_BYTES || files > MOST_FILES {
            return Err(Failure::said(ErrorCode::TooLarge, "the plugin wrote more into the workspace than one call may"));
        }
        Ok(())
    }
}

/// A path that a guest gave: relative, `/`-separated, nothing that only one system understands. Empty or `.` is the
/// workspace itself.
pub(crate) fn checked_path(path: &str) -> Result<PathBuf, Failure> {
    let refuse =
        || Err(Failure::said(ErrorCode::InvalidArgument, format!("`{}` is no path in a workspace", super::super::text::prefix(path, 200))));
    if path.is_empty() || path == "." {
        return Ok(PathBuf::from("."));
    }
    if path.len() > LONGEST_PATH || path.starts_with('/') || path.ends_with('/') {
        return refuse();
    }
    let is_name = |name: &str| {
        // Names that Windows reads as something else: streams, devices, drives, trailing dots and spaces.
        let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
        let is_numbered = |prefix: &str| stem.strip_prefix(prefix).is_some_and(|rest| rest.chars().count() == 1 && rest != "0");
        let is_device =
            matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$") || is_numbered("COM") || is_numbered("LPT");
        !name.is_empty()
            && name.len() <= 255
            && name != "."
            && name != ".."
            && !name.chars().any(|character| character.is_control() || matches!(character, '\\' | ':'))
            && (!cfg!(windows) || !(is_device || name.ends_with(['.', ' '])))
    };
    if path.split('/').all(is_name) { Ok(path.split('/').collect()) } else { refuse() }
}

fn entry(path: String, found: &cap_std::fs::Metadata) -> Entry {
    let kind = match found.file_type() {
        kind if kind.is_symlink() => EntryKind::Link,
        kind if kind.is_dir() => EntryKind::Directory,
        kind if kind.is_file() => EntryKind::File,
        _ => EntryKind::Other,
    };
    Entry { path, kind, size: if found.is_file() { found.len() } else { 0 }, executable: found.is_file() && tree::is_executable(found) }
}

impl CallState {
    /// Runs file work of one workspace and puts its error in the guest's words.
    fn in_workspace<T: Send + 'static, F: FnOnce(&Dir, &Path) -> io::Result<T> + Send + 'static>(
        &self,
        workspace: &Resource<Workspace>,
        path: &str,
        work: F,
    ) -> impl Future<Output = Result<T, Failure>> + Send + use<T, F> {
        let cancel = self.call.cancel.clone();
        let prepared = checked_path(path).and_then(|checked| Ok((checked, self.table.get(workspace)?.directory.clone())));
        let named = format!("`{}`", super::super::text::prefix(path, 200));
        async move {
            let (checked, directory) = prepared?;
            let done = super::unless_cancelled(&cancel, blocking(move || work(&directory, &checked))).await?;
            done.map_err(|error| Failure::io(&error, &named))
        }
    }
}

impl workspaces::Host for CallState {}

impl workspaces::HostWorkspace for CallState {
    async fn free_bytes(&mut self, workspace: Resource<Workspace>) -> wasmtime::Result<u64> {
        let root = self.table.get(&workspace)?.root.clone();
        Ok(blocking(move || crate::platform::files::free_space(&root)).await.map_or(0, |space| space.free_bytes))
    }

    async fn stat(&mut self, workspace: Resource<Workspace>, path: String) -> Result<Option<Entry>, Failure> {
        let name = path.clone();
        self.in_workspace(&workspace, &path, move |directory, path| match directory.symlink_metadata(path) {
            Ok(found) => Ok(Some(entry(name, &found))),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        })
        .await
    }

    async fn entries(&mut self, workspace: Resource<Workspace>, path: String, limit: u32) -> Result<Vec<Entry>, Failure> {
        let prefix = if path.is_empty() || path == "." { String::new() } else { format!("{path}/") };
        self.in_workspace(&workspace, &path, move |directory, path| {
            let mut found = Vec::new();
            for one in directory.read_dir(path)?.take(limit.min(MOST_ENTRIES) as usize) {
                let one = one?;
                // A name that is no UTF-8 cannot be said in the contract.
                if let Ok(name) = one.file_name().into_string() {
                    found.push(entry(format!("{prefix}{name}"), &one.metadata()?));
                }
            }
            Ok(found)
        })
        .await
    }

    async fn find(&mut self, workspace: Resource<Workspace>, pattern: String, max_depth: u32, limit: u32) -> Result<Vec<Entry>, Failure> {
        let invalid = |_| Failure::said(ErrorCode::InvalidArgument, "not a usable pattern");
        if pattern.len() > LONGEST_PATH {
            return Err(Failure::said(ErrorCode::TooLarge, "the pattern is too long"));
        }
        let glob = GlobBuilder::new(&pattern).literal_separator(true).build().map_err(invalid)?.compile_matcher();
        let cancel = self.call.cancel.clone();
        let limit = limit.min(MOST_ENTRIES) as usize;
        self.in_workspace(&workspace, "", move |directory, _| {
            let mut walk = Walk { glob, cancel, limit, visited: 0, found: Vec::new() };
            walk.directory(directory, "", max_depth.min(DEEPEST))?;
            Ok(walk.found)
        })
        .await
    }

    async fn read(&mut self, workspace: Resource<Workspace>, path: String, offset: u64, max: u32) -> Result<Vec<u8>, Failure> {
        self.in_workspace(&workspace, &path, move |directory, path| {
            let mut file = open_regular(directory, path)?;
            file.seek(SeekFrom::Start(offset))?;
            let mut bytes = Vec::new();
            file.take(max.min(LARGEST_READ).into()).read_to_end(&mut bytes)?;
            Ok(bytes)
        })
        .await
    }

    async fn write(&mut self, workspace: Resource<Workspace>, path: String, bytes: Vec<u8>, append: bool) -> Result<(), Failure> {
        self.written.take(bytes.len() as u64, 1)?;
        self.in_workspace(&workspace, &path, move |directory, path| {
            let mut file = create(directory, path, append)?;
            file.write_all(&bytes)
        })
        .await
    }

    async fn make_directory(&mut self, workspace: Resource<Workspace>, path: String) -> Result<(), Failure> {
        self.written.take(0, 1)?;
        self.in_workspace(&workspace, &path, |directory, path| directory.create_dir_all(path)).await
    }

    async fn remove(&mut self, workspace: Resource<Workspace>, path: String, recursive: bool) -> Result<(), Failure> {
        self.in_workspace(&workspace, &path, move |directory, path| {
            if path == Path::new(".") {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let found = directory.symlink_metadata(path)?;
            let attempt = || match (found.is_dir(), recursive) {
                (false, _) => directory.remove_file(path),
                (true, true) => directory.remove_dir_all(path),
                (true, false) => directory.remove_dir(path),
            };
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    tree::allow_removal(directory, path)?;
                    attempt()
                }
                result => result,
            }
        })
        .await
    }

    async fn rename(&mut self, workspace: Resource<Workspace>, source: String, target: String) -> Result<(), Failure> {
        let target = checked_path(&target)?;
        self.in_workspace(&workspace, &source, move |directory, source| {
            if source == Path::new(".") || target == Path::new(".") {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            directory.rename(source, directory, &target)
        })
        .await
    }

    async fn drop(&mut self, workspace: Resource<Workspace>) -> wasmtime::Result<()> {
        self.table.delete(workspace)?;
        Ok(())
    }
}

/// Opens a plain file for reading. A pipe or a device that a build left there would block or give nonsense.
pub(crate) fn open_regular(directory: &Dir, path: &Path) -> io::Result<std::fs::File> {
    if !directory.metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let file = tree::open_beneath(directory, path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(file)
}

/// Opens a plain file for writing, with its parents.
pub(crate) fn create(directory: &Dir, path: &Path, append: bool) -> io::Result<std::fs::File> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        directory.create_dir_all(parent)?;
    }
    match directory.metadata(path) {
        Ok(found) if !found.is_file() => return Err(io::ErrorKind::InvalidInput.into()),
        _ => {}
    }
    let file = directory.open_with(path, OpenOptions::new().create(true).write(true).append(append).truncate(!append))?;
    Ok(file.into_std())
}

/// One `find`: links are listed, never followed.
struct Walk {
    glob: globset::GlobMatcher,
    cancel: CancellationToken,
    limit: usize,
    visited: u64,
    found: Vec<Entry>,
}

impl Walk {
    fn directory(&mut self, directory: &Dir, prefix: &str, depth_left: u32) -> io::Result<()> {
        let mut names: Vec<String> = Vec::new();
        for one in directory.entries()? {
            self.visited += 1;
            if self.visited > MOST_VISITED || self.cancel.is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            // A name that is no UTF-8 cannot be said in the contract.
            names.extend(one?.file_name().into_string());
        }
        names.sort_unstable();
        for name in names {
            if self.found.len() >= self.limit {
                return Ok(());
            }
            let path = format!("{prefix}{name}");
            let Ok(found) = directory.symlink_metadata(&name) else { continue };
            let is_directory = found.is_dir();
            if self.glob.is_match(&path) {
                self.found.push(entry(path.clone(), &found));
            }
            if is_directory && depth_left > 0 && path.len() < LONGEST_PATH {
                match directory.open_dir(&name) {
                    Ok(inner) => self.directory(&inner, &format!("{path}/"), depth_left - 1)?,
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_relative_paths_are_paths() {
        for path in ["", ".", "a", "a/b.c", "Content/Ä ö/x.uasset", "..a", ".git/config"] {
            assert!(checked_path(path).is_ok(), "{path}");
        }
        // Windows would leave the dots out.
        assert_eq!(checked_path("a../b").is_ok(), cfg!(unix));
        let long = "a/".repeat(3000) + "b";
        for path in [
            "/",
            "/etc",
            "..",
            "a/../b",
            "a/..",
            "a//b",
            "a/",
            "./a",
            "a/./b",
            "a\\b",
            "C:/x",
            "a:b",
            "a\0b",
            "a\nb",
            &long,
            &"n".repeat(256),
        ] {
            assert!(checked_path(path).is_err(), "{path}");
        }
    }

    /// Windows lets only administrators make links.
    #[cfg(unix)]
    #[test]
    fn links_are_found_and_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret.txt"), "x").unwrap();
        let inside = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(inside.path()).unwrap();
        workspace.directory.create_dir_all("a/b").unwrap();
        workspace.directory.write("a/b/x.txt", "x").unwrap();
        workspace.directory.symlink_contents(outside.path(), "out").unwrap();
        workspace.directory.symlink_contents(outside.path().join("secret.txt"), "a/link.txt").unwrap();
        let glob = GlobBuilder::new("**/*.txt").literal_separator(true).build().unwrap().compile_matcher();
        let mut walk = Walk { glob, cancel: CancellationToken::new(), limit: 10, visited: 0, found: Vec::new() };
        walk.directory(&workspace.directory, "", 5).unwrap();
        let found: Vec<_> = walk.found.iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
        assert_eq!(found, [("a/b/x.txt", EntryKind::File), ("a/link.txt", EntryKind::Link)]);
        assert!(open_regular(&workspace.directory, Path::new("a/link.txt")).is_err());
        assert!(open_regular(&workspace.directory, Path::new("out/secret.txt")).is_err());
        assert!(create(&workspace.directory, Path::new("a/link.txt"), false).is_err());
        assert!(create(&workspace.directory, Path::new("out/new.txt"), false).is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}
