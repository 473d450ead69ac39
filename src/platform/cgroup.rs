//! Linux control groups, version 2: the one cage that a process cannot leave by forking, whatever it does to its
//! environment, session and parents. Used where a writable hierarchy exists (systemd with `Delegate=yes`, a container
//! that was given one, root); elsewhere the search in `linux_processes` does the work alone.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use super::linux_processes::{file_name_of, is_of_running_service, marker_in};

const PREFIX: &str = "cookhouse-";

/// One control group with the processes of one command.
#[derive(Debug)]
pub(super) struct Cgroup {
    directory: PathBuf,
}

impl Cgroup {
    /// An empty one, or nothing where control groups cannot be used.
    pub(super) fn create(marker: &str) -> Option<Cgroup> {
        let directory = parent()?.join(format!("{PREFIX}{}", file_name_of(marker)));
        match fs::create_dir(&directory) {
            Ok(()) => Some(Cgroup { directory }),
            Err(error) => {
                tracing::debug!(%error, "no control group for this process");
                None
            }
        }
    }

    /// Writing "0" here moves the writer in.
    pub(super) fn door(&self) -> Option<File> {
        OpenOptions::new().write(true).open(self.directory.join("cgroup.procs")).ok()
    }

    /// SIGKILL to every member at once; forks cannot outrun it.
    pub(super) fn kill(&self) {
        let _ = fs::write(self.directory.join("cgroup.kill"), "1");
    }

    /// Some process, if only a dying one, is in it.
    pub(super) fn is_populated(&self) -> bool {
        fs::read_to_string(self.directory.join("cgroup.events")).is_ok_and(|events| events.lines().any(|line| line.trim() == "populated 1"))
    }

    /// Members that are running.
    pub(super) fn size(&self) -> usize {
        let mut count = fs::read_to_string(self.directory.join("cgroup.procs")).map_or(0, |list| list.lines().count());
        // A build may have made groups of its own below.
        for group in below(&self.directory) {
            count += Cgroup { directory: group }.size();
        }
        count
    }

    /// Removes the empty group. A member that is still being torn down makes this wait a moment; a group that stays is
    /// swept by `end_marked` at the next start.
    pub(super) fn remove(&self) {
        for _ in 0..50 {
            if remove_all(&self.directory) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        tracing::warn!(group = %self.directory.display(), "a control group cannot be removed");
    }
}

fn remove_all(directory: &Path) -> bool {
    for group in below(directory) {
        remove_all(&group);
    }
    match fs::remove_dir(directory) {
        Ok(()) => true,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn below(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// A process will be moved into a group in a moment. The kernel lets that wait, for some ten milliseconds, until every
/// processor knows that groups are being changed, unless one was changed just before. Moving ourselves to where we are is
/// such a change and alters nothing: the wait is over by the time that the build is prepared.
pub(super) fn expect_move() {
    let door = parent().and_then(|parent| OpenOptions::new().write(true).open(parent.join("cgroup.procs")).ok());
    // Where it is refused, the move itself takes as long as it takes.
    let _ = door.map(|mut door| door.write_all(b"0"));
}

/// Groups whose marker is wanted.
pub(super) fn left_behind(is_wanted: &dyn Fn(&str) -> bool) -> Vec<Cgroup> {
    let Some(entries) = parent().and_then(|parent| fs::read_dir(parent).ok()) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| {
            let name = entry.file_name();
            name.to_str()
                .and_then(|name| name.strip_prefix(PREFIX))
                .and_then(|rest| marker_in(rest.as_ref()))
                .is_some_and(|marker| is_wanted(&marker))
        })
        .map(|entry| Cgroup { directory: entry.path() })
        .collect()
}

/// The group that this service itself is in, if groups can be made and killed below it.
fn parent() -> Option<&'static Path> {
    static PARENT: OnceLock<Option<PathBuf>> = OnceLock::new();
    PARENT.get_or_init(find_parent).as_deref()
}

fn find_parent() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let parent = mounts.lines().find_map(|line| directory_in(line, own))?;
    // The kernel may be too old for cgroup.kill, or the hierarchy be another's.
    let probe = parent.join(format!("{PREFIX}probe-{}", std::process::id()));
    fs::create_dir(&probe).ok()?;
    let is_usable = probe.join("cgroup.kill").exists() && OpenOptions::new().write(true).open(probe.join("cgroup.procs")).is_ok();
    let _ = fs::remove_dir(&probe);
    if is_usable {
        remove_forgotten(&parent);
    }
    is_usable.then_some(parent)
}

/// A run that ended in a hurry leaves empty groups. One that still has members is not removable, and is `end_marked`'s.
fn remove_forgotten(parent: &Path) {
    for group in below(parent) {
        let name = group.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_prefix(PREFIX));
        if name.and_then(|rest| marker_in(rest.as_ref())).is_some_and(|marker| !is_of_running_service(&marker)) {
            let _ = fs::remove_dir(&group);
        }
    }
}

/// Where `group` lies if this line of mountinfo is a version 2 hierarchy that shows it.
fn directory_in(mount: &str, group: &str) -> Option<PathBuf> {
    let (place, kind) = mount.split_once(" - ")?;
    if kind.split(' ').next() != Some("cgroup2") {
        return None;
    }
    let mut fields = place.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let below = if root == "/" { group } else { group.strip_prefix(root)? };
    let directory = Path::new(point).join(below.trim_start_matches('/'));
    (!below.split('/').any(|part| part == "..") && directory.is_dir()).then_some(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_directory_of_a_group_in_mountinfo() {
        let here = std::env::temp_dir();
        let here = here.to_str().unwrap().trim_end_matches('/');
        let (point, group) = here.rsplit_once('/').unwrap();
        let line = |root: &str, kind: &str| format!("35 24 0:30 {root} {point}/ rw,nosuid shared:9 - {kind} cgroup2 rw");
        let group = format!("/{group}");
        assert_eq!(directory_in(&line("/", "cgroup2"), &group), Some(PathBuf::from(here)));
        assert_eq!(directory_in(&line("/slice", "cgroup2"), &format!("/slice{group}")), Some(PathBuf::from(here)));
        assert_eq!(directory_in(&line("/other", "cgroup2"), &group), None);
        assert_eq!(directory_in(&line("/", "cgroup"), &group), None);
        assert_eq!(directory_in(&line("/", "cgroup2"), "/../.."), None);
        assert_eq!(directory_in("nonsense", &group), None);
    }
}
