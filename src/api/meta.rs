//! What everybody may ask: alive, ready, which version.

use hyper::StatusCode;
use hyper::header;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use super::endpoint::{self, Anybody, Call, Custom, CustomAnswer, Ok200};
use super::error::Result;
use super::openapi::shape::Answered;
use crate::store::StoreError;

/// That the process answers.
#[derive(Serialize, JsonSchema)]
pub(super) struct Health {
    /// Always `ok`: the process answers.
    #[schemars(extend("enum" = ["ok"]))]
    status: &'static str,
}

/// Which version answers.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Version {
    /// The product.
    #[schemars(extend("enum" = ["cookhouse"]))]
    name: &'static str,
    /// Of the program.
    #[schemars(example = &"0.1.0")]
    version: &'static str,
    /// Of the API, as in the paths.
    #[schemars(extend("enum" = ["1"]))]
    api_version: &'static str,
}

/// Whether work can be taken, and what stands in its way.
#[derive(Serialize, JsonSchema)]
struct Readiness {
    /// `ready` when every check is.
    #[schemars(extend("enum" = ["ready", "unavailable"]))]
    status: &'static str,
    /// What was looked at.
    checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReadinessCheck")]
struct Check {
    /// What was looked at.
    #[schemars(extend("enum" = ["store", "executor", "disk"]))]
    name: &'static str,
    /// Whether it is as it should be.
    ok: bool,
    /// What is wrong; only when something is.
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

/// 200, or 503 with the same body.
pub(super) struct ReadinessAnswer;

impl CustomAnswer for ReadinessAnswer {
    fn describe(generator: &mut SchemaGenerator) -> Vec<Answered> {
        vec![
            Answered::json::<Readiness>(StatusCode::OK, generator),
            Answered::json::<Readiness>(StatusCode::SERVICE_UNAVAILABLE, generator).with(&["Retry-After"]),
        ]
    }
}

/// Whether work can be taken: the store writes, builds are being started, the disk is above its floor.
pub(super) async fn ready(call: Call<(), (), (), Anybody>) -> Result<Custom<ReadinessAnswer>> {
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
    Ok(response.into())
}
