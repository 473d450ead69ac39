//! Files and directories: what the standard library does not promise on every system.

use std::io;
use std::path::Path;

/// Makes the names inside a directory durable: after a rename or a new file, before anybody is told of it.
///
/// Windows has no such call; there the file system's own journal keeps names.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { std::fs::File::open(directory)?.sync_all() } else { Ok(()) }
}

/// Lets only the service's own user read and write a file.
pub fn make_private(file: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600))?;
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

/// Makes a file that only the service's own user can read; refuses one that exists, also a dangling link.
pub fn create_private_file(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}
