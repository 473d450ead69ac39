//! The one test binary: every whole-system test is a module of it.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "helpers of tests may fail like tests")]

mod api;
mod artifacts;
mod builds;
mod cli;
mod config;
mod demo;
#[cfg(unix)]
mod engine;
#[cfg(unix)]
mod flows;
#[cfg(unix)]
mod full_disk;
mod guests;
mod keys;
#[cfg(unix)]
mod kill;
mod live;
mod logs;
mod notifications;
mod outbound;
mod platform;
mod plugins;
mod retention;
mod schedules;
mod store;
mod streamvc;
mod support;
mod tidy;
mod webhooks;
