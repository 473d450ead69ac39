//! The one test binary: every whole-system test is a module of it.

mod api;
mod artifacts;
mod cli;
mod config;
mod platform;
mod store;
mod support;
mod tidy;
