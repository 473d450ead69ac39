//! A follower who is cut off again and again ends with exactly the log.

use std::sync::Arc;
use std::time::Duration;

use cookhouse::builds::logs::LogWriter;
use tempfile::TempDir;

use super::*;

fn number_of(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Small numbers by chance; the same ones each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Prints lines until it is told to stop; says how many were printed.
fn printing(
    writer: LogWriter,
    from: usize,
    to: usize,
    stop: Arc<std::sync::atomic::AtomicBool>,
) -> tokio::task::JoinHandle<(LogWriter, usize)> {
    tokio::spawn(async move {
        let mut number = from;
        while number < to && !stop.load(std::sync::atomic::Ordering::Relaxed) {
            let burst = (number % 97 + 1).min(to - number);
            let text: String = (number..number + burst).map(|number| format!("[{number}] Cook: Display: a \u{e4} line\n")).collect();
            print(&writer, &text).await;
            number += burst;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        (writer, number)
    })
}

/// In full: `COOKHOUSE_LIVE_CUTS=1000 COOKHOUSE_LIVE_LINES=100000`.
#[tokio::test(flavor = "multi_thread")]
async fn cut_at_any_byte_and_through_restarts_no_line_is_lost_or_repeated() {
    let (cuts, lines) = (number_of("COOKHOUSE_LIVE_CUTS", 50), number_of("COOKHOUSE_LIVE_LINES", 6000));
    let mut chance = Chance(7);
    let mut server = TestServer::start_in(Arc::new(TempDir::new().unwrap()), |_| {}).await;
    let person = server.admin().await;
    let (mut build, mut writer) = begin(&server, waiting(&server, &person).await).await;
    let (mut seen, mut position, mut printed) = (Vec::new(), String::new(), 0);
    let (mut cut, mut restarts) = (0, 0);
    let average = (lines * 90 / cuts) as u64;
    'service: loop {
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let task = printing(writer, printed, lines, stop.clone());
        // Two restarts in the middle of the build.
        let until = if restarts < 2 { cuts * (restarts + 1) / 3 } else { cuts };
        while cut < until {
            let after = (!position.is_empty()).then_some(position.as_str());
            let mut stream = follow(&server, &person, &build, after).await;
            let mut bytes = chance.below(2 * average);
            while bytes > 0 && stream.read_some(bytes as usize).await {
                let before = stream.last_id.clone();
                while let Some(event) = stream.take() {
                    position.clone_from(&event.id);
                    seen.push(event);
                }
                bytes = bytes.saturating_sub(1 + chance.below(bytes));
                if stream.last_id == before && seen.len() > 4 * lines {
                    break;
                }
            }
            cut += 1;
            if seen.last().is_some_and(|event| event.event == "end") {
                break;
            }
        }
        if restarts == 2 {
            (writer, printed) = task.await.unwrap();
            assert_eq!(printed, lines);
            end(&server, build.clone(), writer).await;
            break 'service;
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        (writer, printed) = task.await.unwrap();
        drop(writer);
        restarts += 1;
        let directory = server.stop().await;
        server = TestServer::start_in(directory, |_| {}).await;
        writer = server.app.logs.writer(build.id).await.unwrap();
        // What a new step would do: the record changes while nobody is connected.
        build.pinned = !build.pinned;
        put(&server, &build).await;
    }
    let after = (!position.is_empty()).then_some(position.as_str());
    seen.extend(rest(&mut follow(&server, &person, &build, after).await).await);
    let log = server.get(&person, &format!("/builds/{}/log", build.id)).await.expect(200).text();
    let texts = texts(&seen, 0);
    assert_eq!(texts.len(), lines);
    assert!(texts.iter().map(|text| format!("{text}\n")).collect::<String>() == log);
    assert_eq!(statuses(&seen), ["pending", "running", "failed"]);
    assert_eq!(seen.last().unwrap().event, "end");
    assert!(cut >= cuts);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_service_stops_streams_end_at_once_and_say_where_to_go_on() {
    let server = TestServer::start().await;
    let person = server.admin().await;
    let (build, writer) = begin(&server, waiting(&server, &person).await).await;
    print(&writer, "one\n").await;
    let mut one = follow(&server, &person, &build, None).await;
    while one.next().await.unwrap().event != "log" {}
    let mut all = stream(&server, &person, "/events", None).await;
    all.next().await.unwrap();
    drop(writer);
    server.stop().await;
    assert_eq!((names(&rest(&mut one).await), names(&rest(&mut all).await)), (vec![], vec![]));
    assert_eq!(one.asides.last().unwrap(), ": stopping; resume behind 2-1");
    assert_eq!(all.last_id, "2");
}
