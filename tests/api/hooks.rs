//! Deliveries of the git host, from outside.

use cookhouse::model::build_setting::Trigger;
use cookhouse::model::delivery::{DeliveryBody, TrackedHead};
use cookhouse::model::{Build, BuildSetting, Id, Organization, Status};
use cookhouse::seams::SourceProblem;
use cookhouse::store::build_list::{self, BuildFilter};
use cookhouse::store::{Read, StoreError};
use futures_util::StreamExt;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio_util::sync::CancellationToken;

use super::{connected, project, setting, with};
use crate::support::client::Reply;
use crate::support::repositories::GOOD_TOKEN;
use crate::support::server::{Person, TestServer};

pub(super) const SECRET: &str = "what the git host signs with";

pub(super) fn commit(number: u32) -> String {
    format!("{:040x}", number + 1)
}

/// A push in the published shape, as far as anybody looks at it.
pub(super) fn push(reference: &str, before: &str, after: &str) -> Value {
    json!({"ref": reference, "before": before, "after": after, "created": false, "deleted": false, "forced": false, "base_ref": null,
        "compare": "https://git.example/compare", "commits": [], "head_commit": {"id": after, "message": "Salt the soup"},
        "repository": {"id": 1, "full_name": "studio/kitchen", "pushed_at": 1_600_000_000, "created_at": "2020-01-01T00:00:00Z"},
        "pusher": {"name": "ada"}, "sender": {"login": "ada"}})
}

pub(super) fn signed(secret: &str, body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key").chain_update(body);
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) async fn deliver(server: &TestServer, id: &str, event: &str, body: &[u8]) -> Reply {
    send(server, id, event, body, &[("X-Hub-Signature-256", &format!("sha256={}", signed(SECRET, body)))]).await
}

async fn send(server: &TestServer, id: &str, event: &str, body: &[u8], headers: &[(&str, &str)]) -> Reply {
    let ask = server.ask("POST", "/hooks/githost").header("Content-Type", "application/json");
    let ask = ask.header("X-GitHub-Event", event).header("X-GitHub-Delivery", id);
    headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value)).body(body).send().await
}

pub(super) async fn settle(server: &TestServer) {
    server.app.builds.settle_deliveries(&CancellationToken::new()).await.expect("dealt with");
}

async fn reconcile(server: &TestServer) -> Vec<Build> {
    server.app.builds.reconcile(&CancellationToken::new()).await.expect("compared")
}

async fn connect_with(server: &TestServer, admin: &Person, webhook_secret: Value) {
    let path = format!("/organizations/{}/integrations/githost", admin.user.organization_id);
    server.put(admin, &path, json!({"token": GOOD_TOKEN, "webhookSecret": webhook_secret})).await.expect(200);
}

/// A connected organization whose project has one push setting; its id.
pub(super) async fn studio() -> (TestServer, Person, Id<BuildSetting>) {
    let (server, admin) = connected().await;
    connect_with(&server, &admin, SECRET.into()).await;
    let project = project(&server, &admin).await;
    let body = with(setting(), json!({"trigger": "push"}));
    let made = server.post(&admin, &format!("{project}/build-settings"), body).await.expect(201).json();
    let id = made["id"].as_str().expect("an id").parse().expect("an id");
    (server, admin, id)
}

fn builds(server: &TestServer, admin: &Person) -> Vec<Build> {
    server.read(|snapshot| build_list::page(snapshot, admin.user.organization_id, &BuildFilter::default(), None, 5000)).items
}

