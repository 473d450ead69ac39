//! Linux: which processes belong to a command, and ending them all.
//!
//! A process belongs to a command when it carries the command's marker in its environment, when it descends from one
//! that does, or when it shares a session with one that did. What turned its back on its parent is handed to us, the
//! subreaper. Every signal goes through a pidfd whose process was looked at again after the pidfd was open, so that
//! none reaches a stranger that got a freed number.
//!
//! Who is whose child: every command of ours leads a session of its own. So a child of this process in another session
//! that is not in the register of direct children is an orphan of some command, and only those are reaped here: the
//! direct ones are tokio's to wait for, and children that other code started share our session.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::cgroup::{self, Cgroup};
use super::process::{MARKER_VARIABLE, ProcessIdentity};

/// A process that ignores SIGKILL this long hangs in the kernel; we go on without it.
const PATIENCE: Duration = Duration::from_secs(20);

/// One process as `/proc/<pid>/stat` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    is_dead: bool,
    start_time: u64,
}

fn read(pid: i32) -> Option<Process> {
    parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in parentheses may itself hold anything, parentheses too: fields are counted from the last one.
fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        is_dead: matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

fn everything() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(read).collect()
}

fn marker_of(pid: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let variable = environment.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(MARKER_VARIABLE.as_bytes())?;
        value.strip_prefix(b"=")
    })?;
    Some(String::from_utf8_lossy(variable).into_owned())
}

fn boot_id() -> String {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()).clone()
}

pub(super) fn identity_of(pid: Pid) -> ProcessIdentity {
    let pid = pid.as_raw_nonzero().get();
    ProcessIdentity { pid: pid.unsigned_abs(), start_time: read(pid).map_or(0, |process| process.start_time), boot_id: boot_id() }
}

pub(super) fn is_running(identity: &ProcessIdentity) -> bool {
    identity.boot_id == boot_id()
        && i32::try_from(identity.pid)
            .ok()
            .and_then(read)
            .is_some_and(|process| process.start_time == identity.start_time && !process.is_dead)
}

/// This run of the service, as the end of every marker tells it.
pub(super) fn run_name() -> String {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let pid = std::process::id();
        let start = i32::try_from(pid).ok().and_then(read).map_or(0, |process| process.start_time);
        format!("{pid}.{start}")
    })
    .clone()
}

/// The run of the service that made this marker still runs; true as well for what is no marker of ours.
pub(super) fn is_of_running_service(marker: &str) -> bool {
    let Some((_, run)) = marker.rsplit_once('#') else { return true };
    let mut parts = run.split('.').map(str::parse::<u64>);
    let (Some(Ok(pid)), Some(Ok(start_time))) = (parts.next(), parts.next()) else { return true };
    i32::try_from(pid).ok().and_then(read).is_some_and(|process| process.start_time == start_time)
}

pub(super) fn resident_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes: u64 = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_ascii_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Someone in the process group is still running.
pub(super) fn group_runs(leader: Pid) -> bool {
    let group = leader.as_raw_nonzero().get();
    rustix::process::test_kill_process_group(leader).is_ok()
        && everything().iter().any(|process| process.group == group && !process.is_dead)
}

/// Direct children that tokio waits for.
fn register() -> MutexGuard<'static, BTreeSet<i32>> {
    static REGISTER: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
    REGISTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `start` with the register held: a child is never seen before it is known.
pub(super) fn start_registered<C>(start: impl FnOnce() -> io::Result<(C, Pid)>) -> io::Result<(C, Pid)> {
    let mut register = register();
    let (child, pid) = start()?;
    register.insert(pid.as_raw_nonzero().get());
    Ok((child, pid))
}

pub(super) fn unregister(leader: Pid) {
    register().remove(&leader.as_raw_nonzero().get());
}

/// From now on processes that lose their parent below us become our children.
pub(super) fn adopt_orphans() {
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "cannot adopt orphaned processes; those without a marker will not be found");
    }
}

/// Collects ended orphans.
pub(super) fn reap_orphans() {
    reap(&everything());
}

