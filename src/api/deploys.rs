//! The ledger of a build's deploys (decisions 11).

use schemars::JsonSchema;
use serde::Serialize;

use super::builds::find;
use super::cursor::Cursors;
use super::endpoint::{Call, Ok200};
use super::error::{ApiError, Result};
use super::tokens::Paging;
use crate::model::deploy::{DeployAttempt, DeployError, DeployStatus};
use crate::model::page::Page;
use crate::model::{Build, Id, Timestamp, TriggeredBy};
use crate::store::key::Key;
use crate::store::{Order, Read, tables};

/// One attempt to hand a build's artifact to one target.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeployAttempt")]
pub(super) struct DeployView {
    /// Its id.
    id: Id<DeployAttempt>,
    /// Which plugin it went through.
    #[schemars(example = &"custom-deploy")]
    plugin: String,
    /// Who asked for it; null: it follows from the build setting.
    requested_by: Option<TriggeredBy>,
    /// `in_progress`, `succeeded` or `failed`.
    status: DeployStatus,
    /// Why it failed.
    error: Option<DeployError>,
    /// When it began.
    started_at: Timestamp,
    /// When it ended; null: it has not.
    finished_at: Option<Timestamp>,
    /// Milliseconds between the two.
    duration_ms: Option<u64>,
}

impl DeployView {
    fn new(attempt: DeployAttempt) -> Self {
        DeployView {
            id: attempt.id,
            plugin: attempt.plugin,
            requested_by: attempt.requested_by,
            status: attempt.status,
            error: attempt.error,
            started_at: attempt.started_at,
            finished_at: attempt.finished_at,
            duration_ms: attempt.finished_at.map(|finished| finished.since(attempt.started_at)),
        }
    }
}

/// Every attempt, newest first.
pub(super) async fn list(call: Call<Id<Build>, Paging>) -> Result<Ok200<Page<DeployView>>> {
    let (organization, id, limit) = (call.caller.organization(), call.path, call.query.limit);
    let cursors = Cursors::new(&call.app.vault, organization, "listBuildDeploys", &[Some(id.as_str())])?;
    let after = call.query.cursor.as_deref().map(|cursor| cursors.read::<DeployAttempt>(cursor)).transpose()?;
    let page = call.app.store.read(|snapshot| {
        find(snapshot, &call.caller, id)?;
        let walk = (&tables::DEPLOY_ATTEMPTS_BY_BUILD, Key::of_id(id));
        Ok::<_, ApiError>(snapshot.page::<DeployAttempt>(organization, Some(walk), after, Order::NewestFirst, limit)?)
    })?;
    let next_cursor = page.next.map(|last| cursors.write(last));
    Ok(Ok200(Page { items: page.items.into_iter().map(DeployView::new).collect(), next_cursor }))
}
