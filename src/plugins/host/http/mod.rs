//! `http`: requests to granted origins. The host resolves, checks the address, speaks TLS, frames the body, and
//! follows redirects only where the grants reach.

pub mod body;
pub mod exchange;
pub mod multipart;
pub mod request;
pub mod response;
pub(in super::super) mod sending;

use wasmtime::component::Resource;

use super::super::bindings::http as contract;
use super::super::bindings::types::ErrorCode;
use super::{CallState, Failure};
use exchange::Exchange;
use request::Request;
use response::Response;

/// Exchanges of one call that may be open at one time, answers that are still read included.
pub(crate) const LIVE_EXCHANGES: usize = 16;

impl contract::Host for CallState {
    async fn send(&mut self, request: Resource<Request>) -> Result<Resource<Response>, Failure> {
        let request = self.table.delete(request)?;
        let sending = self.sending(request, None)?;
        let response = self.unless_cancelled(sending.run()).await??;
        Ok(self.table.push(response)?)
    }

    async fn start(&mut self, request: Resource<Request>) -> Result<Resource<Exchange>, Failure> {
        let request = self.table.delete(request)?;
        let exchange = self.begin(request)?;
        Ok(self.table.push(exchange)?)
    }

    async fn wait_any(&mut self, exchanges: Vec<Resource<Exchange>>) -> Result<u32, Failure> {
        if exchanges.is_empty() {
            return Err(Failure::said(ErrorCode::InvalidArgument, "there is nothing to wait for"));
        }
        let mut waits = Vec::with_capacity(exchanges.len());
        for exchange in &exchanges {
            waits.push(Box::pin(self.table.get(exchange)?.until_ready()));
        }
        let (_, place, _) = self.unless_cancelled(futures_util::future::select_all(waits)).await?;
        Ok(u32::try_from(place).unwrap_or(u32::MAX))
    }
}
