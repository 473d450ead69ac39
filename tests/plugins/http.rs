//! Requests of guests against real listeners.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cookhouse::plugins::Plugins;
use cookhouse::seams::SourceProblem;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{ABUSE, Host, KEY, TOKEN, settings};

/// Answers every connection with the next of these texts (the last one again), and keeps the heads that came.
pub struct Answers {
    pub base: String,
    pub heads: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Answers {
    pub async fn start(texts: Vec<String>) -> Answers {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = heads.clone();
        let task = tokio::spawn(async move {
            for number in 0.. {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.windows(4).any(|window| window == b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read(&mut byte).await.unwrap_or(0) == 0 {
                        break;
                    }
                    head.push(byte[0]);
                }
                seen.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
                let _ = stream.write_all(texts[number.min(texts.len() - 1)].as_bytes()).await;
            }
        });
        Answers { base, heads, task }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

#[tokio::test]
async fn a_secret_is_put_in_by_the_host_and_leaves_only_to_its_origin() {
    let host = Host::abuse();
    let server = Answers::start(vec![ok("hello")]).await;
    let said = host
        .misbehave(json!({"do": "request", "granted": server.base, "url": format!("{}/x", server.base), "authorize": true}))
        .await
        .unwrap();
    assert_eq!(said, "200 hello");
    assert!(server.heads.lock().unwrap()[0].contains(&format!("authorization: Bearer {TOKEN}\r\n")));
    assert!(!host.log.text().contains(TOKEN));
}

#[tokio::test]
async fn redirects_are_counted_checked_and_lose_nothing_to_strangers() {
    let host = Host::abuse();
    let elsewhere = Answers::start(vec![ok("stolen")]).await;
    // Not followed unless asked for.
    let server = Answers::start(vec![redirect(302, "/two"), ok("two")]).await;
    let ask = |base: &str, redirects: u32| json!({"do": "request", "granted": base, "url": format!("{base}/one"), "authorize": true, "redirects": redirects});
    assert_eq!(host.misbehave(ask(&server.base, 0)).await.unwrap(), "302 ");
    let server = Answers::start(vec![redirect(302, "/two"), ok("two")]).await;
    assert_eq!(host.misbehave(ask(&server.base, 1)).await.unwrap(), "200 two");
    assert!(server.heads.lock().unwrap()[1].starts_with("GET /two "));
    // To an origin that was not granted.
    let server = Answers::start(vec![redirect(302, &elsewhere.base)]).await;
    let error = host.misbehave(ask(&server.base, 5)).await.unwrap_err();
    assert_eq!(error.reason.as_deref(), Some("origin-not-granted"), "{error}");
    assert!(elsewhere.heads.lock().unwrap().is_empty());
    // For ever.
    let server = Answers::start(vec![redirect(302, "/again")]).await;
    assert_eq!(host.misbehave(ask(&server.base, 3)).await.unwrap(), "302 ");
    assert_eq!(server.heads.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn failures_have_reasons_and_answers_have_limits() {
    let host = Host::abuse();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let ask = |base: &str| json!({"do": "request", "granted": base, "url": base});
    let error = host.misbehave(ask(&closed)).await.unwrap_err();
    assert_eq!((error.problem, error.reason.as_deref()), (SourceProblem::Unavailable, Some("connect")), "{error}");
    let metadata = "http://169.254.169.254";
    let error = host.misbehave(ask(metadata)).await.unwrap_err();
    assert_eq!(error.reason.as_deref(), Some("address-denied"), "{error}");
    let long = Answers::start(vec![ok(&"x".repeat(5000))]).await;
    let error = host.misbehave(ask(&long.base)).await.unwrap_err();
    assert_eq!(error.problem, SourceProblem::TooLarge, "{error}");
    // Granted, but this server's own machine may not be called.
    let strict = Host::with(|directory| {
        let outbound = cookhouse::outbound::Outbound::new(&Default::default()).unwrap();
        Plugins::open_with(settings(directory), outbound, KEY, vec![ABUSE.into()]).unwrap()
    });
    let error = strict.misbehave(ask(&long.base)).await.unwrap_err();
    assert_eq!(error.reason.as_deref(), Some("address-denied"), "{error}");
}

#[tokio::test]
async fn silence_ends_at_the_idle_time_the_wall_and_the_cancel() {
    let mut host = Host::abuse();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", silent.local_addr().unwrap());
    let ask = json!({"do": "request", "granted": base, "url": base, "idle": 200});
    let error = host.misbehave(ask).await.unwrap_err();
    assert_eq!((error.problem, error.reason.as_deref()), (SourceProblem::TimedOut, Some("timeout")), "{error}");
    let patient = json!({"do": "request", "granted": base, "url": base});
    host.wall = Duration::from_millis(300);
    let error = host.misbehave(patient.clone()).await.unwrap_err();
    assert_eq!(error.problem, SourceProblem::TimedOut, "{error}");
    host.wall = Duration::from_secs(60);
    let cancel = host.cancel.clone();
    let stop = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancel.cancel();
    };
    let (done, ()) = tokio::join!(host.misbehave(patient), stop);
    assert_eq!(done.unwrap_err().problem, SourceProblem::Cancelled);
    host.cancel = Default::default();
    let many = host.misbehave(json!({"do": "exchanges", "granted": base, "url": base})).await.unwrap();
    assert!(many.starts_with("16: ") && many.contains("too many requests"), "{many}");
}
