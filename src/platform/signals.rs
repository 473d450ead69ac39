//! Being asked to stop.

use std::io;

/// The requests to stop that reach this process from now on: SIGTERM and SIGINT, on Windows Ctrl-C,
/// Ctrl-Break (what supervisors send), the closed window and the end of the machine. From here on these
/// signals no longer end the process by themselves.
#[derive(Debug)]
pub struct ShutdownSignals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
    #[cfg(windows)]
    attention: tokio::signal::windows::CtrlBreak,
    #[cfg(windows)]
    close: tokio::signal::windows::CtrlClose,
    #[cfg(windows)]
    shutdown: tokio::signal::windows::CtrlShutdown,
}

/// Starts listening. Needs a tokio runtime.
///
/// # Errors
/// When the operating system refuses a handler.
pub fn shutdown_signals() -> io::Result<ShutdownSignals> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(ShutdownSignals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }
    #[cfg(windows)]
    {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};
        Ok(ShutdownSignals { interrupt: ctrl_c()?, attention: ctrl_break()?, close: ctrl_close()?, shutdown: ctrl_shutdown()? })
    }
}

impl ShutdownSignals {
    /// Waits for the next one. The first is a request to stop in order, the second one to stop at once.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        #[cfg(windows)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.attention.recv() => {}
            _ = self.close.recv() => {}
            _ = self.shutdown.recv() => {}
            () = super::windows_service::asked_to_stop() => {}
        }
    }
}

/// Waits for one request to stop, as a single call.
///
/// # Errors
/// As [`shutdown_signals`].
pub async fn shutdown_signal() -> io::Result<()> {
    shutdown_signals()?.next().await;
    Ok(())
}
