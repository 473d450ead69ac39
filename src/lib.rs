//! Cookhouse: a self-hosted build service for Unreal Engine studios. This page is the map of the house.
//!
//! # Floors
//!
//! ```text
//! 5  main · cli · demo               wiring only
//! 4  appliance · config · control    builds everything; orders from the command line
//! 3  api                             HTTP
//!    app                             the handles a handler may use
//!    live                            what followers of builds and events share
//! 2  schedules                       builds that the clock starts
//!    builds                          the life of a build
//!    people                          accounts, sessions, tokens, members
//!    keys                            the master key and what is sealed with it, changed in step
//!    retention                       what is deleted, and when
//!    webhooks                        signed messages to other machines, until they take them
//!    notifications                   who is told that a build has ended
//! 1  store · artifacts · plugins · outbound · vault    one outside thing each
//! 0  model · seams · clock · platform · uproject       words, rules, traits, the operating system
//! ```
//!
//! A module imports from floors below it, never upward; on its own floor only `plugins → outbound`,
//! `schedules → builds` and `notifications → builds` (whose logs it reads).
//! One module names each outside thing: `store` redb, `plugins` wasmtime, `api` hyper (the demo's own
//! little servers aside), `outbound` reqwest, `notifications` lettre, `schedules` tokio-cron-scheduler, `platform`
//! landlock and what differs between operating systems.
//! `tests/tidy.rs` holds all of this.
//!
//! # Invariants
//!
//! - An answer is given after what it says is durable; outside effects start after the answer is durable.
//! - A build's status moves in `builds::lifecycle` and nowhere else.
//! - Hints (wake-ups) may be lost; the store's indexes are the truth about what has to be done.
//! - A file is finished, synced and renamed before the record that names it exists; it is deleted after
//!   the record that names it is gone.
//! - Every read and write of a resource names the caller's organization: another organization's id is not found.
//! - What a request changes is recorded in the audit log by the store, in the transaction that changes it.
//! - No access has a default: a route without a decision does not compile, a plugin without a grant reaches nothing.
//!
//! # A request
//!
//! listener → `api::router` (find the row, identify, authorize, read the body within its limit) → a handler in
//! `api::<resource>` → `store` or `builds` → an answer, or an `ApiError` in the one envelope.
//!
//! # A build
//!
//! A request, or a due schedule (`schedules`): `builds::trigger` makes it pending → `builds::queue` picks it → `builds::run` claims it and takes it through
//! sync (a source-control plugin), prepare, build (the engine's own tool), package (`artifacts`) →
//! `builds::lifecycle` finishes it → `builds::deploy` hands the artifact to the deploy plugin.

#![deny(unsafe_code, missing_docs, unreachable_pub)]

pub mod api;
pub mod app;
pub mod appliance;
pub mod artifacts;
pub mod builds;
pub mod cli;
pub mod clock;
pub mod config;
pub mod control;
pub mod demo;
pub mod keys;
pub mod live;
pub mod model;
pub mod notifications;
pub mod outbound;
pub mod people;
pub mod platform;
pub mod plugins;
pub mod retention;
pub mod schedules;
pub mod seams;
pub mod store;
pub mod uproject;
pub mod vault;
pub mod webhooks;
