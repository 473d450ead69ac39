//! What this host can build.

use schemars::JsonSchema;
use serde::Serialize;

use super::endpoint::{Call, Ok200};
use super::error::{ApiError, Result};
use crate::model::build_setting::PLATFORMS;
use crate::model::page::Page;

/// A platform, and whether this host builds it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Platform")]
pub(super) struct PlatformView {
    /// As build settings name it.
    #[schemars(example = &"Win64")]
    name: String,
    /// Whether this host can build it.
    available: bool,
    /// Why not; null when it can be built.
    reason: Option<String>,
    /// The engines that build it here.
    engines: Vec<EngineView>,
}

/// An engine that can build it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Engine")]
struct EngineView {
    /// What `ueVersion` may say.
    #[schemars(example = &"5.4")]
    label: String,
    /// What the engine says of itself.
    #[schemars(example = &"5.4.4")]
    version: String,
}

/// Every platform, with the engines that build it here or the reason why none does.
pub(super) async fn list(call: Call) -> Result<Ok200<Page<PlatformView>>> {
    let builds = call.app.builds.clone();
    let inventory = tokio::task::spawn_blocking(move || builds.engines()).await.map_err(ApiError::internal)?;
    let names = PLATFORMS.into_iter().map(str::to_owned).chain(call.app.settings.extra_platforms.iter().cloned());
    let items = names.map(|name| {
        let reason = inventory.refusal(&name);
        let host = crate::builds::engines::Host::current();
        let engines = inventory.engines.iter().filter(|engine| engine.refusal(&name, host).is_none());
        let engines = engines.map(|engine| EngineView { label: engine.label.clone(), version: engine.version.to_string() }).collect();
        PlatformView { name, available: reason.is_none(), reason, engines }
    });
    Ok(Ok200(Page { items: items.collect(), next_cursor: None }))
}
