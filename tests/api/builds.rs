//! Builds: lists, details, cancelling, retrying, pinning, links.

use cookhouse::artifacts::signed_url::LIFETIME_SECONDS;
use cookhouse::model::log::LogStream;
use cookhouse::model::{Artifact, Build, Status, Timestamp};
use serde_json::json;

use super::{build_setting, connected, project, triggered};
use crate::support::builds::build;
use crate::support::server::{Person, TestServer};

async fn put(server: &TestServer, person: &Person, change: impl FnOnce(&mut Build)) -> String {
    let mut stored = build(&server.app.clock, person.user.organization_id, "Win64", "main");
    stored.created_at = server.app.clock.now();
    change(&mut stored);
    let id = stored.id.to_string();
    server.app.store.write(move |tx| tx.put(&stored)).await.expect("a stored build");
    id
}

fn finished(build: &mut Build, status: Status) {
    build.status = status;
    build.started_at = Some(Timestamp(1000));
    build.finished_at = Some(Timestamp(3500));
}

fn artifact() -> Artifact {
    Artifact {
        size_bytes: 1234,
        checksum_md5: "0".repeat(32),
        checksum_sha256: "0".repeat(64),
        expires_at: None,
        deleted_at: None,
        deleted_reason: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_detail_has_every_field_and_the_newest_lines() {
    let (server, admin) = connected().await;
    let project = project(&server, &admin).await;
    let setting = build_setting(&server, &admin, &project).await;
    let id = triggered(&server, &admin, &setting).await;
    let writer = server.app.logs.writer(id.parse().expect("an id")).await.expect("a log");
    for number in 1..=250 {
        writer.output(LogStream::Stdout, format!("line {number}\n").as_bytes()).await;
    }
    writer.flush().await.expect("stored");
    let reply = server.get(&admin, &format!("/builds/{id}")).await.expect(200);
    let shown = reply.json();
    let keys: Vec<_> = shown.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "artifact",
            "autoDeployError",
            "autoDeployStatus",
            "branch",
            "buildSettingId",
            "buildType",
            "changelist",
            "commit",
            "commitMessage",
            "createdAt",
            "deployments",
            "diagnostics",
            "durationMs",
            "expectedStartAt",
            "failure",
            "finishedAt",
            "id",
            "logLines",
            "notificationStatus",
            "pendingReason",
            "pinned",
            "platform",
            "projectId",
            "queuePosition",
            "recentLogs",
            "retryOf",
            "startedAt",
            "status",
            "steps",
            "supersededBy",
            "targetType",
            "triggeredBy",
            "ueVersion"
        ]
    );
    assert_eq!((&shown["logLines"], &shown["queuePosition"], &shown["pinned"]), (&json!(250), &json!(1), &json!(false)));
    let lines = shown["recentLogs"].as_array().expect("lines");
    assert_eq!((lines.len(), &lines[0]["text"], &lines[199]["text"]), (200, &json!("line 51"), &json!("line 250")));
    assert_eq!((&lines[199]["seq"], &lines[199]["stream"]), (&json!(250), &json!("stdout")));
    assert!(reply.header("etag").is_some());
    let summary = &server.get(&admin, &project).await.json();
    assert_eq!((&summary["lastBuildStatus"], &summary["lastBuildAt"]), (&json!("pending"), &shown["createdAt"]));

    let page = server.get(&admin, &format!("/builds/{id}/log/lines?after=248&limit=1")).await.expect(200).json();
    assert_eq!((&page["items"][0]["seq"], &page["nextAfter"], &page["logLines"]), (&json!(249), &json!(249), &json!(250)));
    let last = server.get(&admin, &format!("/builds/{id}/log/lines?after=249")).await.expect(200).json();
    assert_eq!((&last["items"][0]["text"], &last["nextAfter"]), (&json!("line 250"), &json!(null)));
    for query in ["after=-1", "after=x"] {
        assert_eq!(server.get(&admin, &format!("/builds/{id}/log/lines?{query}")).await.expect(400).details(), ["after:invalid_value"]);
    }
    assert_eq!(server.get(&admin, &format!("/builds/{id}/log/lines?limit=0")).await.expect(400).code(), "invalid_limit");
    assert_eq!(
        server.get(&admin, &format!("/builds/{id}/diagnostics")).await.expect(200).json(),
        json!({"errors": 0, "warnings": 0, "items": []})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_combine_and_pages_follow_newest_first() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let mut ids = Vec::new();
    for number in 0..12u32 {
        let change = |build: &mut Build| {
            build.branch = if number.is_multiple_of(2) { "main".into() } else { "dev".into() };
            build.platform = if number.is_multiple_of(3) { "Linux".into() } else { "Win64".into() };
            finished(build, if number.is_multiple_of(4) { Status::Failed } else { Status::Complete });
        };
        ids.push(put(&server, &admin, change).await);
    }
    ids.reverse();
    let listed = |reply: serde_json::Value| -> Vec<String> {
        reply["items"].as_array().expect("items").iter().map(|build| build["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(listed(server.get(&admin, "/builds").await.expect(200).json()), ids);
    let number = |id: &String| 11 - ids.iter().position(|other| other == id).expect("known");
    for (query, holds) in [
        ("branch=main", (|n| n % 2 == 0) as fn(usize) -> bool),
        ("branch=main&platform=Linux", |n| n % 6 == 0),
        ("status=failed&branch=main&platform=Win64", |n| n % 4 == 0 && n % 3 != 0),
        ("status=complete&buildType=Development", |n| n % 4 != 0),
        ("branch=nothing", |_| false),
        ("projectId=0000000000000000000000zz", |_| false),
        ("projectId=garbage", |_| false),
        ("buildSettingId=%00", |_| false),
        ("branch=", |_| true),
    ] {
        let expected: Vec<_> = ids.iter().filter(|id| holds(number(id))).cloned().collect();
        assert_eq!(listed(server.get(&admin, &format!("/builds?{query}")).await.expect(200).json()), expected, "{query}");
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let reply = server.get(&admin, &format!("/builds?{query}&limit=2&cursor={cursor}")).await.expect(200).json();
            seen.extend(listed(reply.clone()));
            match reply["nextCursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        assert_eq!(seen, expected, "{query}, page by page");
    }
    for (query, detail) in [
        ("status=done", "status:invalid_value"),
        ("platform=Amiga", "platform:invalid_value"),
        ("buildType=fast", "buildType:invalid_value"),
        ("status=failed&status=complete", "status:invalid_value"),
    ] {
        assert_eq!(server.get(&admin, &format!("/builds?{query}")).await.expect(400).details(), [detail]);
    }
    let cursor = server.get(&admin, "/builds?branch=main&limit=1").await.json()["nextCursor"].as_str().expect("more").to_owned();
    assert_eq!(server.get(&admin, &format!("/builds?branch=dev&cursor={cursor}")).await.expect(400).code(), "invalid_cursor");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_build_can_be_cancelled_once() {
    let (server, admin) = connected().await;
    let project = project(&server, &admin).await;
    let setting = build_setting(&server, &admin, &project).await;
    let id = triggered(&server, &admin, &setting).await;
    let cancelled = server.ask("POST", &format!("/builds/{id}/cancel")).bearer(&admin.token).send().await.expect(202).json();
    assert_eq!(
        (&cancelled["status"], &cancelled["failure"]["code"], &cancelled["durationMs"]),
        (&json!("failed"), &json!("cancelled"), &json!(0))
    );
    let again = server.post(&admin, &format!("/builds/{id}/cancel"), json!({})).await;
    assert_eq!((again.status, again.code().as_str()), (409, "build_finished"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_build_can_be_repeated_with_its_key_once() {
    let (server, admin) = connected().await;
    let project = project(&server, &admin).await;
    let setting = build_setting(&server, &admin, &project).await;
    let id = triggered(&server, &admin, &setting).await;
    let retry = || server.ask("POST", &format!("/builds/{id}/retry")).bearer(&admin.token).header("Idempotency-Key", "again");
    assert_eq!(retry().send().await.expect(409).code(), "build_unfinished");
    server.post(&admin, &format!("/builds/{id}/cancel"), json!({})).await.expect(202);
    let first = retry().send().await.expect(201);
    assert_eq!((&first.json()["retryOf"], &first.json()["status"]), (&json!(id), &json!("pending")));
    assert_eq!(retry().send().await.expect(201).body, first.body);
    assert_eq!(server.get(&admin, "/builds").await.json()["items"].as_array().map(Vec::len), Some(2));
    server.delete(&admin, &setting).await.expect(204);
    assert_eq!(server.post(&admin, &format!("/builds/{id}/retry"), json!({})).await.expect(404).code(), "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn pinning_is_a_patch() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let id = put(&server, &admin, |build| finished(build, Status::Complete)).await;
    let path = format!("/builds/{id}");
    let tag = server.get(&admin, &path).await.header("etag").expect("a tag").to_owned();
    let pin = |pinned: bool| {
        server.ask("PATCH", &path).bearer(&admin.token).header("If-Match", &tag).json(&json!({"pinned": pinned, "status": "failed"}))
    };
    let pinned = pin(true).send().await.expect(200).json();
    assert_eq!((&pinned["pinned"], &pinned["status"], &pinned["durationMs"]), (&json!(true), &json!("complete"), &json!(2500)));
    assert_eq!(pin(false).send().await.expect(412).code(), "precondition_failed");
    assert_eq!(server.patch(&admin, &path, json!({"pinned": "yes"})).await.expect(400).details(), ["pinned:invalid_type"]);
    assert_eq!(server.patch(&admin, &path, json!({"pinned": false})).await.expect(200).json()["pinned"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_is_given_for_an_artifact_and_the_reason_where_there_is_none() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let complete = put(&server, &admin, |build| {
        finished(build, Status::Complete);
        build.artifact = Some(artifact());
    })
    .await;
    let record = server.get(&admin, &format!("/builds/{complete}/download")).await.expect(200).json();
    let url = record["url"].as_str().expect("a link");
    assert!(url.starts_with(&format!("http://{}/artifacts/{complete}.tar.gz?expires=", server.address)), "{url}");
    assert_eq!((&record["sizeBytes"], &record["checksumMd5"]), (&json!(1234), &json!("0".repeat(32))));
    let expires = Timestamp::parse(record["expiresAt"].as_str().expect("a time")).expect("a time");
    let ahead = expires.seconds() - server.app.clock.now().seconds();
    assert!((LIFETIME_SECONDS - 60..=LIFETIME_SECONDS).contains(&ahead) && url.contains(&format!("expires={}&", expires.seconds())));

    for (change, words) in [
        ((|_| {}) as fn(&mut Build), "not finished"),
        (|build| finished(build, Status::Failed), "never produced"),
        (
            |build| {
                finished(build, Status::Complete);
                build.artifact = Some(Artifact { deleted_at: Some(Timestamp(1)), ..artifact() });
            },
            "deleted",
        ),
    ] {
        let id = put(&server, &admin, change).await;
        let reply = server.get(&admin, &format!("/builds/{id}/download")).await.expect(404);
        assert_eq!(reply.code(), "not_found");
        assert!(reply.text().contains(words), "{}", reply.text());
    }
}
