//! Forms of an answer: gzip, HEAD, methods, deprecation, and what the client accepts.

use std::io::Read;

use cookhouse::api::{Deprecation, Route, routes};
use cookhouse::model::Timestamp;
use serde_json::{Value, json};

use super::{build_setting, connected, project, setting, with};
use crate::support::client::{Reply, exchange, parse};
use crate::support::server::TestServer;

fn unpacked(reply: &Reply) -> Value {
    let mut text = String::new();
    flate2::read::GzDecoder::new(&reply.body[..]).read_to_string(&mut text).expect("gzip");
    serde_json::from_str(&text).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn large_json_is_compressed_for_those_who_take_it() {
    let (server, admin) = connected().await;
    let project = project(&server, &admin).await;
    let get = |encoding: &'static str| server.ask("GET", &project).bearer(&admin.token).header("Accept-Encoding", encoding).send();
    let small = get("gzip").await.expect(200);
    assert_eq!((small.header("content-encoding"), small.header("vary")), (None, None), "not worth it");
    for number in 0..10 {
        let named = with(setting(), json!({ "name": format!("setting {number}") }));
        server.post(&admin, &format!("{project}/build-settings"), named).await.expect(201);
    }
    let plain = get("br").await.expect(200);
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), (None, Some("Accept-Encoding")));
    let packed = get("br, gzip;q=0.8").await.expect(200);
    assert_eq!((packed.header("content-encoding"), packed.header("vary")), (Some("gzip"), Some("Accept-Encoding")));
    assert_eq!(unpacked(&packed), plain.json());
    assert!(packed.body.len() < plain.body.len() / 3);
    assert_eq!(packed.header("content-length"), Some(&*packed.body.len().to_string()));
    for refused in ["gzip;q=0", "identity", "*;q=0", ""] {
        assert_eq!(get(refused).await.header("content-encoding"), None, "{refused}");
    }

    // Other bytes, another tag; both stand for the same version.
    let (plain_tag, packed_tag) = (plain.header("etag").expect("a tag").to_owned(), packed.header("etag").expect("a tag").to_owned());
    assert_ne!(plain_tag, packed_tag);
    for tag in [&plain_tag, &packed_tag] {
        let known = server.ask("GET", &project).bearer(&admin.token).header("Accept-Encoding", "gzip").header("If-None-Match", tag);
        let known = known.send().await.expect(304);
        assert_eq!((known.header("etag"), known.body.len()), (Some(&**tag), 0));
    }
    let change = server.ask("PATCH", &project).bearer(&admin.token).header("If-Match", &packed_tag).json(&json!({"name": "New"}));
    change.send().await.expect(200);
    let late = server.ask("PATCH", &project).bearer(&admin.token).header("If-Match", &packed_tag).json(&json!({"name": "Late"}));
    late.send().await.expect(412);
    // What carries a new secret is never compressed beside words of the client.
    let reply = server.ask("POST", "/auth/tokens").bearer(&admin.token).header("Accept-Encoding", "gzip");
    let reply = reply.json(&json!({"name": "x".repeat(80), "scopes": ["read"]})).send().await.expect(201);
    assert_eq!(reply.header("content-encoding"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn head_says_what_get_says_on_every_row() {
    let (server, admin) = connected().await;
    let project = project(&server, &admin).await;
    let setting = build_setting(&server, &admin, &project).await;
    let build = super::triggered(&server, &admin, &setting).await;
    let paths = [project.clone(), format!("{project}/build-settings"), setting, format!("/builds/{build}/log/lines")];
    let table: Vec<Route> = routes();
    // What a stream says has no end; its own tests listen to it.
    let of_table = table.iter().filter(|route| route.method == "GET" && !route.is_stream).map(|route| {
        let segment = |segment: &str| match segment {
            "{installationId}" => "studio".to_owned(),
            _ if segment.starts_with('{') => "0000000000000000000000zz".to_owned(),
            _ => segment.to_owned(),
        };
        route.path.split('/').map(segment).collect::<Vec<_>>().join("/")
    });
    for path in paths.into_iter().chain(of_table) {
        let get = server.get(&admin, &path).await;
        let head = server.ask("HEAD", &path).bearer(&admin.token).send().await;
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{path}");
        for name in ["content-type", "etag", "cache-control", "allow", "content-length"] {
            // Metrics and the time of an answer move on.
            if path != "/metrics" {
                assert_eq!(head.header(name), get.header(name), "{path} {name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_is_what_the_request_line_says() {
    let (server, admin) = connected().await;
    let project = project(&server, &admin).await;
    for (name, value) in [
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-HTTP-Method", "DELETE"),
        ("X-Method-Override", "DELETE"),
        ("X-Original-Method", "DELETE"),
        ("X-Original-URL", "/auth/tokens"),
        ("X-Rewrite-URL", "/auth/tokens"),
    ] {
        let reply = server.ask("GET", &format!("{project}?_method=DELETE")).bearer(&admin.token).header(name, value).send().await;
        assert_eq!(reply.expect(200).json()["name"], "Kitchen", "{name}");
        let reply = server.ask("POST", &project).bearer(&admin.token).header(name, value).json(&json!({"_method": "DELETE"})).send().await;
        assert_eq!(reply.expect(405).header("allow"), Some("DELETE, GET, PATCH, HEAD, OPTIONS"), "{name}");
    }
    for method in ["TRACE", "TRACK", "PUT", "get", "PROPFIND", "G"] {
        let reply = server.ask(method, &project).bearer(&admin.token).send().await;
        assert_eq!((reply.status, reply.code().as_str()), (405, "method_not_allowed"), "{method}");
    }
    server.get(&admin, &project).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_of_other_forms_are_answered_as_the_standard_says() {
    let server = TestServer::start().await;
    for (line, status) in [
        ("OPTIONS * HTTP/1.1", 204),
        ("GET http://cookhouse.example/version HTTP/1.1", 200),
        ("GET http://cookhouse.example HTTP/1.1", 404),
        ("CONNECT cookhouse.example:443 HTTP/1.1", 404),
        ("GET * HTTP/1.1", 404),
    ] {
        let request = format!("{line}\r\nHost: cookhouse.example\r\nConnection: close\r\n\r\n");
        let reply = parse(&exchange(server.address, request.as_bytes()).await, false).unwrap_or_else(|| panic!("an answer to {line}"));
        assert_eq!(reply.status, status, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_given_only_to_those_who_accept_it() {
    let (server, admin) = connected().await;
    for (accept, status) in [
        ("application/json", 200),
        ("text/html, */*;q=0.1", 200),
        ("application/*", 200),
        ("application/problem+json", 406),
        ("text/html", 406),
        ("application/json;q=0", 406),
        ("*/*;q=0", 406),
    ] {
        let reply = server.ask("GET", "/projects").bearer(&admin.token).header("Accept", accept).send().await;
        assert_eq!(reply.status, status, "{accept}");
        if status == 406 {
            assert_eq!((reply.code().as_str(), reply.header("content-type")), ("not_acceptable", Some("application/json")));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_will_go_says_so_in_every_answer() {
    let deprecation = Deprecation {
        since: Timestamp::parse("2026-11-20T00:00:00Z").expect("a time"),
        sunset: Timestamp::parse("2027-11-30T23:59:59Z").expect("a time"),
        successor: Some("/v2/projects"),
    };
    let server = TestServer::start_api(|_, routes| {
        let rows = std::mem::take(routes);
        *routes = rows.into_iter().map(|row| if row.operation_id == "listProjects" { row.deprecated(deprecation) } else { row }).collect();
    })
    .await;
    let admin = server.admin().await;
    for (reply, status) in [
        (server.get(&admin, "/projects").await, 200),
        (server.get(&admin, "/v1/projects?limit=0").await, 400),
        (server.ask("GET", "/projects").send().await, 401),
    ] {
        let reply = reply.expect(status);
        assert_eq!(reply.header("deprecation"), Some("@1795132800"));
        assert_eq!(reply.header("sunset"), Some("Tue, 30 Nov 2027 23:59:59 GMT"));
        assert_eq!(reply.header("link"), Some("</v2/projects>; rel=\"successor-version\""));
    }
    let other = server.get(&admin, "/builds").await.expect(200);
    assert_eq!((other.header("deprecation"), other.header("sunset"), other.header("link")), (None, None, None));
    assert!(routes().iter().all(|route| route.deprecation.is_none_or(|given| given.sunset.since(given.since) >= 365 * 24 * 3_600_000)));
}
