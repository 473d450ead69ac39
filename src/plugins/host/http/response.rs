//! Answers. A guest reads as much as it asks for and no more than it may.

use std::io::Write as _;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use wasmtime::component::Resource;

use super::super::super::bindings::http as contract;
use super::super::super::bindings::types::ErrorCode;
use super::super::workspaces::{Workspace, checked_path, create};
use super::super::{CallState, Failure, blocking};
use super::sending::from_outbound;
use crate::outbound::OutboundResponse;

/// Largest single read.
const LARGEST_READ: u32 = 4 << 20;
/// Most that `read-all` gives, whatever the guest says.
const LARGEST_ALL: u32 = 16 << 20;

/// An answer whose head has arrived.
pub struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Option<OutboundResponse>,
    rest: Bytes,
    /// Held for as long as the connection is.
    permit: Option<OwnedSemaphorePermit>,
}

impl Response {
    pub(super) fn new(mut answer: OutboundResponse, permit: OwnedSemaphorePermit) -> Self {
        let headers = std::mem::take(&mut answer.headers);
        Response { status: answer.status, headers, body: Some(answer), rest: Bytes::new(), permit: Some(permit) }
    }

    /// The next bytes, never empty; none at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        if !self.rest.is_empty() {
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        while let Some(body) = &mut self.body {
            match body.chunk().await.map_err(|error| from_outbound(&error))? {
                Some(bytes) if bytes.is_empty() => {}
                Some(bytes) => return Ok(Some(bytes)),
                None => {
                    self.body = None;
                    self.permit = None;
                }
            }
        }
        Ok(None)
    }
}

impl CallState {
    async fn next_bytes(&mut self, response: &Resource<Response>) -> Result<Option<Bytes>, Failure> {
        let cancel = self.call.cancel.clone();
        let response = self.table.get_mut(response)?;
        super::super::unless_cancelled(&cancel, response.next()).await?
    }
}

impl contract::HostResponse for CallState {
    async fn status(&mut self, response: Resource<Response>) -> wasmtime::Result<u16> {
        Ok(self.table.get(&response)?.status)
    }

    async fn header(&mut self, response: Resource<Response>, name: String) -> wasmtime::Result<Option<String>> {
        let headers = &self.table.get(&response)?.headers;
        Ok(headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(&name)).map(|(_, value)| value.clone()))
    }

    async fn headers(&mut self, response: Resource<Response>) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(self.table.get(&response)?.headers.clone())
    }

    async fn read(&mut self, response: Resource<Response>, max: u32) -> Result<Option<Vec<u8>>, Failure> {
        let Some(mut bytes) = self.next_bytes(&response).await? else { return Ok(None) };
        let taken = bytes.split_to(bytes.len().min(max.clamp(1, LARGEST_READ) as usize));
        self.table.get_mut(&response)?.rest = bytes;
        Ok(Some(taken.to_vec()))
    }

    async fn read_all(&mut self, response: Resource<Response>, limit: u32) -> Result<Vec<u8>, Failure> {
        let limit = limit.min(LARGEST_ALL) as usize;
        let mut all = Vec::new();
        while let Some(bytes) = self.next_bytes(&response).await? {
            if all.len() + bytes.len() > limit {
                return Err(Failure::said(ErrorCode::TooLarge, format!("the answer is longer than {limit} bytes")));
            }
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }

    async fn save(
        &mut self,
        response: Resource<Response>,
        workspace: Resource<Workspace>,
        path: String,
        limit: u64,
    ) -> Result<u64, Failure> {
        let checked = checked_path(&path)?;
        let directory = self.table.get(&workspace)?.directory.clone();
        let failed = |error: std::io::Error| Failure::io(&error, &format!("`{}`", super::super::super::text::prefix(&path, 200)));
        self.written.take(0, 1)?;
        let mut file = self.unless_cancelled(blocking(move || create(&directory, &checked, false))).await?.map_err(failed)?;
        let mut saved = 0u64;
        while let Some(bytes) = self.next_bytes(&response).await? {
            saved += bytes.len() as u64;
            if saved > limit {
                return Err(Failure::said(ErrorCode::TooLarge, format!("the answer is longer than {limit} bytes")));
            }
            self.written.take(bytes.len() as u64, 0)?;
            let writing = blocking(move || file.write_all(&bytes).map(|()| file));
            file = self.unless_cancelled(writing).await?.map_err(failed)?;
        }
        Ok(saved)
    }

    async fn drop(&mut self, response: Resource<Response>) -> wasmtime::Result<()> {
        self.table.delete(response)?;
        Ok(())
    }
}
