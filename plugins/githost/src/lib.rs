//! githost: repositories, branches, files and checkouts of a git host that speaks GitHub's REST API (github.com, GitHub
//! Enterprise Server) or one like it (Gitea, Forgejo). It signs in with a token that was entered, or as an app: see
//! `app` and `guest::credentials`.
//!
//! `guest` speaks to the host and exists only in WebAssembly. Everything else is pure and tested natively.
//!
//! # Who guards a checkout
//!
//! The build before could write anything into the workspace, its `.git` included, and a repository's content is its authors'.
//!
//! - The host, before and around every command: only listed sub-commands and options; a cleared environment; no hooks, monitors,
//!   credential helpers, aliases or filters but Git LFS; no transport but http(s); `.git` reduced to what is harmless; `lfs.url` set
//!   so that a `.lfsconfig` cannot point elsewhere; the token told to the repository's origin alone, by askpass.
//! - This guest: values are checked by git's own rules before they stand on a command line, behind an end of options; full
//!   references and whole hashes only; submodules are not followed; links that lead out are left as they are and named in the log;
//!   what is checked out is compared with what was asked for; a repository that does not work is made anew, once.

#![deny(missing_docs, unreachable_pub)]

pub mod answers;
pub mod app;
pub mod attributes;
pub mod base64;
pub mod endpoints;
pub mod git;
pub mod git_output;
pub mod graphql;
pub mod names;
pub mod paging;
pub mod settings;
pub mod status;
pub mod submodules;
pub mod tree;

#[cfg(target_arch = "wasm32")]
mod guest;
