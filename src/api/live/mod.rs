//! The live channel (decisions 12): one event log, two transports with the same JSON.
//!
//! ```text
//! mod        the rows: tickets, server-sent events, the WebSocket's handshake
//! build      one build: its events and its log lines, in one order, to the end
//! organization   all events of the organization
//! message    what is sent, as JSON
//! outlet     where it is sent: an answer's body, or a WebSocket; slow readers
//! socket     a WebSocket with its subscriptions
//! ```

mod build;
mod message;
mod organization;
mod outlet;
mod socket;

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;

use super::body::{Check, Fault};
use super::endpoint::{self, Body, Call, Custom, CustomAnswer, Head, Ok200};
use super::error::{ApiError, Problem, Result};
use super::openapi::shape::{Answered, EVENT_STREAM};
use super::query::{FromQuery, Query};
use crate::model::{Build, Id, Timestamp};
use build::BuildStream;
use message::{Data, TYPES};
use organization::{Filter, OrganizationStream, Types, types_named};
use outlet::Outlet;

pub(super) use socket::open;

/// Sent first: how long a browser waits before it connects again.
const RETRY: &str = "retry: 2000\n\n";
const AFTER: &str = "Begin behind this position: the `id` of the last event that you have. The header `Last-Event-ID` goes before it.";

/// A ticket for one stream.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StreamTicket")]
pub(super) struct TicketView {
    /// For `?ticket=`, once.
    ticket: String,
    /// Until when it opens a stream.
    expires_at: Timestamp,
}

/// Makes a ticket, good for whatever its maker may follow.
pub(super) async fn ticket(call: Call) -> Result<Ok200<TicketView>> {
    let (ticket, expires_at) = call.app.live.issue_ticket(call.caller.principal()).map_err(ApiError::internal)?;
    Ok(Ok200(TicketView { ticket: ticket.reveal().clone(), expires_at }))
}

/// GET `/builds/:id/events`
pub(super) struct FollowBuild {
    after: Option<String>,
}

impl FromQuery for FollowBuild {
    fn read(query: &mut Query) -> Result<Option<Self>> {
        Ok(Some(FollowBuild { after: query.text("after", AFTER) }))
    }
}

/// Events, until the build is over and so is its deploy.
pub(super) struct BuildEvents;

impl CustomAnswer for BuildEvents {
    fn describe(generator: &mut SchemaGenerator) -> Vec<Answered> {
        vec![Answered::events::<Data>(generator), Answered::empty(StatusCode::NO_CONTENT)]
    }
}

/// Everything of one build, from its beginning or from behind a position, to its end.
pub(super) async fn follow_build(call: Call<Id<Build>, FollowBuild>) -> Result<Custom<BuildEvents>> {
    let after = resumed(&call.head, call.query.after)?;
    let place = call.app.live.place(call.caller.user().id).ok_or_else(too_many)?;
    let stream = BuildStream::open(call.app, call.caller, call.path, after.as_deref()).await?;
    // An EventSource that comes back after the end is told to stay away (204).
    let Some(stream) = stream else { return Ok(status(StatusCode::NO_CONTENT).into()) };
    Ok(server_sent(&call.head, |outlet| async move {
        let _place = place;
        stream.run(outlet).await;
    })
    .into())
}

/// GET `/events`
pub(super) struct FollowEvents {
    after: Option<String>,
    filter: Filter,
}

impl FromQuery for FollowEvents {
    fn read(query: &mut Query) -> Result<Option<Self>> {
        let after = query.text("after", AFTER);
        let project = query.text("projectId", "Only events of this project.");
        let types = query.checked("types", types());
        Ok(Some(FollowEvents { after, filter: Filter::new(project.as_deref(), types) }))
    }
}

fn types() -> Check<'static, Types> {
    let schema = serde_json::json!({"type": "string", "pattern": format!("^ *({0}) *(, *({0}) *)*$", TYPES.join("|"))});
    let check = Check::new(schema, |value| {
        let named = if let Value::String(names) = &value { types_named(names.split(',')) } else { None };
        named.ok_or_else(|| Fault::not_one_of(TYPES))
    });
    check.about("Only events of these types, with commas between.").example("status,deploy")
}

/// Events, until somebody ends it.
pub(super) struct OrganizationEvents;

impl CustomAnswer for OrganizationEvents {
    fn describe(generator: &mut SchemaGenerator) -> Vec<Answered> {
        vec![Answered::events::<Data>(generator)]
    }
}

/// Events of all builds and projects that the caller may see, from now on or from behind a position; without log lines.
pub(super) async fn follow_events(call: Call<(), FollowEvents>) -> Result<Custom<OrganizationEvents>> {
    let after = resumed(&call.head, call.query.after)?;
    let place = call.app.live.place(call.caller.user().id).ok_or_else(too_many)?;
    let stream = OrganizationStream::open(call.app, call.caller, call.query.filter, after.as_deref())?;
    Ok(server_sent(&call.head, |outlet| async move {
        let _place = place;
        stream.run(outlet).await;
    })
    .into())
}

/// Where to go on: `Last-Event-ID`, which a browser sends by itself, before `?after=`, which is as old as the page.
fn resumed(head: &Head, after: Option<String>) -> Result<Option<String>> {
    let mut values = head.headers.get_all("last-event-id").iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(after),
        (Some(value), None) => {
            let value = value.to_str().map_err(|_| unknown_position())?;
            Ok(if value.is_empty() { after } else { Some(value.to_owned()) })
        }
        (Some(_), Some(_)) => Err(unknown_position()),
    }
}

/// A position that this service never gave out, or not for this stream.
fn unknown_position() -> ApiError {
    ApiError::new(Problem::InvalidCursor, "This position was not given out by this stream, or lies in its future; begin again without one.")
}

fn too_many() -> ApiError {
    ApiError::from(Problem::TooManyStreams).retry_after(10)
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(endpoint::empty());
    *response.status_mut() = status;
    response
}

/// An answer that goes on as long as `work` sends.
fn server_sent<W>(head: &Head, work: impl FnOnce(Outlet) -> W) -> Response<Body>
where
    W: Future<Output = ()> + Send + 'static,
{
    let (outlet, body) = Outlet::server_sent(head.link.clone(), RETRY);
    let mut response = Response::new(if head.method == Method::HEAD { endpoint::empty() } else { body });
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    // nginx would keep the events back.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    if head.method != Method::HEAD {
        tokio::spawn(work(outlet));
    }
    response
}
