//! An organization's queue: whether its builds are started.

use schemars::JsonSchema;
use serde::Serialize;

use super::auth::Caller;
use super::endpoint::{Call, Ok200};
use super::error::{ApiError, Result};
use crate::app::App;
use crate::model::{Timestamp, TriggeredBy};
use crate::store::Read;

/// Whether builds are started, and how many wait.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Queue")]
pub(super) struct QueueView {
    /// Somebody paused the organization's builds.
    paused: bool,
    /// When; null unless it is paused.
    paused_at: Option<Timestamp>,
    /// Who, in the form of a build's `triggeredBy`; null unless it is paused.
    paused_by: Option<TriggeredBy>,
    /// The whole host is drained: nothing is started until the service starts anew.
    draining: bool,
    /// How many builds the host runs at once.
    slots: usize,
    /// How many of the organization's builds run.
    running_builds: usize,
    /// How many of them wait.
    pending_builds: usize,
    /// What keeps builds from the rest of the host.
    isolation: IsolationView,
}

/// What keeps builds from the rest of the host.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Isolation")]
struct IsolationView {
    /// The version of Linux's Landlock that holds builds to their workspace and engine; null where nothing does.
    landlock: Option<u32>,
    /// The user that builds run as; null: the service's own.
    #[schemars(example = &"cookbuild")]
    user: Option<String>,
    /// Why it is less than could be; null where it is not.
    remark: Option<String>,
}

impl QueueView {
    fn of(app: &App, rows: &impl Read, caller: &Caller) -> Result<Ok200<QueueView>> {
        let state = app.builds.queue_state(rows, caller.organization())?;
        Ok(Ok200(QueueView {
            paused: state.pause.is_some(),
            paused_at: state.pause.as_ref().map(|pause| pause.paused_at),
            paused_by: state.pause.map(|pause| pause.paused_by),
            draining: state.is_draining,
            slots: state.slots,
            running_builds: state.running,
            pending_builds: state.pending,
            isolation: {
                let isolation = app.builds.isolation();
                IsolationView {
                    landlock: isolation.landlock,
                    user: isolation.account.as_ref().map(|account| account.name.clone()),
                    remark: isolation.remark.clone(),
                }
            },
        }))
    }
}

/// How the queue stands.
pub(super) async fn show(call: Call) -> Result<Ok200<QueueView>> {
    call.app.store.read(|snapshot| QueueView::of(&call.app, snapshot, &call.caller))
}

/// Starts no more builds. Again: nothing changes.
pub(super) async fn pause(call: Call) -> Result<Ok200<QueueView>> {
    let (app, caller) = (call.app.clone(), call.caller);
    let job = move |tx: &crate::store::Change| {
        app.builds.pause_in(tx, caller.organization(), caller.cause())?;
        QueueView::of(&app, tx, &caller)
    };
    call.app.store.write::<_, ApiError>(job).await
}

/// Starts builds again.
pub(super) async fn resume(call: Call) -> Result<Ok200<QueueView>> {
    let (app, caller) = (call.app.clone(), call.caller);
    let job = move |tx: &crate::store::Change| {
        app.builds.resume_in(tx, caller.organization())?;
        QueueView::of(&app, tx, &caller)
    };
    call.app.store.write::<_, ApiError>(job).await
}
