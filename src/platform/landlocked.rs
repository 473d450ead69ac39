//! Linux's Landlock: the kernel keeps a program, and all that it starts, from files that it was not given, whoever it
//! runs as.
//!
//! Landlock knows only what is allowed. What is hidden is left out by allowing everything around it: a directory with
//! something hidden beneath is not allowed itself, its other entries are. Such a directory cannot be listed by the
//! program, and what is made in it later is out of its reach.

#![allow(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, LandlockStatus, RestrictSelf, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};

use super::confinement::{Confinement, Limits};

/// The rights that are known here. An older kernel holds to fewer of them.
const FILES: ABI = ABI::V5;
/// Signals and abstract sockets across the wall.
const SCOPES: ABI = ABI::V6;
/// Before this version no file can be moved from one directory into another, which every build does.
const OLDEST: u32 = 2;
/// What programs use of `/dev`; disks and memory are not among them, should the service be root.
const DEVICES: [&str; 13] =
    ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "dri", "nvidiactl", "nvidia0", "nvidia-modeset", "nvidia-uvm"];
/// Memory that programs share by name.
const SHARED: [&str; 2] = ["/dev/shm", "/dev/mqueue"];

/// What of root's powers is left behind the wall: those over files and over its own processes, which Landlock bounds.
/// The others reach around it, if only to read another process's memory for measuring it.
const POWERS: [libc::c_int; 10] = [
    0,  // CHOWN
    1,  // DAC_OVERRIDE
    3,  // FOWNER
    4,  // FSETID
    5,  // KILL
    6,  // SETGID
    7,  // SETUID
    8,  // SETPCAP
    10, // NET_BIND_SERVICE
    18, // SYS_CHROOT
];

/// A wall that is ready to be put up.
pub(super) enum Wall {
    Files(RulesetCreated),
    /// No programs with more rights than the one that starts them, and no more.
    Privileges(RestrictSelf),
}

pub(super) fn version() -> Option<u32> {
    let asked = RestrictSelf::default().no_new_privs(false).apply().ok()?;
    match asked.landlock {
        LandlockStatus::Available { effective_abi, .. } => Some(effective_abi as u32).filter(|version| *version >= OLDEST),
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => None,
    }
}

impl Wall {
    /// The one that these limits need. Opens every directory that is allowed: some hundred system calls.
    pub(super) fn of(limits: &Limits) -> io::Result<Option<Wall>> {
        match &limits.confinement {
            Some(confinement) => rules(confinement).map(|rules| Some(Wall::Files(rules))).map_err(io::Error::other),
            None => Ok(limits.account.as_ref().map(|_| Wall::Privileges(RestrictSelf::default()))),
        }
    }

    /// Shuts the calling thread in, between fork and exec: nothing here allocates.
    pub(super) fn shut(self) -> io::Result<()> {
        // Whoever is not root has none and may drop none.
        for power in (0..64).filter(|power| !POWERS.contains(power)) {
            // SAFETY: a system call on numbers; it changes what this process may have after exec.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, power, 0, 0, 0) };
        }
        let is_shut = match self {
            Wall::Files(rules) => rules.restrict_self().is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced),
            Wall::Privileges(wall) => wall.apply().is_ok(),
        };
        if is_shut { Ok(()) } else { Err(rustix::io::Errno::PERM.into()) }
    }
}

fn rules(confinement: &Confinement) -> Result<RulesetCreated, RulesetError> {
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let hidden: Vec<PathBuf> = confinement.hidden.iter().map(real).chain([PathBuf::from("/dev")]).collect();
    let mut readable = Vec::new();
    open_around(Path::new("/"), &hidden, &mut readable);
    let closed: Vec<PathBuf> = confinement.fixed.iter().map(real).chain(hidden).collect();
    let mut writable = Vec::new();
    for directory in confinement.writable.iter().filter_map(|directory| directory.canonicalize().ok()) {
        let beneath: Vec<PathBuf> = closed.iter().filter(|path| **path != directory && path.starts_with(&directory)).cloned().collect();
        open_around(&directory, &beneath, &mut writable);
    }
    let all = AccessFs::from_all(FILES);
    let devices = AccessFs::from_file(FILES) | AccessFs::ReadDir;
    Ruleset::default()
        .handle_access(all)?
        .scope(Scope::from_all(SCOPES))?
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(FILES)))?
        .add_rules(path_beneath_rules(DEVICES.map(|name| Path::new("/dev").join(name)), devices))?
        .add_rules(path_beneath_rules(writable.into_iter().chain(SHARED.map(PathBuf::from)), all))
}

/// The fewest places that hold all of `directory` but what is hidden.
fn open_around(directory: &Path, hidden: &[PathBuf], open: &mut Vec<PathBuf>) {
    if hidden.iter().any(|hidden| directory.starts_with(hidden)) {
        return;
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(directory)) {
        open.push(directory.to_owned());
        return;
    }
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        // What a link leads to is allowed, or not, where it lies.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            open_around(&entry.path(), hidden, open);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_the_hidden_is_open() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        for directory in ["a/b/secret/deep", "a/b/open", "a/c", "d"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        std::fs::write(root.join("a/key"), "x").unwrap();
        std::fs::write(root.join("a/file"), "x").unwrap();
        std::os::unix::fs::symlink(root.join("a/b/secret"), root.join("d/link")).unwrap();
        std::os::unix::fs::symlink(root.join("a/b/secret"), root.join("a/link")).unwrap();
        let mut open = Vec::new();
        open_around(root, &[root.join("a/b/secret"), root.join("a/key"), root.join("missing")], &mut open);
        open.sort();
        assert_eq!(open, ["a/b/open", "a/c", "a/file", "d"].map(|name| root.join(name)));
        let mut all = Vec::new();
        open_around(root, &[], &mut all);
        assert_eq!(all, [root]);
        let mut none = Vec::new();
        open_around(&root.join("a/b/secret/deep"), &[root.join("a/b/secret")], &mut none);
        assert!(none.is_empty());
    }
}
