//! Tools that run: to their end at once, or followed line by line.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wasmtime::component::Resource;

use super::super::super::bindings::command::{self as contract, Captured, Channel, Exit, Line};
use super::super::super::bindings::types::ErrorCode;
use super::super::{CallState, Failure};
use super::capture::Pump;
use super::invocation::Started;
use crate::model::log::LogStream;
use crate::platform::process::Child;

/// Between asking a tool to stop and ending it.
const GRACE: Duration = Duration::from_secs(2);
/// For the last output after a tool has ended.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Lines that wait for the guest; then the tool waits.
const WAITING_LINES: usize = 256;
/// Most that `run` keeps of each stream.
const LARGEST_OUTPUT: u32 = 4 << 20;
/// A tool that prints this much more than anybody wants is ended.
const ENDLESS: u64 = 16 << 20;

/// A tool under way. Dropping it ends the tool and everything it started.
pub struct Process {
    lines: Option<mpsc::Receiver<Line>>,
    exit: watch::Receiver<Option<Exit>>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The task that holds the child is among them: dropping the child ends the tree.
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Kept output of one stream.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    is_cut: bool,
}

/// Aborts when dropped: a call that is dropped leaves no task.
struct Owned<T>(JoinHandle<T>);

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for the end of a tool, or ends it: at its own deadline, or when somebody wants it to stop.
async fn until_end(mut child: Child, deadline: Option<Instant>, stop: CancellationToken) -> std::io::Result<Exit> {
    let at_deadline = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    let (status, timed_out) = tokio::select! {
        status = child.wait() => (status?, false),
        () = at_deadline => (child.end(GRACE).await?, true),
        () = stop.cancelled() => (child.end(GRACE).await?, false),
    };
    Ok(Exit { code: status.code, timed_out })
}

impl CallState {
    fn pump(&self, logs: bool, stream: LogStream) -> Arc<Pump> {
        Arc::new(Pump {
            redactor: self.redactor.clone(),
            log: logs.then(|| (self.call.log.clone(), stream)),
            progress: logs.then(|| self.progress.clone()),
        })
    }

    /// Runs to the end and keeps the beginning of both streams.
    pub(super) async fn run_to_end(&mut self, mut started: Started, limit: u32) -> Result<Captured, Failure> {
        let limit = limit.min(LARGEST_OUTPUT) as usize;
        let stop = self.call.cancel.child_token();
        let streams = [
            started.child.take_stdout().map(|source| self.keep(source, limit, self.pump(started.logs, LogStream::Stdout), stop.clone())),
            started.child.take_stderr().map(|source| self.keep(source, limit, self.pump(started.logs, LogStream::Stderr), stop.clone())),
        ];
        let ended = until_end(started.child, started.deadline, stop.clone()).await;
        drop((started.permit, started.ticket));
        let exit = ended.map_err(|error| Failure::io(&error, "the tool"))?;
        if self.call.cancel.is_cancelled() {
            return Err(Failure::said(ErrorCode::Cancelled, "the call was asked to stop").reason("cancelled"));
        }
        let mut kept = Vec::new();
        for stream in streams.into_iter().flatten() {
            let (bytes, mut task) = stream;
            let _ = tokio::time::timeout(LAST_WORDS, &mut task.0).await;
            kept.push(std::mem::take(&mut *bytes.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        let mut kept = kept.into_iter();
        let (output, errors) = (kept.next().unwrap_or_default(), kept.next().unwrap_or_default());
        Ok(Captured {
            exit,
            truncated: output.is_cut || errors.is_cut,
            output: self.redactor.redact_bytes(output.bytes),
            error_output: self.redactor.redact_bytes(errors.bytes),
        })
    }

    fn keep<R>(&self, source: R, limit: usize, pump: Arc<Pump>, stop: CancellationToken) -> (Arc<Mutex<Kept>>, Owned<()>)
    where
        R: tokio::io::AsyncRead + Unpin + Send + 'static,
    {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let shared = kept.clone();
        let task = tokio::spawn(async move {
            let mut all = 0u64;
            let raw = |bytes: &[u8]| {
                all += bytes.len() as u64;
                if all > limit as u64 + ENDLESS {
                    stop.cancel();
                }
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let room = limit - kept.bytes.len();
                kept.is_cut |= bytes.len() > room;
                kept.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
            };
            let _ = pump.run(source, raw, |_| std::future::ready(())).await;
        });
        (kept, Owned(task))
    }

    /// Follows a tool line by line.
    pub(super) fn follow(&self, mut started: Started) -> Process {
        let (sender, lines) = mpsc::channel(WAITING_LINES);
        let (told, exit) = watch::channel(None);
        let stop = self.call.cancel.child_token();
        let mut tasks = Vec::new();
        if let Some(source) = started.child.take_stdout() {
            tasks.push(follow_stream(source, Channel::Output, self.pump(started.logs, LogStream::Stdout), sender.clone()));
        }
        if let Some(source) = started.child.take_stderr() {
            tasks.push(follow_stream(source, Channel::Error, self.pump(started.logs, LogStream::Stderr), sender));
        }
        let stopping = stop.clone();
        tasks.push(tokio::spawn(async move {
            let ended = until_end(started.child, started.deadline, stopping).await;
            drop((started.permit, started.ticket));
            told.send_replace(Some(ended.unwrap_or(Exit { code: None, timed_out: false })));
        }));
        Process { lines: Some(lines), exit, stop, tasks }
    }
}

fn follow_stream<R>(source: R, channel: Channel, pump: Arc<Pump>, sender: mpsc::Sender<Line>) -> JoinHandle<()>
where
    R: tokio::io::AsyncRead + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        let line = |text: String| {
            let sender = sender.clone();
            async move {
                // Nobody reads any more: the tool goes on all the same.
                let _ = sender.send(Line { channel, text }).await;
            }
        };
        let _ = pump.run(source, |_| {}, line).await;
    })
}

impl contract::HostProcess for CallState {
    async fn next_line(&mut self, process: Resource<Process>) -> Result<Option<Line>, Failure> {
        let cancel = self.call.cancel.clone();
        let process = self.table.get_mut(&process)?;
        let Some(lines) = &mut process.lines else { return Ok(None) };
        super::super::unless_cancelled(&cancel, lines.recv()).await
    }

    async fn wait(&mut self, process: Resource<Process>) -> Result<Exit, Failure> {
        let cancel = self.call.cancel.clone();
        let process = self.table.get_mut(&process)?;
        // From here on nobody reads the lines, and a full channel must not hold up the tool.
        process.lines = None;
        let mut exit = process.exit.clone();
        let ended = super::super::unless_cancelled(&cancel, exit.wait_for(Option::is_some)).await?;
        let lost = || Failure::said(ErrorCode::Internal, "the tool was lost");
        (*ended.map_err(|_| lost())?).ok_or_else(lost)
    }

    async fn kill(&mut self, process: Resource<Process>) -> wasmtime::Result<()> {
        self.table.get(&process)?.stop.cancel();
        Ok(())
    }

    async fn drop(&mut self, process: Resource<Process>) -> wasmtime::Result<()> {
        self.table.delete(process)?;
        Ok(())
    }
}
