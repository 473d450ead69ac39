//! The one test binary: every whole-system test is a module of it.

mod config;
mod platform;
mod store;
mod support;
mod tidy;
