//! Being run by the service manager of Windows, which starts a program and then wants to be told how it stands.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use tokio::sync::Notify;

/// Notified when the manager asks this process to stop.
static STOP: Notify = Notify::const_new();
static STANDING: Mutex<Standing> = Mutex::new(Standing { handle: 0, begun: None, exit: None });
static ENDED: Condvar = Condvar::new();

const OWN_PROCESS: u32 = 0x10;
const STOPPED: u32 = 1;
const START_PENDING: u32 = 2;
const STOP_PENDING: u32 = 3;
const RUNNING: u32 = 4;
const ACCEPT_STOP: u32 = 0x1;
/// Told before other services end at the end of the machine, with some minutes instead of seconds.
const ACCEPT_PRESHUTDOWN: u32 = 0x100;
const CONTROL_STOP: u32 = 1;
const CONTROL_INTERROGATE: u32 = 4;
const CONTROL_PRESHUTDOWN: u32 = 15;
const NOT_KNOWN_HERE: u32 = 120;
const SPECIFIC_ERROR: u32 = 1066;
/// How long a start (which may bring much in order) and a stop (which lets builds finish) may take, in milliseconds.
const PATIENCE: u32 = 30 * 60 * 1000;

struct Standing {
    /// The manager's, for telling it things; 0 while there is none.
    handle: usize,
    begun: Option<mpsc::Sender<()>>,
    /// How this process ended.
    exit: Option<u8>,
}

#[repr(C)]
struct Status {
    kind: u32,
    state: u32,
    accepts: u32,
    exit: u32,
    specific_exit: u32,
    checkpoint: u32,
    hint: u32,
}

#[repr(C)]
struct Entry {
    name: *mut u16,
    main: Option<extern "system" fn(u32, *mut *mut u16)>,
}

// The three of them are all that is needed; windows-sys has them in a part of its own.
#[link(name = "advapi32")]
unsafe extern "system" {
    fn StartServiceCtrlDispatcherW(table: *const Entry) -> i32;
    fn RegisterServiceCtrlHandlerExW(
        name: *const u16,
        handler: extern "system" fn(u32, u32, *mut c_void, *mut c_void) -> u32,
        context: *mut c_void,
    ) -> usize;
    fn SetServiceStatus(handle: usize, status: *const Status) -> i32;
}

fn standing() -> MutexGuard<'static, Standing> {
    STANDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// This process is a service.
#[derive(Debug)]
pub(super) struct Managed {
    dispatcher: JoinHandle<()>,
}

/// Answers the manager if that started this process; otherwise nothing, at once.
pub(super) fn join() -> Option<Managed> {
    let (begun, has_begun) = mpsc::channel();
    standing().begun = Some(begun);
    let dispatch = || {
        let mut name = [0u16];
        let table = [Entry { name: name.as_mut_ptr(), main: Some(main) }, Entry { name: ptr::null_mut(), main: None }];
        // SAFETY: the table ends with an empty entry and lives as long as the call, which returns when the service has
        // stopped, or at once with an error when there is no manager.
        unsafe { StartServiceCtrlDispatcherW(table.as_ptr()) };
        standing().begun = None;
    };
    let dispatcher = std::thread::Builder::new().name("service".to_owned()).spawn(dispatch).ok()?;
    has_begun.recv().ok()?;
    Some(Managed { dispatcher })
}

impl Managed {
    pub(super) fn ready(&self) {
        tell(RUNNING, None);
    }

    pub(super) fn stopping(&self) {
        tell(STOP_PENDING, None);
    }

    /// The last words; the manager may end this process as soon as it has heard them.
    pub(super) fn end(self, exit: u8) {
        standing().exit = Some(exit);
        ENDED.notify_all();
        let _ = self.dispatcher.join();
    }
}

/// Waits until the manager asks this process to stop.
pub(super) async fn asked_to_stop() {
    STOP.notified().await;
}

/// What the manager calls on a thread of its own; the service lasts until it returns.
extern "system" fn main(_count: u32, _arguments: *mut *mut u16) {
    let name = [0u16];
    // SAFETY: a text that ends with a zero (a process with one service needs no name), and a function that lives for ever.
    let handle = unsafe { RegisterServiceCtrlHandlerExW(name.as_ptr(), control, ptr::null_mut()) };
    let mut standing = standing();
    let begun = standing.begun.take();
    if handle == 0 {
        return;
    }
    standing.handle = handle;
    drop(standing);
    tell(START_PENDING, None);
    if begun.is_none_or(|begun| begun.send(()).is_err()) {
        tell(STOPPED, Some(1));
        return;
    }
    let mut standing = self::standing();
    while standing.exit.is_none() {
        standing = ENDED.wait(standing).unwrap_or_else(PoisonError::into_inner);
    }
    let exit = standing.exit;
    drop(standing);
    tell(STOPPED, exit);
}

extern "system" fn control(control: u32, _kind: u32, _data: *mut c_void, _context: *mut c_void) -> u32 {
    match control {
        CONTROL_STOP | CONTROL_PRESHUTDOWN => {
            tell(STOP_PENDING, None);
            STOP.notify_one();
            0
        }
        CONTROL_INTERROGATE => 0,
        _ => NOT_KNOWN_HERE,
    }
}

fn tell(state: u32, exit: Option<u8>) {
    let exit = exit.map_or(0, u32::from);
    let is_pending = matches!(state, START_PENDING | STOP_PENDING);
    let status = Status {
        kind: OWN_PROCESS,
        state,
        accepts: if state == RUNNING { ACCEPT_STOP | ACCEPT_PRESHUTDOWN } else { 0 },
        exit: if exit == 0 { 0 } else { SPECIFIC_ERROR },
        specific_exit: exit,
        checkpoint: u32::from(is_pending),
        hint: if is_pending { PATIENCE } else { 0 },
    };
    let handle = standing().handle;
    // SAFETY: the handle is the manager's own, which needs no closing; the status lives as long as the call.
    unsafe { SetServiceStatus(handle, &raw const status) };
}
