//! Why a call into a plugin gave no answer of the plugin's own.

use std::time::Duration;

use wasmtime::Trap;

/// What went wrong in the host or in the sandbox. What the plugin itself answers as an error is not in here.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PluginError {
    /// No plugin of this name.
    #[error("the plugin `{0}` is not installed")]
    NotInstalled(String),
    /// The component does not load here.
    #[error("the plugin `{plugin}` cannot be loaded: {reason}")]
    Unusable {
        /// Its name.
        plugin: String,
        /// For the administrator.
        reason: String,
    },
    /// It is a plugin of the other kind.
    #[error("the plugin `{plugin}` is no {wanted} plugin")]
    WrongKind {
        /// Its name.
        plugin: String,
        /// What was asked for.
        wanted: &'static str,
    },
    /// What a person entered for it is not what its manifest describes.
    #[error("the settings of the plugin `{plugin}` do not fit: {reason}")]
    Settings {
        /// Its name.
        plugin: String,
        /// Which settings, and what they have to be.
        reason: String,
    },
    /// The call took longer than its caller allowed.
    #[error("the plugin `{plugin}` did not finish within {wall:?}")]
    TimedOut {
        /// Its name.
        plugin: String,
        /// What the caller allowed.
        wall: Duration,
    },
    /// The caller asked it to stop.
    #[error("the plugin `{0}` was asked to stop")]
    Cancelled(String),
    /// It computed for longer than it may.
    #[error("the plugin `{plugin}` used more than {seconds} s of processor time")]
    OutOfTime {
        /// Its name.
        plugin: String,
        /// Its budget.
        seconds: u64,
    },
    /// It wanted more memory than it may have.
    #[error("the plugin `{plugin}` wanted more than {mebibytes} MiB of memory")]
    OutOfMemory {
        /// Its name.
        plugin: String,
        /// Its limit.
        mebibytes: u64,
    },
    /// It crossed a limit of the host, broke the contract, or crashed.
    #[error("the plugin `{plugin}` ended abnormally: {reason}")]
    Trapped {
        /// Its name.
        plugin: String,
        /// First line of the cause.
        reason: String,
    },
}

/// What a call came to see of its limits when it ended with an error of the runtime.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exhaustion {
    /// The memory limit refused something.
    pub(crate) memory: bool,
    /// The limit, for the message.
    pub(crate) memory_bytes: usize,
    /// The processor budget, for the message.
    pub(crate) cpu: Duration,
}

/// Reads a runtime error. The first line is kept; the backtrace of the guest is for the debug log only.
pub(crate) fn from_runtime(plugin: &str, error: &wasmtime::Error, seen: Exhaustion) -> PluginError {
    tracing::debug!(plugin, error = format!("{error:#}"), "plugin call ended abnormally");
    let plugin = plugin.to_owned();
    let trap = error.downcast_ref::<Trap>().copied();
    if trap == Some(Trap::Interrupt) {
        return PluginError::OutOfTime { plugin, seconds: seen.cpu.as_secs() };
    }
    // A guest whose allocator was refused aborts by `unreachable`: the refusal is the cause, not the abort.
    if seen.memory {
        return PluginError::OutOfMemory { plugin, mebibytes: (seen.memory_bytes >> 20) as u64 };
    }
    let reason = match trap {
        Some(Trap::UnreachableCodeReached) => "it panicked".to_owned(),
        Some(Trap::StackOverflow) => "it overflowed its stack".to_owned(),
        Some(trap) => trap.to_string(),
        None => root_line(error),
    };
    PluginError::Trapped { plugin, reason }
}

fn root_line(error: &wasmtime::Error) -> String {
    let text = error.root_cause().to_string();
    super::text::clean(text.lines().next().unwrap_or_default(), 500)
}
