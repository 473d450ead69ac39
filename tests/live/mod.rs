//! The live channel over a real listener: what one follows is exactly what happened, whatever becomes of connection and
//! service meanwhile.

mod access;
mod following;
mod resuming;
mod sockets;
mod strain;

use cookhouse::builds::logs::LogWriter;
use cookhouse::live::Settings;
use cookhouse::model::build::{Failure, FailureCode};
use cookhouse::model::log::LogStream;
use cookhouse::model::{Build, Status};
use serde_json::Value;

use crate::support::builds::{put, waiting};
use crate::support::server::{Person, TestServer};
use crate::support::stream::{Event, EventStream};

/// The same build, running.
async fn begin(server: &TestServer, build: Build) -> (Build, LogWriter) {
    let writer = server.app.logs.writer(build.id).await.expect("a log");
    let build = build.moved_to(Status::Running, server.app.clock.now()).expect("allowed");
    put(server, &build).await;
    (build, writer)
}

/// Ends it as `builds` does: first its log, then its record.
async fn end(server: &TestServer, build: Build, writer: LogWriter) -> Build {
    writer.flush().await.expect("on disk");
    let log_lines = writer.position();
    drop(writer);
    let build = build.moved_to(Status::Failed, server.app.clock.now()).expect("allowed");
    let failure = Failure { code: FailureCode::BuildStepFailed, message: "It broke.".into(), step: None };
    let build = Build { log_lines, failure: Some(failure), ..build };
    put(server, &build).await;
    build
}

async fn print(writer: &LogWriter, text: &str) {
    writer.output(LogStream::Stdout, text.as_bytes()).await;
}

async fn follow(server: &TestServer, person: &Person, build: &Build, after: Option<&str>) -> EventStream {
    let path = format!("/v1/builds/{}/events", build.id);
    stream(server, person, &path, after).await
}

async fn stream(server: &TestServer, person: &Person, path: &str, after: Option<&str>) -> EventStream {
    let bearer = format!("Bearer {}", person.token);
    let mut headers = vec![("Authorization", bearer.as_str())];
    headers.extend(after.map(|after| ("Last-Event-ID", after)));
    EventStream::open(server.address, path, &headers).await.unwrap_or_else(|answer| panic!("{answer}"))
}

/// Everything up to the end of the stream.
async fn rest(stream: &mut EventStream) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    events
}

/// The texts of all log lines among events, after a check that their numbers have no gap behind `after`.
#[track_caller]
fn texts(events: &[Event], after: u64) -> Vec<String> {
    let mut texts = Vec::new();
    for line in events.iter().filter(|event| event.event == "log").flat_map(|event| event.data["lines"].as_array().expect("lines")) {
        assert_eq!(line["seq"].as_u64(), Some(after + texts.len() as u64 + 1));
        texts.push(line["text"].as_str().expect("a text").to_owned());
    }
    texts
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.event.as_str()).collect()
}

fn statuses(events: &[Event]) -> Vec<Value> {
    events.iter().filter(|event| event.event == "status").map(|event| event.data["status"].clone()).collect()
}

/// Quick to ping and to lose patience.
fn impatient() -> Settings {
    let moment = std::time::Duration::from_millis(50);
    Settings { ping: moment, patience: moment, ..Settings::default() }
}