fn reap(processes: &[Process]) {
    let register = register();
    for process in processes.iter().filter(|process| process.is_dead && is_orphan(process, &register)) {
        if let Some(pid) = Pid::from_raw(process.pid) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

fn is_orphan(process: &Process, register: &BTreeSet<i32>) -> bool {
    let Ok(own) = i32::try_from(std::process::id()) else { return false };
    // Not `getsid`: in a container whose session was opened outside, it answers 0, which rustix takes for impossible.
    process.parent == own && !register.contains(&process.pid) && read(own).is_some_and(|own| own.session != process.session)
}

/// Rounds of looking and killing.
pub(super) struct Hunt<'a> {
    /// Says yes to the marker of a process that is to go.
    is_wanted: Box<dyn Fn(&str) -> bool + 'a>,
    /// Processes that started before cannot belong to it.
    not_before: u64,
    /// The command whose unmarked orphans count as well.
    leader: Option<i32>,
    /// All that were ever found: a number with its start time.
    known: HashSet<(i32, u64)>,
    /// Sessions that found processes were in.
    sessions: HashSet<i32>,
    /// Never to be touched: this process and those above it.
    spared: HashSet<i32>,
}

impl<'a> Hunt<'a> {
    /// For one command.
    pub(super) fn for_tree(identity: &'a ProcessIdentity, marker: &'a str) -> Hunt<'a> {
        let leader = i32::try_from(identity.pid).unwrap_or(0);
        let mut hunt = Hunt::new(Box::new(move |found| found == marker), identity.start_time);
        hunt.leader = Some(leader);
        hunt.known.insert((leader, identity.start_time));
        hunt.sessions.insert(leader);
        hunt
    }

    fn new(is_wanted: Box<dyn Fn(&str) -> bool + 'a>, not_before: u64) -> Hunt<'a> {
        let mut spared = HashSet::new();
        let mut above = i32::try_from(std::process::id()).ok();
        while let Some(pid) = above.filter(|pid| *pid > 0 && spared.insert(*pid)) {
            above = read(pid).map(|process| process.parent);
        }
        Hunt { is_wanted, not_before, leader: None, known: HashSet::new(), sessions: HashSet::new(), spared }
    }

    /// Kills what is there now; says how many were running.
    pub(super) fn round(&mut self) -> usize {
        let processes = everything();
        let running: Vec<Process> = self.members(&processes).into_iter().filter(|process| !process.is_dead).collect();
        for process in &running {
            kill(process);
        }
        running.len()
    }

    /// Rounds until none is left. Returns how many processes were found in all.
    pub(super) fn until_none_is_left(&mut self, cgroup: Option<&Cgroup>) -> usize {
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(cgroup) = cgroup {
                cgroup.kill();
            }
            let running = self.round();
            if running == 0 && cgroup.is_none_or(|cgroup| !cgroup.is_populated()) {
                break;
            }
            if start.elapsed() > PATIENCE {
                tracing::error!(running, "processes do not end although they were killed");
                break;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        reap_orphans();
        self.known.len()
    }

    fn members(&mut self, processes: &[Process]) -> Vec<Process> {
        let candidates: Vec<&Process> =
            processes.iter().filter(|process| process.start_time >= self.not_before && !self.spared.contains(&process.pid)).collect();
        {
            let register = register();
            let is_alone = self.leader.is_some_and(|leader| register.iter().all(|pid| *pid == leader));
            for process in &candidates {
                let identity = (process.pid, process.start_time);
                if self.known.contains(&identity)
                    || Some(process.pid).is_some_and(|pid| self.leader != Some(pid) && register.contains(&pid))
                {
                    continue;
                }
                let is_member = match marker_of(process.pid) {
                    Some(marker) => (self.is_wanted)(&marker),
                    // It wiped its environment. Its session tells, or that nobody else can have started it.
                    None => is_orphan(process, &register) && (is_alone || self.sessions.contains(&process.session)),
                };
                if is_member {
                    self.known.insert(identity);
                }
            }
        }
        let parents: HashMap<i32, &Process> = processes.iter().map(|process| (process.pid, process)).collect();
        for process in &candidates {
            if self.descends_from_known(process, &parents) {
                self.known.insert((process.pid, process.start_time));
            }
        }
        let found: Vec<Process> =
            candidates.into_iter().filter(|process| self.known.contains(&(process.pid, process.start_time))).copied().collect();
        self.sessions.extend(found.iter().map(|process| process.session));
        found
    }

    fn descends_from_known(&self, process: &Process, parents: &HashMap<i32, &Process>) -> bool {
        let mut at = process;
        // A snapshot that was not taken in one instant may hold a circle.
        for _ in 0..parents.len() {
            if self.known.contains(&(at.pid, at.start_time)) {
                return true;
            }
            match parents.get(&at.parent) {
                Some(parent) if parent.pid != at.pid => at = parent,
                _ => return false,
            }
        }
        false
    }
}

fn kill(process: &Process) {
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => {
            if read(process.pid).is_some_and(|now| now.start_time == process.start_time) {
                let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
            }
        }
        Err(rustix::io::Errno::SRCH) => {}
        // A kernel or sandbox without pidfds.
        Err(_) => {
            if read(process.pid).is_some_and(|now| now.start_time == process.start_time) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }
}

pub(super) fn end_marked(prefix: &str) -> usize {
    let own_run = format!("#{}.", run_name());
    let is_wanted = |marker: &str| marker.starts_with(prefix) && !marker.contains(&own_run);
    let left = cgroup::left_behind(&is_wanted);
    let mut in_groups = 0;
    for group in &left {
        in_groups += group.size();
        group.kill();
    }
    // Killed members of a group may be gone before the hunt looks: the larger count is the better one.
    let found = Hunt::new(Box::new(is_wanted), 0).until_none_is_left(None).max(in_groups);
    for group in &left {
        group.remove();
    }
    found
}

/// A file name for a marker, and back.
pub(super) fn file_name_of(marker: &str) -> String {
    let mut name = String::with_capacity(marker.len());
    for byte in marker.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    name
}

/// The reverse of [`file_name_of`]; nothing for a name it did not make.
pub(super) fn marker_in(name: &OsStr) -> Option<String> {
    let mut bytes = name.as_bytes().iter();
    let mut marker = Vec::new();
    while let Some(byte) = bytes.next() {
        marker.push(match byte {
            b'%' => {
                let digits = [*bytes.next()?, *bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => *other,
        });
    }
    String::from_utf8(marker).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let stat = b"42 (a) Z (b) R 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1000 1 18446744073709551615\n";
        let process = Process { pid: 42, parent: 7, group: 8, session: 9, is_dead: false, start_time: 98765 };
        assert_eq!(parse(42, stat), Some(process));
        assert_eq!(parse(42, b"42 (sh"), None);
        assert_eq!(parse(42, b"42 (sh) Z 1"), None);
    }

    #[test]
    fn markers_survive_as_file_names() {
        let marker = "build/01 x%2f..\u{e4}/run#12.34.0";
        let name = file_name_of(marker);
        assert!(!name.contains('/') && name.is_ascii());
        assert_eq!(marker_in(OsStr::new(&name)).as_deref(), Some(marker));
        assert_eq!(marker_in(OsStr::new("broken%z1")), None);
        assert_eq!(marker_in(OsStr::new("short%2")), None);
    }

    #[test]
    fn a_marker_tells_whether_its_run_is_over() {
        assert!(is_of_running_service(&format!("build/1#{}.7", run_name())));
        assert!(!is_of_running_service(&format!("build/1#{}.1.7", std::process::id())));
        assert!(is_of_running_service("not ours") && is_of_running_service("a#b.c.d"));
    }

    #[test]
    fn a_hunt_spares_this_process_and_those_above_it() {
        let hunt = Hunt::new(Box::new(|_| true), 0);
        assert!(hunt.spared.contains(&i32::try_from(std::process::id()).unwrap()));
        assert!(hunt.spared.contains(&i32::try_from(std::os::unix::process::parent_id()).unwrap()));
    }
}
