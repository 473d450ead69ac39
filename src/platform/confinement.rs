//! What a program of other people may reach of this machine's files, where the operating system can hold it to that.

use std::path::PathBuf;

use super::accounts::Account;

/// What a program, and all that it starts, may do with files. Everything else it may read, not change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Directories that it may use as its own, with all that is beneath; those that are not there are left out.
    pub writable: Vec<PathBuf>,
    /// Directories that it may only read although one of `writable` holds them.
    pub fixed: Vec<PathBuf>,
    /// Files and directories that it may not even read, but for what of them is in `writable`.
    pub hidden: Vec<PathBuf>,
}

/// What holds a program back besides the rights of its account.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits {
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing else can hold a program to it yet"))]
    pub(super) confinement: Option<Confinement>,
    pub(super) account: Option<Account>,
}

/// How much confinement there is here: the version of Landlock's interface that the kernel speaks. Nothing where a
/// program cannot be confined.
pub fn landlock_version() -> Option<u32> {
    #[cfg(target_os = "linux")]
    return super::landlocked::version();
    #[cfg(not(target_os = "linux"))]
    None
}
