//! What a stream says, as JSON: the same in both transports.

use bytes::Bytes;
use serde::Serialize;

use crate::model::build::{Failure, Step};
use crate::model::deploy::{DeployError, DeployStatus};
use crate::model::event::What;
use crate::model::{Build, Event, Id, Organization, Project, Status, Timestamp};

/// One thing that is said.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// `event` of server-sent events, `event` of a WebSocket's message.
    pub(super) name: &'static str,
    /// The position behind it.
    pub(super) id: String,
    /// JSON in one line.
    pub(super) data: Bytes,
}

impl Message {
    pub(super) fn new(name: &'static str, id: impl ToString, data: &impl Serialize) -> Self {
        // These types have no maps and no floats: turning them into JSON does not fail.
        let data = serde_json::to_vec(data).unwrap_or_default();
        Message { name, id: id.to_string(), data: data.into() }
    }

    /// Lines that are JSON already, with commas between.
    pub(super) fn log(build: Id<Build>, id: impl ToString, lines: &[u8]) -> Self {
        let begin = format!("{{\"type\":\"log\",\"buildId\":\"{build}\",\"lines\":[");
        Message { name: "log", id: id.to_string(), data: [begin.as_bytes(), lines, b"]}"].concat().into() }
    }

    /// An entry of the event log.
    pub(super) fn event(event: &Event, id: impl ToString) -> Self {
        let said = Said::of(event);
        Message::new(said.name(), id, &Entry { at: event.at, project_id: event.project_id, build_id: event.build_id, said })
    }
}

/// The first message of a stream: where it begins.
#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "type", rename = "hello")]
pub(super) enum Hello {
    /// Of a build.
    #[serde(rename = "hello")]
    Build {
        /// Which.
        build_id: Id<Build>,
        /// Where it stands.
        status: Status,
        /// Lines its log has.
        log_lines: u64,
    },
    /// Of an organization.
    #[serde(rename = "hello")]
    Organization {
        /// Which.
        organization_id: Id<Organization>,
    },
}

/// Something that should come here is not kept any more.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase", tag = "type", rename = "gap")]
pub(super) struct Gap {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) build_id: Option<Id<Build>>,
    /// Events behind the first number, up to the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) events: Option<Missing>,
    /// Log lines behind the first number, up to the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lines: Option<Missing>,
}

/// What is missing: everything behind `after`, up to and with `to`.
#[derive(Serialize)]
pub(super) struct Missing {
    pub(super) after: u64,
    pub(super) to: u64,
}

/// Nothing more comes by itself: the build is over, and so is its deploy.
#[derive(Serialize)]
#[serde(rename_all = "camelCase", tag = "type", rename = "end")]
pub(super) struct End {
    pub(super) build_id: Id<Build>,
    pub(super) status: Option<Status>,
    pub(super) log_lines: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(flatten)]
    said: Said<'a>,
    at: Timestamp,
    project_id: Id<Project>,
    #[serde(skip_serializing_if = "Option::is_none")]
    build_id: Option<Id<Build>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "type")]
enum Said<'a> {
    Status { status: Status, failure: &'a Option<Failure>, superseded_by: Option<Id<Build>> },
    Step { step: &'a Step },
    Deploy { status: DeployStatus, error: &'a Option<DeployError> },
    Artifact { deleted: bool },
    Project { change: &'static str },
}

/// `types=`: what an event may be called.
pub(super) const TYPES: [&str; 5] = ["status", "step", "deploy", "artifact", "project"];

impl<'a> Said<'a> {
    fn of(event: &'a Event) -> Self {
        match &event.what {
            What::Status { status, failure, superseded_by } => Said::Status { status: *status, failure, superseded_by: *superseded_by },
            What::Step(step) => Said::Step { step },
            What::Deploy { status, error } => Said::Deploy { status: *status, error },
            What::ArtifactDeleted => Said::Artifact { deleted: true },
            What::ProjectCreated => Said::Project { change: "created" },
            What::ProjectDeleted => Said::Project { change: "deleted" },
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Said::Status { .. } => "status",
            Said::Step { .. } => "step",
            Said::Deploy { .. } => "deploy",
            Said::Artifact { .. } => "artifact",
            Said::Project { .. } => "project",
        }
    }
}

/// What an event is called.
pub(super) fn name_of(event: &Event) -> &'static str {
    Said::of(event).name()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::What;

    #[test]
    fn an_event_says_its_type_first_and_stands_in_one_line() {
        let failure = Failure { code: crate::model::build::FailureCode::Cancelled, message: "one\ntwo".into(), step: None };
        let event = Event {
            id: Event::id_of(7),
            organization_id: Id::from_parts(1, 1),
            at: Timestamp(0),
            project_id: Id::from_parts(1, 2),
            build_id: Some(Id::from_parts(1, 3)),
            what: What::Status { status: Status::Failed, failure: Some(failure), superseded_by: None },
        };
        let message = Message::event(&event, event.sequence());
        let text = std::str::from_utf8(&message.data).unwrap();
        assert!(text.starts_with("{\"type\":\"status\",\"status\":\"failed\",") && !text.contains('\n'), "{text}");
        assert_eq!((message.name, message.id.as_str(), name_of(&event)), ("status", "7", "status"));
        assert!(TYPES.contains(&message.name));
    }
}
