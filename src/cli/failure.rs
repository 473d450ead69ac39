//! How a command ends when it does not succeed.

use std::process::ExitCode;

use crate::config::Problems;

use super::style;

/// Exit codes. 0 is success; scripts and service managers may rely on these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It was tried and did not succeed.
    Failed = 1,
    /// The command line or the configuration is wrong; trying again without a change cannot help.
    Usage = 2,
    /// An address or another server that is needed cannot be had.
    Unavailable = 69,
    /// A mistake of the program.
    Internal = 70,
    /// Another server uses the data directory.
    Locked = 75,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// What is said before a command ends: one sentence, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What happened.
    pub message: String,
    /// What to do.
    pub advice: String,
}

impl Failure {
    /// A failure with this exit code.
    pub fn new(exit: Exit, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Failure { exit, message: message.into(), advice: advice.into() }
    }

    /// Writes it to standard error.
    pub fn print(&self) {
        eprintln!("{} {}", style::error("error:"), self.message);
        for line in self.advice.lines() {
            eprintln!("       {line}");
        }
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        let count = problems.0.len();
        let things = if count == 1 { "1 thing is".to_owned() } else { format!("{count} things are") };
        Failure::new(Exit::Usage, format!("{things} wrong with the configuration:"), problems.to_string())
    }
}
