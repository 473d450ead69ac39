//! Files on disk where the operating systems differ: private ones, renames that never replace, syncing, free space.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::system;

/// Room on a filesystem, for a user without special rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// Makes the names in a directory durable: after creating, renaming or removing something in it.
/// Windows writes renames through by itself, and the rest as far as the file system lets it.
///
/// # Errors
/// When the directory cannot be opened or the disk fails. After a failed sync nothing in it may be believed.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    system::sync_directory(directory)
}

/// A new file that only this user may read and write. Never an existing one, never through a link.
///
/// # Errors
/// `AlreadyExists`, and what the filesystem says.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    system::create_private_file(path)
}

/// Takes a file that is there away from everybody but this user. On Windows from those whom nobody chose: the system,
/// administrators, and whom an administrator let in, may still read what is private.
///
/// # Errors
/// What the filesystem says.
pub fn make_private(path: &Path) -> io::Result<()> {
    system::make_private(path)
}

/// Lets this user start a file as a program. Windows goes by the name's end and needs nothing.
///
/// # Errors
/// What the filesystem says.
pub fn make_program(path: &Path) -> io::Result<()> {
    system::make_program(path)
}

/// Makes sure that `directory` is there and only this user may look into it; parents that are missing are made too.
/// One that exists gets its mode corrected.
///
/// # Errors
/// `NotADirectory` when something else is there, a link too; and what the filesystem says.
pub fn create_private_directory(directory: &Path) -> io::Result<()> {
    match fs::symlink_metadata(directory) {
        Ok(found) if found.is_dir() => system::restrict_directory(directory),
        Ok(_) => Err(io::Error::new(io::ErrorKind::NotADirectory, "something that is not a directory is in the way")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
                create_private_directory(parent)?;
            }
            match system::new_private_directory(directory) {
                // Made by another thread meanwhile.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => create_private_directory(directory),
                result => result,
            }
        }
        Err(error) => Err(error),
    }
}

/// Gives this user back what others took away: the right to look into and to empty `directory` and all directories in
/// it (on Windows, where such a mark keeps a file from being removed, also the right to write the files). Links are not followed.
///
/// # Errors
/// What the filesystem says.
pub fn open_directories(directory: &Path) -> io::Result<()> {
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        system::open_directory(&directory)?;
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Renames, but never over something: whoever comes second gets `AlreadyExists`. Durable after [`sync_directory`] of
/// both parents.
///
/// # Errors
/// `AlreadyExists`; `CrossesDevices` when the places are on different filesystems; and what the filesystem says.
pub fn rename_no_replace(from: &Path, to: &Path) -> io::Result<()> {
    system::rename_no_replace(from, to)
}

/// Renames; what was there before under the new name, if it is a file, is replaced in one step. Windows is given some
/// time: virus scanners hold new files for a moment, and it refuses to move what is held.
///
/// # Errors
/// What the filesystem says.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    system::rename(from, to)
}

/// Replaces a private file as a whole: a reader, or a crash, sees the old contents or the new, never a part.
/// Durable when it returns.
///
/// # Errors
/// What the filesystem says; the old file is then still there.
pub fn write_private_file_atomically(path: &Path, contents: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let (temporary, mut file) = new_neighbour(directory, name)?;
    let written = file.write_all(contents).and_then(|()| file.sync_all());
    drop(file);
    if let Err(error) = written.and_then(|()| rename(&temporary, path)) {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_directory(directory)
}

fn new_neighbour(directory: &Path, name: &std::ffi::OsStr) -> io::Result<(PathBuf, File)> {
    let mut random = [0u8; 8];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{:016x}.part", u64::from_be_bytes(random)));
    let temporary = directory.join(temporary);
    let file = create_private_file(&temporary)?;
    Ok((temporary, file))
}

/// How much room there is where `path` lies. `path` has to exist.
///
/// # Errors
/// What the operating system says.
pub fn free_space(path: &Path) -> io::Result<Space> {
    system::free_space(path)
}

/// What the files of a tree take on the disk, in bytes. Links count as themselves; what cannot be read, or goes away
/// meanwhile, counts nothing.
pub fn tree_size(directory: &Path) -> u64 {
    let mut size = 0;
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            size += system::size_on_disk(&metadata);
            if metadata.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    size
}

/// The disk, or this user's share of it, is full.
pub fn is_storage_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_rename_never_replaces() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::write(&from, "new").unwrap();
        fs::write(&to, "old").unwrap();
        assert_eq!(rename_no_replace(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&to).unwrap(), "old");
        fs::remove_file(&to).unwrap();
        rename_no_replace(&from, &to).unwrap();
        sync_directory(home.path()).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "new");
        assert_eq!(rename_no_replace(&from, &to).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn an_atomic_write_replaces_as_a_whole_and_leaves_no_part() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        write_private_file_atomically(&path, b"one").unwrap();
        write_private_file_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let in_the_way = home.path().join("directory");
        fs::create_dir(&in_the_way).unwrap();
        assert!(write_private_file_atomically(&in_the_way, b"x").is_err());
        assert_eq!(names_in(home.path()), ["directory", "key"]);
    }

    #[cfg(unix)]
    #[test]
    fn private_means_private_and_links_are_not_followed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        create_private_file(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        assert_eq!(create_private_file(&file).unwrap_err().kind(), io::ErrorKind::AlreadyExists);

        let (link, target) = (home.path().join("link"), home.path().join("target"));
        symlink(&target, &link).unwrap();
        assert!(create_private_file(&link).is_err());
        assert!(!target.exists());
        write_private_file_atomically(&link, b"x").unwrap();
        assert!(!target.exists() && fs::symlink_metadata(&link).unwrap().is_file());
        assert_eq!(mode(&link), 0o600);

        let deep = home.path().join("a/b");
        create_private_directory(&deep).unwrap();
        assert_eq!((mode(&deep), mode(&home.path().join("a"))), (0o700, 0o700));
        fs::set_permissions(&deep, fs::Permissions::from_mode(0o755)).unwrap();
        create_private_directory(&deep).unwrap();
        assert_eq!(mode(&deep), 0o700);
        let to_directory = home.path().join("to-directory");
        symlink(&deep, &to_directory).unwrap();
        assert_eq!(create_private_directory(&to_directory).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(create_private_directory(&file).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn tells_free_space_and_a_full_disk() {
        let home = tempfile::tempdir().unwrap();
        let space = free_space(home.path()).unwrap();
        assert!(space.total_bytes > 0 && space.free_bytes <= space.total_bytes);
        assert_eq!(free_space(&home.path().join("missing")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(is_storage_full(&io::Error::from(io::ErrorKind::StorageFull)));
        assert!(!is_storage_full(&io::Error::from(io::ErrorKind::PermissionDenied)));
        #[cfg(target_os = "linux")]
        {
            let mut full = File::options().write(true).open("/dev/full").unwrap();
            assert!(is_storage_full(&full.write_all(b"x").unwrap_err()));
        }
    }
}
