//! What everybody may ask: alive, ready, which version.

use hyper::StatusCode;
use hyper::{Response, header};
use serde::Serialize;

use super::endpoint::{self, Anybody, Body, Call, Ok200};
use super::error::Result;
use crate::store::StoreError;

/// GET `/healthz`
#[derive(Serialize)]
pub(super) struct Health {
    status: &'static str,
}

/// GET `/version`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Version {
    name: &'static str,
    version: &'static str,
    api_version: &'static str,
}

/// GET `/readyz`
#[derive(Serialize)]
struct Readiness {
    status: &'static str,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
}

/// The process answers.
pub(super) async fn health(_: Call<(), (), (), Anybody>) -> Result<Ok200<Health>> {
    Ok(Ok200(Health { status: "ok" }))
}

/// Which build of the product this is.
pub(super) async fn version(_: Call<(), (), (), Anybody>) -> Result<Ok200<Version>> {
    Ok(Ok200(Version { name: "cookhouse", version: env!("CARGO_PKG_VERSION"), api_version: "1" }))
}

/// Whether work can be taken: the store writes, builds are being started, the disk is above its floor.
pub(super) async fn ready(call: Call<(), (), (), Anybody>) -> Result<Response<Body>> {
    let written: std::result::Result<(), StoreError> = call.app.store.write(|_| Ok(())).await;
    let builds = call.app.builds.clone();
    // Asking a disk may wait for it.
    let has_room = tokio::task::spawn_blocking(move || builds.has_room()).await.unwrap_or(false);
    let check = |name, ok, message| Check { name, ok, message: (!ok).then_some(message) };
    let checks = vec![
        check("store", written.is_ok(), "the store cannot be written"),
        check("executor", call.app.builds.is_running(), "no builds are started: the service is starting or stopping"),
        check("disk", has_room, "the disk is fuller than disk.floor_percent and disk.floor_bytes allow: no builds are started"),
    ];
    let ok = checks.iter().all(|check| check.ok);
    let status = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = endpoint::json(status, &Readiness { status: if ok { "ready" } else { "unavailable" }, checks })?;
    if !ok {
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("5"));
    }
    Ok(response)
}
