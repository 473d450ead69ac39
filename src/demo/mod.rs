//! The demo: a server, a git server and a receiver on loopback, and one build through all of it.

pub mod certificate;
pub mod files;
pub mod git_server;
pub mod receiver;
pub mod screen;
