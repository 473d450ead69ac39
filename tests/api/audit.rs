//! The audit log: what is recorded, who may read it, and whether a forged one is found out.

use cookhouse::model::AuditEntry;
use cookhouse::model::permission::{Role, Scope};
use cookhouse::store::{Read, StoreError, audit, tables};
use serde_json::{Value, json};

use super::{build_setting, connected, project, triggered};
use crate::support::client::Reply;
use crate::support::server::{Person, TestServer};

async fn entries(server: &TestServer, admin: &Person, filter: &str) -> Vec<Value> {
    let reply = server.get(admin, &format!("/audit?limit=100&{filter}")).await.expect(200).json();
    reply["items"].as_array().expect("items").clone()
}

fn id_at_the_end(address: &str) -> String {
    address.rsplit('/').next().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_recorded_with_who_what_and_which_fields() {
    let (server, admin) = connected().await;
    let member = server.person(admin.user.organization_id, Role::Member).await;
    let project = project(&server, &member).await;
    let project_id = id_at_the_end(&project);
    let setting = build_setting(&server, &member, &project).await;
    let body = json!({"uploadBuildUrl": "https://a.example/u", "uploadBuildAuthHeader": "Bearer hidden", "name": "Nightly"});
    let ask = server.ask("PATCH", &setting).bearer(&member.token).header("X-Request-Id", "request-1");
    ask.json(&body).send().await.expect(200);
    let build = triggered(&server, &member, &setting).await;
    server.post(&member, &format!("/builds/{build}/cancel"), json!({})).await.expect(202);
    server.delete(&admin, &project).await.expect(204);

    let all = entries(&server, &admin, "").await;
    let names: Vec<&str> = all.iter().map(|entry| entry["operationId"].as_str().expect("a name")).collect();
    let expected =
        ["connectGithost", "addRepo", "createBuildSetting", "changeBuildSetting", "triggerBuild", "cancelBuild", "deleteProject"];
    assert_eq!(names, expected);
    assert!(all.iter().all(|entry| entry["outcome"] == "done" && entry["address"] == "127.0.0.1" && entry["code"].is_null()));
    let change = &all[3];
    assert_eq!((&change["actor"]["kind"], &change["actor"]["userId"]), (&json!("token"), &json!(member.user.id)));
    assert_eq!(change["requestId"], "request-1");
    let fields = json!(["name", "uploadBuildAuthHeader", "uploadBuildUrl"]);
    let touched = json!([{"kind": "buildSetting", "id": id_at_the_end(&setting), "change": "changed", "fields": fields}]);
    assert_eq!(change["resources"], touched);
    assert!(!json!(all).to_string().contains("hidden"));
    let created = &all[1]["resources"];
    assert_eq!((&created[0]["kind"], &created[0]["id"], &created[0]["change"]), (&json!("project"), &json!(project_id), &json!("created")));
    let deleted = all[6]["resources"].as_array().expect("resources");
    assert!(deleted.iter().any(|touched| touched["id"] == json!(project_id) && touched["change"] == "deleted"));
    assert!(deleted.iter().any(|touched| touched["kind"] == "buildSetting" && touched["change"] == "deleted"));
    assert!(deleted.iter().all(|touched| touched["kind"] != "session"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_is_recorded_too() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let viewer = server.person(admin.user.organization_id, Role::Viewer).await;
    let path = format!("/members/{}", admin.user.id);
    server.delete(&viewer, &path).await.expect(403);
    server.ask("DELETE", &path).send().await.expect(401);
    server.ask("DELETE", "/members/no-id-but-a-secret").send().await.expect(401);
    let read_only = server.token(&admin.user, &[Scope::Read]).await;
    server.ask("POST", "/auth/tokens").bearer(&read_only).json(&json!({"name": "x", "scopes": ["read"]})).send().await.expect(403);
    let login = json!({"email": admin.user.email, "password": "wrong password"});
    server.ask("POST", "/auth/login").json(&login).send().await.expect(401);
    // Neither of these is a change, or was refused.
    server.get(&viewer, "/audit").await.expect(403);
    server.patch(&admin, &path, json!({"role": "owner"})).await.expect(400);
    server.delete(&admin, "/members/0000000000000000000000zz").await.expect(404);

    let all = entries(&server, &admin, "").await;
    let seen: Vec<Value> = all.iter().map(|entry| json!([entry["operationId"], entry["code"], entry["actor"]["kind"]])).collect();
    let expected = json!([
        ["removeMember", "forbidden", "token"],
        ["removeMember", "unauthenticated", "stranger"],
        ["removeMember", "unauthenticated", "stranger"],
        ["createToken", "insufficient_scope", "token"],
        ["logIn", "unauthenticated", "stranger"],
    ]);
    assert_eq!(json!(seen), expected);
    assert!(all.iter().all(|entry| entry["outcome"] == "refused"));
    let named = json!([{"kind": "user", "id": admin.user.id, "change": "named", "fields": []}]);
    assert_eq!((&all[0]["resources"], &all[1]["resources"], &all[2]["resources"]), (&named, &named, &json!([])));
    assert_eq!(all[4]["resources"], named, "a wrong password is told of the account that it was for");
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_cannot_fill_the_disk() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for _ in 0..200 {
        server.ask("DELETE", "/projects/0000000000000000000000zz").send().await.expect(401);
    }
    let viewer = server.person(admin.user.organization_id, Role::Viewer).await;
    server.delete(&viewer, "/projects/0000000000000000000000zz").await.expect(403);
    let (mut count, mut next) = (0, "/audit?limit=100".to_owned());
    loop {
        let page = server.get(&admin, &next).await.expect(200).json();
        count += page["items"].as_array().expect("items").len();
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        next = format!("/audit?limit=100&cursor={cursor}");
    }
    assert!((121..=125).contains(&count), "{count}");
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_in_and_out_is_recorded_as_the_person() {
    let server = TestServer::start().await;
    let token = server.setup_token.clone().expect("printed");
    let body = json!({"setupToken": token.reveal(), "email": "ada@example.com", "name": "Ada", "password": "correct horse battery", "organizationName": "S"});
    let session = server.ask("POST", "/setup").json(&body).send().await.expect(201).json();
    let access = session["accessToken"].as_str().expect("a token").to_owned();
    let ask = |method: &str, path: &str| server.ask(method, path).bearer(&access);
    let all = ask("GET", "/audit").send().await.expect(200).json()["items"].clone();
    let seen: Vec<Value> =
        all.as_array().expect("items").iter().map(|entry| json!([entry["operationId"], entry["resources"][0]["kind"]])).collect();
    assert_eq!(json!(seen), json!([["setUp", "organization"], ["setUp", "session"]]));
    assert_eq!(all[1]["actor"], json!({"kind": "user", "userId": session["user"]["id"], "tokenId": null}));
    ask("POST", "/auth/logout").send().await.expect(204);
    let verdict = audit::verify(&server.app.store).expect("read");
    assert_eq!((verdict.entries, verdict.broken), (3, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_combine_and_pages_follow_each_other() {
    let (server, admin) = connected().await;
    let member = server.person(admin.user.organization_id, Role::Member).await;
    let project = project(&server, &member).await;
    for number in 0..5 {
        let who = if number % 2 == 0 { &admin } else { &member };
        server.patch(who, &project, json!({"name": format!("Name {number}")})).await.expect(200);
    }
    server.delete(&member, &project).await.expect(403);
    let id = id_at_the_end(&project);
    let count = async |filter: &str| entries(&server, &admin, filter).await.len();
    assert_eq!(count(&format!("resourceId={id}")).await, 7);
    assert_eq!(count(&format!("resourceId={id}&operationId=changeProject")).await, 5);
    assert_eq!(count(&format!("resourceId={id}&operationId=changeProject&actor={}", member.user.id)).await, 2);
    assert_eq!(count(&format!("actor={}&outcome=refused", member.user.id)).await, 1);
    assert_eq!(count("operationId=changeProject").await, 5);
    assert_eq!(count("actor=stranger").await + count("actor=0000000000000000000000zz").await + count("resourceId=none").await, 0);
    let all = entries(&server, &admin, "").await;
    let (from, to) = (all[2]["at"].as_str().expect("a time"), all[4]["at"].as_str().expect("a time"));
    let between = all.iter().filter(|entry| (from..=to).contains(&entry["at"].as_str().expect("a time"))).count();
    assert_eq!(count(&format!("from={from}&to={to}")).await, between);
    assert_eq!(count("from=2100-01-01T00:00:00Z").await + count("to=2000-01-01T00:00:00Z").await, 0);

    let (mut paged, mut next) = (Vec::new(), format!("/audit?limit=2&resourceId={id}"));
    loop {
        let page = server.get(&admin, &next).await.expect(200).json();
        let items = page["items"].as_array().expect("items").clone();
        assert!(items.len() <= 2);
        paged.extend(items);
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        next = format!("/audit?limit=2&resourceId={id}&cursor={cursor}");
    }
    assert_eq!(paged, entries(&server, &admin, &format!("resourceId={id}")).await);
    for (query, detail) in [("from=yesterday", "from:invalid_value"), ("outcome=maybe", "outcome:invalid_value")] {
        assert_eq!(server.get(&admin, &format!("/audit?{query}")).await.expect(400).details(), [detail]);
    }
    let other = server.admin().await;
    assert_eq!(entries(&server, &other, "").await.len(), 0, "another organization's log is its own");
    assert_eq!(server.get(&other, &next).await.code(), "invalid_cursor");
    assert_eq!(server.get(&member, "/audit").await.code(), "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_failed_leaves_no_entry_and_a_replay_no_second_one() {
    let (server, admin) = connected().await;
    let project = project(&server, &admin).await;
    let before = entries(&server, &admin, "").await.len();
    let stale = server.ask("PATCH", &project).bearer(&admin.token).header("If-Match", "\"9-x\"").json(&json!({"name": "x"})).send().await;
    stale.expect(412);
    let key = || -> std::pin::Pin<Box<dyn Future<Output = Reply>>> {
        let ask = server.ask("POST", "/auth/tokens").bearer(&admin.token).header("Idempotency-Key", "k");
        Box::pin(ask.json(&json!({"name": "x", "scopes": ["read"]})).send())
    };
    key().await.expect(201);
    key().await.expect(201);
    assert_eq!(entries(&server, &admin, "").await.len(), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_log_is_found_out() {
    let (server, admin) = connected().await;
    let project = project(&server, &admin).await;
    for number in 0..6 {
        server.patch(&admin, &project, json!({"name": format!("Name {number}")})).await.expect(200);
    }
    let store = server.app.store.clone();
    let holds = || audit::verify(&server.app.store).expect("read");
    let verdict = holds();
    assert_eq!((verdict.entries, verdict.first, verdict.last, verdict.broken), (8, 1, 8, None));
    let mut all: Vec<AuditEntry> = Vec::new();
    server.read(|snapshot| {
        snapshot.for_each_on_host(&tables::AUDIT_CHAIN, &cookhouse::store::key::Key::all(), |entry| {
            all.push(entry);
            Ok(true)
        })
    });
    let put = async |entry: AuditEntry| store.write(move |change| change.put(&entry)).await.expect("written");
    let forge = |change: fn(&mut AuditEntry)| {
        let mut entry = all[3].clone();
        change(&mut entry);
        entry
    };
    // Who rewrites an entry together with its own hash is found at the next one.
    let rehashed = forge(|entry| {
        entry.operation_id = "nothing".into();
        entry.hash = entry.digest();
    });
    for (forged, place) in [
        (forge(|entry| entry.at.0 -= 1), "entry 4 "),
        (forge(|entry| entry.resources[0].fields.clear()), "entry 4 "),
        (forge(|entry| entry.address = None), "entry 4 "),
        (rehashed, "entry 5 "),
    ] {
        put(forged).await;
        let broken = holds().broken.expect("found out");
        assert!(broken.starts_with(place), "{broken}");
        put(all[3].clone()).await;
        assert_eq!(holds().broken, None);
    }
    let remove = async |entry: &AuditEntry| {
        let (organization, id) = (entry.organization_id, entry.id);
        store.write(move |change| change.remove::<AuditEntry>(organization, id).map(|_| ())).await.expect("removed");
    };
    for (gone, words) in [(0, "entry 1 is missing"), (3, "entry 4 is missing"), (7, "the entries 8 to 8 are missing at the end")] {
        remove(&all[gone]).await;
        let broken = holds().broken.expect("found out");
        assert!(broken.starts_with(words), "{broken}");
        put(all[gone].clone()).await;
    }
    assert_eq!(holds().broken, None);
    let none: Result<Vec<String>, StoreError> = server.app.store.check();
    assert_eq!(none.expect("read"), Vec::<String>::new());
}
