//! A build's log over HTTP.

use std::io::Read as _;

use cookhouse::model::log::LogStream;
use cookhouse::model::permission::{Role, Scope};
use cookhouse::model::{Build, TriggeredBy};

use crate::support::builds::build;
use crate::support::server::{Person, TestServer};

async fn stored(server: &TestServer, person: &Person) -> Build {
    let stored = build(&server.app.clock, person.user.organization_id, "Win64", "main");
    let copy = stored.clone();
    server.app.store.write(move |change| change.put(&copy)).await.unwrap();
    stored
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_is_read_whole_in_parts_and_compressed_while_the_build_runs() {
    let server = TestServer::start().await;
    let person = server.admin().await;
    let build = stored(&server, &person).await;
    let path = format!("/builds/{}/log", build.id);
    let empty = server.get(&person, &path).await.expect(200);
    assert!(empty.body.is_empty() && empty.header("content-type") == Some("text/plain; charset=utf-8"));

    let text: String = (1..=30_000).map(|number| format!("LogCook: Display: packaging asset {number} ü\n")).collect();
    let writer = server.app.logs.writer(build.id).await.unwrap();
    writer.output(LogStream::Stdout, text.as_bytes()).await;
    writer.flush().await.unwrap();
    let whole = server.get(&person, &path).await.expect(200);
    assert!(whole.text() == text);
    let get = |header: &'static str, value: String| server.ask("GET", &path).bearer(&person.token).header(header, &value).send();
    let part = get("Range", "bytes=600000-600099".into()).await.expect(206);
    assert_eq!(part.body, &text.as_bytes()[600_000..600_100]);
    assert_eq!(get("Range", "bytes=-20".into()).await.expect(206).body, &text.as_bytes()[text.len() - 20..]);
    get("If-None-Match", whole.header("etag").unwrap().into()).await.expect(304);

    let gzip = get("Accept-Encoding", "br, gzip".into()).await.expect(200);
    assert_eq!((gzip.header("content-encoding"), gzip.header("content-length")), (Some("gzip"), None));
    assert!(gzip.body.len() < text.len() / 4);
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(&gzip.body[..]).read_to_string(&mut unpacked).unwrap();
    assert!(unpacked == text);
    assert_eq!(get("Accept-Encoding", "gzip;q=0".into()).await.expect(200).header("content-encoding"), None);

    // A reader goes on where it stopped.
    let end = get("Range", format!("bytes={}-", text.len())).await.expect(416);
    assert_eq!(end.header("content-range"), Some(format!("bytes */{}", text.len()).as_str()));
    writer.output(LogStream::Stderr, b"one more\n").await;
    writer.flush().await.unwrap();
    assert_eq!(get("Range", format!("bytes={}-", text.len())).await.expect(206).text(), "one more\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_seen_by_those_who_see_the_build() {
    let server = TestServer::start().await;
    let (person, stranger) = (server.admin().await, server.admin().await);
    let mut build = stored(&server, &person).await;
    let path = format!("/builds/{}/log", build.id);
    let viewer = server.person(person.user.organization_id, Role::Viewer).await;
    server.get(&viewer, &path).await.expect(200);
    assert_eq!(server.get(&stranger, &path).await.expect(404).code(), "not_found");
    assert_eq!(server.get(&person, "/builds/0000000000000000000000zz/log").await.expect(404).code(), "not_found");
    // A trigger token reads what it started, nothing else.
    let trigger = server.token(&person.user, &[Scope::Trigger]).await;
    server.ask("GET", &path).bearer(&trigger).send().await.expect(404);
    let id = server.ask("GET", "/auth/tokens").bearer(&person.token).send().await.json()["items"]
        .as_array()
        .and_then(|tokens| tokens.iter().find(|token| token["scopes"][0] == "trigger")?["id"].as_str()?.parse().ok())
        .unwrap();
    build.triggered_by = TriggeredBy::ApiToken(id);
    let copy = build.clone();
    server.app.store.write(move |change| change.put(&copy)).await.unwrap();
    server.ask("GET", &path).bearer(&trigger).send().await.expect(200);
}
