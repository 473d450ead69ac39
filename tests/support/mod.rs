//! What tests of the whole system share.

pub(crate) mod builds;
pub(crate) mod client;
pub(crate) mod depot;
#[cfg(unix)]
pub(crate) mod farm;
pub(crate) mod front;
pub(crate) mod mail;
pub(crate) mod repositories;
pub(crate) mod schema;
pub(crate) mod scripted;
pub(crate) mod server;
#[cfg(unix)]
pub(crate) mod service;
pub(crate) mod small_disk;
pub(crate) mod stream;
pub(crate) mod studio;
