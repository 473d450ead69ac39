//! Thousands of events to five endpoints, two of which misbehave, while the server is killed again and again.
//!
//! In full: `COOKHOUSE_HOOK_EVENTS=10000 COOKHOUSE_HOOK_KILLS=20`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::site::{Caller, Site};
use super::{Chance, PROJECT, number, text};
use crate::webhooks::{Endpoint, Got, status, verify};

/// What the endpoint that fails says, one after the other; the empty one hangs up.
const FAILURES: [&str; 4] = [
    "HTTP/1.1 500 x\r\ncontent-length: 4\r\n\r\noops",
    "",
    "HTTP/1.1 302 x\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n",
    "HTTP/1.1 429 x\r\nretry-after: 6\r\ncontent-length: 0\r\n\r\n",
];

/// Five endpoints: three take everything, one fails now and then, one says nothing or too much.
async fn endpoints(every: usize) -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    for _ in 0..3 {
        endpoints.push(Endpoint::taking().await);
    }
    let failures = AtomicUsize::new(0);
    endpoints.push(
        Endpoint::answering(move |count, _| {
            let is_bad = count % every == every / 2;
            Some(if is_bad { FAILURES[failures.fetch_add(1, Ordering::Relaxed) % FAILURES.len()].to_owned() } else { status(202) })
        })
        .await,
    );
    endpoints.push(
        Endpoint::answering(move |count, _| match count {
            // Never answered.
            7 => None,
            _ if count % 97 == 3 => Some(format!("HTTP/1.1 200 x\r\ncontent-length: 1000000000\r\n\r\n{}", "x".repeat(100_000))),
            _ => Some(status(200)),
        })
        .await,
    );
    endpoints
}

