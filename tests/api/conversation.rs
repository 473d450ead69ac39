//! HTTP itself: the envelope, limits, hostile framing, hostile paths.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::client::{exchange, parse};
use crate::support::server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn meta_rows_answer_everybody_under_both_addresses() {
    let server = TestServer::start().await;
    for path in ["/healthz", "/v1/healthz", "/version"] {
        let reply = server.ask("GET", path).send().await.expect(200);
        assert_eq!(reply.header("api-version"), Some("1"));
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert!(reply.header("x-request-id").is_some_and(|id| !id.is_empty()));
    }
    // No builds are started here, so this service is alive but not ready.
    let unready = server.ask("GET", "/readyz").send().await.expect(503);
    assert!(unready.header("retry-after").is_some());
    let ok = |name: &str| unready.json()["checks"].as_array().into_iter().flatten().find(|check| check["name"] == name).cloned();
    assert_eq!(ok("store").map(|check| check["ok"].clone()), Some(true.into()));
    assert_eq!(ok("executor").map(|check| check["ok"].clone()), Some(false.into()));
    let head = server.ask("HEAD", "/version").send().await.expect(200);
    let get = server.ask("GET", "/version").send().await.expect(200);
    assert_eq!(head.header("content-length"), get.header("content-length"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_carries_the_security_headers_and_the_request_id() {
    let server = TestServer::start().await;
    for (path, status) in [("/version", 200), ("/nothing", 404), ("/auth/me", 401)] {
        let reply = server.ask("GET", path).header("X-Request-Id", "mine-1").send().await.expect(status);
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("cache-control", "no-store"),
            ("cross-origin-resource-policy", "same-origin"),
            ("x-request-id", "mine-1"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{path} {name}");
        }
        assert_eq!(reply.header("server"), None);
        if status != 200 {
            assert_eq!(reply.json()["error"]["requestId"], "mine-1");
            assert!(reply.json()["error"].get("details").is_none());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_could_be_read_in_two_ways_are_not_found() {
    let server = TestServer::start().await;
    for path in [
        "//version",
        "/v1//version",
        "/./version",
        "/x/../version",
        "/v1/%2e%2e/version",
        "/%76ersion/",
        "/version/",
        "/version;x=1",
        "/version%00",
        "/v1/v1/version",
        "/V1/version",
        "/vErsion",
        "/%2fversion",
        "/%5cversion",
        "/auth/%2e%2e/version",
    ] {
        let reply = server.ask("GET", path).send().await;
        assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_bounded_in_size_and_kind() {
    let server = TestServer::start().await;
    let ask = |body: Vec<u8>| server.ask("POST", "/auth/login").header("Content-Type", "application/json").body(body);
    let large = format!("{{\"email\": \"{}\"}}", "x".repeat(2 * 1024 * 1024));
    let reply = ask(large.clone().into_bytes()).send().await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "payload_too_large"));
    let just_fits = format!("{{\"email\": \"{}\"}}", "x".repeat(1024 * 1024 - 13));
    assert_eq!(ask(just_fits.into_bytes()).send().await.code(), "validation_failed");
    // The same without an announced length.
    let chunked = format!(
        "POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n",
        large.len()
    );
    let reply = parse(&exchange(server.address, chunked.as_bytes()).await, false).expect("an answer");
    assert_eq!((reply.status, reply.code().as_str()), (413, "payload_too_large"));

    for (body, code) in [
        (&b"{"[..], "invalid_json"),
        (b"", "invalid_json"),
        (b"[]", "invalid_json"),
        (b"\"text\"", "invalid_json"),
        (b"{\"email\": \"\xff\"}", "invalid_json"),
        (b"{\"email\": \"a\", \"email\": \"b\"}", "invalid_json"),
        (b"{\"email\": {\"a\": 1, \"a\": 2}}", "invalid_json"),
        (b"\xef\xbb\xbf{}", "invalid_json"),
        (b"{} {}", "invalid_json"),
    ] {
        assert_eq!(ask(body.to_vec()).send().await.code(), code, "{}", String::from_utf8_lossy(body));
    }
    let deep = format!("{{\"email\": {}{}}}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(ask(deep.into_bytes()).send().await.code(), "invalid_json");

    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=utf-16", ""]
    {
        let reply = server.ask("POST", "/auth/login").header("Content-Type", kind).body("{}").send().await;
        assert_eq!((reply.status, reply.code().as_str()), (415, "unsupported_media_type"), "{kind}");
    }
    let reply = server.ask("POST", "/auth/login").header("Content-Encoding", "gzip").json(&json!({})).send().await;
    assert_eq!(reply.status, 415);
    let reply = server.ask("GET", "/version").header("Accept", "text/html").send().await;
    assert_eq!((reply.status, reply.code().as_str()), (406, "not_acceptable"));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_failures_of_a_body_come_at_once() {
    let server = TestServer::start().await;
    let reply = server.ask("POST", "/setup").json(&json!({"email": 5, "name": "  ", "password": ["x"], "setupToken": null})).send().await;
    assert_eq!(reply.code(), "validation_failed");
    assert_eq!(
        reply.details(),
        ["email:invalid_type", "name:invalid_value", "organizationName:required", "password:invalid_type", "setupToken:required"]
    );
    let strict =
        server.ask("POST", "/auth/login").header("Prefer", "handling=strict").json(&json!({"email": "a@b", "password": "x", "extra": 1}));
    assert_eq!(strict.send().await.details(), ["extra:unknown_field"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn header_bombs_are_refused() {
    let server = TestServer::start().await;
    let mut many = server.ask("GET", "/version");
    for number in 0..120 {
        many = many.header(&format!("X-{number}"), "1");
    }
    let reply = many.send().await;
    assert_eq!((reply.status, reply.code().as_str()), (431, "headers_too_large"));
    let reply = server.ask("GET", "/version").header("X-Big", &"x".repeat(40_000)).send().await;
    assert_eq!((reply.status, reply.code().as_str()), (431, "headers_too_large"));
    let reply = server.ask("GET", &format!("/version?{}", "x".repeat(20_000))).send().await;
    assert_eq!((reply.status, reply.code().as_str()), (431, "headers_too_large"));
    // Beyond what is read at all, in number, in size and in the length of the path.
    let mut many = server.ask("GET", "/version");
    for number in 0..400 {
        many = many.header(&format!("X-{number}"), "1");
    }
    let large = server.ask("GET", "/version").header("X-Big", &"x".repeat(200_000));
    let long = server.ask("GET", &format!("/version?{}", "x".repeat(100_000)));
    for bomb in [many, large, long] {
        let reply = bomb.send().await;
        assert_eq!((reply.status, reply.code().as_str(), reply.header("connection")), (431, "headers_too_large", Some("close")));
        assert_eq!(reply.header("x-request-id"), reply.json()["error"]["requestId"].as_str());
        assert_eq!(reply.header("content-length").and_then(|length| length.parse().ok()), Some(reply.body.len()));
    }
    server.ask("GET", "/version").send().await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_cannot_be_read_gets_the_envelope_and_the_end_of_the_connection() {
    let server = TestServer::start().await;
    let honest = "GET /version HTTP/1.1\r\nHost: x\r\n\r\n";
    for head in ["nonsense\r\n\r\n", "GET /version HTTP/1.1\r\nHost: x\r\nX y\r\n\r\n", "GET /a\0b HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let reply = parse(&exchange(server.address, head.as_bytes()).await, false).expect("an answer");
        assert_eq!((reply.status, reply.code().as_str(), reply.header("api-version")), (400, "validation_failed", Some("1")), "{head:?}");
        // Also behind a request that was answered, over one connection.
        let mut stream = TcpStream::connect(server.address).await.expect("a connection");
        stream.write_all(honest.as_bytes()).await.expect("sent");
        let mut first = vec![0; 4096];
        let length = stream.read(&mut first).await.expect("an answer");
        assert!(first[..length].starts_with(b"HTTP/1.1 200"));
        stream.write_all(head.as_bytes()).await.expect("sent");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.expect("an answer and the end");
        let reply = parse(&rest, false).expect("an answer");
        assert_eq!((reply.status, reply.code().as_str()), (400, "validation_failed"), "{head:?}");
    }
    // Sent without waiting for the answer before: whatever is said, it is said once, and after that answer.
    let both = exchange(server.address, format!("{honest}nonsense\r\n\r\n").as_bytes()).await;
    let text = String::from_utf8_lossy(&both);
    assert!(text.starts_with("HTTP/1.1 200") && text.matches("HTTP/1.1 400").count() == 1, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_hidden_in_another_ones_body_is_never_answered() {
    let server = TestServer::start().await;
    let hidden = "GET /version HTTP/1.1\r\nHost: x\r\n\r\n";
    for head in [
        // Two framings at once, in both orders and in spellings that proxies disagree on.
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: identity\r\nContent-Length: 0\r\n",
        "Content-Length: 0\r\nContent-Length: 38\r\n",
        "Content-Length: +0\r\n",
        "Content-Length: 0x0\r\n",
        "Content-Length: 0, 38\r\n",
    ] {
        let request = format!("POST /auth/login HTTP/1.1\r\nHost: x\r\n{head}\r\n0\r\n\r\n{hidden}");
        let answer = String::from_utf8_lossy(&exchange(server.address, request.as_bytes()).await).into_owned();
        assert!(!answer.contains("apiVersion"), "{head}: {answer}");
        assert!(!answer.starts_with("HTTP/1.1 200"), "{head}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_needs_exactly_one_host() {
    let server = TestServer::start().await;
    for (head, status) in [
        ("", 400),
        ("Host: a\r\nHost: b\r\n", 400),
        ("Host: a b\r\n", 400),
        ("Host: <script>\r\n", 400),
        ("Host: builds.studio.lan:8080\r\n", 200),
        ("Host: [::1]:8080\r\n", 200),
    ] {
        let request = format!("GET /version HTTP/1.1\r\n{head}Connection: close\r\n\r\n");
        let reply = parse(&exchange(server.address, request.as_bytes()).await, false).expect("an answer");
        assert_eq!(reply.status, status, "{head}");
    }
    let reply = parse(&exchange(server.address, b"GET /version HTTP/1.0\r\n\r\n").await, false).expect("an answer");
    assert_eq!(reply.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_ends_the_connection_and_not_the_server() {
    let server = TestServer::start().await;
    for nonsense in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut bytes = nonsense.to_vec();
        bytes.extend_from_slice(b"\r\n\r\n");
        let answer = exchange(server.address, &bytes).await;
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{nonsense:?}");
    }
    server.ask("GET", "/version").send().await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_never_ends_is_hung_up_on() {
    let server = TestServer::start_with(|settings| settings.header_timeout = Duration::from_millis(50)).await;
    let mut stream = TcpStream::connect(server.address).await.expect("a connection");
    stream.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\nX-Slow: ").await.expect("sent");
    let mut answer = Vec::new();
    // Without the limit this would wait for ever.
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_is_hung_up_on() {
    let server = TestServer::start_with(|settings| settings.write_timeout = Duration::from_millis(50)).await;
    let mut stream = TcpStream::connect(server.address).await.expect("a connection");
    let request = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n".repeat(64);
    // Answers pile up until the buffers between are full, then the server gives up and sending fails.
    while stream.write_all(&request).await.is_ok() {}
    server.ask("GET", "/version").send().await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_go_of_idle_connections() {
    let server = TestServer::start().await;
    let mut idle = TcpStream::connect(server.address).await.expect("a connection");
    idle.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
    assert_ne!(idle.read(&mut [0; 4096]).await.expect("an answer"), 0);
    let address = server.address;
    server.stop().await;
    assert_eq!(idle.read(&mut [0; 64]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(address).await.is_err());
}
