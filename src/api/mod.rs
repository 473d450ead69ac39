//! HTTP. No other module names hyper, a status code or a header.
//!
//! ```text
//! server   accept, TLS, limits of connections, graceful end        (`activity`: whose turn it is on a connection)
//! router   find the row · identify · authorize · read · run · answer      (once, for every row)
//! routes   every endpoint, one line each
//! <name>   the handlers of one resource: load, check, put
//! ```
//!
//! A handler never sees a raw request: its [`Call`] holds what its signature asks for, parsed and permitted. What goes
//! wrong is an [`ApiError`], which becomes the one envelope in one place.

mod activity;
mod audit;
pub mod auth;
pub mod body;
mod build_logs;
mod build_setting_fields;
mod build_settings;
mod build_view;
mod builds;
pub mod check;
mod compress;
pub mod conditional;
mod content;
pub mod cursor;
mod deploys;
mod docs;
mod downloads;
pub mod endpoint;
pub mod error;
pub mod fields;
mod githost;
pub mod hooks;
mod idempotency;
mod integration_settings;
pub mod link;
mod live;
mod members;
mod meta;
mod metrics;
mod notifications;
pub mod openapi;
mod organizations;
mod patient_io;
mod people;
mod platforms;
mod projects;
pub mod query;
mod queue;
mod range;
mod rate_limits;
mod refusals;
mod repositories;
pub mod router;
pub mod routes;
mod schedule_slots;
pub mod server;
mod sessions;
mod storage;
mod streamvc;
mod streamvc_projects;
mod strict_json;
pub mod tls;
mod tokens;
mod unread;
mod urls;
mod webhook_deliveries;
mod webhooks;

pub use auth::Caller;
pub use endpoint::{Access, Answer, Body, Call, Deprecation, Route};
pub use error::{ApiError, Problem, Result};
pub use rate_limits::Counted;
pub use router::Router;
pub use routes::routes;
pub use server::Server;
