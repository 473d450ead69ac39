//! The service's own log as a file, for whoever has no standard error: a service of Windows.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::platform::files;

/// A file that is followed by a new one when it is full; one former file is kept beside it.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    limit: u64,
    file: File,
    written: u64,
}

impl LogFile {
    /// Goes on in the file, or makes it. `limit` is in bytes.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn open(path: &Path, limit: u64) -> io::Result<LogFile> {
        let file = open(path)?;
        let written = file.metadata()?.len();
        Ok(LogFile { path: path.to_owned(), limit, file, written })
    }

    fn turn(&mut self) -> io::Result<()> {
        let mut former = self.path.clone().into_os_string();
        former.push(".1");
        files::rename(&self.path, Path::new(&former))?;
        self.file = open(&self.path)?;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    match files::create_private_file(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => File::options().append(true).open(path),
        made => made,
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.written >= self.limit {
            // Where that fails, a line is worth more than the limit; it is tried again after as much more.
            let _ = self.turn();
            self.written = 0;
        }
        let count = self.file.write(line)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_makes_way_and_the_last_one_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("service.log");
        for part in ["one\ntwo\n", "three\nfour\nfive\n"] {
            // A restart goes on where the last run ended.
            let mut file = LogFile::open(&path, 12).unwrap();
            for line in part.split_inclusive('\n') {
                file.write_all(line.as_bytes()).unwrap();
            }
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "four\nfive\n");
        assert_eq!(std::fs::read_to_string(home.path().join("service.log.1")).unwrap(), "one\ntwo\nthree\n");
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 2);
    }
}
