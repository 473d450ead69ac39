//! Who may follow, how often, and how long.

use std::sync::Arc;

use cookhouse::live::Settings;
use cookhouse::model::permission::{Role, Scope};
use cookhouse::model::{Build, TriggeredBy};
use serde_json::json;
use tempfile::TempDir;

use super::*;

async fn answer(server: &TestServer, path: &str, headers: &[(&str, &str)]) -> String {
    match EventStream::open(server.address, path, headers).await {
        Ok(_) => "200".to_owned(),
        Err(answer) => {
            let code = answer.split("\"code\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
            format!("{} {code}", &answer[9..12])
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_opens_one_stream_once_and_nothing_else() {
    let server = TestServer::start().await;
    let person = server.admin().await;
    let build = waiting(&server, &person).await;
    let path = format!("/builds/{}/events", build.id);
    let ticket = async || {
        let reply = server.post(&person, "/auth/stream-ticket", json!({})).await.expect(200).json();
        assert!(cookhouse::model::Timestamp::parse(reply["expiresAt"].as_str().unwrap()).is_some());
        reply["ticket"].as_str().unwrap().to_owned()
    };
    let one = ticket().await;
    assert_eq!(answer(&server, &format!("{path}?ticket={one}"), &[]).await, "200");
    assert_eq!(answer(&server, &format!("{path}?ticket={one}"), &[]).await, "401 unauthenticated", "used");
    let two = ticket().await;
    for forged in [format!("{}0", &two[..two.len() - 1]), person.token.clone(), String::new(), "ckt_".repeat(10)] {
        assert_eq!(answer(&server, &format!("{path}?ticket={forged}"), &[]).await, "401 unauthenticated", "{forged}");
    }
    assert_eq!(answer(&server, &format!("/builds?ticket={two}"), &[]).await, "401 unauthenticated", "no stream");
    assert_eq!(answer(&server, &format!("{path}?ticket={two}&ticket={two}"), &[]).await, "401 unauthenticated");
    assert_eq!(answer(&server, "/events", &[("Authorization", &format!("Bearer {two}"))]).await, "401 unauthenticated", "no bearer");
    // A ticket is worth what its maker is worth when it is used.
    let reply = server.ask("GET", "/auth/tokens").bearer(&person.token).send().await.json();
    let id = reply["items"][0]["id"].as_str().unwrap().to_owned();
    server.delete(&person, &format!("/auth/tokens/{id}")).await.expect(204);
    assert_eq!(answer(&server, &format!("{path}?ticket={two}"), &[]).await, "401 token_revoked");

    let quick = Settings { ticket: std::time::Duration::ZERO, ..Settings::default() };
    let server = TestServer::start_live(Arc::new(TempDir::new().unwrap()), quick).await;
    let person = server.admin().await;
    let late = server.post(&person, "/auth/stream-ticket", json!({})).await.expect(200).json();
    assert_eq!(answer(&server, &format!("/events?ticket={}", late["ticket"].as_str().unwrap()), &[]).await, "401 unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_opens_a_stream_only_for_our_own_pages() {
    let server = TestServer::start().await;
    let person = server.admin().await;
    let session = server.app.people.begin_session(person.user.clone()).await.unwrap().access_token;
    let cookie = format!("session={}", session.reveal());
    let own = format!("http://{}", server.address);
    for path in ["/events", "/live"] {
        let opened = if path == "/live" { "426 upgrade_required" } else { "200" };
        for (name, value, expected) in [
            ("Origin", own.as_str(), opened),
            ("Origin", "https://evil.example", "403 forbidden"),
            ("Origin", "null", "403 forbidden"),
            ("Sec-Fetch-Site", "same-origin", opened),
            ("Sec-Fetch-Site", "cross-site", "403 forbidden"),
            ("Sec-Fetch-Site", "same-site", "403 forbidden"),
            ("X-Nothing", "x", opened),
        ] {
            assert_eq!(answer(&server, path, &[("Cookie", &cookie), (name, value)]).await, expected, "{path} {name} {value}");
        }
        let bearer = format!("Bearer {}", person.token);
        assert_eq!(answer(&server, path, &[("Authorization", &bearer), ("Origin", "https://evil.example")]).await, "403 forbidden");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_of_the_future_and_garbage_are_refused() {
    let server = TestServer::start().await;
    let person = server.admin().await;
    let (build, writer) = begin(&server, waiting(&server, &person).await).await;
    print(&writer, "one\n").await;
    writer.flush().await.unwrap();
    let bearer = format!("Bearer {}", person.token);
    let path = format!("/builds/{}/events", build.id);
    for (position, expected) in [
        ("2-1", "200"),
        ("0-0", "200"),
        ("3-1", "400 invalid_cursor"),
        ("2-2", "400 invalid_cursor"),
        ("18446744073709551615-18446744073709551615", "400 invalid_cursor"),
        ("2", "400 invalid_cursor"),
        ("-1-0", "400 invalid_cursor"),
        ("2-1-END", "400 invalid_cursor"),
        ("%00", "400 invalid_cursor"),
    ] {
        assert_eq!(answer(&server, &path, &[("Authorization", &bearer), ("Last-Event-ID", position)]).await, expected, "{position}");
        assert_eq!(answer(&server, &format!("{path}?after={position}"), &[("Authorization", &bearer)]).await, expected, "{position}");
    }
    for (position, expected) in [("2", "200"), ("3", "400 invalid_cursor"), ("2-1", "400 invalid_cursor"), ("x", "400 invalid_cursor")] {
        assert_eq!(answer(&server, "/events", &[("Authorization", &bearer), ("Last-Event-ID", position)]).await, expected, "{position}");
    }
    let twice = [("Authorization", bearer.as_str()), ("Last-Event-ID", "0-0"), ("Last-Event-ID", "2-1")];
    assert_eq!(answer(&server, &path, &twice).await, "400 invalid_cursor");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_limited_in_number_and_come_back_when_one_ends() {
    let few = Settings { streams: 3, streams_per_user: 2, ..Settings::default() };
    let server = TestServer::start_live(Arc::new(TempDir::new().unwrap()), few).await;
    let person = server.admin().await;
    let other = server.person(person.user.organization_id, Role::Viewer).await;
    let third = server.person(person.user.organization_id, Role::Viewer).await;
    let mut first = stream(&server, &person, "/events", None).await;
    let _second = stream(&server, &person, "/events", None).await;
    let bearer = |person: &Person| format!("Bearer {}", person.token);
    assert_eq!(answer(&server, "/events", &[("Authorization", &bearer(&person))]).await, "503 too_many_streams");
    let _of_other = stream(&server, &other, "/events", None).await;
    assert_eq!(answer(&server, "/events", &[("Authorization", &bearer(&third))]).await, "503 too_many_streams");
    assert_eq!(first.next().await.unwrap().event, "hello");
    drop(first);
    while answer(&server, "/events", &[("Authorization", &bearer(&third))]).await != "200" {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_what_opened_it() {
    let server = TestServer::start_live(Arc::new(TempDir::new().unwrap()), impatient()).await;
    let person = server.admin().await;
    let (build, _writer) = begin(&server, waiting(&server, &person).await).await;
    let mut viewer = server.person(person.user.organization_id, Role::Viewer).await;
    let mut streams = vec![follow(&server, &viewer, &build, None).await, stream(&server, &viewer, "/events", None).await];
    for stream in &mut streams {
        assert_eq!(stream.next().await.unwrap().event, "hello");
    }
    let organization = person.user.organization_id;
    let user = viewer.user.id;
    server.app.store.write(move |change| change.remove(organization, user)).await.unwrap();
    for stream in &mut streams {
        rest(stream).await;
    }
    // A trigger token follows what it started, and nothing else.
    viewer = person.clone();
    viewer.token = server.token(&person.user, &[Scope::Trigger]).await;
    let bearer = format!("Bearer {}", viewer.token);
    let path = format!("/builds/{}/events", build.id);
    assert_eq!(answer(&server, &path, &[("Authorization", &bearer)]).await, "404 not_found");
    assert_eq!(answer(&server, "/events", &[("Authorization", &bearer)]).await, "403 insufficient_scope");
    let token = server.app.people.identify(&viewer.token).unwrap();
    let cookhouse::people::Bearer::Token(token) = token.bearer else { panic!("a token") };
    let started = Build { triggered_by: TriggeredBy::ApiToken(token.id), ..build };
    put(&server, &started).await;
    let mut stream = follow(&server, &viewer, &started, None).await;
    assert_eq!(stream.next().await.unwrap().event, "hello");
    server.app.people.revoke_token(&cookhouse::people::Reach { user: person.user.clone(), token: None }, token.id).await.unwrap();
    let last = rest(&mut stream).await;
    assert!(last.iter().all(|event| event.event != "end"));
    assert_eq!(answer(&server, &path, &[("Authorization", &bearer)]).await, "401 token_revoked");
}
