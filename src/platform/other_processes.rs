//! Unix without Linux's `/proc` and control groups: the process group, and nothing that left it.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::process::{Pid, Signal};

use super::accounts::Account;
use super::confinement::Limits;
use super::process::ProcessIdentity;

/// There are none.
#[derive(Debug)]
pub(super) enum Cgroup {}

impl Cgroup {
    pub(super) fn door(&self) -> Option<File> {
        match *self {}
    }
    pub(super) fn kill(&self) {
        match *self {}
    }
    pub(super) fn remove(&self) {
        match *self {}
    }
}

/// There is none.
pub(super) enum Wall {}

impl Wall {
    pub(super) fn of(_limits: &Limits) -> io::Result<Option<Wall>> {
        Ok(None)
    }
    pub(super) fn shut(self) -> io::Result<()> {
        match self {}
    }
}

/// A blow to a group.
pub(super) struct Hunt(Option<Pid>);

impl Hunt {
    pub(super) fn for_tree(identity: &ProcessIdentity, _marker: &str) -> Hunt {
        Hunt(i32::try_from(identity.pid).ok().and_then(Pid::from_raw))
    }
    pub(super) fn round(&mut self) {
        if let Some(leader) = self.0 {
            let _ = rustix::process::kill_process_group(leader, Signal::KILL);
        }
    }
    pub(super) fn until_none_is_left(&mut self, _cgroup: Option<&Cgroup>) {
        self.round();
    }
}

pub(super) fn adopt_orphans() {}
pub(super) fn reap_orphans() {}
pub(super) fn unregister(_leader: Pid) {}

pub(super) fn start_registered<C>(start: impl FnOnce() -> io::Result<(C, Pid)>) -> io::Result<(C, Pid)> {
    start()
}

pub(super) fn identity_of(pid: Pid) -> ProcessIdentity {
    ProcessIdentity { pid: pid.as_raw_nonzero().get().unsigned_abs(), start_time: 0, boot_id: String::new() }
}

pub(super) fn group_runs(leader: Pid) -> bool {
    rustix::process::test_kill_process_group(leader).is_ok()
}

/// Without a start time a number proves nothing.
pub(super) fn is_running(_identity: &ProcessIdentity) -> bool {
    false
}

pub(super) fn end_marked(_prefix: &str) -> usize {
    0
}

pub(super) fn run_name() -> String {
    std::process::id().to_string()
}

pub(super) fn resident_memory() -> Option<u64> {
    None
}

pub(super) fn let_through(_directory: &Path, _account: &Account) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

pub(super) fn hand_over(_tree: &Path, _account: &Account) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
