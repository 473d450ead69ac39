//! API tokens.

use cookhouse::model::permission::{Role, Scope};
use cookhouse::model::{ApiToken, Timestamp};
use cookhouse::store::Read;
use serde_json::json;

use super::{build_setting, connected, project, triggered};
use crate::support::server::{Person, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_once_works_and_ends() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let created = server.post(&admin, "/auth/tokens", json!({"name": " ci ", "scopes": ["write", "read"]})).await.expect(201);
    let token = created.json();
    let secret = token["token"].as_str().expect("the secret").to_owned();
    assert!(secret.starts_with("ckh_") && secret.len() == 40);
    assert_eq!(token["name"], "ci");
    assert_eq!(token["scopes"], json!(["read", "write"]));
    let path = created.header("location").expect("a location").to_owned();
    assert_eq!(path, format!("/v1/auth/tokens/{}", token["id"].as_str().expect("an id")));

    let listed = server.get(&admin, "/auth/tokens").await.expect(200);
    assert_eq!(listed.json()["items"].as_array().map(Vec::len), Some(2));
    assert!(!listed.text().contains("ckh_") && !listed.text().contains("Hash"));

    server.ask("GET", "/auth/me").bearer(&secret).send().await.expect(200);
    let rotated = server.post(&admin, &format!("{path}/rotate"), json!({})).await.expect(201).json();
    assert_eq!(server.ask("GET", "/auth/me").bearer(&secret).send().await.code(), "unauthenticated");
    let secret = rotated["token"].as_str().expect("a new secret").to_owned();
    server.ask("GET", "/auth/me").bearer(&secret).send().await.expect(200);

    server.delete(&admin, &path).await.expect(204);
    assert_eq!(server.ask("GET", "/auth/me").bearer(&secret).send().await.code(), "token_revoked");
    assert_eq!(server.delete(&admin, &path).await.code(), "not_found");
    assert_eq!(server.get(&admin, "/auth/tokens").await.json()["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_hash_is_stored() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let key = |ask: crate::support::client::Ask| ask.header("Idempotency-Key", "k1");
    let ask = server.ask("POST", "/auth/tokens").bearer(&admin.token).json(&json!({"name": "x", "scopes": ["read"]}));
    let secret = key(ask).send().await.expect(201).json()["token"].as_str().expect("the secret").to_owned();
    let directory = server.stop().await;
    let bytes = std::fs::read(directory.path().join("store.redb")).expect("the store");
    assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_never_reaches_further_than_its_maker() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let member = server.person(admin.user.organization_id, Role::Member).await;
    let viewer = server.person(admin.user.organization_id, Role::Viewer).await;
    // Tokens of these two carry no scope that makes tokens.
    for person in [&member, &viewer] {
        let reply = server.post(person, "/auth/tokens", json!({"name": "x", "scopes": ["read"]})).await;
        assert_eq!((reply.status, reply.code().as_str()), (403, "insufficient_scope"));
        assert_eq!(server.get(person, "/auth/tokens").await.code(), "insufficient_scope");
    }
    // In a session they may, up to their role.
    for (person, scopes, status) in [
        (&member, json!(["write"]), 201),
        (&member, json!(["admin"]), 400),
        (&viewer, json!(["read"]), 201),
        (&viewer, json!(["trigger"]), 400),
    ] {
        let session = server.app.people.begin_session(person.user.clone()).await.expect("a session");
        let person = Person { user: person.user.clone(), token: session.access_token.reveal().clone() };
        let reply = server.post(&person, "/auth/tokens", json!({"name": "x", "scopes": scopes})).await;
        assert_eq!(reply.status, status, "{}", reply.text());
    }
    // Somebody's tokens are another one's business only to an admin.
    let session = server.app.people.begin_session(member.user.clone()).await.expect("a session");
    let as_member = Person { user: member.user.clone(), token: session.access_token.reveal().clone() };
    let all = server.get(&admin, "/auth/tokens").await.json()["items"].as_array().cloned().expect("items");
    let own = server.get(&as_member, "/auth/tokens").await.json()["items"].as_array().cloned().expect("items");
    assert!(own.len() < all.len() && own.iter().all(|token| token["userId"] == member.user.id.as_str()));
    let others = all.iter().find(|token| token["userId"] == admin.user.id.as_str()).and_then(|token| token["id"].as_str()).expect("an id");
    assert_eq!(server.delete(&as_member, &format!("/auth/tokens/{others}")).await.code(), "not_found");
    // A limited token makes limited tokens.
    let id = "0000000000000000000000zz";
    let reply = server.post(&admin, "/auth/tokens", json!({"name": "x", "scopes": ["admin"], "projectIds": [id]})).await;
    assert_eq!(reply.expect(400).details(), ["projectIds:invalid_value"], "a project that does not exist");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_where_its_location_says() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let made = server.post(&admin, "/auth/tokens", json!({"name": "x", "scopes": ["read"]})).await.expect(201);
    let path = made.header("location").expect("a location").to_owned();
    let mut expected = made.json();
    expected.as_object_mut().expect("an object").remove("token");
    let shown = server.get(&admin, &path).await.expect(200);
    assert_eq!(shown.json(), expected);
    let tag = shown.header("etag").expect("a tag").to_owned();
    let known = server.ask("GET", &path).bearer(&admin.token).header("If-None-Match", &tag);
    known.send().await.expect(304);
    let member = server.person(admin.user.organization_id, Role::Member).await;
    let session = server.app.people.begin_session(member.user.clone()).await.expect("a session");
    let as_member = Person { user: member.user.clone(), token: session.access_token.reveal().clone() };
    assert_eq!(server.get(&as_member, &path).await.expect(404).code(), "not_found");
    assert_eq!(server.get(&member, &path).await.expect(403).code(), "insufficient_scope");
    let revoke = |tag: &str| server.ask("DELETE", &path).bearer(&admin.token).header("If-Match", tag).send();
    assert_eq!(revoke("\"7-0\"").await.expect(412).code(), "precondition_failed");
    revoke(&tag).await.expect(204);
    server.get(&admin, &path).await.expect(404);
}

/// Decisions 4: the trigger token of a version-control server starts one setting and reads what it started, nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn the_trigger_of_one_setting_does_nothing_else() {
    let (server, admin) = connected().await;
    let project = project(&server, &admin).await;
    let (setting, other) = (build_setting(&server, &admin, &project).await, build_setting(&server, &admin, &project).await);
    let id = setting.rsplit('/').next().expect("an id");
    let token = json!({"name": "trigger", "scopes": ["trigger"], "buildSettingIds": [id]});
    let token = server.post(&admin, "/auth/tokens", token).await.expect(201).json()["token"].as_str().expect("a token").to_owned();
    let script = Person { user: admin.user.clone(), token };
    let (own, others) = (triggered(&server, &script, &setting).await, triggered(&server, &admin, &setting).await);
    server.get(&script, &format!("/builds/{own}")).await.expect(200);
    server.get(&script, &format!("/builds/{others}")).await.expect(404);
    server.post(&script, &format!("{other}/trigger"), json!({})).await.expect(404);
    for (build, status, code) in [(&own, 403, "insufficient_scope"), (&others, 404, "not_found")] {
        for action in ["cancel", "retry", "deploy"] {
            let reply = server.post(&script, &format!("/builds/{build}/{action}"), json!({})).await;
            assert_eq!((reply.status, reply.code().as_str()), (status, code), "{action}");
        }
        let reply = server.patch(&script, &format!("/builds/{build}"), json!({"pinned": true})).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code));
    }
    // The scope by itself does all of that.
    let wide = Person { token: server.token(&admin.user, &[Scope::Trigger]).await, ..admin.clone() };
    server.post(&wide, &format!("/builds/{own}/cancel"), json!({})).await.expect(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_expire() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for (expires_at, code) in
        [(json!("yesterday"), "invalid_value"), (json!(5), "invalid_type"), (json!("2001-01-01T00:00:00Z"), "invalid_value")]
    {
        let reply = server.post(&admin, "/auth/tokens", json!({"name": "x", "scopes": ["read"], "expiresAt": expires_at})).await;
        assert_eq!(reply.expect(400).details(), [format!("expiresAt:{code}")]);
    }
    let reply = server
        .post(&admin, "/auth/tokens", json!({"name": "x", "scopes": ["read"], "expiresAt": "2999-01-01T00:00:00Z"}))
        .await
        .expect(201);
    let (id, secret) =
        (reply.json()["id"].as_str().expect("an id").to_owned(), reply.json()["token"].as_str().expect("a token").to_owned());
    let organization = admin.user.organization_id;
    let change = move |change: &cookhouse::store::Change| {
        let token: ApiToken = change.get(organization, id.parse().expect("an id"))?.expect("the token");
        change.put(&ApiToken { expires_at: Some(Timestamp(1)), ..token })
    };
    server.app.store.write(change).await.expect("aged");
    assert_eq!(server.ask("GET", "/auth/me").bearer(&secret).send().await.code(), "token_expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_gets_the_same_answer_also_after_a_restart() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let ask = |server: &TestServer, key: &str, name: &str| {
        server
            .ask("POST", "/v1/auth/tokens")
            .bearer(&admin.token)
            .header("Idempotency-Key", key)
            .json(&json!({"name": name, "scopes": ["read"]}))
    };
    let first = ask(&server, "a", "one").send().await.expect(201);
    let again = ask(&server, "a", "one").send().await.expect(201);
    assert_eq!((first.header("idempotent-replayed"), again.header("idempotent-replayed")), (None, Some("true")));
    assert_eq!((&first.body, first.header("location")), (&again.body, again.header("location")));
    assert_eq!(ask(&server, "a", "two").send().await.expect(422).code(), "idempotency_key_reused");
    assert_ne!(ask(&server, "b", "one").send().await.expect(201).body, first.body);
    for key in ["", "a b", &"x".repeat(256)] {
        assert_eq!(ask(&server, key, "one").send().await.expect(400).details(), ["Idempotency-Key:invalid_value"]);
    }
    // Another caller's key is another key.
    let other = Person { token: server.token(&admin.user, &[Scope::Admin]).await, ..admin.clone() };
    let reply = server.ask("POST", "/v1/auth/tokens").bearer(&other.token).header("Idempotency-Key", "a");
    assert_eq!(reply.json(&json!({"name": "two", "scopes": ["read"]})).send().await.expect(201).header("idempotent-replayed"), None);

    let server = TestServer::start_in(server.stop().await, |_| {}).await;
    let again = ask(&server, "a", "one").send().await.expect(201);
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &first.body));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_at_the_same_time_creates_once() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let asks = (0..16).map(|_| {
        let ask = server.ask("POST", "/auth/tokens").bearer(&admin.token).header("Idempotency-Key", "same");
        ask.json(&json!({"name": "x", "scopes": ["read"]})).send()
    });
    let replies = futures_util::future::join_all(asks).await;
    assert!(replies.iter().all(|reply| reply.status == 201 || (reply.status == 409 && reply.code() == "idempotency_in_progress")));
    assert!(replies.iter().any(|reply| reply.status == 201));
    let tokens = server.get(&admin, "/auth/tokens").await.json()["items"].as_array().map(Vec::len);
    assert_eq!(tokens, Some(2));
}
