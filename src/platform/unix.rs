//! The Unix half: sessions, signals, modes. Linux finds escaped processes through control groups and `/proc`; on
//! other Unix systems the process group is all there is.
#![allow(unsafe_code)]

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Once;

use rustix::process::{Pid, Resource, Rlimit, Signal};

use super::accounts::Account;
use super::confinement::Limits;
use super::files::Space;
use super::process::ProcessIdentity;

#[cfg(target_os = "linux")]
use super::cgroup::Cgroup;
#[cfg(target_os = "linux")]
use super::landlocked::Wall;
#[cfg(target_os = "linux")]
use super::linux_processes as processes;
#[cfg(not(target_os = "linux"))]
use super::other_processes::{self as processes, Cgroup, Wall};

/// What a child started, as far as the operating system tells.
#[derive(Debug)]
pub(super) struct Tree {
    identity: ProcessIdentity,
    leader: Pid,
    marker: String,
    cgroup: Option<Cgroup>,
}

impl Tree {
    /// Starts the command as the leader of a session of its own.
    pub(super) fn start(command: tokio::process::Command, marker: String, limits: Limits) -> io::Result<(tokio::process::Child, Tree)> {
        let wall = Wall::of(&limits)?;
        #[cfg(target_os = "linux")]
        let cage = Cgroup::create(&marker);
        #[cfg(not(target_os = "linux"))]
        let cage = None;
        Tree::start_in(cage, command, marker, wall, limits.account.as_ref())
    }

    fn start_in(
        cgroup: Option<Cgroup>,
        mut command: tokio::process::Command,
        marker: String,
        mut wall: Option<Wall>,
        account: Option<&Account>,
    ) -> io::Result<(tokio::process::Child, Tree)> {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            close_inherited_files_on_exec();
            processes::adopt_orphans();
        });
        let door = cgroup.as_ref().and_then(Cgroup::door);
        if let Some(account) = account {
            // Also leaves every further group of ours. Control groups go by who opened the door, so it may still go through.
            command.uid(account.user).gid(account.group);
        }
        // SAFETY: between fork and exec only system calls are made, on values that were prepared before; nothing
        // allocates, locks or unwinds.
        unsafe {
            command.pre_exec(move || {
                if let Some(door) = &door {
                    // "0" means the writer. Without this the process is still found by its marker.
                    let _ = rustix::io::write(door, b"0");
                }
                // A new session has no controlling terminal, and its first process group is ours to signal.
                rustix::process::setsid()?;
                // The same modes whoever starts the service; the workspace above is private.
                rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
                // A crashed editor's core is tens of gigabytes, and holds the environment's secrets.
                let _ = rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
                // Last: behind it nothing of the above could be opened any more.
                if let Some(wall) = wall.take() {
                    wall.shut()?;
                }
                Ok(())
            });
        }
        let started = processes::start_registered(|| {
            let child = command.spawn()?;
            let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
            let pid = pid.ok_or_else(|| io::Error::other("the process has no number"))?;
            Ok((child, pid))
        });
        match started {
            Ok((child, leader)) => Ok((child, Tree { identity: processes::identity_of(leader), leader, marker, cgroup })),
            Err(error) => {
                if let Some(cgroup) = &cgroup {
                    cgroup.remove();
                }
                Err(error)
            }
        }
    }

    pub(super) fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// Only while the leader has not been waited for: its number may be another's afterwards.
    pub(super) fn ask_to_stop(&self) -> bool {
        rustix::process::kill_process_group(self.leader, Signal::TERM).is_ok()
    }

    /// The leader or another of its group is still there.
    pub(super) fn has_group(&self) -> bool {
        processes::group_runs(self.leader)
    }

    /// One blow to everything that can be found now.
    pub(super) fn kill_once(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        processes::Hunt::for_tree(&self.identity, &self.marker).round();
    }

    /// Returns when nothing of the tree is left, or when what is left does not die (a broken disk or driver).
    pub(super) fn kill_all(&self) {
        processes::Hunt::for_tree(&self.identity, &self.marker).until_none_is_left(self.cgroup.as_ref());
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove();
        }
    }

    /// The leader has been waited for.
    pub(super) fn forget(&self) {
        processes::unregister(self.leader);
    }
}

#[cfg(target_os = "linux")]
pub(super) use super::handing_over::{hand_over, let_through};
#[cfg(not(target_os = "linux"))]
pub(super) use super::other_processes::{hand_over, let_through};

