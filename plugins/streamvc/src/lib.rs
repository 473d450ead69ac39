//! streamvc: streams, changelists, files and checkouts of a Perforce server, through the studio's own `p4` program.
//!
//! `guest` speaks to the host and exists only in WebAssembly. Everything else is pure and tested natively.
//!
//! # What p4 says, and where
//!
//! With `-ztag -Mj` each line of the standard output is one JSON object: a record (every value a text), a message
//! (`severity`, `generic`, `data`) or a text (`data`, `level`). The exit code is 0 for warnings, which also say that there is
//! nothing (`no such file(s)`), and 1 from severity 3 on. A connection that fails prints plain text on the standard error
//! and nothing else; a key that is not trusted is a message on the standard output. Messages carry no number here: they are
//! told apart by their text and their `generic`.
//!
//! # Who guards a checkout
//!
//! - The host: only listed commands and options; the server of the settings and no other; a pinned key; a private
//!   environment; the ticket in the environment alone; p4 writes below the workspace only.
//! - This guest: names are checked and `@ # % *` escaped before they stand on a command line; the workspace's client is
//!   bound to exactly one stream; `sync` names exactly one changelist; what builds changed or deleted is brought back.

#![deny(missing_docs, unreachable_pub)]

pub mod commands;
pub mod failure;
pub mod names;
pub mod record;
pub mod settings;
pub mod tool;
pub mod view;

#[cfg(target_arch = "wasm32")]
mod guest;
