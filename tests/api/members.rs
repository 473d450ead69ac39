//! Members: invited, welcomed, promoted, removed.

use cookhouse::model::permission::{Role, Scope};
use cookhouse::model::{Timestamp, User};
use serde_json::{Value, json};

use crate::support::client::Reply;
use crate::support::server::{Person, TestServer};

const PASSWORD: &str = "correct horse battery";

fn grace() -> Value {
    json!({"email": "Grace@Example.com", "name": "Grace", "role": "member"})
}

async fn invite(server: &TestServer, admin: &Person, body: Value) -> Value {
    server.post(admin, "/members", body).await.expect(201).json()
}

pub(super) fn token_of(member: &Value) -> String {
    let url = member["invitationUrl"].as_str().expect("an address");
    url.split_once("#token=").expect("a token behind the #").1.to_owned()
}

async fn accept(server: &TestServer, token: &str) -> Reply {
    let body = json!({"token": token, "name": "Grace Hopper", "password": PASSWORD});
    server.ask("POST", "/auth/accept-invitation").json(&body).send().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_is_accepted_once_and_lets_in() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let reply = server.post(&admin, "/members", grace()).await.expect(201);
    let member = reply.json();
    let path = format!("/members/{}", member["id"].as_str().expect("an id"));
    assert_eq!(reply.header("location"), Some(format!("/v1{path}").as_str()));
    assert_eq!((&member["email"], &member["role"], &member["status"]), (&json!("grace@example.com"), &json!("member"), &json!("invited")));
    assert!(member["invitationUrl"].as_str().expect("shown once").starts_with(&format!("http://{}/ui/accept-invitation#", server.address)));
    let days = Timestamp::parse(member["invitationExpiresAt"].as_str().expect("a time")).expect("a time").since(server.app.clock.now());
    assert!((6 * 86_400_000..=7 * 86_400_000).contains(&days), "{days}");
    let shown = server.get(&admin, &path).await.expect(200);
    assert!(!shown.text().contains("invitationUrl") && !shown.text().contains("Hash"), "{}", shown.text());

    let login = || server.ask("POST", "/auth/login").json(&json!({"email": "grace@example.com", "password": ""})).send();
    assert_eq!(login().await.status, 401);
    let token = token_of(&member);
    assert_eq!(server.ask("GET", "/auth/me").bearer(&token).send().await.status, 401, "an invitation is no access");
    let short = json!({"token": token, "name": "Grace", "password": "short"});
    assert_eq!(server.ask("POST", "/auth/accept-invitation").json(&short).send().await.expect(400).details(), ["password:invalid_value"]);
    for wrong in ["", "garbage", "invite_000000000000000000000000000000000000", server.setup_token.as_ref().expect("one").reveal()] {
        assert_eq!(accept(&server, wrong).await.code(), "unauthenticated", "{wrong}");
    }

    let reply = accept(&server, &token).await.expect(200);
    assert!(reply.header("set-cookie").is_some_and(|cookie| cookie.contains("HttpOnly")));
    let session = reply.json();
    assert_eq!((&session["user"]["id"], &session["user"]["name"]), (&member["id"], &json!("Grace Hopper")));
    assert_eq!(session["membership"]["role"], "member");
    let access = session["accessToken"].as_str().expect("a token");
    server.ask("GET", "/auth/me").bearer(access).send().await.expect(200);
    assert_eq!(accept(&server, &token).await.code(), "unauthenticated");
    let body = json!({"email": "grace@example.com", "password": PASSWORD});
    server.ask("POST", "/auth/login").json(&body).send().await.expect(200);
    let shown = server.get(&admin, &path).await.expect(200).json();
    assert_eq!((&shown["status"], &shown["invitationExpiresAt"]), (&json!("active"), &json!(null)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_ends_after_seven_days_and_can_be_renewed() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let first = invite(&server, &admin, grace()).await;
    let renewed = invite(&server, &admin, json!({"email": "grace@example.com", "name": "G", "role": "viewer"})).await;
    assert_eq!((&first["id"], &renewed["name"], &renewed["role"]), (&renewed["id"], &json!("G"), &json!("viewer")));
    assert_eq!(accept(&server, &token_of(&first)).await.code(), "unauthenticated");

    let other = server.admin().await;
    let taken = server.post(&other, "/members", grace()).await.expect(400);
    assert_eq!(taken.details(), ["email:not_allowed"]);
    let id = renewed["id"].as_str().expect("an id").parse().expect("an id");
    let organization = admin.user.organization_id;
    let expire = move |change: &cookhouse::store::Change| {
        use cookhouse::store::Read;
        let mut user: User = change.get(organization, id)?.expect("invited");
        user.invitation.as_mut().expect("open").expires_at = Timestamp(0);
        change.put(&user)
    };
    server.app.store.write(expire).await.expect("written");
    assert_eq!(accept(&server, &token_of(&renewed)).await.code(), "token_expired");
    // What was never accepted holds no address for ever.
    invite(&server, &other, grace()).await;
    assert_eq!(server.get(&admin, &format!("/members/{id}")).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_admin_stays() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let own = format!("/members/{}", admin.user.id);
    let invited = invite(&server, &admin, json!({"email": "b@example.com", "name": "B", "role": "admin"})).await;
    for _ in 0..2 {
        assert_eq!(server.patch(&admin, &own, json!({"role": "member"})).await.expect(409).code(), "last_admin");
        assert_eq!(server.delete(&admin, &own).await.expect(409).code(), "last_admin");
    }
    server.delete(&admin, &format!("/members/{}", invited["id"].as_str().expect("an id"))).await.expect(204);
    let second = server.person(admin.user.organization_id, Role::Admin).await;
    let changed = server.patch(&second, &own, json!({"role": "viewer"})).await.expect(200).json();
    assert_eq!(changed["role"], "viewer");
    assert_eq!(server.patch(&admin, &own, json!({"role": "admin"})).await.code(), "forbidden", "a role counts at once");
    assert_eq!(server.delete(&second, &format!("/members/{}", second.user.id)).await.code(), "last_admin");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_removed_has_no_access_left() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let member = server.person(admin.user.organization_id, Role::Member).await;
    let session = server.app.people.begin_session(member.user.clone()).await.expect("a session").access_token.reveal().clone();
    server.ask("GET", "/auth/me").bearer(&session).send().await.expect(200);
    let path = format!("/members/{}", member.user.id);
    server.delete(&admin, &path).await.expect(204);
    assert_eq!(server.delete(&admin, &path).await.code(), "not_found");
    assert_eq!(server.ask("GET", "/auth/me").bearer(&session).send().await.code(), "unauthenticated");
    assert_eq!(server.get(&member, "/auth/me").await.code(), "token_revoked");
    let tokens = server.get(&admin, "/auth/tokens").await.expect(200).text();
    assert!(!tokens.contains(member.user.id.as_str()), "{tokens}");
    // The address is free again.
    invite(&server, &admin, json!({"email": member.user.email, "name": "Again", "role": "viewer"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_paged_tagged_and_created_once() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let ask = || server.ask("POST", "/members").bearer(&admin.token).header("Idempotency-Key", "one").json(&grace()).send();
    let (first, again) = (ask().await.expect(201), ask().await.expect(201));
    assert_eq!((first.body.clone(), again.header("idempotent-replayed")), (again.body.clone(), Some("true")));
    let path = format!("/members/{}", first.json()["id"].as_str().expect("an id"));

    let etag = server.get(&admin, &path).await.header("etag").expect("a tag").to_owned();
    let change =
        |role: &str| server.ask("PATCH", &path).bearer(&admin.token).header("If-Match", &etag).json(&json!({ "role": role })).send();
    change("viewer").await.expect(200);
    assert_eq!(change("member").await.code(), "precondition_failed");
    let delete = server.ask("DELETE", &path).bearer(&admin.token).header("If-Match", &etag).send().await;
    assert_eq!(delete.code(), "precondition_failed");
    assert_eq!(server.patch(&admin, &path, json!({"role": "owner"})).await.expect(400).details(), ["role:invalid_value"]);
    assert_eq!(server.patch(&admin, &path, json!({"role": null})).await.expect(400).details(), ["role:invalid_type"]);
    let wrong = server.post(&admin, "/members", json!({"email": "no address", "role": 5})).await.expect(400);
    assert_eq!(wrong.details(), ["email:invalid_value", "name:required", "role:invalid_type"]);

    for _ in 0..3 {
        server.person(admin.user.organization_id, Role::Viewer).await;
    }
    let (mut seen, mut next) = (Vec::new(), "/members?limit=2".to_owned());
    loop {
        let page = server.get(&admin, &next).await.expect(200).json();
        seen.extend(page["items"].as_array().expect("items").iter().map(|item| item["id"].as_str().expect("an id").to_owned()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        next = format!("/members?limit=2&cursor={cursor}");
    }
    assert_eq!((seen.len(), seen.is_sorted()), (5, true));
    assert_eq!(server.get(&admin, "/members?cursor=x").await.code(), "invalid_cursor");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_organization_and_a_limited_token_reach_nobody() {
    let server = TestServer::start().await;
    let (admin, other) = (server.admin().await, server.admin().await);
    let path = format!("/members/{}", other.user.id);
    assert_eq!(server.get(&admin, &path).await.code(), "not_found");
    assert_eq!(server.patch(&admin, &path, json!({"role": "viewer"})).await.code(), "not_found");
    assert_eq!(server.delete(&admin, &path).await.code(), "not_found");
    let list = server.get(&admin, "/members").await.expect(200).json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let viewer = server.person(admin.user.organization_id, Role::Viewer).await;
    server.get(&viewer, "/members").await.expect(200);

    // A token that is limited to nothing at all may not make an admin who is not.
    let body = json!({"name": "limited", "scopes": ["admin"], "projectIds": []});
    let limited = server.post(&admin, "/auth/tokens", body).await.expect(201).json()["token"].as_str().expect("a token").to_owned();
    let reply = server.ask("POST", "/members").bearer(&limited).json(&grace()).send().await;
    assert_eq!(reply.code(), "insufficient_scope");
    let trigger = server.token(&admin.user, &[Scope::Trigger]).await;
    assert_eq!(server.ask("GET", "/members").bearer(&trigger).send().await.code(), "insufficient_scope");
}
