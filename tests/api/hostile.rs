//! Clients that mean harm to HTTP itself, beside an honest one that has to stay served.

use std::collections::VecDeque;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::client::{exchange, parse};
use crate::support::server::TestServer;

/// Connections that a crowd opens.
const CROWD: usize = 2000;

/// How many of them this process may hold at once: each has two ends here.
fn held_at_once() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap_or_default();
    let allowed = line.split_whitespace().next().and_then(|number| number.parse::<usize>().ok()).unwrap_or(1024);
    allowed.saturating_sub(600).clamp(300, CROWD)
}

/// Opens `CROWD` connections that begin like this and go no further; an honest client asks all the while.
async fn crowd(server: &TestServer, beginning: &[u8]) {
    let held_at_once = held_at_once();
    let mut held: VecDeque<TcpStream> = VecDeque::new();
    for number in 0..CROWD {
        let mut stream = TcpStream::connect(server.address).await.expect("a connection");
        // Whoever was given up already may not take it any more.
        let _ = stream.write_all(beginning).await;
        held.push_back(stream);
        if held.len() > held_at_once {
            held.pop_front();
        }
        if number % 100 == 99 {
            server.ask("GET", "/version").send().await.expect(200);
        }
    }
    for _ in 0..20 {
        server.ask("GET", "/version").send().await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_idle_connections_keep_nobody_out() {
    crowd(&TestServer::start().await, b"").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_slow_heads_keep_nobody_out() {
    crowd(&TestServer::start().await, b"GET /version HTTP/1.1\r\nHost: x\r\nX-Slow: ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_slow_bodies_keep_nobody_out() {
    let beginning =
        b"POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{\"email\": \"";
    crowd(&TestServer::start().await, beginning).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_slow_readers_keep_nobody_out() {
    // Each asks a lot and takes nothing.
    let requests = b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20);
    crowd(&TestServer::start().await, &requests).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_waits_makes_room_for_one_that_asks() {
    let server = TestServer::start_with(|settings| settings.connections_per_address = 2).await;
    let mut first = TcpStream::connect(server.address).await.expect("a connection");
    let mut second = TcpStream::connect(server.address).await.expect("a connection");
    for stream in [&mut first, &mut second] {
        stream.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
        assert_ne!(stream.read(&mut [0; 4096]).await.expect("an answer"), 0);
    }
    server.ask("GET", "/version").send().await.expect(200);
    // The one that was quiet longest is gone, the other is not.
    assert_eq!(first.read(&mut [0; 64]).await.unwrap_or(0), 0);
    second.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
    assert_ne!(second.read(&mut [0; 4096]).await.expect("an answer"), 0);
}

/// Sends bytes and reads until the server closes; everything it said.
async fn said(address: SocketAddr, bytes: &[u8]) -> String {
    String::from_utf8_lossy(&exchange(address, bytes).await).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_framing_lets_a_second_request_through() {
    let server = TestServer::start().await;
    let hidden = "GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let length = hidden.len();
    // Every way to say two lengths, or one that two readers could take for different ones.
    let heads = [
        format!("Content-Length: {length}\r\nContent-Length: 0\r\n"),
        format!("Content-Length: 0\r\nContent-Length: {length}\r\n"),
        format!("Content-Length: 0, {length}\r\n"),
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"),
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n".to_owned(),
        "Transfer-Encoding: Chunked\r\nContent-Length: 5\r\n".to_owned(),
        "Transfer-Encoding: chunked, chunked\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n".to_owned(),
        "Transfer-Encoding: identity, chunked\r\n".to_owned(),
        "Transfer-Encoding: chunked;q=1\r\n".to_owned(),
        "Transfer-Encoding: \"chunked\"\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\n".to_owned(),
        "Transfer-Encoding:\x0bchunked\r\n".to_owned(),
        "Transfer-Encoding:\tchunked\r\n".to_owned(),
        "Transfer-Encoding : chunked\r\n".to_owned(),
        " Transfer-Encoding: chunked\r\n".to_owned(),
        "X: y\r\n Transfer-Encoding: chunked\r\n".to_owned(),
        "X: y\nTransfer-Encoding: chunked\r\n".to_owned(),
        "X: y\rTransfer-Encoding: chunked\r\n".to_owned(),
        "Transfer-Encoding\0: chunked\r\n".to_owned(),
        "Transfer\u{2010}Encoding: chunked\r\n".to_owned(),
        "Content-Length: +5\r\n".to_owned(),
        "Content-Length: 5.0\r\n".to_owned(),
        "Content-Length: 0x5\r\n".to_owned(),
        "Content-Length: 5 5\r\n".to_owned(),
        "Content-Length: -1\r\n".to_owned(),
        "Content-Length: 18446744073709551616\r\n".to_owned(),
        "Content-Length : 5\r\n".to_owned(),
        "Content-Length:\r\n".to_owned(),
    ];
    let mut through = Vec::new();
    for head in &heads {
        for method in ["POST", "GET"] {
            let path = if method == "POST" { "/auth/login" } else { "/nothing" };
            let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n0\r\n\r\n{hidden}");
            let answer = said(server.address, request.as_bytes()).await;
            if answer.contains("apiVersion") {
                through.push(format!("{method} {head:?}: {:.60}", answer));
            }
        }
    }
    assert!(through.is_empty(), "{through:#?}");
    server.ask("GET", "/version").send().await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_chunks_end_the_connection() {
    let server = TestServer::start().await;
    let start = "POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let hidden = "GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for chunks in [
        "-1\r\nx\r\n0\r\n\r\n",
        "0x2\r\n{}\r\n0\r\n\r\n",
        "2 \r\n{}\r\n0\r\n\r\n",
        "g\r\n{}\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        "2\n{}\n0\n\n",
        "2\r\n{}0\r\n\r\n",
        "2;a=b\r\n{}\r\n0\r\n\r\n",
        "2;a=\"\r\n\"\r\n{}\r\n0\r\n\r\n",
        "2\r\n{}\r\n0\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        "\r\n{}\r\n0\r\n\r\n",
    ] {
        let answer = said(server.address, format!("{start}{chunks}{hidden}").as_bytes()).await;
        assert!(!answer.contains("apiVersion"), "{chunks:?}: {answer}");
    }
    // Without end: the sum is bounded, in extensions and trailers too.
    let extensions = format!("{start}{}", format!("1;{}\r\nx\r\n", "y".repeat(1000)).repeat(3000));
    let trailers = format!("{start}2\r\n{{}}\r\n0\r\n{}\r\n", "X-Trailer: y\r\n".repeat(20_000));
    for endless in [extensions, trailers] {
        let answer = said(server.address, endless.as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer:.300}");
    }
    server.ask("GET", "/version").send().await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_lines_of_every_wrong_form_get_no_answer_but_a_refusal() {
    let server = TestServer::start().await;
    let mut answered = Vec::new();
    for line in [
        "GET  /version HTTP/1.1",
        "GET /version  HTTP/1.1",
        " GET /version HTTP/1.1",
        "GET\t/version\tHTTP/1.1",
        "GET /version",
        "GET /version HTTP/1.2",
        "GET /version HTTP/2.0",
        "GET /version http/1.1",
        "GET /version HTTP/1.1 x",
        "GET /ver\0sion HTTP/1.1",
        "GET /ver\u{7f}sion HTTP/1.1",
        "GET version HTTP/1.1",
        "G@T /version HTTP/1.1",
        "GET http:///version HTTP/1.1",
        "GET /version\rHTTP/1.1",
        "GET /v\u{e9}rsion HTTP/1.1",
    ] {
        let request = format!("{line}\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = said(server.address, request.as_bytes()).await;
        if answer.contains("HTTP/1.1 5") || answer.contains("apiVersion") {
            answered.push(format!("{line:?}: {answer:.60}"));
        }
    }
    for headers in ["X\0: y", "X: y\0", "X: \u{1}", ": y", "X y", "X: y\rZ: w", "Host: x", "\u{e4}: y"] {
        let request = format!("GET /version HTTP/1.1\r\nHost: x\r\n{headers}\r\nConnection: close\r\n\r\n");
        let answer = said(server.address, request.as_bytes()).await;
        if answer.contains("HTTP/1.1 5") || answer.contains("apiVersion") {
            answered.push(format!("{headers:?}: {answer:.60}"));
        }
    }
    assert!(answered.is_empty(), "{answered:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_talked_into_another_protocol() {
    let server = TestServer::start().await;
    for (name, value) in [("Upgrade", "h2c"), ("Upgrade", "websocket"), ("Upgrade", "TLS/1.3")] {
        let request = format!(
            "GET /version HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n{name}: {value}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\nGET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        );
        let answer = said(server.address, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("HTTP/1.1 101"), "{value}: {answer}");
    }
    // What nobody promised to understand is refused or ignored, never waited for.
    let request = "POST /auth/login HTTP/1.1\r\nHost: x\r\nExpect: 200-maybe\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let reply = parse(&exchange(server.address, request.as_bytes()).await, false).expect("an answer");
    assert!((400..500).contains(&reply.status), "{}", reply.status);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_too_large_is_refused_before_it_is_sent() {
    let server = TestServer::start().await;
    let mut stream = TcpStream::connect(server.address).await.expect("a connection");
    let head = "POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer and the end");
    let reply = parse(&answer, false).expect("an answer");
    assert_eq!((reply.status, reply.code().as_str(), reply.header("connection")), (413, "payload_too_large", Some("close")));
}
