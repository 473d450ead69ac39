//! A real file system that is really full: a small tmpfs.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A mounted file system of a few MiB; unmounted when dropped.
pub(crate) struct SmallDisk {
    directory: TempDir,
}

impl SmallDisk {
    /// Mounts one. `None` where this user may not mount: only then may a test leave early.
    pub(crate) fn mount(mebibytes: u32) -> Option<SmallDisk> {
        SmallDisk::mount_kibibytes(u64::from(mebibytes) << 10)
    }

    /// The same, to the kibibyte.
    pub(crate) fn mount_kibibytes(kibibytes: u64) -> Option<SmallDisk> {
        let directory = tempfile::tempdir().expect("a directory");
        let size = format!("size={kibibytes}k");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk { directory }),
            _ => {
                eprintln!("left out: only root may mount a small disk");
                None
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Gives it another size, with everything on it and in use.
    pub(crate) fn resize_kibibytes(&self, kibibytes: u64) {
        let options = format!("remount,size={kibibytes}k");
        let status = Command::new("mount").args(["-o", &options]).arg(self.path()).status().expect("mount starts");
        assert!(status.success(), "the disk keeps its size");
    }

    /// Kibibytes that are taken.
    pub(crate) fn used_kibibytes(&self) -> u64 {
        let space = cookhouse::platform::files::free_space(self.path()).expect("its space");
        (space.total_bytes - space.free_bytes) >> 10
    }

    /// Takes all space that is left; give it back by removing the file.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.path().join("filler");
        let mut file = File::create(&path).expect("a file");
        for size in [1 << 16, 1 << 12, 1] {
            while file.write_all(&vec![7; size]).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.directory.path()).status();
    }
}
