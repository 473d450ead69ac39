//! Giving trees that others wrote in to somebody else, on Linux. Every step is taken from an open directory and looks at
//! what it opened, so that nothing that is exchanged meanwhile leads elsewhere.

use std::ffi::CString;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Uid, chownat, fchown, fstat, open, openat};
use rustix::io::Errno;

use super::accounts::Account;

/// Deeper than any path that can be written down. Each level holds a file open.
const DEEPEST: usize = 2100;

pub(super) fn let_through(directory: &Path, account: &Account) -> io::Result<()> {
    chownat(CWD, directory, None, Some(Gid::from_raw(account.group)), AtFlags::empty())?;
    fs::set_permissions(directory, Permissions::from_mode(0o710))
}

pub(super) fn hand_over(tree: &Path, account: &Account) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (user, group) = (Some(Uid::from_raw(account.user)), Some(Gid::from_raw(account.group)));
    let is_theirs = |about: &Stat| about.st_uid == account.user && about.st_gid == account.group;
    let take = |directory: OwnedFd| -> io::Result<(OwnedFd, Vec<CString>)> {
        if !is_theirs(&fstat(&directory)?) {
            fchown(&directory, user, group)?;
        }
        let names = names_in(&directory)?;
        Ok((directory, names))
    };
    let mut open_now = vec![take(open(tree, flags, Mode::empty())?)?];
    while let Some((directory, names)) = open_now.last_mut() {
        let Some(name) = names.pop() else {
            open_now.pop();
            continue;
        };
        let entry = match openat(&*directory, &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            entry => entry?,
        };
        let about = fstat(&entry)?;
        if FileType::from_raw_mode(about.st_mode) == FileType::Directory {
            if open_now.len() >= DEEPEST {
                return Err(io::Error::other("its directories are nested too deeply"));
            }
            let below = openat(&entry, c".", flags, Mode::empty())?;
            open_now.push(take(below)?);
        } else if !is_theirs(&about) && about.st_nlink <= 1 {
            // A file with several names may be one of the system's that somebody linked here.
            chownat(&entry, c"", user, group, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        }
    }
    Ok(())
}

fn names_in(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_owned();
        if name.as_bytes() != b"." && name.as_bytes() != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn a_tree_is_handed_over_and_nothing_that_links_lead_to() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("NOT TRIED: only root can give files away");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let (tree, outside) = (place.path().join("tree"), place.path().join("outside"));
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::create_dir(&outside).unwrap();
        for file in [tree.join("a/b/file"), outside.join("precious"), outside.join("linked")] {
            fs::write(file, "x").unwrap();
        }
        symlink(&outside, tree.join("a/directory")).unwrap();
        symlink(outside.join("precious"), tree.join("a/file")).unwrap();
        fs::hard_link(outside.join("linked"), tree.join("a/hard")).unwrap();
        let account = Account { name: "somebody".into(), user: 64_001, group: 64_002 };
        hand_over(&tree, &account).unwrap();
        let owner = |path: &Path| fs::symlink_metadata(path).map(|found| (found.uid(), found.gid())).unwrap();
        for theirs in ["", "a", "a/b", "a/b/file", "a/directory", "a/file"] {
            assert_eq!(owner(&tree.join(theirs)), (64_001, 64_002), "{theirs}");
        }
        for ours in [outside.clone(), outside.join("precious"), outside.join("linked")] {
            assert_eq!(owner(&ours).0, 0, "{}", ours.display());
        }
        assert!(hand_over(&tree.join("a/directory"), &account).is_err(), "not through a link");
        let_through(&outside, &account).unwrap();
        let found = fs::metadata(&outside).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (0, 64_002, 0o710));
    }
}
