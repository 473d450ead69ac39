//! Custom deploy: one POST of `multipart/form-data` to the studio's endpoint, exactly as the service's specification says.
//! The parts are `metadata` (`application/json`) and `artifact` (`<buildId>.tar.gz`, `application/gzip`).
//!
//! `request` holds what can be tested without a host; `guest` speaks to the host and exists only in WebAssembly.

#![deny(missing_docs, unreachable_pub)]

pub mod request;

#[cfg(target_arch = "wasm32")]
mod guest;
