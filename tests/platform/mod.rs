//! Processes as the operating system sees them.

mod output;
mod processes;
