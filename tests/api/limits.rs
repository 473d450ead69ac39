//! How often somebody may ask.

use cookhouse::app::RateLimits;
use cookhouse::model::permission::Role;
use serde_json::json;

use super::{build_setting, connect, project};
use crate::support::repositories::UPROJECT;
use crate::support::server::{Person, TestServer};

/// So few a minute that nothing flows in while a test runs.
fn limits(burst: u32) -> RateLimits {
    RateLimits { requests_per_minute: 1, burst, trigger_per_minute: 2, login_per_minute: 2, unauthenticated_per_minute: 4 }
}

async fn server(burst: u32) -> (TestServer, Person) {
    let server = TestServer::start_api(|settings, _| settings.rate_limits = Some(limits(burst))).await;
    let admin = server.admin().await;
    (server, admin)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_is_told_where_it_stands_and_refused_beyond() {
    let (server, admin) = server(3).await;
    for left in [2, 1, 0] {
        let reply = server.get(&admin, "/auth/me").await.expect(200);
        assert_eq!(reply.header("ratelimit-policy"), Some("\"default\";q=1;w=60"));
        assert!(reply.header("ratelimit").is_some_and(|value| value.starts_with(&format!("\"default\";r={left};t="))), "{reply:?}");
    }
    let refused = server.get(&admin, "/auth/me").await.expect(429);
    assert_eq!(refused.code(), "rate_limited");
    let wait: u64 = refused.header("retry-after").and_then(|value| value.parse().ok()).expect("seconds");
    assert!((1..=60).contains(&wait));
    assert_eq!(refused.header("ratelimit"), Some(&*format!("\"default\";r=0;t={wait}")));
    // Others are not concerned, and neither is what counts for nobody.
    let member = server.person(admin.user.organization_id, Role::Member).await;
    server.get(&member, "/auth/me").await.expect(200);
    let other_token = Person { token: server.token(&admin.user, &[cookhouse::model::permission::Scope::Read]).await, ..admin.clone() };
    server.get(&other_token, "/projects").await.expect(200);
    for _ in 0..8 {
        let reply = server.ask("GET", "/healthz").send().await.expect(200);
        assert_eq!(reply.header("ratelimit"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_permission_counts_for_the_caller() {
    let (server, admin) = server(2).await;
    let viewer = server.person(admin.user.organization_id, Role::Viewer).await;
    for status in [403, 403, 429] {
        server.post(&viewer, "/projects/add-repo", json!({})).await.expect(status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn starting_builds_has_a_limit_of_its_own() {
    let (server, admin) = server(50).await;
    server.host.add("studio/kitchen", &[("Game/Kitchen.uproject", UPROJECT)]);
    connect(&server, &admin).await;
    let project = project(&server, &admin).await;
    let setting = build_setting(&server, &admin, &project).await;
    for status in [201, 201, 429] {
        let reply = server.post(&admin, &format!("{setting}/trigger"), json!({})).await.expect(status);
        assert_eq!(reply.header("ratelimit-policy"), Some("\"default\";q=1;w=60, \"trigger\";q=2;w=60"));
    }
    server.get(&admin, &setting).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_share_the_limit_of_their_address() {
    let (server, admin) = server(50).await;
    let asks: [(&str, &str, u16); 4] =
        [("GET", "/version", 200), ("GET", "/nothing", 404), ("GET", "/projects", 401), ("OPTIONS", "/projects", 204)];
    for (method, path, status) in asks {
        let reply = server.ask(method, path).send().await.expect(status);
        assert!(reply.header("ratelimit").is_some_and(|value| value.starts_with("\"anonymous\";r=")), "{path}");
    }
    for (method, path, _) in asks {
        let reply = server.ask(method, path).send().await.expect(429);
        assert!(reply.header("retry-after").is_some(), "{path}");
    }
    // Whoever shows a token is not held back by strangers at the same address.
    server.get(&admin, "/auth/me").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_row_sees_counts_for_whoever_shows_a_token() {
    let (server, admin) = server(5).await;
    let as_admin = |method: &str, path: &str| server.ask(method, path).bearer(&admin.token);
    let asks = [
        (as_admin("GET", "/nothing"), 404),
        (as_admin("PUT", "/projects"), 405),
        (as_admin("OPTIONS", "/projects"), 204),
        (as_admin("GET", "/projects").header("Accept", "text/html"), 406),
        (as_admin("GET", "/projects/%2e"), 404),
    ];
    for (left, (ask, status)) in (0..5).rev().zip(asks) {
        let reply = ask.send().await.expect(status);
        assert!(reply.header("ratelimit").is_some_and(|value| value.starts_with(&format!("\"default\";r={left};"))), "{reply:?}");
    }
    as_admin("GET", "/nothing").send().await.expect(429);
    // Strangers have their own measure, and a made-up token is a stranger's.
    let stranger = server.ask("GET", "/nothing").bearer("ckh_made_up").send().await.expect(404);
    assert!(stranger.header("ratelimit").is_some_and(|value| value.starts_with("\"anonymous\";r=3;")), "{stranger:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_in_is_limited_by_address_whatever_the_account() {
    let (server, _) = server(50).await;
    for (number, status) in [401, 401, 429].into_iter().enumerate() {
        let body = json!({"email": format!("{number}@example.com"), "password": "wrong password"});
        let reply = server.ask("POST", "/auth/login").json(&body).send().await.expect(status);
        assert!(reply.header("ratelimit").is_some_and(|value| value.contains("\"login\";r=")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_behind_a_trusted_proxy_are_told_apart_and_others_are_not_believed() {
    let change = |trusted: &'static [&'static str]| {
        TestServer::start_api(move |settings, _| {
            settings.rate_limits = Some(limits(50));
            settings.trusted_proxies = trusted.iter().map(|text| text.parse().expect("a network")).collect();
        })
    };
    let (believing, strict) = (change(&["127.0.0.0/8"]).await, change(&[]).await);
    for number in 0..10 {
        let from =
            |server: &TestServer| server.ask("GET", "/version").header("X-Forwarded-For", &format!("9.9.9.9, 192.0.2.{number}")).send();
        from(&believing).await.expect(200);
        from(&strict).await.expect(if number < 4 { 200 } else { 429 });
    }
    // One customer's IPv6 addresses count as one.
    for number in 0..6 {
        let address = format!("2001:db8:0:1::{number}");
        let reply = believing.ask("GET", "/version").header("X-Forwarded-For", &address).send().await;
        assert_eq!(reply.status, if number < 4 { 200 } else { 429 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_limits_nothing_is_counted() {
    let server = TestServer::start().await;
    for _ in 0..80 {
        let reply = server.ask("GET", "/version").send().await.expect(200);
        assert_eq!((reply.header("ratelimit"), reply.header("ratelimit-policy")), (None, None));
    }
}
