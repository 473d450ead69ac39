//! Files on Windows: names that are written through, locks that let others read, long paths.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::{Component, Path, PathBuf, Prefix};
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, ERROR_SHARING_VIOLATION, ERROR_USER_MAPPED_FILE, GENERIC_WRITE,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, GetDiskFreeSpaceExW, LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY,
    LockFileEx, MOVE_FILE_FLAGS, MOVEFILE_REPLACE_EXISTING, MOVEFILE_WRITE_THROUGH, MoveFileExW,
};
use windows_sys::Win32::System::IO::OVERLAPPED;

use super::files::Space;

/// From this length on (a directory may have twelve letters less than a file) Windows wants a path in its verbatim form.
const LONG: usize = 240;
/// Virus scanners and search indexers open new files for a moment, and what is open cannot be renamed.
const PATIENCE_WITH_SCANNERS: Duration = Duration::from_secs(3);

/// The name as the calls of the system take it, ended by a zero.
pub(super) fn wide(path: &Path) -> io::Result<Vec<u16>> {
    let mut units: Vec<u16> = verbatim_if_long(path)?.encode_wide().collect();
    if units.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a path with a zero character"));
    }
    units.push(0);
    Ok(units)
}

fn verbatim_if_long(path: &Path) -> io::Result<OsString> {
    if path.as_os_str().len() < LONG {
        return Ok(path.as_os_str().to_owned());
    }
    let full = std::path::absolute(path)?;
    let Some(Component::Prefix(prefix)) = full.components().next() else { return Ok(full.into_os_string()) };
    let mut long = match prefix.kind() {
        Prefix::Disk(letter) => OsString::from(format!(r"\\?\{}:", char::from(letter))),
        Prefix::UNC(server, share) => {
            let mut text = OsString::from(r"\\?\UNC\");
            text.push(server);
            text.push(r"\");
            text.push(share);
            text
        }
        _ => return Ok(full.into_os_string()),
    };
    let below: PathBuf = full.components().skip(1).collect();
    long.push(below);
    Ok(long)
}

fn move_file(from: &Path, to: &Path, flags: MOVE_FILE_FLAGS) -> io::Result<()> {
    let (from, to) = (wide(from)?, wide(to)?);
    // SAFETY: both are texts that end with a zero.
    match unsafe { MoveFileExW(from.as_ptr(), to.as_ptr(), flags | MOVEFILE_WRITE_THROUGH) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Tries again while somebody has the file open who will soon be gone.
fn patiently(mut attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let start = Instant::now();
    loop {
        let result = attempt();
        let code = result.as_ref().err().and_then(io::Error::raw_os_error).map(i32::cast_unsigned);
        let may_pass = matches!(code, Some(ERROR_ACCESS_DENIED | ERROR_SHARING_VIOLATION | ERROR_LOCK_VIOLATION | ERROR_USER_MAPPED_FILE));
        if !may_pass || start.elapsed() > PATIENCE_WITH_SCANNERS {
            return result;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(super) fn rename_no_replace(from: &Path, to: &Path) -> io::Result<()> {
    patiently(|| {
        move_file(from, to, 0).map_err(|error| match error.kind() {
            // What Windows says of a directory that is in the way.
            io::ErrorKind::PermissionDenied if to.symlink_metadata().is_ok() => io::ErrorKind::AlreadyExists.into(),
            _ => error,
        })
    })
}

pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    if to.symlink_metadata().is_ok_and(|found| found.is_file() && found.permissions().readonly()) {
        // A file with this mark cannot be replaced.
        allow_writing(to)?;
    }
    // A file that others read is replaced by the library's way only, which does not write through.
    let attempt = || move_file(from, to, MOVEFILE_REPLACE_EXISTING).or_else(|_| std::fs::rename(from, to));
    // A directory is never replaced by a file: waiting would not change it.
    if to.is_dir() { attempt() } else { patiently(attempt) }
}

#[allow(clippy::permissions_set_readonly_false, reason = "on Windows this is one mark of the file, not everybody's right to write")]
fn allow_writing(path: &Path) -> io::Result<()> {
    let mut permissions = path.symlink_metadata()?.permissions();
    if permissions.readonly() {
        permissions.set_readonly(false);
        std::fs::set_permissions(path, permissions)?;
    }
    Ok(())
}

/// What git and p4 mark as read-only may be removed again; what directories hold is everybody's who has the workspace.
pub(super) fn open_directory(directory: &Path) -> io::Result<()> {
    allow_writing(directory)?;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            allow_writing(&entry.path())?;
        }
    }
    Ok(())
}

/// Renames are written through by the calls that make them. For new and removed names a flush of the directory is all
/// there is; file systems that know no such thing refuse it, and cannot do better.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    let opened = File::options().access_mode(GENERIC_WRITE).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(directory);
    match opened.and_then(|directory| directory.sync_all()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound || super::files::is_storage_full(&error) => Err(error),
        _ => Ok(()),
    }
}

/// A link is opened itself, and what it leads to is left alone.
pub(super) fn never_follow(options: &mut OpenOptions) {
    options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
}

/// Locks a byte far behind the contents: Windows keeps everybody from reading what is locked, and the next one is to
/// read who holds it.
pub(super) fn try_lock(file: &File) -> Result<(), TryLockError> {
    let mut place = OVERLAPPED::default();
    place.Anonymous.Anonymous.OffsetHigh = 1 << 30;
    // SAFETY: the handle is open for the length of the call, which does not wait, so the place may end with it.
    let taken = unsafe { LockFileEx(file.as_raw_handle(), LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &raw mut place) };
    if taken != 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error().map(i32::cast_unsigned) {
        Some(ERROR_LOCK_VIOLATION | ERROR_IO_PENDING) => Err(TryLockError::WouldBlock),
        _ => Err(TryLockError::Error(error)),
    }
}

pub(super) fn size_on_disk(metadata: &std::fs::Metadata) -> u64 {
    metadata.len()
}

pub(super) fn free_space(path: &Path) -> io::Result<Space> {
    // The call wants a directory.
    let directory = if path.metadata()?.is_dir() { path } else { path.parent().unwrap_or(path) };
    let directory = wide(directory)?;
    let (mut free_bytes, mut total_bytes) = (0, 0);
    // SAFETY: a text that ends with a zero, and two places for the numbers.
    let answered = unsafe { GetDiskFreeSpaceExW(directory.as_ptr(), &raw mut free_bytes, &raw mut total_bytes, std::ptr::null_mut()) };
    if answered == 0 { Err(io::Error::last_os_error()) } else { Ok(Space { free_bytes, total_bytes }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_are_written_so_that_windows_takes_them() {
        let long = format!(r"C:\{}\x", "directory\\".repeat(40));
        assert_eq!(verbatim_if_long(Path::new(&long)).unwrap(), OsString::from(format!(r"\\?\{}", long.replace(r"\\", r"\"))));
        let share = format!(r"\\server\share\{}x", "directory/".repeat(40));
        let verbatim = verbatim_if_long(Path::new(&share)).unwrap().into_string().unwrap();
        assert!(verbatim.starts_with(r"\\?\UNC\server\share\directory\directory\"), "{verbatim}");
        assert_eq!(verbatim_if_long(Path::new(r"C:\short")).unwrap(), r"C:\short");

        let home = tempfile::tempdir().unwrap();
        let mut deep = home.path().to_owned();
        for _ in 0..30 {
            deep.push("a-directory");
        }
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("from"), "x").unwrap();
        rename_no_replace(&deep.join("from"), &deep.join("to")).unwrap();
        assert!(free_space(&deep).unwrap().total_bytes > 0);
    }

    #[test]
    fn read_only_files_are_replaced_and_their_directories_can_be_removed() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        for path in [&from, &to] {
            std::fs::write(path, path.to_string_lossy().as_bytes()).unwrap();
            let mut permissions = path.metadata().unwrap().permissions();
            permissions.set_readonly(true);
            std::fs::set_permissions(path, permissions).unwrap();
        }
        rename(&from, &to).unwrap();
        assert_eq!(std::fs::read_to_string(&to).unwrap(), from.to_string_lossy());
        super::super::files::open_directories(home.path()).unwrap();
        std::fs::remove_dir_all(home.path()).unwrap();
        std::fs::create_dir(home.path()).unwrap();
    }
}
