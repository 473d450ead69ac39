//! Whom a build has told, and a way to try where notifications go (decisions 15).

use schemars::JsonSchema;
use serde::Serialize;

use super::builds;
use super::endpoint::{Call, Ok200};
use super::error::{Problem, Result};
use crate::model::notification::{Channel, NotificationError, NotificationState};
use crate::model::page::Page;
use crate::model::{Build, Id, Notification, Organization, Timestamp};
use crate::notifications::{Trial, of_build};
use crate::store::Read;

/// One message about one build to one destination.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Notification")]
pub(super) struct NotificationView {
    /// Its id, also in the Message-ID of the mail.
    id: Id<Notification>,
    /// How it is told.
    channel: Channel,
    /// The address of a mail; null for a chat.
    to: Option<String>,
    /// Where it stands.
    status: NotificationState,
    /// It waits to be told together with other failures, or was.
    digest: bool,
    /// How often it was tried.
    attempts: u32,
    /// When the build ended.
    created_at: Timestamp,
    /// When it is tried next; null once that is over.
    next_attempt_at: Option<Timestamp>,
    /// When it was sent or given up.
    finished_at: Option<Timestamp>,
    /// Why the last try did not go well.
    error: Option<NotificationError>,
}

impl NotificationView {
    fn new(one: Notification) -> Self {
        NotificationView {
            id: one.id,
            channel: one.destination.channel(),
            to: one.destination.address().map(str::to_owned),
            status: one.state,
            digest: one.is_held,
            attempts: one.attempts,
            created_at: one.created_at,
            next_attempt_at: (one.state == NotificationState::Pending).then_some(one.due_at),
            finished_at: one.finished_at,
            error: one.error,
        }
    }
}

/// What came of a message that was sent to try the settings.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NotificationTest")]
pub(super) struct TrialView {
    /// How it was told.
    channel: Channel,
    /// The address of the mail; null for a chat.
    to: Option<String>,
    /// `sent`, `failed`, or `skipped`: it is not configured.
    status: NotificationState,
    /// Why it did not go well.
    error: Option<NotificationError>,
}

/// What came of trying every way out.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NotificationTests")]
pub(super) struct TrialsView {
    /// One for each channel.
    results: Vec<TrialView>,
}

/// Everybody whom a build has told or will tell: a handful, on one page.
pub(super) async fn list(call: Call<Id<Build>>) -> Result<Ok200<Page<NotificationView>>> {
    call.app.store.read(|rows| {
        let build = builds::find(rows, &call.caller, call.path)?;
        let items = of_build(rows, build.organization_id, build.id)?.into_iter().map(NotificationView::new).collect();
        Ok(Ok200(Page { items, next_cursor: None }))
    })
}

/// Sends a message to each configured chat, and a mail to the caller, and says what came of them.
pub(super) async fn test(call: Call<Id<Organization>>) -> Result<Ok200<TrialsView>> {
    call.caller.check_unlimited()?;
    let id = call.path;
    if id != call.caller.organization() {
        return Err(Problem::NotFound.into());
    }
    let organization: Option<Organization> = call.app.store.read(|rows| rows.get(id, id))?;
    let organization = organization.ok_or(Problem::NotFound)?;
    let user = call.caller.user();
    let trials = call.app.notifications.try_out(&organization, &user.name, &user.email).await;
    let view = |Trial { destination, state, error }: Trial| TrialView {
        channel: destination.channel(),
        to: destination.address().map(str::to_owned),
        status: state,
        error,
    };
    Ok(Ok200(TrialsView { results: trials.into_iter().map(view).collect() }))
}
