//! Runs git in the workspace, shows its lines and keeps its last words.

use std::collections::VecDeque;

use guest_support::{Code, Problem};

use super::bindings::cookhouse::plugin::command::{self, Channel, Exit, Invocation};
use super::bindings::cookhouse::plugin::log::{self, Level};
use super::bindings::cookhouse::plugin::progress::{self, Unit};
use super::bindings::cookhouse::plugin::types::Error;
use super::bindings::cookhouse::plugin::workspaces::Workspace;
use super::credentials;
use crate::git_output::{self, Failure, Line};
use crate::names::RepositoryName;
use crate::settings::Settings;

/// Lines of a failed command that are kept for its error.
const KEPT_LINES: usize = 40;

/// git in one workspace, for one repository.
pub(super) struct Git<'a> {
    pub(super) workspace: &'a Workspace,
    settings: &'a Settings,
    repository: &'a RepositoryName,
    /// Of the workspace; `""` is all of it.
    directory: String,
    /// Bytes that came over the network, as git and git-lfs counted them.
    received: u64,
    has_fetched: bool,
}

/// What a command did wrong: the error that ends the call, or a failure that may be mended.
pub(super) enum Fault {
    Failed(Failure),
    Broken(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Broken(error)
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Fault::Broken(problem.into())
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Failed(failure) => failure.into_problem().into(),
            Fault::Broken(error) => error,
        }
    }
}

impl<'a> Git<'a> {
    pub(super) fn new(settings: &'a Settings, repository: &'a RepositoryName, workspace: &'a Workspace, directory: &str) -> Self {
        Git { workspace, settings, repository, directory: directory.to_owned(), received: 0, has_fetched: false }
    }

    /// A path of the repository as one of the workspace.
    pub(super) fn path(&self, path: &str) -> String {
        if self.directory.is_empty() { path.to_owned() } else { format!("{}/{path}", self.directory) }
    }

    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Whether anything was asked of the server.
    pub(super) fn has_fetched(&self) -> bool {
        self.has_fetched
    }

    fn invocation(&self, arguments: &[String]) -> Invocation {
        let invocation = Invocation::new("git");
        for argument in arguments {
            invocation.arg(argument);
        }
        invocation.directory(self.workspace, &self.directory);
        invocation
    }

    /// Tells the host the repository's address and the token: the address becomes the remote `origin` of git and of Git LFS for
    /// this one command, and the token is told to its origin alone.
    fn signed_in(&self, arguments: &[String]) -> Result<Invocation, Error> {
        let invocation = self.invocation(arguments);
        invocation.env("COOKHOUSE_GIT_REMOTE", &self.settings.clone_address(self.repository));
        invocation.env("COOKHOUSE_GIT_USERNAME", "x-access-token");
        if let Some(token) = credentials::of(self.settings, Some(self.repository))? {
            invocation.secret_env("COOKHOUSE_GIT_PASSWORD", &token);
        }
        Ok(invocation)
    }

    /// Runs a command that speaks to the server; its lines go to the log. An installation's token may end while a long
    /// transfer runs: then it goes on with a new one, and what had arrived is kept.
    pub(super) fn transfer(&mut self, arguments: &[String]) -> Result<(), Fault> {
        self.has_fetched = true;
        match self.transfer_once(arguments) {
            Err(Fault::Failed(Failure::Outside(problem)))
                if problem.code == Code::Unauthenticated && credentials::forget(self.settings, Some(self.repository)) =>
            {
                log::log(Level::Info, "The access token ended; going on with a new one", &[]);
                self.transfer_once(arguments)
            }
            outcome => outcome,
        }
    }

    fn transfer_once(&mut self, arguments: &[String]) -> Result<(), Fault> {
        let invocation = self.signed_in(arguments)?;
        let before = self.received;
        let mut last = 0;
        let outcome = follow(arguments, invocation, |channel, text| match git_output::line(text) {
            Line::Progress { phase, done, total, bytes } => {
                last = bytes.unwrap_or(last).max(last);
                progress::report(&phase, done, Some(total), Unit::Items, None);
            }
            Line::Message if channel == Channel::Error && !text.trim().is_empty() => log::log(Level::Info, text.trim_end(), &[]),
            Line::Message => {}
        });
        self.received = before + last;
        outcome
    }

    /// Runs a command whose lines nobody needs unless it fails.
    pub(super) fn run(&self, arguments: &[String]) -> Result<(), Fault> {
        follow(arguments, self.invocation(arguments), |_, _| {})
    }

    /// Runs a command and shows each line of its output to `see`.
    pub(super) fn lines(&self, arguments: &[String], mut see: impl FnMut(&str)) -> Result<(), Fault> {
        follow(arguments, self.invocation(arguments), |channel, text| {
            if channel == Channel::Output {
                see(text);
            }
        })
    }

    /// Runs a command and keeps at most `limit` bytes of its output.
    pub(super) fn output(&self, arguments: &[String], input: &[u8], limit: u32) -> Result<Vec<u8>, Fault> {
        let invocation = self.invocation(arguments);
        if !input.is_empty() {
            invocation.input(input);
        }
        let captured = command::run(invocation, limit)?;
        let messages: Vec<String> = String::from_utf8_lossy(&captured.error_output).lines().map(str::to_owned).collect();
        judge(arguments, &captured.exit, &messages)?;
        Ok(captured.output)
    }

    /// Whether a command whose failure is an answer succeeded.
    pub(super) fn succeeds(&self, arguments: &[String]) -> Result<bool, Error> {
        match self.run(arguments) {
            Ok(()) => Ok(true),
            Err(Fault::Failed(_)) => Ok(false),
            Err(Fault::Broken(error)) => Err(error),
        }
    }
}

fn follow(arguments: &[String], invocation: Invocation, mut see: impl FnMut(Channel, &str)) -> Result<(), Fault> {
    invocation.log_lines(false);
    let process = command::spawn(invocation)?;
    let mut messages = VecDeque::new();
    while let Some(line) = process.next_line()? {
        see(line.channel, &line.text);
        if line.channel == Channel::Error && git_output::line(&line.text) == Line::Message {
            if messages.len() == KEPT_LINES {
                messages.pop_front();
            }
            messages.push_back(line.text);
        }
    }
    judge(arguments, &process.wait()?, messages.make_contiguous())
}

fn judge(arguments: &[String], exit: &Exit, messages: &[String]) -> Result<(), Fault> {
    if exit.code == Some(0) && !exit.timed_out {
        return Ok(());
    }
    let step = format!("git {}", arguments.iter().take(1).map(String::as_str).collect::<String>());
    if progress::is_cancelled() {
        return Err(Problem::new(Code::Cancelled, format!("{step} was stopped")).because("cancelled").into());
    }
    if exit.timed_out {
        return Err(Problem::new(Code::TimedOut, format!("{step} took too long")).because("timeout").transient().into());
    }
    Err(Fault::Failed(git_output::failure(&step, messages)))
}
