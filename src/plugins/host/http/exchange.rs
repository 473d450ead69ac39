//! Requests in the background, and bodies that the guest writes while they are sent.

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use wasmtime::component::Resource;

use super::super::super::bindings::http as contract;
use super::super::super::bindings::types::{ByteRange, ErrorCode};
use super::super::artifacts::Artifact;
use super::super::{CallState, Failure};
use super::request::{Content, Request};
use super::response::Response;

/// Chunks between the guest and the connection.
const WAITING_CHUNKS: usize = 2;
/// Bytes of an artifact that are handed over at a time.
const STEP: usize = 1 << 20;

/// A request under way. Dropping it ends it.
pub struct Exchange {
    writer: Option<mpsc::Sender<std::io::Result<Bytes>>>,
    /// Bytes that may still be written, where the length was given.
    left: Option<u64>,
    task: Option<JoinHandle<Result<Response, Failure>>>,
    ready: watch::Receiver<bool>,
}

impl Exchange {
    pub(super) fn until_ready(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ready = self.ready.clone();
        async move {
            // A sender that is gone means that the task has ended: ready too.
            let _ = ready.wait_for(|ready| *ready).await;
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl CallState {
    pub(super) fn begin(&mut self, request: Request) -> Result<Exchange, Failure> {
        let (writer, left, written) =
            match request.content {
                Content::Known(_) => (None, None, None),
                Content::Streamed(length) => {
                    let (writer, chunks) = mpsc::channel(WAITING_CHUNKS);
                    let stream = futures_util::stream::unfold(chunks, |mut chunks: mpsc::Receiver<_>| async move {
                        Some((chunks.recv().await?, chunks))
                    });
                    (Some(writer), length, Some(stream.boxed()))
                }
            };
        let sending = self.sending(request, written)?;
        let (done, ready) = watch::channel(false);
        let task = tokio::spawn(sending.run().inspect(move |_| {
            done.send_replace(true);
        }));
        Ok(Exchange { writer, left, task: Some(task), ready })
    }

    async fn write_chunk(&mut self, exchange: &Resource<Exchange>, bytes: Bytes) -> Result<(), Failure> {
        let entry = self.table.get_mut(exchange)?;
        let Some(writer) = entry.writer.clone() else {
            return Err(Failure::said(ErrorCode::InvalidArgument, "this exchange has no streamed body"));
        };
        if let Some(left) = &mut entry.left {
            let Some(rest) = left.checked_sub(bytes.len() as u64) else {
                return Err(Failure::said(ErrorCode::TooLarge, "the body would become longer than was announced"));
            };
            *left = rest;
        }
        let ended = |_| Failure::said(ErrorCode::Conflict, "the other side ended the exchange; `finish` says how").reason("ended");
        self.unless_cancelled(writer.send(Ok(bytes))).await?.map_err(ended)
    }
}

impl contract::HostExchange for CallState {
    async fn write(&mut self, exchange: Resource<Exchange>, bytes: Vec<u8>) -> Result<(), Failure> {
        self.write_chunk(&exchange, bytes.into()).await
    }

    async fn write_artifact(
        &mut self,
        exchange: Resource<Exchange>,
        artifact: Resource<Artifact>,
        range: Option<ByteRange>,
    ) -> Result<(), Failure> {
        let artifact = self.table.get(&artifact)?.clone();
        let (mut offset, mut left) = artifact.range(range)?;
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(STEP).min(STEP);
            let bytes =
                self.unless_cancelled(artifact.file.read(offset, step)).await?.map_err(|error| Failure::io(&error, "the artifact"))?;
            if bytes.is_empty() {
                return Err(Failure::said(ErrorCode::Io, "the artifact became shorter"));
            }
            offset += bytes.len() as u64;
            left -= bytes.len() as u64;
            self.write_chunk(&exchange, bytes.into()).await?;
        }
        Ok(())
    }

    async fn finish(&mut self, exchange: Resource<Exchange>) -> Result<Resource<Response>, Failure> {
        let entry = self.table.get_mut(&exchange)?;
        entry.writer = None;
        let Some(mut task) = entry.task.take() else {
            return Err(Failure::said(ErrorCode::InvalidArgument, "`finish` is called once"));
        };
        let done = match self.unless_cancelled(&mut task).await {
            Ok(done) => done,
            Err(cancelled) => {
                task.abort();
                return Err(cancelled);
            }
        };
        let response = done.unwrap_or_else(|_| Err(Failure::said(ErrorCode::Internal, "the exchange was given up")))?;
        Ok(self.table.push(response)?)
    }

    async fn is_ready(&mut self, exchange: Resource<Exchange>) -> wasmtime::Result<bool> {
        Ok(*self.table.get(&exchange)?.ready.borrow())
    }

    async fn drop(&mut self, exchange: Resource<Exchange>) -> wasmtime::Result<()> {
        self.table.delete(exchange)?;
        Ok(())
    }
}
