//! `GET /builds` at several sizes of the table, side by side: the store alone for every combination of filters, then whole
//! requests over real connections.
//!
//! `cargo bench --bench lists -- 1000 100000 1000000` (`--profile dev` where a release build is too dear). Builds are put
//! as the service puts them, with all indexes, counts and event rows; only many of them share one flush.

#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a program of its own, over the tests' helpers")]

#[path = "../tests/support"]
mod support {
    pub(crate) mod client;
    pub(crate) mod repositories;
    pub(crate) mod server;
    pub(crate) mod studio;
}

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cookhouse::model::{Build, BuildSetting, Id, Organization, Status};
use cookhouse::store::build_list::{self, BuildFilter};
use support::server::{Person, TestServer};
use support::studio::{self, Kind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

// Few enough that a setting has more than a page of builds at the smallest size, else sizes could not be compared.
const PROJECTS: usize = 4;
const SETTINGS_EACH: usize = 5;
/// Short-lived branches, each with few builds.
const FEATURES: usize = 100;
const BRANCHES: [&str; 4] = ["main", "develop", "release/5.4", "release/5.3"];
const PLATFORMS: [&str; 4] = ["Win64", "Linux", "Android", "IOS"];
const TYPES: [&str; 3] = ["Development", "Shipping", "Test"];
/// Builds in one transaction.
const BATCH: usize = 2000;
/// Questions for each combination of filters.
const QUESTIONS: usize = 60;
const CONNECTIONS: usize = 8;
const HTTP_TIME: Duration = Duration::from_secs(4);

const FILTERS: [&str; 6] = ["project", "setting", "status", "platform", "type", "branch"];
const TARGETS: [&str; 4] =
    ["/builds", "/builds?status=failed", "/builds?branch=main&status=complete", "/builds?platform=Linux&buildType=Shipping"];

/// Numbers that look random and are the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn of<'a, T>(&mut self, some: &'a [T]) -> &'a T {
        &some[self.below(some.len())]
    }
}

/// What one size came to.
struct Figures {
    size: usize,
    /// p50 and p95 of each combination of filters, by the bits of its filters.
    store: Vec<(Duration, Duration)>,
    /// Requests a second and p95 of each target.
    http: Vec<(f64, Duration)>,
}

#[tokio::main]
async fn main() {
    let mut sizes: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![1000, 100_000];
    }
    let mut all = Vec::new();
    for size in sizes {
        let server = TestServer::start().await;
        let admin = server.admin().await;
        let started = Instant::now();
        let sample = fill(&server, admin.user.organization_id, size).await;
        println!("{size} builds put in {:.1} s", started.elapsed().as_secs_f64());
        let store = ask_the_store(&server, admin.user.organization_id, &sample);
        let http = ask_over_http(&server, &admin).await;
        all.push(Figures { size, store, http });
    }
    show(&all);
}

/// Puts builds of many settings; every so-manyeth is kept to ask for later.
async fn fill(server: &TestServer, organization: Id<Organization>, size: usize) -> Vec<Build> {
    let clock = &server.app.clock;
    let mut chance = Chance(7);
    let mut settings: Vec<BuildSetting> = Vec::new();
    let mut projects = Vec::new();
    for _ in 0..PROJECTS {
        let mut project = studio::records(clock, Kind::Githost).project;
        project.organization_id = organization;
        for number in 0..SETTINGS_EACH {
            let mut setting = studio::setting(clock, &project, Kind::Githost);
            setting.platform = PLATFORMS[number % PLATFORMS.len()].into();
            setting.build_type = TYPES[number % TYPES.len()].into();
            settings.push(setting);
        }
        projects.push(project);
    }
    let stored = settings.clone();
    let put = move |change: &cookhouse::store::Change| {
        projects.iter().try_for_each(|project| change.put(project))?;
        stored.iter().try_for_each(|setting| change.put(setting))
    };
    server.app.store.write(put).await.unwrap();
    let mut sample = Vec::new();
    let mut left = size;
    while left > 0 {
        let count = left.min(BATCH);
        left -= count;
        let builds: Vec<Build> = (0..count)
            .map(|_| {
                let mut build = studio::build(chance.of(&settings), clock.new_id(), clock.now());
                build.branch = match chance.below(10) {
                    0 => format!("feature/{}", chance.below(FEATURES)),
                    1..=3 => (*chance.of(&BRANCHES)).to_owned(),
                    _ => "main".into(),
                };
                build.status = [Status::Complete, Status::Complete, Status::Complete, Status::Failed, Status::Superseded][chance.below(5)];
                build.commit = format!("{:040x}", build.id.milliseconds());
                build.commit_message = "Make the kitchen a little bit larger".into();
                build
            })
            .collect();
        sample.extend(builds.iter().step_by((size / 500).max(1)).cloned());
        server.app.store.write(move |change| builds.iter().try_for_each(|build| change.put(build))).await.unwrap();
    }
    sample
}

