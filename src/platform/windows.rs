//! The Windows half: job objects that end with their last handle, so that nothing survives the service either.
#![allow(unsafe_code)]

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, HandleOrNull, OwnedHandle};
use std::path::Path;
use std::sync::Once;
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{FILETIME, HANDLE, INVALID_HANDLE_VALUE, WAIT_TIMEOUT};
use windows_sys::Win32::System::Diagnostics::Debug::{SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SEM_NOOPENFILEERRORBOX, SetErrorMode};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOBOBJECT_BASIC_ACCOUNTING_INFORMATION,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectBasicAccountingInformation, JobObjectExtendedLimitInformation,
    QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW, CREATE_SUSPENDED, GetCurrentProcess, GetProcessTimes, OpenProcess, OpenThread,
    PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE, ResumeThread, THREAD_SUSPEND_RESUME, WaitForSingleObject,
};

use super::accounts::Account;
use super::confinement::Limits;
use super::process::ProcessIdentity;

/// Without these no program opens a socket or finds its own libraries.
const NEEDED_BY_ALL: [&str; 2] = ["SystemRoot", "SystemDrive"];

/// The job that a child and all it starts are in.
#[derive(Debug)]
pub(super) struct Tree {
    identity: ProcessIdentity,
    job: OwnedHandle,
}

impl Tree {
    /// Starts the command inside a job; it runs its first instruction only there.
    pub(super) fn start(
        mut command: tokio::process::Command,
        _marker: String,
        limits: Limits,
    ) -> io::Result<(tokio::process::Child, Tree)> {
        if limits.account.is_some() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        static ONCE: Once = Once::new();
        // Children inherit it: a program that crashes ends, instead of waiting for somebody to press a button.
        // SAFETY: changes how this process fails, and nothing in memory.
        ONCE.call_once(|| unsafe {
            SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
        });
        for name in NEEDED_BY_ALL {
            let is_given = command.as_std().get_envs().any(|(given, _)| given.eq_ignore_ascii_case(name));
            if let Some(value) = std::env::var_os(name).filter(|_| !is_given) {
                command.env(name, value);
            }
        }
        let job = new_job()?;
        command.creation_flags(CREATE_SUSPENDED | CREATE_NO_WINDOW | CREATE_NEW_PROCESS_GROUP);
        command.kill_on_drop(true);
        let child = command.spawn()?;
        let lost = || io::Error::other("the process ended before it could be put into its job");
        let process = child.raw_handle().ok_or_else(lost)?;
        let pid = child.id().ok_or_else(lost)?;
        // SAFETY: both handles are open for the length of the call.
        if unsafe { AssignProcessToJobObject(job.as_raw_handle(), process) } == 0 {
            return Err(io::Error::last_os_error());
        }
        let identity = ProcessIdentity { pid, start_time: start_time(process).unwrap_or(0), boot_id: String::new() };
        resume(pid)?;
        Ok((child, Tree { identity, job }))
    }

    pub(super) fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// There is no request that a program without a window hears.
    pub(super) fn ask_to_stop(&self) -> bool {
        false
    }

    pub(super) fn has_group(&self) -> bool {
        self.running() > 0
    }

    pub(super) fn kill_once(&self) {
        // SAFETY: the handle is ours and open.
        unsafe { TerminateJobObject(self.job.as_raw_handle(), 1) };
    }

