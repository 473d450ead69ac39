//! Files of a directory tree that somebody else wrote.

use std::fs::File;
use std::io;
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

/// Whether anybody may execute it. Windows has no such mark.
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
