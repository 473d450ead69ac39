//! Many readers, and slow ones.

use std::sync::Arc;

use cookhouse::live::Settings;
use tempfile::TempDir;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_followers_of_one_build_all_see_everything() {
    const LINES: usize = 2000;
    let server = TestServer::start().await;
    let person = server.admin().await;
    let (build, writer) = begin(&server, waiting(&server, &person).await).await;
    let mut followers = Vec::new();
    for _ in 0..200 {
        let mut stream = follow(&server, &person, &build, None).await;
        followers.push(tokio::spawn(async move { rest(&mut stream).await }));
    }
    for number in 0..LINES {
        print(&writer, &format!("line {number}\n")).await;
    }
    end(&server, build, writer).await;
    let expected: Vec<String> = (0..LINES).map(|number| format!("line {number}")).collect();
    for follower in followers {
        let events = follower.await.unwrap();
        assert!(texts(&events, 0) == expected);
        assert_eq!(events.last().unwrap().event, "end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_is_cut_off_and_can_come_back_for_all_of_it() {
    const LINES: usize = 60_000;
    let one = Settings { streams_per_user: 1, ..impatient() };
    let server = TestServer::start_live(Arc::new(TempDir::new().unwrap()), one).await;
    let person = server.admin().await;
    let (build, writer) = begin(&server, waiting(&server, &person).await).await;
    print(&writer, "0 the first line\n").await;
    let mut slow = follow(&server, &person, &build, None).await;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|event: &Event| event.event != "log") {
        seen.push(slow.next().await.unwrap());
    }
    // The build goes on as if nobody were there.
    let filler = "x".repeat(300);
    for number in 1..LINES {
        print(&writer, &format!("{number} {filler}\n")).await;
    }
    let path = format!("/builds/{}/events", build.id);
    let bearer = format!("Bearer {}", person.token);
    let refused = async || {
        EventStream::open(server.address, &path, &[("Authorization", &bearer)])
            .await
            .is_err_and(|answer| answer.contains("too_many_streams"))
    };
    while refused().await {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    end(&server, build.clone(), writer).await;
    // What was on its way may still be read; then it is over, far from the end.
    seen.extend(rest(&mut slow).await);
    let before = texts(&seen, 0).len();
    assert!(before < LINES && !slow.is_ended, "{before}");
    let position = seen.last().unwrap().id.clone();
    let mut again = loop {
        let headers = [("Authorization", bearer.as_str()), ("Last-Event-ID", position.as_str())];
        match EventStream::open(server.address, &path, &headers).await {
            Ok(stream) => break stream,
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
        }
    };
    seen.extend(rest(&mut again).await);
    assert_eq!(texts(&seen, 0).len(), LINES);
    assert_eq!(seen.last().unwrap().event, "end");
}
