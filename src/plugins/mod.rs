//! The plugin host. No other module names wasmtime.

pub mod askpass;
#[allow(dead_code)]
mod capability;
#[allow(dead_code)]
mod git;
pub mod manifest;
#[allow(dead_code)]
#[allow(dead_code)]
mod redaction;
mod text;
