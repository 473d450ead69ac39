//! The demo's own machines, tried with the real clients, and the demo as a whole.

mod git_server;
mod published_shapes;
mod receiver;
mod whole;
