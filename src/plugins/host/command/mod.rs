//! `command`: native tools by name. A tool is a program that the administrator bound, with rules for its arguments
//! and environment; no shell, nothing inherited, ended with everything it started.

mod capture;
mod git;
mod invocation;
mod p4;
mod process;

pub use invocation::Invocation;
pub use process::Process;

use tokio::sync::OnceCell;
use wasmtime::component::Resource;

use super::super::bindings::command::{self as contract, Captured};
use super::super::git::desk::Desk;
use super::super::git::profile::Profile as GitProfile;
use super::super::p4::profile::Profile as P4Profile;
use super::{CallState, Failure};

/// Processes of one call that may run at one time.
pub(crate) const LIVE_PROCESSES: usize = 4;

/// The tools of this server.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    /// `git`, where it is.
    pub(crate) git: Option<GitProfile>,
    /// Answers their askpass; opened for the first that has a password.
    pub(crate) desk: OnceCell<Desk>,
    /// `p4`, where it is.
    pub(crate) p4: Option<P4Profile>,
}

impl Tools {
    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        let git = self.git.as_ref().map(|_| "git".to_owned());
        git.into_iter().chain(self.p4.as_ref().map(|_| "p4".to_owned()))
    }
}

impl contract::Host for CallState {
    async fn run(&mut self, invocation: Resource<Invocation>, limit: u32) -> Result<Captured, Failure> {
        let invocation = self.table.delete(invocation)?;
        let started = self.start_tool(invocation).await?;
        self.run_to_end(started, limit).await
    }

    async fn spawn(&mut self, invocation: Resource<Invocation>) -> Result<Resource<Process>, Failure> {
        let invocation = self.table.delete(invocation)?;
        let started = self.start_tool(invocation).await?;
        let process = self.follow(started);
        Ok(self.table.push(process)?)
    }
}