    pub(super) fn kill_all(&self) {
        let start = Instant::now();
        self.kill_once();
        while self.running() > 0 {
            if start.elapsed() > Duration::from_secs(20) {
                tracing::error!("processes do not end although they were killed");
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
            self.kill_once();
        }
    }

    pub(super) fn forget(&self) {}

    fn running(&self) -> u32 {
        let mut found = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        // SAFETY: the structure is the one that this question is answered with, and its size is given.
        let answered = unsafe {
            QueryInformationJobObject(
                self.job.as_raw_handle(),
                JobObjectBasicAccountingInformation,
                (&raw mut found).cast(),
                size_of_u32::<JOBOBJECT_BASIC_ACCOUNTING_INFORMATION>(),
                std::ptr::null_mut(),
            )
        };
        if answered == 0 { 0 } else { found.ActiveProcesses }
    }
}

fn size_of_u32<T>() -> u32 {
    u32::try_from(size_of::<T>()).unwrap_or(u32::MAX)
}

fn new_job() -> io::Result<OwnedHandle> {
    // SAFETY: no attributes means a handle that children do not inherit; no name means that nobody else can open it.
    let job = unsafe { HandleOrNull::from_raw_handle(CreateJobObjectW(std::ptr::null(), std::ptr::null())) };
    let job = OwnedHandle::try_from(job).map_err(|_| io::Error::last_os_error())?;
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    // Without a breakaway flag no member can leave.
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    // SAFETY: the structure is the one that this class names, and its size is given.
    let was_set = unsafe {
        SetInformationJobObject(
            job.as_raw_handle(),
            JobObjectExtendedLimitInformation,
            (&raw const limits).cast(),
            size_of_u32::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>(),
        )
    };
    if was_set == 0 { Err(io::Error::last_os_error()) } else { Ok(job) }
}

/// Lets the only thread of a suspended process go.
fn resume(pid: u32) -> io::Result<()> {
    // SAFETY: the snapshot handle is checked and then owned; the entry carries its size as the call demands; each
    // thread handle is checked, owned, and used for this one call.
    unsafe {
        let snapshot = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
        if snapshot == INVALID_HANDLE_VALUE {
            return Err(io::Error::last_os_error());
        }
        let snapshot = OwnedHandle::from_raw_handle(snapshot);
        let mut entry = THREADENTRY32 { dwSize: size_of_u32::<THREADENTRY32>(), ..Default::default() };
        let mut more = Thread32First(snapshot.as_raw_handle(), &raw mut entry);
        while more != 0 {
            if entry.th32OwnerProcessID == pid {
                let thread = HandleOrNull::from_raw_handle(OpenThread(THREAD_SUSPEND_RESUME, 0, entry.th32ThreadID));
                let thread = OwnedHandle::try_from(thread).map_err(|_| io::Error::last_os_error())?;
                if ResumeThread(thread.as_raw_handle()) == u32::MAX {
                    return Err(io::Error::last_os_error());
                }
                return Ok(());
            }
            more = Thread32Next(snapshot.as_raw_handle(), &raw mut entry);
        }
    }
    Err(io::Error::other("the new process has no thread"))
}

fn start_time(process: HANDLE) -> Option<u64> {
    let mut times = [FILETIME::default(); 4];
    let [created, ended, kernel, user] = &mut times;
    // SAFETY: four places for four times, on an open handle.
    let answered = unsafe { GetProcessTimes(process, created, ended, kernel, user) };
    (answered != 0).then(|| u64::from(times[0].dwHighDateTime) << 32 | u64::from(times[0].dwLowDateTime))
}

pub(super) fn is_running(identity: &ProcessIdentity) -> bool {
    let rights = PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE;
    // SAFETY: the handle is checked and owned.
    let process = unsafe { HandleOrNull::from_raw_handle(OpenProcess(rights, 0, identity.pid)) };
    OwnedHandle::try_from(process).is_ok_and(|process| {
        let process = process.as_raw_handle();
        // A process that has ended can be opened as long as anybody holds a handle of it.
        // SAFETY: the handle is open, and nothing is waited for.
        start_time(process) == Some(identity.start_time) && unsafe { WaitForSingleObject(process, 0) } == WAIT_TIMEOUT
    })
}

/// Jobs end with the service that held them.
pub(super) fn end_marked(_prefix: &str) -> usize {
    0
}

pub(super) fn reap_orphans() {}

pub(super) fn run_name() -> String {
    std::process::id().to_string()
}

pub(super) fn resident_memory() -> Option<u64> {
    let mut found = PROCESS_MEMORY_COUNTERS::default();
    // SAFETY: the handle of this process needs no closing; the structure is the one that is asked for, and its size is given.
    let answered = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut found, size_of_u32::<PROCESS_MEMORY_COUNTERS>()) };
    (answered != 0).then_some(found.WorkingSetSize as u64)
}

pub(super) fn signal_of(_status: std::process::ExitStatus) -> Option<i32> {
    None
}

/// There are no forks here that could share a dead process's locks: nobody needs to be waited for.
pub(super) fn is_gone(_pid: u32) -> bool {
    false
}

pub(super) use super::windows_files::{
    free_space, never_follow, open_directory, rename, rename_no_replace, size_on_disk, sync_directory, try_lock,
};
pub(super) use super::windows_rights::{create_private_file, make_private, new_private_directory, restrict_directory};

/// Windows goes by the name's end.
pub(super) fn make_program(_path: &Path) -> io::Result<()> {
    Ok(())
}

pub(super) fn expect_start() {}

pub(super) fn may_act_as_others() -> bool {
    false
}

pub(super) fn enter(_directory: &Path, _account: &Account) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

pub(super) fn let_through(_directory: &Path, _account: &Account) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

pub(super) fn hand_over(_tree: &Path, _account: &Account) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