/// Makes builds and cancels them, two events each, through whatever happens to the server.
async fn drive(caller: Arc<std::sync::Mutex<Caller>>, settings: Vec<String>, builds: Arc<AtomicUsize>) {
    let caller = || caller.lock().expect("not poisoned").clone();
    while builds.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let mut triggered = None;
        while triggered.is_none() {
            triggered = caller().trigger(&settings[0]).await;
            if triggered.is_none() {
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        }
        let build = triggered.unwrap_or_default();
        while !caller().send("POST", &format!("/builds/{build}/cancel"), None).await.is_ok_and(|reply| matches!(reply.status, 202 | 409)) {
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_arrives_in_order_under_one_id_whatever_is_killed_meanwhile() {
    let events = number("COOKHOUSE_HOOK_EVENTS").unwrap_or(240) as usize;
    let kills = number("COOKHOUSE_HOOK_KILLS").unwrap_or(4) as usize;
    let began = Instant::now();
    let mut chance = Chance(11);
    let mut site = Site::open(PROJECT).await;
    let admin = site.caller().admin().await;
    admin.send("POST", "/queue/pause", None).await.expect("an answer").expect(200);
    // What the clock starts would come whenever it is its time.
    let projects = admin.send("GET", "/projects", None).await.expect("an answer").expect(200).json();
    for (setting, _) in &site.scheduled {
        let path = format!("/projects/{}/build-settings/{setting}", text(&projects["items"][0], "id"));
        admin.send("DELETE", &path, None).await.expect("an answer").expect(204);
    }
    let endpoints = endpoints((events / 8).max(50)).await;
    let mut hooks = Vec::new();
    for endpoint in &endpoints {
        let body = json!({"url": endpoint.url(), "events": ["build.created", "build.failed", "build.superseded"]});
        let made = admin.send("POST", "/webhooks", Some(&body)).await.expect("an answer").expect(201).json();
        hooks.push((text(&made, "id").to_owned(), text(&made, "secret").to_owned()));
    }
    let caller = Arc::new(std::sync::Mutex::new(admin.clone()));
    let left = Arc::new(AtomicUsize::new(events / 2));
    let drivers: Vec<_> = (0..8).map(|_| tokio::spawn(drive(caller.clone(), site.settings.clone(), left.clone()))).collect();
    for kill in 1..=kills {
        // Kills are spread over the whole: while events happen, and while the rest of them is sent.
        let until = events / 2 - (events / 2 * kill / (kills + 1));
        while left.load(Ordering::Relaxed) > until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(chance.below(60) as u64)).await;
        site.kill();
        site.start();
        *caller.lock().expect("not poisoned") = admin.clone().at(&site.caller());
    }
    for driver in drivers {
        driver.await.expect("driven");
    }
    site.kill();
    site.start();
    let admin = admin.at(&site.caller());
    // A build whose acceptance was never answered is a build.
    for build in site.builds().await.iter().filter(|build| text(build, "status") == "pending") {
        admin.send("POST", &format!("/builds/{}/cancel", text(build, "id")), None).await.expect("an answer").expect(202);
    }
    let builds: BTreeSet<String> = site.builds().await.iter().map(|build| text(build, "id").to_owned()).collect();
    let happened = Instant::now();
    let mut first_order = None;
    for ((hook, secret), endpoint) in hooks.iter().zip(&endpoints) {
        until_nothing_waits(&admin, hook, endpoint).await;
        let (order, got) = check_endpoint(&admin, hook, secret, endpoint, &builds).await;
        println!("{} messages, {} requests", order.len(), got);
        assert_eq!(first_order.get_or_insert_with(|| order.clone()), &order, "all endpoints are told the same in the same order");
    }
    println!("{} builds, {kills} kills; {:?} until all had happened, {:?} in all", builds.len(), happened - began, began.elapsed());
}

/// However long it takes, as long as it gets on.
async fn until_nothing_waits(admin: &Caller, hook: &str, endpoint: &Endpoint) {
    let (mut arrived, mut since) = (0, Instant::now());
    loop {
        let shown = admin.send("GET", &format!("/webhooks/{hook}"), None).await.expect("an answer").expect(200).json();
        if shown["waiting"] == 0 {
            return;
        }
        if endpoint.count() > arrived {
            (arrived, since) = (endpoint.count(), Instant::now());
        }
        assert!(since.elapsed() < Duration::from_secs(120), "{arrived} arrived, and no more: {shown:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The ids of its messages in order, and the number of requests that it got.
async fn check_endpoint(admin: &Caller, hook: &str, secret: &str, endpoint: &Endpoint, builds: &BTreeSet<String>) -> (Vec<String>, usize) {
    let ledger = ledger(admin, hook).await;
    let got = endpoint.got();
    assert!(got.iter().all(|got| verify(got, secret) == 1), "every try is signed");
    // Every event under exactly one id, the same bytes on every try.
    let mut messages: BTreeMap<String, &Got> = BTreeMap::new();
    for got in &got {
        assert_eq!(messages.entry(got.id()).or_insert(got).body, got.body, "the same on every try");
    }
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    for got in messages.values() {
        let body = got.json();
        let (kind, build) = (text(&body, "type").to_owned(), text(&body["data"]["build"], "id").to_owned());
        assert_eq!(text(&body["data"]["build"], "status"), if kind == "build.created" { "pending" } else { "failed" });
        assert!(seen.insert((build, kind)), "an event under two ids: {body}");
    }
    let expected = builds.iter().flat_map(|build| ["build.created", "build.failed"].map(|kind| (build.clone(), kind.to_owned()))).collect();
    assert_eq!(seen, expected);
    // In order: a message comes again only until it was taken, and none comes before the one in front of it.
    let mut order: Vec<String> = got.iter().map(Got::id).collect();
    order.dedup();
    assert_eq!(order.len(), messages.len(), "a message came again after a later one");
    assert_eq!(order, ledger.iter().map(|entry| text(entry, "messageId").to_owned()).collect::<Vec<_>>());
    let events: Vec<u64> = ledger.iter().map(|entry| text(entry, "event").parse().expect("a number")).collect();
    assert!(events.is_sorted_by(|one, next| one < next), "in the order of the event log");
    // The ledger knows every request that arrived.
    let mut arrivals: BTreeMap<String, usize> = BTreeMap::new();
    got.iter().for_each(|got| *arrivals.entry(got.id()).or_default() += 1);
    for entry in &ledger {
        let tries = entry["attempts"].as_array().expect("attempts");
        let arrived = arrivals.get(text(entry, "messageId")).copied().unwrap_or(0);
        assert!(text(entry, "status") == "delivered" && arrived >= 1 && arrived <= tries.len(), "{arrived} arrived: {entry:#}");
    }
    (order, got.len())
}

/// Oldest first.
async fn ledger(admin: &Caller, hook: &str) -> Vec<Value> {
    let (mut entries, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/webhooks/{hook}/deliveries?limit=100{cursor}");
        let page = admin.send("GET", &path, None).await.expect("an answer").expect(200).json();
        entries.extend(page["items"].as_array().expect("items").iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    entries.reverse();
    entries
}
