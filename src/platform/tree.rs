//! Files of a directory tree that somebody else wrote.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use cap_std::fs::{Dir, Metadata, OpenOptions};

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
    fn programs_are_told_by_how_they_begin() {
        for (begin, expected) in
            [(&b"\x7fELF"[..], true), (b"#!/b", true), (b"\xcf\xfa\xed\xfe", true), (b"MZ\x90\0", false), (b"# co", false), (b"", false)]
        {
            assert_eq!(begins_as_program(begin), expected, "{begin:?}");
        }
    }
}
