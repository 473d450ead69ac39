//! What more than one guest needs, without a binding to the host: it is tested natively.

#![deny(unsafe_code, missing_docs, unreachable_pub)]

pub mod address;
pub mod pattern;
pub mod problem;
pub mod text;

pub use address::Address;
pub use problem::{Code, Problem};
