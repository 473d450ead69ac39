//! What a stream says, as JSON: the same in both transports.

use bytes::Bytes;
use schemars::transform::Transform;
use schemars::{JsonSchema, Schema};
use serde::Serialize;

use crate::model::build::{Failure, Step};
use crate::model::deploy::{DeployError, DeployStatus};
use crate::model::event::What;
use crate::model::log::LogLine;
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

/// What a stream says: `data` of server-sent events, and of the messages of a WebSocket. `type` tells which it is.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "StreamMessage")]
#[expect(dead_code, reason = "described, and made from its parts")]
pub(super) enum Data {
    /// First: where the stream begins.
    Hello(Hello),
    /// Something happened.
    Entry(Entry<'static>),
    /// Lines of the log.
    Log(Log),
    /// Something that should come here is not kept any more.
    Gap(Gap),
    /// Nothing more comes.
    End(End),
}

/// Lines of a build's log, at most 64.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", rename = "LogMessage")]
#[expect(dead_code, reason = "described; the lines are JSON already when they are sent, see `Message::log`")]
pub(super) struct Log {
    /// `log`.
    #[schemars(rename = "type", extend("const" = "log"))]
    kind: &'static str,
    /// Which build's.
    build_id: Id<Build>,
    /// In order.
    lines: Vec<LogLine>,
}

/// The first message of a stream: where it begins.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HelloMessage")]
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

/// Notes the tag of a struct, which the derived schema leaves out.
fn of_type(name: &'static str) -> impl Transform {
    move |schema: &mut Schema| {
        let object = schema.ensure_object();
        object["properties"]["type"] = serde_json::json!({"const": name, "description": format!("`{name}`.")});
        let required = object.entry("required").or_insert_with(|| serde_json::json!([]));
        required.as_array_mut().into_iter().for_each(|names| names.insert(0, "type".into()));
    }
}

/// Something that should come here is not kept any more.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "GapMessage", transform = of_type("gap"))]
#[serde(rename_all = "camelCase", tag = "type", rename = "gap")]
pub(super) struct Gap {
    /// Which build's; absent in a stream of all.
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
#[derive(Serialize, JsonSchema)]
pub(super) struct Missing {
    /// The last one before.
    pub(super) after: u64,
    /// The last one that is missing.
    pub(super) to: u64,
}

/// Nothing more comes by itself: the build is over, and so is its deploy.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EndMessage", transform = of_type("end"))]
#[serde(rename_all = "camelCase", tag = "type", rename = "end")]
pub(super) struct End {
    /// Which.
    pub(super) build_id: Id<Build>,
    /// What it came to.
    pub(super) status: Option<Status>,
    /// Lines its log has.
    pub(super) log_lines: u64,
}

/// Something happened: to a build, or to a project.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EventMessage")]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry<'a> {
    #[serde(flatten)]
    said: Said<'a>,
    /// When.
    at: Timestamp,
    /// Which project, or the build's.
    project_id: Id<Project>,
    /// Which build; absent for what happens to projects.
    #[serde(skip_serializing_if = "Option::is_none")]
    build_id: Option<Id<Build>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "type")]
enum Said<'a> {
    /// A build moved.
    Status {
        /// Where it stands now.
        status: Status,
        /// Why it failed.
        failure: &'a Option<Failure>,
        /// Which build took its place.
        superseded_by: Option<Id<Build>>,
    },
    /// A step began or ended.
    Step {
        /// How it stands.
        step: &'a Step,
    },
    /// The artifact was handed on, or not.
    Deploy {
        /// How that stands.
        status: DeployStatus,
        /// Why not.
        error: &'a Option<DeployError>,
    },
    /// Of an artifact.
    Artifact {
        /// It is not there any more.
        deleted: bool,
    },
    /// Of a project.
    Project {
        /// What happened to it.
        #[schemars(extend("enum" = ["created", "deleted"]))]
        change: &'static str,
    },
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