/// Newest 25 for every combination of filters, from the top and from somewhere in the middle.
fn ask_the_store(server: &TestServer, organization: Id<Organization>, sample: &[Build]) -> Vec<(Duration, Duration)> {
    let mut chance = Chance(11);
    let mut results = Vec::new();
    for combination in 0..1 << FILTERS.len() {
        let wants = |filter: usize| combination & (1 << filter) != 0;
        let mut took = Vec::new();
        for question in 0..QUESTIONS {
            let like = chance.of(sample);
            let filter = BuildFilter {
                project_id: wants(0).then_some(like.project_id),
                build_setting_id: wants(1).then_some(like.build_setting_id),
                status: wants(2).then_some(like.status),
                platform: wants(3).then(|| like.platform.clone()),
                build_type: wants(4).then(|| like.build_type.clone()),
                branch: wants(5).then(|| like.branch.clone()),
            };
            let after = (question % 2 == 1).then(|| chance.of(sample).id);
            let started = Instant::now();
            let page = server.read(|snapshot| build_list::page(snapshot, organization, &filter, after, 25));
            took.push(started.elapsed());
            assert!(after.is_some() || !page.items.is_empty());
        }
        took.sort_unstable();
        results.push((took[took.len() / 2], took[took.len() * 95 / 100]));
    }
    results
}

async fn ask_over_http(server: &TestServer, person: &Person) -> Vec<(f64, Duration)> {
    let mut results = Vec::new();
    for target in TARGETS {
        let stop = Arc::new(AtomicBool::new(false));
        let started = Instant::now();
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let (stop, address) = (stop.clone(), server.address);
                let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\r\n", person.token);
                tokio::spawn(async move {
                    let mut stream = TcpStream::connect(address).await.unwrap();
                    stream.set_nodelay(true).unwrap();
                    let (mut took, mut buffer) = (Vec::new(), Vec::new());
                    while !stop.load(Ordering::Relaxed) {
                        let started = Instant::now();
                        stream.write_all(request.as_bytes()).await.unwrap();
                        read_answer(&mut stream, &mut buffer).await;
                        took.push(started.elapsed());
                    }
                    took
                })
            })
            .collect();
        tokio::time::sleep(HTTP_TIME).await;
        stop.store(true, Ordering::Relaxed);
        let mut took = Vec::new();
        for client in clients {
            took.extend(client.await.unwrap());
        }
        let rate = took.len() as f64 / started.elapsed().as_secs_f64();
        took.sort_unstable();
        results.push((rate, took[took.len() * 95 / 100]));
    }
    results
}

async fn read_answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) {
    buffer.clear();
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = std::str::from_utf8(&buffer[..end]).unwrap();
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if buffer.len() >= end + 4 + length.parse::<usize>().unwrap() {
                return;
            }
        }
        assert_ne!(stream.read_buf(buffer).await.unwrap(), 0);
    }
}

fn show(all: &[Figures]) {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    print!("\nstore, 25 newest, p50/p95 in ms{:>24}", "");
    all.iter().for_each(|figures| print!("{:>17}", figures.size));
    println!("{:>10}{:>8}", "growth of", "p50 p95");
    for combination in 0..1usize << FILTERS.len() {
        let names: Vec<_> = FILTERS.iter().enumerate().filter(|(bit, _)| combination & (1 << bit) != 0).map(|(_, name)| *name).collect();
        print!("{:<55}", if names.is_empty() { "no filter".to_owned() } else { names.join(" + ") });
        for figures in all {
            let (p50, p95) = figures.store[combination];
            print!("{:>8.2} /{:>7.2}", milliseconds(p50), milliseconds(p95));
        }
        let growth = |of: fn(&(Duration, Duration)) -> Duration| ratio(all, |figures| milliseconds(of(&figures.store[combination])));
        println!("{:>12.2}{:>8.2}", growth(|(p50, _)| *p50), growth(|(_, p95)| *p95));
    }
    println!("\nHTTP, {CONNECTIONS} connections, requests/s and p95 in ms");
    for (place, target) in TARGETS.iter().enumerate() {
        print!("{target:<55}");
        for figures in all {
            print!("{:>8.0} /{:>7.2}", figures.http[place].0, milliseconds(figures.http[place].1));
        }
        println!("{:>10.2}", ratio(all, |figures| milliseconds(figures.http[place].1)));
    }
    for figures in all {
        let worst = figures.store.iter().map(|(_, p95)| *p95).max().unwrap_or_default();
        println!("{} builds: worst p95 of the store {:.2} ms", figures.size, milliseconds(worst));
    }
}

/// The last size over the first.
fn ratio(all: &[Figures], of: impl Fn(&Figures) -> f64) -> f64 {
    match (all.first(), all.last()) {
        (Some(first), Some(last)) => of(last) / of(first),
        _ => 1.0,
    }
}
