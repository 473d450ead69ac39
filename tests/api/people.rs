//! The first start, signing in and out.

use serde_json::json;

use crate::support::client::Reply;
use crate::support::server::TestServer;

const PASSWORD: &str = "correct horse battery";

async fn set_up(server: &TestServer) -> Reply {
    let token = server.setup_token.clone().expect("printed at the first start");
    let body = json!({"setupToken": token.reveal(), "email": "Ada@Example.com", "name": "Ada", "password": PASSWORD, "organizationName": "Big Studio"});
    server.ask("POST", "/setup").json(&body).send().await
}

async fn log_in(server: &TestServer, email: &str, password: &str) -> Reply {
    server.ask("POST", "/auth/login").json(&json!({"email": email, "password": password})).send().await
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_happens_once_and_with_the_token_only() {
    let server = TestServer::start().await;
    let file = server.directory.path().join("setup-token");
    let token = server.setup_token.clone().expect("printed at the first start");
    assert_eq!(std::fs::read_to_string(&file).expect("the file").trim(), token.reveal());
    let mut wrong =
        json!({"setupToken": "setup_wrong", "email": "ada@example.com", "name": "Ada", "password": PASSWORD, "organizationName": "S"});
    assert_eq!(server.ask("POST", "/setup").json(&wrong).send().await.status, 401);
    wrong["setupToken"] = json!(token.reveal());
    wrong["password"] = json!("short");
    assert_eq!(server.ask("POST", "/setup").json(&wrong).send().await.expect(400).details(), ["password:invalid_value"]);

    let reply = set_up(&server).await.expect(201).json();
    assert_eq!(reply["user"]["email"], "ada@example.com");
    assert_eq!(reply["organization"]["slug"], "big-studio");
    assert_eq!(reply["organization"]["plan"], "self-hosted");
    assert_eq!(reply["membership"]["role"], "admin");
    assert!(!file.exists());
    assert_eq!(set_up(&server).await.code(), "not_found");

    let access = reply["accessToken"].as_str().expect("a token");
    let me = server.ask("GET", "/auth/me").bearer(access).send().await.expect(200).json();
    assert_eq!((&me["user"], &me["organization"], &me["membership"]), (&reply["user"], &reply["organization"], &reply["membership"]));
    assert!(!me.to_string().contains("argon2"));

    let directory = server.stop().await;
    let server = TestServer::start_in(directory, |_| {}).await;
    assert!(server.setup_token.is_none());
    server.ask("GET", "/auth/me").bearer(access).send().await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_begins_with_the_password_and_ends_with_logout() {
    let server = TestServer::start().await;
    set_up(&server).await.expect(201);
    assert_eq!(log_in(&server, "ada@example.com", "wrong").await.code(), "unauthenticated");
    assert_eq!(log_in(&server, "nobody@example.com", PASSWORD).await.code(), "unauthenticated");
    let reply = log_in(&server, " ADA@example.com", PASSWORD).await.expect(200);
    let cookie = reply.header("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax") && !cookie.contains("Secure"));
    let pair = cookie.split(';').next().expect("a pair").to_owned();
    server.ask("GET", "/auth/me").header("Cookie", &pair).send().await.expect(200);

    // A change by cookie must come from our own pages.
    let own = format!("http://{}", server.address);
    let ask = || server.ask("POST", "/auth/tokens").header("Cookie", &pair).json(&json!({"name": "x", "scopes": ["read"]}));
    for (name, value) in
        [("Origin", "https://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Site", "same-site")]
    {
        assert_eq!(ask().header(name, value).send().await.code(), "forbidden", "{name}: {value}");
    }
    assert_eq!(ask().send().await.code(), "forbidden");
    assert_eq!(ask().header("Origin", &own).header("Sec-Fetch-Site", "cross-site").send().await.code(), "forbidden");
    ask().header("Origin", &own).send().await.expect(201);
    ask().header("Sec-Fetch-Site", "same-origin").send().await.expect(201);

    let logout =
        server.ask("POST", "/auth/logout").header("Cookie", &pair).header("Sec-Fetch-Site", "same-origin").send().await.expect(204);
    assert!(logout.header("set-cookie").is_some_and(|cookie| cookie.contains("Max-Age=0")));
    assert_eq!(server.ask("GET", "/auth/me").header("Cookie", &pair).send().await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn five_failures_close_an_account_to_an_address() {
    let server = TestServer::start().await;
    set_up(&server).await.expect(201);
    for _ in 0..5 {
        assert_eq!(log_in(&server, "ada@example.com", "wrong").await.status, 401);
    }
    let reply = log_in(&server, "ada@example.com", PASSWORD).await;
    assert_eq!((reply.status, reply.code().as_str()), (429, "rate_limited"));
    let seconds: u64 = reply.header("retry-after").and_then(|value| value.parse().ok()).expect("seconds");
    assert!((1..=900).contains(&seconds));
    assert_eq!(log_in(&server, "somebody@example.com", "wrong").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_password_ends_every_session() {
    let server = TestServer::start().await;
    let access = set_up(&server).await.expect(201).json()["accessToken"].as_str().expect("a token").to_owned();
    server.app.people.reset_password("ada@example.com", cookhouse::model::Secret::new("another password".into())).await.expect("reset");
    let reply = server.ask("GET", "/auth/me").bearer(&access).send().await;
    assert_eq!((reply.status, reply.code().as_str()), (401, "token_expired"));
    assert_eq!(log_in(&server, "ada@example.com", PASSWORD).await.status, 401);
    log_in(&server, "ada@example.com", "another password").await.expect(200);
}