pub(super) fn enter(directory: &Path, account: &Account) -> io::Result<()> {
    use std::os::unix::process::CommandExt;
    // The working directory is changed as the account already.
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", "exit 0"]).env_clear().current_dir(directory).uid(account.user).gid(account.group);
    command.stdin(std::process::Stdio::null()).status().map(|_| ())
}

pub(super) fn expect_start() {
    #[cfg(target_os = "linux")]
    super::cgroup::expect_move();
}

/// Who is root elsewhere could not hand workspaces over.
pub(super) fn may_act_as_others() -> bool {
    cfg!(target_os = "linux") && rustix::process::geteuid().is_root()
}

pub(super) use processes::{end_marked, is_running, reap_orphans, resident_memory, run_name};

pub(super) fn signal_of(status: std::process::ExitStatus) -> Option<i32> {
    status.signal()
}

/// Files that whoever started the service left open would stay open in every build. Our own are opened close-on-exec.
fn close_inherited_files_on_exec() {
    let Ok(entries) = std::fs::read_dir("/dev/fd") else { return };
    let numbers: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // SAFETY: the number is used for one fcntl that changes no ownership; if the file was closed meanwhile the call
        // fails, and if the number was reused the flag is the one every file of ours has anyway.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = rustix::io::fcntl_setfd(file, rustix::io::FdFlags::CLOEXEC);
    }
}

/// No process has this number.
pub(super) fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

pub(super) fn make_private(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o600))
}

pub(super) fn make_program(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

pub(super) fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600);
    never_follow(&mut options);
    options.open(path)
}

pub(super) fn never_follow(options: &mut OpenOptions) {
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
}

pub(super) fn new_private_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(directory)
}

pub(super) fn restrict_directory(directory: &Path) -> io::Result<()> {
    if fs::metadata(directory)?.permissions().mode() & 0o7777 == 0o700 {
        return Ok(());
    }
    fs::set_permissions(directory, Permissions::from_mode(0o700))
}

pub(super) fn open_directory(directory: &Path) -> io::Result<()> {
    restrict_directory(directory)
}

pub(super) fn try_lock(file: &File) -> Result<(), fs::TryLockError> {
    file.try_lock()
}

pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

pub(super) fn rename_no_replace(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Filesystems without the flag: a hard link does not replace either. Directories cannot be linked, and get the error.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        result => Ok(result?),
    }
}

pub(super) fn size_on_disk(metadata: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.blocks().saturating_mul(512)
}

pub(super) fn free_space(path: &Path) -> io::Result<Space> {
    let found = rustix::fs::statvfs(path)?;
    Ok(Space { free_bytes: found.f_bavail.saturating_mul(found.f_frsize), total_bytes: found.f_blocks.saturating_mul(found.f_frsize) })
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::process::Stdio;

    fn lines_naming(path: &Path) -> usize {
        let path = path.to_str().unwrap();
        let entries = fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
        entries.filter(|line| String::from_utf8_lossy(line).contains(path)).count()
    }

    /// The search alone, as on a machine whose control groups are not ours: with a marker, and with a wiped environment.
    #[tokio::test]
    async fn without_control_groups_daemons_are_found_all_the_same() {
        for daemon in ["setsid tail -f", "env -i PATH=/usr/bin:/bin setsid tail -f", "env -i PATH=/usr/bin:/bin tail -f"] {
            let home = tempfile::tempdir().unwrap();
            let followed = home.path().join("followed");
            fs::write(&followed, "").unwrap();
            let mut command = tokio::process::Command::new("/bin/sh");
            let script = format!("for i in 1 2 3 4 5 6 7 8 9 10; do ( {daemon} {} >/dev/null 2>&1 & ); done", followed.display());
            command
                .args(["-c", &script])
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .env(super::super::process::MARKER_VARIABLE, "unit#0.0.0");
            command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
            let (mut child, tree) = Tree::start_in(None, command, "unit#0.0.0".to_owned(), None, None).unwrap();
            assert!(child.wait().await.unwrap().success());
            while lines_naming(&followed) < 10 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            tree.kill_all();
            tree.forget();
            assert_eq!(lines_naming(&followed), 0, "{daemon}");
        }
    }

    #[test]
    fn files_left_open_by_who_started_us_are_not_passed_on() {
        let file = rustix::io::dup(File::open("/dev/null").unwrap()).unwrap();
        assert!(!rustix::io::fcntl_getfd(&file).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        close_inherited_files_on_exec();
        assert!(rustix::io::fcntl_getfd(&file).unwrap().contains(rustix::io::FdFlags::CLOEXEC), "{}", file.as_raw_fd());
    }
}
