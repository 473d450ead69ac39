//! Runs p4 and reads what it prints.

use guest_support::{Code, Problem};

use super::bindings::cookhouse::plugin::command::{self, Channel, Exit, Invocation};
use super::bindings::cookhouse::plugin::progress;
use super::bindings::cookhouse::plugin::secrets;
use super::bindings::cookhouse::plugin::types::{Error, ErrorCode};
use super::bindings::cookhouse::plugin::workspaces::Workspace;
use crate::failure;
use crate::record::{self, Line, Message, Record};

/// Output of one question that is kept; the host keeps no more either.
const OUTPUT_LIMIT: u32 = 4 << 20;
/// A question that takes longer has no answer.
const PATIENCE_MS: u64 = 45_000;
/// What is kept of the standard error.
const WORDS_LIMIT: usize = 8 * 1024;

/// p4 for one connection.
pub(super) struct P4 {
    user: String,
    fingerprint: String,
    /// The server wants clients that speak unicode.
    pub(super) is_unicode: bool,
    /// The server does not tell upper from lower case.
    pub(super) ignores_case: bool,
}

/// What a question was answered with.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) records: Vec<Record>,
    /// Warnings, and errors where they were asked for.
    pub(super) messages: Vec<Message>,
    /// What was said for people.
    pub(super) texts: Vec<String>,
}

impl P4 {
    pub(super) fn new(user: String, fingerprint: String) -> Self {
        P4 { user, fingerprint, is_unicode: false, ignores_case: false }
    }

    /// The key that is trusted; empty where none is.
    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    pub(super) fn trust(&mut self, fingerprint: &str) {
        fingerprint.clone_into(&mut self.fingerprint);
    }

    fn invocation(&self, arguments: &[String]) -> Result<Invocation, Error> {
        let invocation = Invocation::new("p4");
        for argument in arguments {
            invocation.arg(argument);
        }
        invocation.env("COOKHOUSE_P4_USER", &self.user);
        if self.is_unicode {
            invocation.env("COOKHOUSE_P4_CHARSET", "utf8");
        }
        if !self.fingerprint.is_empty() {
            invocation.env("COOKHOUSE_P4_FINGERPRINT", &self.fingerprint);
        }
        match secrets::get("ticket") {
            Ok(ticket) => invocation.secret_env("COOKHOUSE_P4_TICKET", &ticket),
            // Users without a password need none.
            Err(Error { code: ErrorCode::NotFound, .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(invocation)
    }

    /// Asks and reads records; an error of the server is one of ours.
    pub(super) fn ask(&self, arguments: &[String]) -> Result<Answer, Error> {
        self.ask_in(arguments, None)
    }

    /// Has p4 read a form, which it does without records alone.
    pub(super) fn tell(&self, arguments: &[String], workspace: &Workspace, form: &str) -> Result<(), Error> {
        let invocation = self.invocation(arguments)?;
        invocation.directory(workspace, "");
        invocation.input(form.as_bytes());
        let (_, words, exit) = run(invocation, OUTPUT_LIMIT)?;
        if exit.code == Some(0) { Ok(()) } else { Err(failure::of_words(&words).into()) }
    }

    /// The same in a workspace.
    pub(super) fn ask_in(&self, arguments: &[String], workspace: Option<&Workspace>) -> Result<Answer, Error> {
        let invocation = self.invocation(arguments)?;
        if let Some(workspace) = workspace {
            invocation.directory(workspace, "");
        }
        let (output, words, exit) = run(invocation, OUTPUT_LIMIT)?;
        let mut answer = Answer::default();
        let mut fault = None;
        for line in String::from_utf8_lossy(&output).lines().filter(|line| !line.trim().is_empty()) {
            match record::read(line)? {
                Line::Record(record) => answer.records.push(record),
                Line::Text(text) => answer.texts.push(text),
                Line::Message(message) => {
                    if fault.is_none() && !failure::is_nothing(&message) {
                        fault = Some(failure::of_message(&message));
                    }
                    answer.messages.push(message);
                }
            }
        }
        match fault {
            Some(problem) => Err(problem.into()),
            None if exit.code == Some(0) => Ok(answer),
            None => Err(failure::of_words(&words).into()),
        }
    }

    /// Asks and reads bytes, at most `limit`.
    pub(super) fn bytes(&self, arguments: &[String], limit: u32) -> Result<Vec<u8>, Error> {
        let (output, words, exit) = run(self.invocation(arguments)?, limit.saturating_add(1))?;
        if output.len() > limit as usize {
            return Err(Problem::new(Code::TooLarge, format!("the file is larger than {limit} bytes")).because("file").into());
        }
        // A file that is not there is a warning, and warnings leave the exit code alone.
        match failure::of_text(&words) {
            Some(problem) if output.is_empty() => Err(problem.into()),
            _ if exit.code == Some(0) => Ok(output),
            _ => Err(failure::of_words(&words).into()),
        }
    }

    /// Runs a long command in the workspace and shows each record to `see` while it comes. The answer is what p4 complained about.
    pub(super) fn follow(&self, arguments: &[String], workspace: &Workspace, mut see: impl FnMut(&Record)) -> Result<Vec<Message>, Error> {
        let invocation = self.invocation(arguments)?;
        invocation.directory(workspace, "");
        invocation.log_lines(false);
        let process = command::spawn(invocation)?;
        let (mut words, mut messages, mut fault) = (String::new(), Vec::new(), None);
        while let Some(line) = process.next_line()? {
            if line.channel == Channel::Error {
                if words.len() < WORDS_LIMIT {
                    words.push_str(&line.text);
                    words.push('\n');
                }
                continue;
            }
            if line.text.trim().is_empty() {
                continue;
            }
            match record::read(&line.text)? {
                Line::Record(record) => see(&record),
                Line::Text(_) => {}
                Line::Message(message) if failure::is_nothing(&message) => {}
                Line::Message(message) => {
                    // The first error says why, the others what followed from it.
                    if message.severity > 2 && fault.is_none() {
                        fault = Some(failure::of_message(&message));
                    }
                    messages.push(message);
                }
            }
        }
        let exit = process.wait()?;
        stopped(&exit)?;
        match fault {
            Some(problem) => Err(problem.into()),
            None if exit.code == Some(0) => Ok(messages),
            None => Err(failure::of_words(&words).into()),
        }
    }
}

/// The program's own version, without a server.
pub(super) fn version() -> Result<String, Error> {
    let invocation = Invocation::new("p4");
    for argument in crate::commands::version() {
        invocation.arg(&argument);
    }
    let (output, _, _) = run(invocation, 64 * 1024)?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

fn run(invocation: Invocation, limit: u32) -> Result<(Vec<u8>, String, Exit), Error> {
    invocation.timeout_ms(PATIENCE_MS);
    let captured = command::run(invocation, limit)?;
    stopped(&captured.exit)?;
    if captured.truncated && limit >= OUTPUT_LIMIT {
        let text = "p4 printed more than anybody could want to know";
        return Err(Problem::new(Code::TooLarge, text).because("output").into());
    }
    let words = String::from_utf8_lossy(&captured.error_output);
    Ok((captured.output, words.chars().take(WORDS_LIMIT).collect(), captured.exit))
}

fn stopped(exit: &Exit) -> Result<(), Error> {
    if progress::is_cancelled() {
        return Err(Problem::new(Code::Cancelled, "p4 was stopped").because("cancelled").into());
    }
    if exit.timed_out {
        let text = "the server did not answer in time; an address that begins with ssl: is for servers that speak TLS only";
        return Err(Problem::new(Code::TimedOut, text).because("timeout").transient().into());
    }
    Ok(())
}
