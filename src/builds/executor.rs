//! Build commands on this machine.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::io;
use std::time::Duration;

use crate::platform::process::{Command, ExitStatus, ProcessIdentity};
use crate::platform::running::{OutputLine, Running};
use crate::seams::{BuildCommand, Executor, RunningCommand};

/// Starts them as processes, held back as the command says.
#[derive(Debug, Default, Clone, Copy)]
pub struct LocalExecutor;

impl Executor for LocalExecutor {
    fn start<'a>(&'a self, command: BuildCommand) -> BoxFuture<'a, io::Result<Box<dyn RunningCommand>>> {
        async move {
            let mut process = Command::new(command.program, command.directory, command.marker);
            process.args = command.args;
            process.environment = command.environment.into_iter().collect();
            process.confinement = command.confinement;
            process.account = command.account;
            // Opens hundreds of directories.
            let started = tokio::task::spawn_blocking(move || Running::start(process)).await.map_err(io::Error::other)?;
            Ok(Box::new(started?) as Box<dyn RunningCommand>)
        }
        .boxed()
    }
}

impl RunningCommand for Running {
    fn identity(&self) -> Option<ProcessIdentity> {
        Some(Running::identity(self).clone())
    }

    fn lines(&mut self) -> BoxFuture<'_, Option<Vec<OutputLine>>> {
        Running::lines(self).boxed()
    }

    fn end(&mut self, grace: Duration) {
        Running::end(self, grace);
    }

    fn status(&mut self) -> BoxFuture<'_, io::Result<ExitStatus>> {
        Running::status(self).boxed()
    }
}
