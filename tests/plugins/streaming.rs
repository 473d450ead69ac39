//! Bodies that a guest writes while they are sent, requests beside each other, and answers that go to disk.

use std::convert::Infallible;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Host;

/// Says how a body came and how long it was; `/never` says nothing, `/early` does not wait for the body, `/long` is a
/// megabyte.
async fn listener() -> (String, DropGuard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let guard = stop.clone().drop_guard();
    tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
                let service = hyper::service::service_fn(answer);
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            }));
        }
    }));
    (base, guard)
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let header = |name: &str| request.headers().get(name).map_or("none", |value| value.to_str().unwrap()).to_owned();
    let framing = format!("{} {}", header("content-length"), header("transfer-encoding"));
    let (status, body) = match path.as_str() {
        "/never" => std::future::pending().await,
        "/early" => (413, "too much".to_owned()),
        "/long" => (200, "0123456789abcdef".repeat(1 << 16)),
        _ => match request.into_body().collect().await {
            Ok(body) => (200, format!("{framing} {}", body.to_bytes().len())),
            Err(_) => (400, "broken off".to_owned()),
        },
    };
    Ok(Response::builder().status(status).body(Full::from(body)).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_streamed_body_arrives_whole_or_not_at_all() {
    let host = Host::abuse();
    let (base, _guard) = listener().await;
    let ask = |path: &str, length: Option<u64>, piece: u64, pieces: u64| json!({"do": "stream", "granted": base, "url": format!("{base}{path}"), "length": length, "piece": piece, "pieces": pieces});
    let end = "after: ErrorCode::InvalidArgument";
    let said = host.misbehave(ask("/", None, 1 << 20, 20)).await.unwrap();
    assert!(said.starts_with(&format!("200 none chunked {}; {end}", 20 << 20)), "{said}");
    assert!(said.contains("again: ErrorCode::InvalidArgument `finish` is called once"), "{said}");
    let said = host.misbehave(ask("/", Some(3000), 1000, 3)).await.unwrap();
    assert!(said.starts_with(&format!("200 3000 none 3000; {end}")), "{said}");
    let said = host.misbehave(ask("/", Some(0), 1, 0)).await.unwrap();
    assert!(said.starts_with("200 ") && said.contains(" 0; after"), "{said}");
    // Less than was promised is never taken for whole; more is not taken from the guest.
    let said = host.misbehave(ask("/", Some(3000), 1000, 2)).await.unwrap();
    assert!(said.contains("finish: ") && !said.contains("200 "), "{said}");
    let said = host.misbehave(ask("/", Some(3000), 1000, 4)).await.unwrap();
    assert!(said.starts_with("write: ErrorCode::TooLarge") && said.contains("200 3000 none 3000"), "{said}");
    // An answer in the middle is heard; the rest is not sent for nothing.
    let said = host.misbehave(ask("/early", None, 1 << 20, 2000)).await.unwrap();
    assert!(said.contains("413 too much") && said.contains("write: ErrorCode::Conflict"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_answer_of_several_is_taken_first() {
    let host = Host::abuse();
    let (base, _guard) = listener().await;
    let urls = ["never", "one", "two"].map(|path| format!("{base}/{path}"));
    let said = host.misbehave(json!({"do": "race", "granted": base, "urls": urls})).await.unwrap();
    let (mut first, mut second) = ("one true none none 0; ", "two true none none 0; ");
    if said.starts_with("two") {
        std::mem::swap(&mut first, &mut second);
    }
    assert!(said.starts_with(&format!("{first}{second}last: false; none: ErrorCode::InvalidArgument")), "{said}");
    // A refusal counts as an answer.
    let urls = [format!("{base}/never"), "https://elsewhere.example/x".to_owned()];
    let said = host.misbehave(json!({"do": "race", "granted": base, "urls": urls})).await.unwrap();
    assert!(said.starts_with("x true ErrorCode::Denied") && said.contains("[origin-not-granted]; last: false"), "{said}");
    // Only ones that never answer: the wall ends it.
    let mut host = host;
    host.wall = std::time::Duration::from_secs(1);
    let urls = [format!("{base}/never"), format!("{base}/never")];
    let error = host.misbehave(json!({"do": "race", "granted": base, "urls": urls})).await.unwrap_err();
    assert_eq!(error.problem, cookhouse::seams::SourceProblem::TimedOut, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_saved_inside_the_workspace_and_within_its_limit() {
    let host = Host::abuse();
    let (base, _guard) = listener().await;
    let workspace = host.workspace();
    let ask =
        |paths: &[&str], limit: u64| json!({"do": "save", "granted": base, "url": format!("{base}/long"), "paths": paths, "limit": limit});
    let said = host.misbehave_in(&workspace, ask(&["deep/down/file.bin", "deep/down/file.bin"], 1 << 20)).await.unwrap();
    assert_eq!(said, "ok 1048576; ok 1048576; ");
    assert!(std::fs::read(workspace.join("deep/down/file.bin")).unwrap() == "0123456789abcdef".repeat(1 << 16).as_bytes());
    let said = host.misbehave_in(&workspace, ask(&["cut.bin"], (1 << 20) - 1)).await.unwrap();
    assert!(said.starts_with("ErrorCode::TooLarge"), "{said}");
    let length = std::fs::metadata(workspace.join("cut.bin")).map_or(0, |file| file.len());
    assert!(length < 1 << 20, "{length}");
    #[cfg(unix)]
    std::os::unix::fs::symlink("..", workspace.join("out")).unwrap();
    let said =
        host.misbehave_in(&workspace, ask(&["../escaped.bin", "/escaped.bin", "out/escaped.bin", "deep", ""], 2 << 20)).await.unwrap();
    assert!(!said.contains("ok "), "{said}");
    assert!(!host.directory.path().join("escaped.bin").exists());
}
