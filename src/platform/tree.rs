//! Files of a directory tree that somebody else wrote.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf, Prefix};

use cap_std::fs::{Dir, Metadata, OpenOptions};

/// What programs of Windows take.
const LONGEST_PLAIN: usize = 260;

/// Opens a file beneath `root` for reading. Links that lead out of it are refused, and nothing that is not a file is waited for.
pub fn open_beneath(root: &Dir, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt;
        // A pipe that took the file's place would keep the open waiting for a writer.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    root.open_with(path, &options).map(cap_std::fs::File::into_std)
}

/// Where a path really leads, as other programs take it: Windows answers in a form that most of them do not understand.
///
/// # Errors
/// What the file system says, such as that nothing is there.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize().map(plain)
}

fn plain(real: PathBuf) -> PathBuf {
    let mut parts = real.components();
    let Some(Component::Prefix(prefix)) = parts.next() else { return real };
    let mut text = match prefix.kind() {
        Prefix::VerbatimDisk(letter) => OsString::from(format!("{}:", char::from(letter))),
        Prefix::VerbatimUNC(server, share) => [OsStr::new(r"\\"), server, OsStr::new(r"\"), share].into_iter().collect(),
        _ => return real,
    };
    text.push(parts.as_path());
    // A longer one is understood in no other form.
    if text.len() < LONGEST_PLAIN { text.into() } else { real }
}

/// Lets what lies at a path of `root` be removed where a mark of its own forbids it: Windows keeps files that are
/// read-only, as git and p4 make them, from being removed. Links are not followed.
///
/// # Errors
/// What the file system says.
pub fn allow_removal(root: &Dir, path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        return Ok(());
    }
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        let found = root.symlink_metadata(&path)?;
        let mut permissions = found.permissions();
        if permissions.readonly() && !found.is_symlink() {
            permissions.set_readonly(false);
            root.set_permissions(&path, permissions)?;
        }
        if found.is_dir() {
            for entry in root.read_dir(&path)? {
                waiting.push(path.join(entry?.file_name()));
            }
        }
    }
    Ok(())
}

/// Whether anybody may execute it. Windows has no such mark: see [`is_program`].
pub fn is_executable(metadata: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use cap_std::fs::PermissionsExt;
        metadata.permissions().mode() & 0o111 != 0
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        false
    }
}

/// Whether a system that marks programs should mark this file of `root`. Where there are no such marks the contents
/// tell: a server for Linux that was built on Windows has to start on Linux.
pub fn is_program(root: &Dir, path: &Path, metadata: &Metadata) -> bool {
    if cfg!(unix) {
        return is_executable(metadata);
    }
    let mut begin = Vec::new();
    let read = open_beneath(root, path).and_then(|file| file.take(4).read_to_end(&mut begin));
    read.is_ok() && begins_as_program(&begin)
}

/// Programs of Linux and macOS, and scripts.
fn begins_as_program(begin: &[u8]) -> bool {
    const MACHO: [[u8; 4]; 3] = [[0xcf, 0xfa, 0xed, 0xfe], [0xce, 0xfa, 0xed, 0xfe], [0xca, 0xfe, 0xba, 0xbe]];
    begin.starts_with(b"\x7fELF") || begin.starts_with(b"#!") || MACHO.iter().any(|magic| begin == magic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_path_is_one_that_programs_take() {
        let home = tempfile::tempdir().unwrap();
        let real = real_path(home.path()).unwrap();
        assert!(real.is_dir() && !real.to_string_lossy().starts_with(r"\\?\"), "{}", real.display());
        assert!(real_path(&home.path().join("missing")).is_err());
        if cfg!(windows) {
            assert_eq!(plain(r"\\?\UNC\server\share\a\b".into()), PathBuf::from(r"\\server\share\a\b"));
            assert_eq!(plain(r"\\?\C:\a".into()), PathBuf::from(r"C:\a"));
        }
    }

    #[test]
    fn what_is_marked_read_only_can_be_removed() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("a/b")).unwrap();
        std::fs::write(home.path().join("a/b/file"), "x").unwrap();
        let mut permissions = home.path().join("a/b/file").metadata().unwrap().permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(home.path().join("a/b/file"), permissions).unwrap();
        let root = Dir::open_ambient_dir(home.path(), cap_std::ambient_authority()).unwrap();
        allow_removal(&root, Path::new("a")).unwrap();
        root.remove_dir_all("a").unwrap();
        assert!(allow_removal(&root, Path::new("a")).is_ok() == cfg!(unix), "there is nothing to look at any more");
    }

    #[test]
    fn programs_are_told_by_how_they_begin() {
        for (begin, expected) in
            [(&b"\x7fELF"[..], true), (b"#!/b", true), (b"\xcf\xfa\xed\xfe", true), (b"MZ\x90\0", false), (b"# co", false), (b"", false)]
        {
            assert_eq!(begins_as_program(begin), expected, "{begin:?}");
        }
    }
}
