//! The same over a WebSocket.

use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;

use super::*;
use crate::support::stream::{hear, say, web_socket};

async fn connect(server: &TestServer, person: &Person) -> tokio_tungstenite::WebSocketStream<tokio::net::TcpStream> {
    web_socket(server.address, "/v1/live", &[("Authorization", &format!("Bearer {}", person.token))]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_transports_say_the_same() {
    let server = TestServer::start().await;
    let person = server.admin().await;
    let (runs, writer) = begin(&server, waiting(&server, &person).await).await;
    for number in 0..500 {
        print(&writer, &format!("\"line\" {number}\n")).await;
    }
    let build = end(&server, runs, writer).await;
    let channel = format!("build:{}", build.id);
    let sse = rest(&mut follow(&server, &person, &build, None).await).await;
    let mut socket = connect(&server, &person).await;
    say(&mut socket, json!({"subscribe": channel})).await;
    let mut said = Vec::new();
    while said.last().is_none_or(|event: &Event| event.event != "end") {
        let message = hear(&mut socket).await.unwrap();
        assert_eq!(message["channel"], channel);
        let text = |name: &str| message[name].as_str().unwrap().to_owned();
        said.push(Event { id: text("id"), event: text("event"), data: message["data"].clone() });
    }
    assert_eq!(said, sse);
    // Positions of one transport are good for the other, and a channel that ended can be had again.
    let middle = &sse[sse.len() / 2];
    loop {
        say(&mut socket, json!({"subscribe": channel, "after": middle.id})).await;
        if hear(&mut socket).await.unwrap()["event"] == "hello" {
            break;
        }
    }
    for event in &sse[sse.len() / 2 + 1..] {
        assert_eq!(hear(&mut socket).await.unwrap()["data"], event.data);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_follows_several_things_until_told_otherwise() {
    let server = TestServer::start().await;
    let (person, stranger) = (server.admin().await, server.admin().await);
    let mut socket = connect(&server, &person).await;
    say(&mut socket, json!({"subscribe": "org", "types": ["status"]})).await;
    assert_eq!(hear(&mut socket).await.unwrap()["data"]["type"], "hello");
    let build = waiting(&server, &person).await;
    let channel = format!("build:{}", build.id);
    assert_eq!(hear(&mut socket).await.unwrap()["channel"], "org");
    say(&mut socket, json!({"subscribe": channel})).await;
    let first = [hear(&mut socket).await.unwrap(), hear(&mut socket).await.unwrap()];
    assert!(first.iter().all(|message| message["channel"] == channel), "{first:?}");
    say(&mut socket, json!({"unsubscribe": "org"})).await;
    assert_eq!(hear(&mut socket).await.unwrap()["event"], "unsubscribed");
    let (_, writer) = begin(&server, build.clone()).await;
    print(&writer, "a line\n").await;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|event| event != "log") {
        let message = hear(&mut socket).await.unwrap();
        assert_eq!(message["channel"], channel);
        seen.push(message["event"].as_str().unwrap().to_owned());
    }

    let foreign = waiting(&server, &stranger).await;
    for (message, code) in [
        (json!({"subscribe": channel}), "validation_failed"),
        (json!({"subscribe": format!("build:{}", foreign.id)}), "not_found"),
        (json!({"subscribe": "build:nonsense"}), "not_found"),
        (json!({"subscribe": "everything"}), "not_found"),
        (json!({"subscribe": "org", "after": "99999"}), "invalid_cursor"),
        (json!({"subscribe": "org", "types": ["log"]}), "validation_failed"),
        (json!({"subscribe": 5}), "invalid_json"),
        (json!({"subscribe": "org", "unsubscribe": "org"}), "invalid_json"),
        (json!([]), "invalid_json"),
    ] {
        say(&mut socket, message.clone()).await;
        let answer = hear(&mut socket).await.unwrap();
        assert_eq!((&answer["event"], &answer["data"]["code"]), (&"error".into(), &code.into()), "{message}");
    }
    // It does not go on for ever.
    let mut last = Ok(Value::Null);
    for _ in 0..10 {
        let _ = futures_util::SinkExt::send(&mut socket, Message::text("{")).await;
        last = hear(&mut socket).await;
        if last.is_err() {
            break;
        }
    }
    assert_eq!(last, Err(1008));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_or_no_text_ends_the_connection() {
    let server = TestServer::start().await;
    let person = server.admin().await;
    let mut socket = connect(&server, &person).await;
    futures_util::SinkExt::send(&mut socket, Message::text(" ".repeat(64 * 1024 + 1))).await.unwrap();
    assert_eq!(hear(&mut socket).await, Err(1009));
    let mut socket = connect(&server, &person).await;
    futures_util::SinkExt::send(&mut socket, Message::binary(vec![1, 2, 3])).await.unwrap();
    assert_eq!(hear(&mut socket).await, Err(1003));
    // A frame that announces 100 MiB is refused by its head.
    let mut socket = connect(&server, &person).await;
    let mut head = vec![0x81, 0xff];
    head.extend_from_slice(&(100u64 << 20).to_be_bytes());
    head.extend_from_slice(&[1, 2, 3, 4]);
    socket.get_mut().write_all(&head).await.unwrap();
    assert_eq!(hear(&mut socket).await, Err(1009));
    // Not masked, as no client may send.
    let mut socket = connect(&server, &person).await;
    socket.get_mut().write_all(&[0x81, 0x02, b'{', b'}']).await.unwrap();
    assert_eq!(hear(&mut socket).await, Err(1002));
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_are_checked() {
    let server = TestServer::start().await;
    let person = server.admin().await;
    let bearer = format!("Bearer {}", person.token);
    let plain = server.get(&person, "/live").await;
    assert_eq!((plain.status, plain.code().as_str(), plain.header("upgrade")), (426, "upgrade_required", Some("websocket")));
    let refused =
        async |headers: &[(&str, &str)]| web_socket(server.address, "/live", headers).await.map(|_| ()).unwrap_err()[9..12].to_owned();
    assert_eq!(refused(&[]).await, "401");
    assert_eq!(refused(&[("Authorization", &bearer), ("Origin", "https://evil.example")]).await, "403");
    let own = format!("http://{}", server.address);
    let ticket = server.post(&person, "/auth/stream-ticket", json!({})).await.expect(200).json();
    let path = format!("/live?ticket={}", ticket["ticket"].as_str().unwrap());
    web_socket(server.address, &path, &[("Origin", &own)]).await.unwrap();
    assert!(web_socket(server.address, &path, &[("Origin", &own)]).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_and_a_revoked_token_are_said_with_the_close_code() {
    let server = TestServer::start_live(Arc::new(TempDir::new().unwrap()), impatient()).await;
    let person = server.admin().await;
    let mut revoked = person.clone();
    revoked.token = server.token(&person.user, &[cookhouse::model::permission::Scope::Read]).await;
    let cookhouse::people::Bearer::Token(token) = server.app.people.identify(&revoked.token).unwrap().bearer else { panic!("a token") };
    let (mut staying, mut going) = (connect(&server, &person).await, connect(&server, &revoked).await);
    say(&mut staying, json!({"subscribe": "org"})).await;
    assert_eq!(hear(&mut staying).await.unwrap()["event"], "hello");
    server.app.people.revoke_token(&cookhouse::people::Reach { user: person.user.clone(), token: None }, token.id).await.unwrap();
    assert_eq!(hear(&mut going).await.unwrap()["data"]["code"], "token_revoked");
    assert_eq!(hear(&mut going).await, Err(1008));
    // Reading answers its pings; the close comes in the middle of that.
    let reading = tokio::spawn(async move { hear(&mut staying).await });
    server.stop().await;
    assert_eq!(reading.await.unwrap(), Err(1012));
}
