//! Being run by a service manager that wants to be told how things stand: Windows has one. Others go by exit codes.

#[cfg(windows)]
use super::windows_service as manager;

#[cfg(not(windows))]
mod manager {
    #[derive(Debug)]
    pub(super) enum Managed {}

    pub(super) fn join() -> Option<Managed> {
        None
    }

    impl Managed {
        pub(super) fn ready(&self) {
            match *self {}
        }
        pub(super) fn stopping(&self) {
            match *self {}
        }
        pub(super) fn end(self, _exit: u8) {
            match self {}
        }
    }
}

/// This process is a service: it has no terminal and no standard error.
#[derive(Debug)]
pub struct Service(manager::Managed);

/// Answers the service manager, if one started this process and waits for that. Once per process, early: it does not
/// wait long. Requests to stop then come as [`super::signals::ShutdownSignals`].
pub fn join() -> Option<Service> {
    manager::join().map(Service)
}

impl Service {
    /// Requests are answered.
    pub fn ready(&self) {
        self.0.ready();
    }

    /// The end has begun.
    pub fn stopping(&self) {
        self.0.stopping();
    }

    /// The end, with this exit code. The manager may end the process at once.
    pub fn end(self, exit: u8) {
        self.0.end(exit);
    }
}
