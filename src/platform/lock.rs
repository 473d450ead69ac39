//! One server per data directory.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::{files, system};

/// Held as long as it lives; the operating system lets go when the process dies, however it dies.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why the lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error(
        "the data directory {} is in use by another Cookhouse{}; stop that one first, or choose another directory with --data",
        .directory.display(),
        .holder.map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    Held {
        /// Which directory.
        directory: PathBuf,
        /// Who, where it can be told.
        holder: Option<u32>,
    },
    /// The lock file cannot be used.
    #[error("cannot lock {}: {source}", .path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}

/// Takes the lock of a data directory, which has to exist. The holder's process number is written into `<directory>/lock`.
///
/// # Errors
/// [`LockError::Held`] at once when another process (or another place in this one) has it.
pub fn lock(directory: &Path) -> Result<Lock, LockError> {
    let path = directory.join("lock");
    let failed = |source| LockError::Io { path: path.clone(), source };
    let mut file = open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LockError::Held { directory: directory.to_owned(), holder: holder(&mut file) }),
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    // The file stays when the lock goes: removing it would let two processes lock two files of one name.
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .and_then(|()| file.flush())
        .map_err(failed)?;
    Ok(Lock { _file: file })
}

fn open(path: &Path) -> io::Result<File> {
    match files::create_private_file(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mut options = File::options();
            options.read(true).write(true);
            system::never_follow(&mut options);
            options.open(path)
        }
        result => result,
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_holds_it_and_the_next_may_have_it() {
        let home = tempfile::tempdir().unwrap();
        let first = lock(home.path()).unwrap();
        let error = lock(home.path()).unwrap_err();
        assert!(matches!(&error, LockError::Held { holder: Some(pid), .. } if *pid == std::process::id()), "{error}");
        assert!(error.to_string().contains("stop that one first"), "{error}");
        drop(first);
        drop(lock(home.path()).unwrap());
        // What a former holder left in the file does not matter.
        std::fs::write(home.path().join("lock"), "nonsense").unwrap();
        drop(lock(home.path()).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_place_of_the_lock_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let victim = home.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, home.path().join("lock")).unwrap();
        assert!(matches!(lock(home.path()).unwrap_err(), LockError::Io { .. }));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        assert!(lock(&home.path().join("missing")).is_err());
    }
}
