//! What a follower sees.

use std::sync::Arc;

use cookhouse::model::build::{Step, StepName, StepStatus};
use cookhouse::model::deploy::DeployStatus;
use cookhouse::model::event::What;
use cookhouse::model::log::LogStream;
use cookhouse::model::permission::Role;
use cookhouse::model::{Build, Event as Stored, Status, Timestamp};
use cookhouse::store::{Order, Read, event_log};
use tempfile::TempDir;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_build_is_told_from_its_beginning_to_its_end_in_order() {
    let server = TestServer::start().await;
    let person = server.admin().await;
    let waits = waiting(&server, &person).await;
    let mut stream = follow(&server, &person, &waits, None).await;
    assert!(stream.head.contains("text/event-stream") && stream.head.contains("no-store"), "{}", stream.head);
    let hello = stream.next().await.unwrap();
    assert_eq!((hello.event.as_str(), hello.id.as_str(), &hello.data["status"]), ("hello", "0-0", &"pending".into()));
    assert_eq!(stream.asides, ["retry: 2000"]);
    let pending = stream.next().await.unwrap();
    assert_eq!((pending.id.as_str(), &pending.data["status"]), ("1-0", &"pending".into()));

    let (mut runs, writer) = begin(&server, waits).await;
    assert_eq!(stream.next().await.unwrap().data["status"], "running");
    let step = Step { name: StepName::Build, status: StepStatus::Running, started_at: Timestamp(1), finished_at: None, duration_ms: None };
    runs.steps = vec![step];
    put(&server, &runs).await;
    let step = stream.next().await.unwrap();
    assert_eq!((step.event.as_str(), &step.data["type"], &step.data["step"]["name"]), ("step", &"step".into(), &"build".into()));
    print(&writer, "Cooking \"ü\"\n\nsecond\n").await;
    let mut seen = Vec::new();
    while texts(&seen, 0).len() < 3 {
        seen.push(stream.next().await.unwrap());
    }
    assert_eq!(texts(&seen, 0), ["Cooking \"ü\"", "", "second"]);
    assert_eq!((seen.last().unwrap().id.as_str(), &seen[0].data["lines"][0]["stream"]), ("3-3", &"stdout".into()));
    writer.output(LogStream::Stderr, b"the last words").await;
    writer.end_lines();
    end(&server, runs, writer).await;
    let rest = rest(&mut stream).await;
    assert_eq!(names(&rest), ["log", "status", "end"]);
    assert_eq!((&rest[1].data["status"], &rest[1].data["failure"]["code"]), (&"failed".into(), &"build_step_failed".into()));
    assert_eq!((rest[2].id.as_str(), &rest[2].data["logLines"], &rest[2].data["status"]), ("4-4-end", &4.into(), &"failed".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_story_is_told_again_afterwards_with_lines_where_they_were() {
    let server = TestServer::start().await;
    let person = server.admin().await;
    let (runs, writer) = begin(&server, waiting(&server, &person).await).await;
    for number in 0..3000 {
        print(&writer, &format!("line {number}\n")).await;
    }
    let build = end(&server, runs, writer).await;
    let all = rest(&mut follow(&server, &person, &build, None).await).await;
    assert_eq!(texts(&all, 0), (0..3000).map(|number| format!("line {number}")).collect::<Vec<_>>());
    assert_eq!(statuses(&all), ["pending", "running", "failed"]);
    let names = names(&all);
    assert_eq!((&names[..2], &names[names.len() - 2..]), (&["hello", "status"][..], &["status", "end"][..]));
    let batches = all.iter().filter(|event| event.event == "log").map(|event| event.data["lines"].as_array().unwrap().len());
    assert!(batches.clone().all(|lines| (1..=64).contains(&lines)) && batches.count() <= 3000 / 64 + 10);
    // From behind any event exactly the others come.
    for cut in (0..all.len() - 1).step_by(7).chain([all.len() - 2]) {
        let again = rest(&mut follow(&server, &person, &build, Some(&all[cut].id)).await).await;
        assert_eq!(again[0].event, "hello");
        assert_eq!(texts(&again, texts(&all[..=cut], 0).len() as u64), texts(&all, 0)[texts(&all[..=cut], 0).len()..]);
        assert_eq!(statuses(&again), statuses(&all[cut + 1..]));
        assert_eq!(again.last(), all.last());
    }
    // Who was told the end is told to stay away.
    let bearer = format!("Bearer {}", person.token);
    let path = format!("/builds/{}/events", build.id);
    let answer = EventStream::open(server.address, &path, &[("Authorization", &bearer), ("Last-Event-ID", "3-3000-end")]).await;
    assert!(answer.is_err_and(|answer| answer.starts_with("HTTP/1.1 204")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deploy_belongs_to_the_story_and_so_does_a_later_one() {
    let server = TestServer::start().await;
    let person = server.admin().await;
    let (runs, writer) = begin(&server, waiting(&server, &person).await).await;
    drop(writer);
    let done = runs.moved_to(Status::Complete, server.app.clock.now()).unwrap();
    let done = Build { auto_deploy_status: Some(DeployStatus::Pending), ..done };
    put(&server, &done).await;
    let mut stream = follow(&server, &person, &done, None).await;
    while stream.next().await.unwrap().event != "deploy" {}
    let writer = server.app.logs.writer(done.id).await.unwrap();
    writer.system("Sending");
    let deployed = Build { auto_deploy_status: Some(DeployStatus::Succeeded), log_lines: 1, ..done };
    put(&server, &deployed).await;
    writer.system("Sent");
    writer.flush().await.unwrap();
    drop(writer);
    let rest_of_it = rest(&mut stream).await;
    assert_eq!(texts(&rest_of_it, 0), ["Sending", "Sent"]);
    assert!(rest_of_it.iter().any(|event| event.data["type"] == "deploy" && event.data["status"] == "succeeded"));
    let end = rest_of_it.last().unwrap().clone();
    assert_eq!(end.event, "end");
    // Once more: whoever was told the end goes on from there.
    put(&server, &Build { auto_deploy_status: Some(DeployStatus::InProgress), ..deployed.clone() }).await;
    let mut again = follow(&server, &person, &deployed, Some(&end.id)).await;
    assert_eq!(again.next().await.unwrap().event, "hello");
    assert_eq!(again.next().await.unwrap().data["status"], "in_progress");
    put(&server, &deployed).await;
    assert_eq!(names(&rest(&mut again).await), ["deploy", "end"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_organization_is_told_its_own_events_and_no_others() {
    let server = TestServer::start().await;
    let (person, stranger) = (server.admin().await, server.admin().await);
    let before = waiting(&server, &person).await;
    let mut all = stream(&server, &person, "/events", None).await;
    let mut steps = stream(&server, &person, "/events?types=step,deploy", None).await;
    let mut elsewhere = stream(&server, &person, "/events?projectId=0000000000000000000000zz", None).await;
    let mut theirs = stream(&server, &stranger, "/events", None).await;
    let hello = all.next().await.unwrap();
    assert_eq!((hello.event.as_str(), &hello.data["organizationId"]), ("hello", &person.user.organization_id.as_str().into()));
    for other in [&mut steps, &mut elsewhere, &mut theirs] {
        assert_eq!(other.next().await.unwrap().event, "hello");
    }
    let mine = waiting(&server, &person).await;
    let foreign = waiting(&server, &stranger).await;
    let (runs, writer) = begin(&server, mine).await;
    print(&writer, "lines are not told here\n").await;
    let done = Build { auto_deploy_status: Some(DeployStatus::Pending), ..end(&server, runs, writer).await };
    put(&server, &done).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(all.next().await.unwrap());
    }
    assert_eq!(names(&seen), ["status", "status", "status", "deploy"]);
    assert!(seen.iter().all(|event| event.data["buildId"] == done.id.as_str()) && before.id != done.id);
    assert_eq!(steps.next().await.unwrap().event, "deploy");
    assert_eq!(theirs.next().await.unwrap().data["buildId"], foreign.id.as_str());
    assert!(elsewhere.take().is_none());
    // It goes on from any of them.
    let mut again = stream(&server, &person, "/events", Some(&seen[1].id)).await;
    assert_eq!(again.next().await.unwrap().event, "hello");
    assert_eq!([again.next().await.unwrap(), again.next().await.unwrap()], seen[2..]);
    let reply = server.get(&person, "/events?types=status,nonsense").await;
    assert_eq!((reply.status, reply.details()), (400, vec!["types:invalid_value".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_longer_kept_is_a_gap_and_the_rest_follows() {
    let directory = Arc::new(TempDir::new().unwrap());
    let server = TestServer::start_live(directory, Settings::default()).await;
    let person = server.admin().await;
    let (runs, writer) = begin(&server, waiting(&server, &person).await).await;
    print(&writer, "one\ntwo\n").await;
    let mut stream = follow(&server, &person, &runs, None).await;
    let mut seen = Vec::new();
    while texts(&seen, 0).len() < 2 {
        seen.push(stream.next().await.unwrap());
    }
    let kept = server.person(person.user.organization_id, Role::Viewer).await;
    while server.app.clock.now() <= seen[2].data["at"].as_str().and_then(Timestamp::parse).unwrap() {
        tokio::task::yield_now().await;
    }
    let now = server.app.clock.now();
    server.app.store.write(move |change| event_log::prune(change, now, 500)).await.unwrap();
    let build = end(&server, runs, writer).await;
    let left = server.read(|snapshot| snapshot.page::<Stored>(build.organization_id, None, None, Order::OldestFirst, 9)).items;
    assert!(matches!(&left[..], [Stored { what: What::Status { status: Status::Failed, .. }, .. }]), "{left:?}");

    let all = rest(&mut follow(&server, &kept, &build, None).await).await;
    assert_eq!(names(&all), ["hello", "gap", "log", "status", "end"]);
    assert_eq!((&all[1].data["events"]["after"], &all[1].data["events"]["to"]), (&0.into(), &2.into()));
    assert_eq!(texts(&all, 0), ["one", "two"]);
    let mut events = super::stream(&server, &kept, "/events", Some("1")).await;
    assert_eq!(events.next().await.unwrap().event, "hello");
    assert_eq!(events.next().await.unwrap().data["events"]["to"], 2);
    assert_eq!(events.next().await.unwrap().data["status"], "failed");

    // And a log that is gone.
    let log = server.directory.path().join("logs").join(&build.id.as_str()[22..]).join(build.id.as_str());
    std::fs::remove_dir_all(log).unwrap();
    let all = rest(&mut follow(&server, &kept, &build, Some("2-1")).await).await;
    assert_eq!(names(&all), ["hello", "status", "gap", "end"]);
    assert_eq!((&all[2].data["lines"]["after"], &all[2].data["lines"]["to"]), (&1.into(), &2.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_deleted_while_it_is_read_is_a_gap_and_the_end_follows() {
    let server = TestServer::start().await;
    let person = server.admin().await;
    let (runs, writer) = begin(&server, waiting(&server, &person).await).await;
    let padding = "x".repeat(1000);
    // More than the sockets between us take in.
    let count: u64 = 40_000;
    for number in 0..count / 100 {
        let lines: String = (0..100).map(|line| format!("{} {padding}\n", number * 100 + line)).collect();
        print(&writer, &lines).await;
    }
    let build = end(&server, runs, writer).await;
    let mut stream = follow(&server, &person, &build, None).await;
    let mut seen = Vec::new();
    while texts(&seen, 0).is_empty() {
        seen.push(stream.next().await.unwrap());
    }
    while !server.app.logs.delete(build.id).await.unwrap() {
        tokio::task::yield_now().await;
    }
    seen.extend(rest(&mut stream).await);
    let lines = texts(&seen, 0).len() as u64;
    assert!((1..count).contains(&lines), "{lines}");
    let gaps: Vec<_> = seen.iter().filter(|event| event.event == "gap").map(|event| &event.data["lines"]).collect();
    assert_eq!(gaps, [&serde_json::json!({"after": lines, "to": count})]);
    assert_eq!(names(&seen)[seen.len() - 3..], ["gap", "status", "end"]);
    assert_eq!(seen.last().unwrap().data["logLines"], count);
}
