//! A program whose output is read line by line while it runs.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::lines::LineSplitter;
use super::process::{Child, Command, ExitStatus, ProcessIdentity};
use crate::model::log::LogStream;

/// One read. Small enough that a batch of the worst kind (empty lines) stays under two megabytes.
const PIECE_BYTES: usize = 32 * 1024;
/// Batches that may wait for the reader before the program has to.
const WAITING_BATCHES: usize = 4;
/// After the program has ended everything it wrote is already in the pipe: at most this much.
const LARGEST_PIPE_BYTES: usize = 1024 * 1024;
/// How long an ended program's pipe may be silent, held open by something that cannot be killed.
const PATIENCE_AFTER_END: Duration = Duration::from_millis(500);

/// A line that a program wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLine {
    /// Where it wrote it.
    pub stream: LogStream,
    /// Without its end; see [`LineSplitter`].
    pub text: String,
}

/// A started command. Read [`Running::lines`] to its end, then ask for the [`Running::status`].
///
/// A reader that is slow makes the program wait; memory stays bounded. Dropping this kills the program with
/// everything it started.
#[derive(Debug)]
pub struct Running {
    identity: ProcessIdentity,
    lines: mpsc::Receiver<Vec<OutputLine>>,
    requests: mpsc::UnboundedSender<Duration>,
    supervisor: Option<JoinHandle<io::Result<ExitStatus>>>,
    status: Option<ExitStatus>,
}

impl Running {
    /// Starts it. Needs a tokio runtime.
    ///
    /// # Errors
    /// As [`Command::start`].
    pub fn start(command: Command) -> io::Result<Running> {
        let mut child = command.start()?;
        let identity = child.identity().clone();
        let (ended, has_ended) = watch::channel(false);
        let (sender, lines) = mpsc::channel(WAITING_BATCHES);
        if let Some(pipe) = child.take_stdout() {
            tokio::spawn(read_lines(pipe, LogStream::Stdout, sender.clone(), has_ended.clone()));
        }
        if let Some(pipe) = child.take_stderr() {
            tokio::spawn(read_lines(pipe, LogStream::Stderr, sender, has_ended));
        }
        let (requests, asked) = mpsc::unbounded_channel();
        let supervisor = tokio::spawn(supervise(child, asked, ended));
        Ok(Running { identity, lines, requests, supervisor: Some(supervisor), status: None })
    }

    /// Who it is.
    pub fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// The next lines, those of one stream in the order they were written; nothing when the program has ended and all
    /// was read. May be cancelled without losing a line.
    pub async fn lines(&mut self) -> Option<Vec<OutputLine>> {
        self.lines.recv().await
    }

    /// Asks the program to end within `grace` and makes sure that it does, in the background: go on reading
    /// [`Running::lines`]. A second call with a shorter grace shortens it.
    pub fn end(&self, grace: Duration) {
        // Nobody hears it when the program has ended already.
        let _ = self.requests.send(grace);
    }

    /// Waits until the program has ended, with all that it started. Lines that were not read may still be.
    ///
    /// # Errors
    /// When the operating system lost the process.
    pub async fn status(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let Some(supervisor) = &mut self.supervisor else {
            return Err(io::Error::other("the process was lost"));
        };
        let status = supervisor.await.map_err(|_| io::Error::other("the runtime stops"));
        self.supervisor = None;
        let status = status??;
        self.status = Some(status);
        Ok(status)
    }
}

async fn supervise(mut child: Child, mut asked: mpsc::UnboundedReceiver<Duration>, ended: watch::Sender<bool>) -> io::Result<ExitStatus> {
    let mut deadline: Option<Instant> = None;
    let status = loop {
        let work = async {
            match deadline {
                None => child.wait().await,
                Some(deadline) => child.end(deadline.saturating_duration_since(Instant::now())).await,
            }
        };
        let request = tokio::select! {
            status = work => break status,
            request = asked.recv() => request,
        };
        // Nobody holds the other end any more: nobody wants it to go on.
        let Some(grace) = request else { break child.end(Duration::ZERO).await };
        let asked_for = Instant::now() + grace;
        deadline = Some(deadline.map_or(asked_for, |earlier| earlier.min(asked_for)));
    };
    let _ = ended.send(true);
    status
}

async fn read_lines(
    mut pipe: impl AsyncRead + Unpin,
    stream: LogStream,
    lines: mpsc::Sender<Vec<OutputLine>>,
    mut has_ended: watch::Receiver<bool>,
) {
    let mut splitter = LineSplitter::default();
    let mut piece = vec![0; PIECE_BYTES];
    let mut texts = Vec::new();
    let mut left = None;
    loop {
        let read = match left {
            None => tokio::select! {
                biased;
                read = pipe.read(&mut piece) => read,
                // The sender may be gone too: then the supervisor was.
                _ = has_ended.wait_for(|ended| *ended) => {
                    left = Some(LARGEST_PIPE_BYTES);
                    continue;
                }
            },
            Some(left) if left > 0 => match tokio::time::timeout(PATIENCE_AFTER_END, pipe.read(&mut piece)).await {
                Ok(read) => read,
                Err(_) => break,
            },
            Some(_) => break,
        };
        // A pipe has no errors worth telling from its end.
        let Ok(count @ 1..) = read else { break };
        left = left.map(|left| left.saturating_sub(count));
        splitter.push(&piece[..count], &mut texts);
        if !texts.is_empty() {
            let batch = texts.drain(..).map(|text| OutputLine { stream, text }).collect();
            if lines.send(batch).await.is_err() {
                return;
            }
        }
    }
    splitter.finish(&mut texts);
    if !texts.is_empty() {
        let _ = lines.send(texts.into_iter().map(|text| OutputLine { stream, text }).collect()).await;
    }
}
