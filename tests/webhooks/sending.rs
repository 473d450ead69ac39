//! What arrives at endpoints that behave, more or less.

use cookhouse::model::deploy::{DeployError, DeployFailureCode, DeployStatus};
use cookhouse::model::{Artifact, Notice, Timestamp};
use cookhouse::store::key::Key;
use cookhouse::store::{Read, tables};

use super::endpoint::status;
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_arrives_in_order_signed_and_with_the_state_at_its_moment() {
    let (server, admin) = start(hasty(3)).await;
    let endpoint = Endpoint::taking().await;
    let (id, secret) = webhook(&server, &admin, &endpoint.url(), json!({})).await;
    let waits = waiting(&server, &admin).await;
    let runs = moved(&server, waits.clone(), Status::Running).await;
    let artifact = Artifact {
        size_bytes: 7,
        checksum_md5: "m".into(),
        checksum_sha256: "s".into(),
        expires_at: None,
        deleted_at: None,
        deleted_reason: None,
    };
    let done = runs.moved_to(Status::Complete, server.app.clock.now()).unwrap();
    let done = Build { artifact: Some(artifact.clone()), auto_deploy_status: Some(DeployStatus::Pending), ..done };
    put(&server, &done).await;
    let error =
        DeployError { code: DeployFailureCode::HttpStatus, http_status: Some(500), message: "no".into(), attempted_at: Timestamp(0) };
    put(&server, &Build { auto_deploy_status: Some(DeployStatus::Failed), auto_deploy_error: Some(error), ..done.clone() }).await;
    put(&server, &Build { auto_deploy_status: Some(DeployStatus::Succeeded), ..done.clone() }).await;
    let deleted = Artifact { deleted_at: Some(server.app.clock.now()), ..artifact };
    put(&server, &Build { auto_deploy_status: Some(DeployStatus::Succeeded), artifact: Some(deleted), ..done }).await;
    moved(&server, waiting(&server, &admin).await, Status::Superseded).await;
    let got = endpoint.until(8).await;
    let kinds = ["build.created", "build.started", "build.completed", "deploy.failed", "deploy.succeeded", "artifact.deleted"];
    assert_eq!(endpoint.types(), [&kinds[..], &["build.created", "build.superseded"]].concat());
    for got in &got {
        assert_eq!(verify(got, &secret), 1, "{got:?}");
        assert!(got.head.starts_with("POST /hook?x=1 HTTP/1.1\r\n"), "{}", got.head);
        assert_eq!(got.header("content-type"), "application/json");
        let body = got.json();
        assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), ["data", "timestamp", "type"]);
        assert!(body["timestamp"].as_str().and_then(Timestamp::parse).is_some());
        assert_eq!(body["data"]["organization"]["id"], admin.user.organization_id.as_str());
    }
    // Whatever became of the build since.
    let build = |number: usize| got[number].json()["data"]["build"].clone();
    assert_eq!(
        (&build(0)["id"], &build(0)["status"], &build(0)["startedAt"]),
        (&waits.id.as_str().into(), &"pending".into(), &Value::Null)
    );
    assert_eq!((&build(1)["status"], &build(1)["artifact"]), (&"running".into(), &Value::Null));
    assert_eq!((&build(2)["autoDeployStatus"], &build(2)["artifact"]["deletedAt"]), (&"pending".into(), &Value::Null));
    assert_eq!((&build(3)["autoDeployError"]["httpStatus"], &build(4)["autoDeployStatus"]), (&500.into(), &"succeeded".into()));
    assert!(build(5)["artifact"]["deletedAt"].is_string());
    let (_, entries) = until(&server, &admin, &id, |_, entries| is_over(entries)).await;
    assert_eq!(statuses(&entries), ["delivered"; 8]);
    for (entry, got) in entries.iter().zip(&got) {
        assert_eq!((text(&entry["messageId"]), text(&entry["request"]["body"]).into_bytes()), (got.id(), got.body.clone()));
        assert_eq!((&entry["response"]["status"], entry["attempts"].as_array().unwrap().len()), (&204.into(), 1));
        assert_eq!(entry["request"]["url"], endpoint.url());
    }
    let events: Vec<u64> = entries.iter().map(|entry| text(&entry["event"]).parse().unwrap()).collect();
    assert!(events.is_sorted() && server.app.store.check().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_wanted_is_queued_and_only_while_it_is_wanted() {
    let (server, admin) = start(hasty(3)).await;
    let stranger = server.admin().await;
    let endpoint = Endpoint::taking().await;
    let (failures, _) = webhook(&server, &admin, &endpoint.url(), json!({"events": ["build.failed", "build.failed"]})).await;
    let (off, _) = webhook(&server, &admin, &endpoint.url(), json!({"enabled": false})).await;
    let build = waiting(&server, &admin).await;
    waiting(&server, &stranger).await;
    moved(&server, build, Status::Failed).await;
    endpoint.until(1).await;
    until(&server, &admin, &failures, |_, entries| entries.len() == 1 && is_over(entries)).await;
    assert_eq!(ledger(&server, &admin, &off).await, Vec::<Value>::new());
    // A limit to projects: the builds here belong to none of theirs.
    let elsewhere = json!({"projectIds": []});
    server.ask("PATCH", &format!("/webhooks/{failures}")).bearer(&admin.token).json(&elsewhere).send().await.expect(200);
    moved(&server, waiting(&server, &admin).await, Status::Failed).await;
    assert_eq!((ledger(&server, &admin, &failures).await.len(), endpoint.got().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_not_taken_comes_again_under_its_id_and_holds_up_what_is_behind_it() {
    let (server, admin) = start(hasty(5)).await;
    let endpoint = Endpoint::answering(|number, _| Some(status(if number < 3 { 500 + number as u16 } else { 200 }))).await;
    let calm = Endpoint::taking().await;
    let (id, secret) = webhook(&server, &admin, &endpoint.url(), json!({})).await;
    let (other, _) = webhook(&server, &admin, &calm.url(), json!({})).await;
    let build = waiting(&server, &admin).await;
    moved(&server, build, Status::Running).await;
    let got = endpoint.until(5).await;
    assert_eq!(endpoint.types(), ["build.created", "build.created", "build.created", "build.created", "build.started"]);
    assert!(got[..4].iter().all(|one| one.id() == got[0].id() && one.body == got[0].body) && got[4].id() != got[0].id());
    assert!(got.iter().all(|got| verify(got, &secret) == 1));
    // The same message has the same name everywhere.
    assert_eq!(calm.until(2).await.iter().map(Got::id).collect::<Vec<_>>(), [got[0].id(), got[4].id()]);
    let (_, entries) = until(&server, &admin, &id, |_, entries| is_over(entries)).await;
    let attempts = entries[0]["attempts"].as_array().unwrap();
    let seen: Vec<_> = attempts.iter().map(|attempt| attempt["status"].as_u64().unwrap()).collect();
    assert_eq!((seen, &attempts[1]["error"]["code"]), (vec![500, 501, 502, 200], &"http_status".into()));
    assert_eq!(statuses(&ledger(&server, &admin, &other).await), ["delivered", "delivered"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_never_taken_switches_the_endpoint_off_and_the_rest_waits_for_somebody() {
    // Slowly enough that a second message is queued behind the first.
    let plan = Plan::new([0, 700, 700].map(Duration::from_millis));
    let (server, admin) = start(Settings { plan, ..hasty(3) }).await;
    let is_well = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let well = is_well.clone();
    let answers = move |_: usize, _: &Got| Some(status(if well.load(std::sync::atomic::Ordering::Relaxed) { 200 } else { 503 }));
    let endpoint = Endpoint::answering(answers).await;
    let (id, _) = webhook(&server, &admin, &endpoint.url(), json!({})).await;
    let build = waiting(&server, &admin).await;
    let build = moved(&server, build, Status::Running).await;
    let (webhook, entries) = until(&server, &admin, &id, |webhook, _| webhook["enabled"] == false).await;
    assert_eq!(
        (&webhook["disabled"]["reason"], &webhook["waiting"], &webhook["nextAttemptAt"]),
        (&"exhausted".into(), &1.into(), &Value::Null)
    );
    assert!(text(&webhook["disabled"]["message"]).contains("3 times"), "{webhook}");
    assert_eq!((statuses(&entries), endpoint.got().len()), (vec!["failed".to_owned(), "pending".to_owned()], 3));
    let audit = server.get(&admin, "/audit?limit=100").await.expect(200).json();
    let entry = audit["items"].as_array().unwrap().iter().find(|entry| entry["operationId"] == "disableWebhook").unwrap().clone();
    assert_eq!((&entry["actor"]["kind"], &entry["resources"][0]["id"]), (&"host".into(), &id.as_str().into()), "{entry}");
    let notices: Vec<Notice> = server.read(|rows| rows.find_on_host(&tables::NOTICES_ALL, &Key::all(), 9));
    assert!(matches!(&notices[..], [notice] if notice.subject.starts_with("http://127.0.0.1:") && !notice.subject.contains("hook")));
    // What happens while it is off is not for it.
    let build = moved(&server, build, Status::Failed).await;
    assert_eq!(ledger(&server, &admin, &id).await.len(), 2);
    is_well.store(true, std::sync::atomic::Ordering::Relaxed);
    let reply =
        server.ask("PATCH", &format!("/webhooks/{id}")).bearer(&admin.token).json(&json!({"enabled": true})).send().await.expect(200);
    assert_eq!(reply.json()["disabled"], Value::Null);
    let (_, entries) = until(&server, &admin, &id, |_, entries| is_over(entries)).await;
    assert_eq!(statuses(&entries), ["failed", "delivered"]);
    // And what failed can be sent once more, as the same message.
    let failed = text(&entries[0]["id"]);
    let again = server.post(&admin, &format!("/webhooks/{id}/deliveries/{failed}/redeliver"), json!({})).await.expect(202).json();
    assert_eq!((&again["redeliveryOf"], &again["messageId"]), (&failed.as_str().into(), &entries[0]["messageId"]));
    let (_, entries) = until(&server, &admin, &id, |_, entries| entries.len() == 3 && is_over(entries)).await;
    assert_eq!(statuses(&entries), ["failed", "delivered", "delivered"]);
    let got = endpoint.got();
    assert_eq!((got.last().unwrap().id(), got.len()), (got[0].id(), 5));
    assert_eq!(build.status, Status::Failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_is_gone_is_asked_once() {
    let (server, admin) = start(hasty(9)).await;
    let endpoint = Endpoint::answering(|_, _| Some(status(410))).await;
    let (id, _) = webhook(&server, &admin, &endpoint.url(), json!({})).await;
    waiting(&server, &admin).await;
    let (webhook, entries) = until(&server, &admin, &id, |webhook, _| webhook["enabled"] == false).await;
    assert_eq!((&webhook["disabled"]["reason"], statuses(&entries)), (&"gone".into(), vec!["failed".to_owned()]));
    assert_eq!(endpoint.got().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_asks_for_time_gets_it_and_a_ping_that_arrives_ends_the_wait() {
    let (server, admin) = start(hasty(9)).await;
    let wait = |number: usize, _: &Got| match number {
        0 => Some("HTTP/1.1 429 x\r\nretry-after: 3600\r\ncontent-length: 5\r\n\r\nlater".to_owned()),
        _ => Some(status(200)),
    };
    let endpoint = Endpoint::answering(wait).await;
    let (id, _) = webhook(&server, &admin, &endpoint.url(), json!({})).await;
    waiting(&server, &admin).await;
    let (webhook, entries) = until(&server, &admin, &id, |webhook, _| webhook["nextAttemptAt"].is_string()).await;
    let next = Timestamp::parse(webhook["nextAttemptAt"].as_str().unwrap()).unwrap();
    let began = Timestamp::parse(entries[0]["attempts"][0]["at"].as_str().unwrap()).unwrap();
    assert!((3_600_000..3_700_000).contains(&next.since(began)), "{webhook}");
    assert_eq!((&entries[0]["response"]["body"], &entries[0]["response"]["status"]), (&"later".into(), &429.into()));
    let ping = server.post(&admin, &format!("/webhooks/{id}/ping"), json!({})).await.expect(202).json();
    assert_eq!((&ping["type"], &ping["event"]), (&"ping".into(), &Value::Null));
    let (_, entries) = until(&server, &admin, &id, |_, entries| entries.len() == 2 && is_over(entries)).await;
    assert_eq!(
        (statuses(&entries), endpoint.types()),
        (vec!["delivered".to_owned(); 2], vec!["build.created".to_owned(), "ping".into(), "build.created".into()])
    );
    assert_eq!(endpoint.got()[1].json()["data"]["build"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_endpoint_and_a_dead_one_keep_no_other_waiting() {
    let settings = Settings { timeout: Duration::from_secs(60), ..hasty(3) };
    let (server, admin) = start(settings).await;
    let slow = Endpoint::answering(|_, _| None).await;
    for _ in 0..40 {
        webhook(&server, &admin, &slow.url(), json!({})).await;
    }
    webhook(&server, &admin, "http://127.0.0.1:1/", json!({})).await;
    let quick = Endpoint::taking().await;
    webhook(&server, &admin, &quick.url(), json!({})).await;
    for _ in 0..20 {
        waiting(&server, &admin).await;
    }
    slow.until(40).await;
    quick.until(20).await;
    assert_eq!(slow.got().len(), 40, "one message on its way to each");
    // Nor does the service wait for it when it stops.
    let stopped = tokio::time::timeout(Duration::from_secs(20), server.stop()).await;
    assert!(stopped.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_that_the_end_of_the_service_cut_short_is_made_again_under_its_id() {
    let directory = Arc::new(TempDir::new().unwrap());
    let server = TestServer::start_sending(directory.clone(), near(), Settings::default()).await;
    let admin = server.admin().await;
    let endpoint = Endpoint::answering(|number, _| (number > 0).then(|| status(200))).await;
    let (id, _) = webhook(&server, &admin, &endpoint.url(), json!({})).await;
    let build = waiting(&server, &admin).await;
    moved(&server, build, Status::Running).await;
    endpoint.until(1).await;
    server.stop().await;
    let server = TestServer::start_sending(directory, near(), Settings::default()).await;
    let got = endpoint.until(3).await;
    assert_eq!(
        (got[0].id(), endpoint.types()),
        (got[1].id(), ["build.created", "build.created", "build.started"].map(String::from).into())
    );
    let (_, entries) = until(&server, &admin, &id, |_, entries| is_over(entries)).await;
    let codes: Vec<_> = entries[0]["attempts"].as_array().unwrap().iter().map(|attempt| attempt["error"]["code"].clone()).collect();
    assert_eq!(codes, ["interrupted".into(), Value::Null]);
}
