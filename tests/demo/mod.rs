//! The demo's own machines, tried with the real clients.

mod git_server;
