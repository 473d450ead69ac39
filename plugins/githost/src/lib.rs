//! githost: repositories, branches, files and checkouts of a git host that speaks GitHub's REST API (github.com, GitHub
//! Enterprise Server) or one like it (Gitea, Forgejo). It signs in with a token; other ways of signing in go into `settings`
//! (what is configured) and `guest::web` (what is put on a request).
//!
//! `guest` speaks to the host and exists only in WebAssembly. Everything else is pure and tested natively.
//!
//! # Who guards a checkout
//!
//! The server's `git` tool profile clears the environment, silences the machine's configuration, switches off hooks, monitors,
//! credential helpers, redirects and every transport but http(s), and gives the token only to the origin of `gitBaseUrl`.
//! This guest passes sub-commands and checked values only, and treats `.git` as hostile, because the build before could
//! write there: its configuration, hooks, attributes and alternates are removed and made anew before git reads them, and
//! `lfs.url` is set in them so that a `.lfsconfig` in the repository cannot point elsewhere.

#![deny(missing_docs, unreachable_pub)]

pub mod answers;
pub mod attributes;
pub mod base64;
pub mod endpoints;
pub mod git;
pub mod git_output;
pub mod names;
pub mod paging;
pub mod pattern;
pub mod settings;
pub mod status;
pub mod tree;

#[cfg(target_arch = "wasm32")]
mod guest;