/// The newest entries of the ledger.
pub(super) async fn ledger(server: &TestServer, admin: &Person) -> Vec<Value> {
    let list = server.get(admin, "/hooks/deliveries?limit=100").await.expect(200).json();
    list["items"].as_array().expect("items").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_builds_its_commit_once_for_each_setting_of_its_branch() {
    let (server, admin, setting_id) = studio().await;
    let body = push("refs/heads/main", &commit(0), &commit(1)).to_string();
    let taken = deliver(&server, "one", "push", body.as_bytes()).await.expect(202).json();
    assert_eq!(taken, json!({"deliveryId": "one", "event": "push", "duplicate": false}));
    assert_eq!(ledger(&server, &admin).await[0]["status"], "pending");
    settle(&server).await;
    let found = builds(&server, &admin);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].build_setting_id, found[0].branch.as_str()), (setting_id, "main"));
    assert_eq!((found[0].requested_revision.clone(), found[0].triggered_by.to_string()), (Some(commit(1)), format!("push:{}", commit(1))));
    let entry = ledger(&server, &admin).await[0].clone();
    assert_eq!((&entry["status"], &entry["outcome"], &entry["commit"]), (&json!("processed"), &json!("built"), &json!(commit(1))));
    assert_eq!(entry["buildIds"], json!([found[0].id]));
    // The same delivery, the same commit under another name, and in another spelling of the repository.
    assert_eq!(deliver(&server, "one", "push", body.as_bytes()).await.expect(202).json()["duplicate"], true);
    deliver(&server, "two", "push", body.as_bytes()).await.expect(202);
    deliver(&server, "three", "push", body.replace("studio/kitchen", "Studio/Kitchen").as_bytes()).await.expect(202);
    settle(&server).await;
    assert_eq!(builds(&server, &admin).len(), 1);
    assert_eq!(ledger(&server, &admin).await.len(), 3);
    // The body was needed until then only.
    let organization = admin.user.organization_id;
    let mut kept = 0;
    server.read(|snapshot| {
        snapshot.for_each(organization, None, |_: DeliveryBody| {
            kept += 1;
            Ok(true)
        })
    });
    assert_eq!(kept, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_signed_is_not_taken() {
    let (server, admin, _) = studio().await;
    let body = push("refs/heads/main", &commit(0), &commit(1)).to_string();
    let good = signed(SECRET, body.as_bytes());
    let changed = body.replace(&commit(1), &commit(2));
    let whole = |signature: &str| format!("sha256={signature}");
    let other = signed("another secret, as long", body.as_bytes());
    for (header, value) in [
        ("X-Hub-Signature-256", whole(&other)),
        ("X-Hub-Signature-256", whole(&signed("", body.as_bytes()))),
        ("X-Hub-Signature-256", whole(&good[..63])),
        ("X-Hub-Signature-256", whole(&good[..0])),
        ("X-Hub-Signature-256", whole(&format!("{good}00"))),
        ("X-Hub-Signature-256", whole(&good.replace(|_: char| true, "z"))),
        ("X-Hub-Signature-256", good.clone()),
        ("X-Hub-Signature", format!("sha1={}", &good[..40])),
        ("X-Gitea-Signature", whole(&good)),
        ("X-Nothing", String::new()),
    ] {
        let reply = send(&server, "forged", "push", body.as_bytes(), &[(header, &value)]).await;
        assert_eq!((reply.status, reply.code().as_str()), (403, "signature_invalid"), "{header}: {value}");
    }
    for headers in [vec![whole(&good), whole(&other)], vec![whole(&good)]] {
        let headers: Vec<_> = headers.iter().map(|value| ("X-Hub-Signature-256", value.as_str())).collect();
        assert_eq!(send(&server, "forged", "push", changed.as_bytes(), &headers).await.code(), "signature_invalid");
    }
    // Truncated on the way: nothing was signed like that.
    assert_eq!(
        send(&server, "cut", "push", &body.as_bytes()[1..], &[("X-Hub-Signature-256", &whole(&good))]).await.code(),
        "signature_invalid"
    );
    assert!(ledger(&server, &admin).await.is_empty());
    // The bare spelling of other servers is as good, and the organization may be named.
    send(&server, "bare", "push", body.as_bytes(), &[("X-Gitea-Signature", &good)]).await.expect(202);
    let to = |organization: &str| {
        let ask = server.ask("POST", &format!("/hooks/githost?organization={organization}")).header("Content-Type", "application/json");
        let ask = ask.header("X-Forgejo-Event", "push").header("X-Forgejo-Delivery", "named").header("X-Forgejo-Signature", &good);
        ask.body(body.as_bytes())
    };
    to(admin.user.organization_id.as_str()).send().await.expect(202);
    let stranger = server.admin().await.user.organization_id;
    for organization in [stranger.as_str(), "nobody"] {
        assert_eq!(to(organization).send().await.code(), "signature_invalid");
    }
    assert_eq!(ledger(&server, &admin).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_needs_its_name_its_event_and_json() {
    let (server, _, _) = studio().await;
    let signature = format!("sha256={}", signed(SECRET, b"{}"));
    let ask = || server.ask("POST", "/hooks/githost").header("X-Hub-Signature-256", &signature).body("{}");
    let reply = ask().header("Content-Type", "application/json").send().await.expect(400);
    assert_eq!(reply.details(), ["x-github-delivery:required", "x-github-event:required"]);
    let named = || ask().header("X-GitHub-Delivery", "one").header("X-GitHub-Event", "ping");
    let form = named().header("Content-Type", "application/x-www-form-urlencoded").send().await.expect(415);
    assert_eq!(form.code(), "unsupported_media_type");
    assert_eq!(named().header("X-GitHub-Event", "push").header("Content-Type", "application/json").send().await.status, 400);
    named().header("Content-Type", "application/json").send().await.expect(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_starts_nothing_says_why() {
    let (server, admin, _) = studio().await;
    let zeros = "0".repeat(40);
    let changed = |body: Value, changes: Value| with(body, changes);
    let main = || push("refs/heads/main", &commit(0), &commit(1));
    let cases = [
        ("push", push("refs/tags/v1", &zeros, &commit(1)), "refs/tags/v1 is no branch."),
        (
            "push",
            changed(push("refs/heads/main", &commit(0), &zeros), json!({"deleted": true, "head_commit": null})),
            "The branch main was deleted.",
        ),
        ("push", push("refs/heads/main", &commit(0), &zeros), "The branch main was deleted."),
        ("push", push("refs/heads/other", &zeros, &commit(1)), "No build setting is started by pushes to other."),
        (
            "push",
            push("refs/heads/-x", &zeros, &commit(1)),
            "A branch name has parts between slashes that are not empty, begin with neither - nor ., and end with neither . nor .lock.",
        ),
        ("push", changed(main(), json!({"repository": {"full_name": "studio/pantry"}})), "No project is linked to studio/pantry."),
        (
            "push",
            changed(main(), json!({"head_commit": {"id": commit(1), "message": "Typo\n\n[skip ci]"}})),
            "The commit's message asks for no build.",
        ),
        ("push", json!({"zen": "?"}), "The body is not what this event promises."),
        ("push", json!([]), "The body is not what this event promises."),
        ("ping", json!({"zen": "Keep it simple.", "hook_id": 1}), "This event starts nothing."),
        ("star", json!({"action": "created"}), "This event starts nothing."),
        ("installation", json!({"action": "deleted", "installation": {"id": 7}}), "It concerns no installation of this connection."),
    ];
    for (number, (event, body, _)) in cases.iter().enumerate() {
        deliver(&server, &number.to_string(), event, body.to_string().as_bytes()).await.expect(202);
    }
    settle(&server).await;
    let mut entries = ledger(&server, &admin).await;
    entries.reverse();
    let expected: Vec<_> = cases.iter().map(|(event, _, message)| (json!(event), json!("ignored"), json!(message))).collect();
    let found: Vec<_> = entries.iter().map(|entry| (entry["event"].clone(), entry["outcome"].clone(), entry["message"].clone())).collect();
    assert_eq!(found, expected);
    assert!(builds(&server, &admin).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_have_25_mebibytes_and_not_one_byte_more() {
    let (server, admin, _) = studio().await;
    let mut body = push("refs/heads/main", &commit(0), &commit(1)).to_string().into_bytes();
    body.resize(25 << 20, b' ');
    deliver(&server, "large", "push", &body).await.expect(202);
    body.push(b' ');
    let reply = deliver(&server, "larger", "push", &body).await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "payload_too_large"));
    settle(&server).await;
    assert_eq!((builds(&server, &admin).len(), ledger(&server, &admin).await.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_is_dealt_with_after_a_crash() {
    let (server, admin, _) = studio().await;
    let body = push("refs/heads/main", &commit(0), &commit(1)).to_string();
    deliver(&server, "one", "push", body.as_bytes()).await.expect(202);
    // Nobody dealt with it: as if the service was killed right after its answer.
    let server = TestServer::start_in(server.stop().await, |_| {}).await;
    assert_eq!(deliver(&server, "one", "push", body.as_bytes()).await.expect(202).json()["duplicate"], true);
    settle(&server).await;
    settle(&server).await;
    assert_eq!(builds(&server, &admin).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_a_thousand_pushes_leaves_one_build_waiting() {
    let (server, admin, _) = studio().await;
    let server = &server;
    futures_util::stream::iter(0..1000)
        .for_each_concurrent(32, |number| async move {
            let body = push("refs/heads/main", &commit(number), &commit(number + 1)).to_string();
            deliver(server, &number.to_string(), "push", body.as_bytes()).await.expect(202);
        })
        .await;
    settle(server).await;
    let pending = builds(server, &admin).into_iter().filter(|build| build.status == Status::Pending).count();
    assert_eq!(pending, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_is_paged_replayed_and_ones_own() {
    let (server, admin, setting_id) = studio().await;
    let organization = admin.user.organization_id;
    for number in 0..3 {
        let body = push("refs/heads/later", &commit(number), &commit(number + 1)).to_string();
        deliver(&server, &number.to_string(), "push", body.as_bytes()).await.expect(202);
    }
    settle(&server).await;
    let first = server.get(&admin, "/hooks/deliveries?limit=2").await.expect(200).json();
    let cursor = first["nextCursor"].as_str().expect("more");
    let second = server.get(&admin, &format!("/hooks/deliveries?limit=2&cursor={cursor}")).await.expect(200).json();
    let names = |page: &Value| page["items"].as_array().expect("items").iter().map(|item| item["deliveryId"].clone()).collect::<Vec<_>>();
    assert_eq!((names(&first), names(&second)), (vec![json!("2"), json!("1")], vec![json!("0")]));
    assert_eq!(second["nextCursor"], Value::Null);
    // The setting tracks that branch by now: a replay finds it.
    server
        .app
        .store
        .write(move |tx| {
            let mut setting: BuildSetting = tx.get(organization, setting_id)?.expect("the setting");
            setting.branch = "later".into();
            tx.put(&setting)
        })
        .await
        .unwrap_or_else(|error: StoreError| panic!("{error}"));
    let path = format!("/hooks/deliveries/{}/replay", first["items"][0]["id"].as_str().expect("an id"));
    for _ in 0..2 {
        assert_eq!(server.post(&admin, &path, json!({})).await.expect(202).json()["status"], "pending");
        settle(&server).await;
    }
    let found = builds(&server, &admin);
    assert_eq!((found.len(), found[0].requested_revision.clone()), (1, Some(commit(3))));
    let stranger = server.admin().await;
    assert_eq!(server.post(&stranger, &path, json!({})).await.expect(404).code(), "not_found");
    assert!(ledger(&server, &stranger).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_secret_and_the_one_before_are_taken_for_a_day() {
    let (server, admin, _) = studio().await;
    let organization = admin.user.organization_id;
    let mut number = 0;
    let mut tried = async |secret: &str| {
        number += 1;
        let signature = format!("sha256={}", signed(secret, b"{}"));
        send(&server, &number.to_string(), "ping", b"{}", &[("X-Hub-Signature-256", &signature)]).await.status
    };
    let second = "the second secret of the host";
    connect_with(&server, &admin, second.into()).await;
    connect_with(&server, &admin, second.into()).await;
    assert_eq!([tried(SECRET).await, tried(second).await], [202, 202]);
    // Connected again without naming one: nothing changes.
    super::connect(&server, &admin).await;
    assert_eq!([tried(SECRET).await, tried(second).await], [202, 202]);
    let now = server.app.clock.now();
    let day_is_over = move |tx: &cookhouse::store::Change| {
        let mut stored: Organization = tx.get(organization, organization)?.expect("an organization");
        stored.githost.as_mut().expect("a connection").webhook.former_until = Some(now);
        tx.put(&stored)
    };
    server.app.store.write(day_is_over).await.unwrap_or_else(|error: StoreError| panic!("{error}"));
    assert_eq!([tried(SECRET).await, tried(second).await], [403, 202]);
    connect_with(&server, &admin, Value::Null).await;
    assert_eq!([tried(SECRET).await, tried(second).await], [403, 403]);
    let path = format!("/organizations/{organization}/integrations/githost");
    let short = server.put(&admin, &path, json!({"token": GOOD_TOKEN, "webhookSecret": "short"})).await.expect(400);
    assert_eq!(short.details(), ["webhookSecret:invalid_value"]);
    connect_with(&server, &admin, SECRET.into()).await;
    assert_eq!(
        server.get(&admin, &format!("/organizations/{organization}")).await.json()["integrations"]["githost"]["webhookSecretSet"],
        true
    );
    server.delete(&admin, &path).await.expect(204);
    assert_eq!(tried(SECRET).await, 403);
    let bytes = std::fs::read(server.directory.path().join("store.redb")).expect("the store");
    assert!(!bytes.windows(second.len()).any(|window| window == second.as_bytes()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_that_goes_takes_the_connection_with_it() {
    let (server, admin, _) = studio().await;
    let path = format!("/organizations/{}", admin.user.organization_id);
    let steps =
        [("suspend", "suspended"), ("unsuspend", "connected"), ("new_permissions_accepted", "connected"), ("deleted", "disconnected")];
    for (action, status) in steps {
        let body = json!({"action": action, "installation": {"id": "studio", "account": {"login": "studio"}}}).to_string();
        deliver(&server, action, "installation", body.as_bytes()).await.expect(202);
        settle(&server).await;
        assert_eq!(server.get(&admin, &path).await.json()["integrations"]["githost"]["status"], status, "{action}");
    }
    let body = push("refs/heads/main", &commit(0), &commit(1)).to_string();
    deliver(&server, "late", "push", body.as_bytes()).await.expect(202);
    settle(&server).await;
    assert_eq!(ledger(&server, &admin).await[0]["message"], "The organization is not connected to its git host.");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_that_loses_repositories_says_whose_builds_will_fail() {
    let (server, admin, _) = studio().await;
    let body = json!({"action": "removed", "installation": {"id": "studio"}, "repository_selection": "selected",
        "repositories_removed": [{"full_name": "Studio/Kitchen"}, {"full_name": "studio/other"}]});
    deliver(&server, "one", "installation_repositories", body.to_string().as_bytes()).await.expect(202);
    settle(&server).await;
    let entry = ledger(&server, &admin).await[0].clone();
    assert_eq!(entry["outcome"], "updated");
    assert_eq!(entry["message"], "The installation no longer reaches the repositories of 1 projects: their builds will fail.");
    let shown = server.get(&admin, &format!("/organizations/{}", admin.user.organization_id)).await.json();
    assert_eq!(shown["integrations"]["githost"]["installations"][0]["repositorySelection"], "selected");
}

fn move_branch(server: &TestServer, branch: &str, to: &str) {
    let mut repositories = server.host.repositories.lock().expect("the host");
    repositories.get_mut("studio/kitchen").expect("the repository").branches.insert(branch.to_owned(), to.to_owned());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_nobody_told_of_is_built_once() {
    let (server, admin, setting_id) = studio().await;
    let organization = admin.user.organization_id;
    let asked = || server.host.asked().iter().filter(|asked| asked.starts_with("head studio/kitchen")).count();
    let project = server.read(|snapshot| snapshot.get::<BuildSetting>(organization, setting_id)).expect("the setting").project_id;
    for changes in
        [json!({"trigger": "push", "platform": "Linux"}), json!({"trigger": "push", "branch": "gone"}), json!({"trigger": "manual"})]
    {
        server.post(&admin, &format!("/projects/{project}/build-settings"), with(setting(), changes)).await.expect(201);
    }
    // The first look is where pushes begin. Two branches are asked for, one of them is missing.
    let before = asked();
    assert!(reconcile(&server).await.is_empty());
    assert_eq!(asked() - before, 2);
    move_branch(&server, "main", &commit(1));
    assert_eq!(reconcile(&server).await.len(), 2);
    assert!(reconcile(&server).await.is_empty());
    // Its delivery comes late.
    let body = push("refs/heads/main", &commit(0), &commit(1)).to_string();
    deliver(&server, "late", "push", body.as_bytes()).await.expect(202);
    settle(&server).await;
    assert_eq!(builds(&server, &admin).len(), 2);
    // And what was told is not found again.
    let body = push("refs/heads/main", &commit(1), &commit(2)).to_string();
    deliver(&server, "told", "push", body.as_bytes()).await.expect(202);
    settle(&server).await;
    move_branch(&server, "main", &commit(2));
    assert!(reconcile(&server).await.is_empty());
    assert_eq!(builds(&server, &admin).len(), 4);
    // A host that is away costs nothing but the round.
    server.host.fail_with(Some(SourceProblem::Unavailable));
    move_branch(&server, "main", &commit(3));
    assert!(reconcile(&server).await.is_empty());
    server.host.fail_with(None);
    assert_eq!(reconcile(&server).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_that_come_late_or_go_back_end_at_the_newest() {
    let (server, admin, setting_id) = studio().await;
    let organization = admin.user.organization_id;
    let waiting = || {
        let waiting: Vec<_> = builds(&server, &admin).into_iter().filter(|build| build.status == Status::Pending).collect();
        waiting.into_iter().map(|build| build.requested_revision.unwrap_or_default()).collect::<Vec<_>>()
    };
    let mut number = 0;
    let mut told = async |before: u32, after: u32| {
        number += 1;
        let body = push("refs/heads/main", &commit(before), &commit(after)).to_string();
        deliver(&server, &number.to_string(), "push", body.as_bytes()).await.expect(202);
        settle(&server).await;
    };
    told(0, 1).await;
    // The second push's delivery overtakes the first one's.
    told(2, 3).await;
    told(1, 2).await;
    assert_eq!(waiting(), [commit(3)]);
    // Somebody forces the branch back: that commit's build had been superseded.
    told(3, 1).await;
    assert_eq!(waiting(), [commit(1)]);
    // A former delivery that is sent again is not a push.
    told(2, 3).await;
    assert_eq!(waiting(), [commit(1)]);
    let head: TrackedHead = server.read(|snapshot| snapshot.get(organization, setting_id.cast())).expect("a head");
    assert_eq!((head.setting(), head.commit), (setting_id, commit(1)));
    // A setting that no push starts tracks nothing.
    let stop_pushing = move |tx: &cookhouse::store::Change| {
        let mut setting: BuildSetting = tx.get(organization, setting_id)?.expect("the setting");
        setting.trigger = Trigger::Manual;
        tx.put(&setting)
    };
    server.app.store.write(stop_pushing).await.unwrap_or_else(|error: StoreError| panic!("{error}"));
    reconcile(&server).await;
    assert!(server.read(|snapshot| snapshot.get::<TrackedHead>(organization, setting_id.cast())).is_none());
}
