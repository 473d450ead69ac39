//! The one test binary: every whole-system test is a module of it.

mod artifacts;
mod config;
mod demo;
mod platform;
mod store;
mod support;
mod tidy;
