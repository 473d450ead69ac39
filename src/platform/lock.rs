//! One server per data directory.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{files, system};

/// How long a dead server's fork may take to become the program that it was made for.
const PATIENCE_WITH_THE_DEAD: Duration = Duration::from_secs(5);

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
/// [`LockError::Held`] when another process (or another place in this one) has it; at once, unless that one is dead.
pub fn lock(directory: &Path) -> Result<Lock, LockError> {
    let path = directory.join("lock");
    let failed = |source| LockError::Io { path: path.clone(), source };
    let mut file = open(&path).map_err(failed)?;
    let patience = Instant::now() + PATIENCE_WITH_THE_DEAD;
    loop {
        match system::try_lock(&file) {
            Ok(()) => break,
            Err(TryLockError::Error(source)) => return Err(failed(source)),
            Err(TryLockError::WouldBlock) => {}
        }
        let holder = holder(&mut file);
        // A server that was killed while it started a program leaves a fork of itself that has not become that program
        // yet. Until it does, it shares the lock.
        if Instant::now() > patience || !holder.is_some_and(system::is_gone) {
            return Err(LockError::Held { directory: directory.to_owned(), holder });
        }
        std::thread::sleep(Duration::from_millis(10));
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
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_a_dead_server_s_fork_still_holds_is_waited_for() {
        use std::process::{Command, Stdio};
        let home = tempfile::tempdir().unwrap();
        let mut dead = Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let mut file = open(&home.path().join("lock")).unwrap();
        file.try_lock().unwrap();
        writeln!(file, "{}", dead.id()).unwrap();
        let mut fork = Command::new("sleep").arg("0.3").stdin(Stdio::from(file)).spawn().unwrap();
        lock(home.path()).unwrap();
        fork.wait().unwrap();
    }

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
