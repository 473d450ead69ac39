//! Processes as the operating system sees them.

mod processes;
