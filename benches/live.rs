//! The live channel under load: from a printed line to a reader who has it, what readers cost a build, and what idle readers
//! cost the service. Readers are a process of their own, as they are in life.
//!
//! `cargo bench --bench live` (`--profile dev` where a release build is too dear). 1,000 idle readers need `ulimit -n 2048`.

#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a program of its own, over the tests' helpers")]

#[path = "../tests/support"]
mod support {
    pub(crate) mod builds;
    pub(crate) mod client;
    pub(crate) mod repositories;
    pub(crate) mod server;
    pub(crate) mod stream;
    pub(crate) mod studio;
}

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cookhouse::builds::logs::LogWriter;
use cookhouse::model::log::LogStream;
use cookhouse::model::{Build, Status};
use support::builds::put;
use support::server::{Person, TestServer};
use support::stream::EventStream;
use support::studio::{self, Kind};

/// Lines of a measurement of latency, one every so often.
const LINES: usize = 2000;
const PACE: Duration = Duration::from_millis(2);
/// Lines of a measurement of throughput.
const MANY: usize = 100_000;
const IDLE: usize = 1000;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match words.iter().position(|word| word == "readers") {
        Some(at) => runtime.block_on(read(&words[at + 1..])),
        None => runtime.block_on(measure()),
    }
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()
}

/// `readers <address> <path> <token> <count>`: says when all are there, and at the end of the streams what they saw.
async fn read(words: &[String]) {
    let (address, count): (SocketAddr, usize) = (words[0].parse().unwrap(), words[3].parse().unwrap());
    let bearer = format!("Bearer {}", words[2]);
    let mut tasks = Vec::new();
    for _ in 0..count {
        let mut stream = EventStream::open(address, &words[1], &[("Authorization", &bearer)]).await.unwrap();
        assert_eq!(stream.next().await.unwrap().event, "hello");
        let (path, bearer) = (words[1].clone(), bearer.clone());
        tasks.push(tokio::spawn(async move {
            let (mut lines, mut late, mut cuts, mut is_over) = (0usize, Vec::new(), 0usize, false);
            while !is_over {
                // Who is cut off for being slow comes back, as a browser does.
                let Some(event) = stream.next().await else {
                    cuts += 1;
                    let headers = [("Authorization", bearer.as_str()), ("Last-Event-ID", stream.last_id.as_str())];
                    stream = EventStream::open(address, &path, &headers).await.unwrap();
                    continue;
                };
                is_over = event.event == "end";
                let received = now();
                for line in event.data["lines"].as_array().into_iter().flatten() {
                    lines += 1;
                    let printed = line["text"].as_str().and_then(|text| text.split(' ').next()?.parse::<u128>().ok());
                    late.extend(printed.map(|printed| received.saturating_sub(printed)));
                }
            }
            (lines, late, cuts)
        }));
    }
    println!("ready");
    let (mut lines, mut late, mut cuts) = (0, Vec::new(), 0);
    for task in tasks {
        let (seen, their, cut) = task.await.unwrap();
        lines += seen;
        cuts += cut;
        late.extend(their);
    }
    late.sort_unstable();
    let at = |part: usize| late.get(late.len() * part / 100).map(|late| format!("; p{part} {:.2} ms", *late as f64 / 1000.0));
    let late = [50, 95, 99].into_iter().filter_map(at).collect::<String>();
    println!("{lines} lines, {cuts} times cut off and back{late}");
}

struct Readers(Child, BufReader<std::process::ChildStdout>);

impl Readers {
    async fn start(server: &TestServer, person: &Person, path: &str, count: usize) -> Readers {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["readers", &server.address.to_string(), path, &person.token, &count.to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        // Another thread: the server works on this runtime.
        let output = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            output
        });
        Readers(child, output.await.unwrap())
    }

    async fn end(mut self) -> String {
        let work = move || {
            let mut line = String::new();
            self.1.read_line(&mut line).unwrap();
            self.0.wait().unwrap();
            line.trim().to_owned()
        };
        tokio::task::spawn_blocking(work).await.unwrap()
    }
}

async fn begin(server: &TestServer, person: &Person) -> (Build, LogWriter) {
    let clock = &server.app.clock;
    let build = studio::build(&studio::records(clock, Kind::Githost).setting, clock.new_id(), clock.now());
    let build = Build { organization_id: person.user.organization_id, ..build };
    let writer = server.app.logs.writer(build.id).await.unwrap();
    put(server, &build).await;
    let build = build.moved_to(Status::Running, server.app.clock.now()).unwrap();
    put(server, &build).await;
    (build, writer)
}

async fn end(server: &TestServer, build: Build, writer: LogWriter) {
    let log_lines = writer.position();
    drop(writer);
    let build = build.moved_to(Status::Failed, server.app.clock.now()).unwrap();
    put(server, &Build { log_lines, ..build }).await;
}

async fn measure() {
    let server = TestServer::start().await;
    let person = server.admin().await;
    let path = |build: &Build| format!("/builds/{}/events", build.id);

    // First of all: later there would be room in what the service used before.
    let (build, writer) = begin(&server, &person).await;
    let before = memory();
    let readers = Readers::start(&server, &person, &path(&build), IDLE).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let during = memory();
    let each = (during.saturating_sub(before)) as f64 / IDLE as f64;
    println!("{IDLE} idle readers: {before} KiB before, {during} KiB with them, {each:.1} KiB each");
    end(&server, build, writer).await;
    readers.end().await;

    println!("From a printed line to a reader who has it, {LINES} lines, one every {PACE:?}:");
    for count in [1, 200] {
        let (build, writer) = begin(&server, &person).await;
        let readers = Readers::start(&server, &person, &path(&build), count).await;
        for _ in 0..LINES {
            writer.output(LogStream::Stdout, format!("{} LogCook: Display: a line\n", now()).as_bytes()).await;
            tokio::time::sleep(PACE).await;
        }
        writer.flush().await.unwrap();
        end(&server, build, writer).await;
        println!("  {count:>3} readers: {}", readers.end().await);
    }

    println!("A log of {MANY} lines, printed as fast as it is taken:");
    for count in [0, 1, 200] {
        let (build, writer) = begin(&server, &person).await;
        let readers = Readers::start(&server, &person, &path(&build), count).await;
        let started = Instant::now();
        for number in 0..MANY {
            writer.output(LogStream::Stdout, format!("[{number}] LogCook: Display: Cooked /Game/Maps/Kitchen\n").as_bytes()).await;
        }
        writer.flush().await.unwrap();
        let stored = started.elapsed();
        end(&server, build, writer).await;
        let seen = readers.end().await;
        println!("  {count:>3} readers: on disk after {stored:.2?}, read by all after {:.2?}: {seen}", started.elapsed());
    }
    let _ = std::io::stdout().flush();
}

/// Resident memory of this process, in KiB; 0 where that is not told.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
