//! The bundled custom-deploy plugin against receivers of every temper, and a large artifact in little memory.

use std::path::Path;

use cookhouse::model::Secret;
use cookhouse::model::deploy::DeployFailureCode;
use cookhouse::seams::{ArtifactFile, DeployMetadata, DeployOutcome, DeployProblem, DeployTarget};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::Host;

const AUTHORIZATION: &str = "Bearer deploy-0123456789-token";
const SIZE: u64 = 5 << 30;

fn metadata() -> DeployMetadata {
    DeployMetadata {
        build_id: "01build".into(),
        project_id: "01project".into(),
        platform: "Win64".into(),
        build_type: "Development".into(),
        ue_version: "5.4".into(),
        branch: "main".into(),
        commit: "0123abc".into(),
    }
}

fn artifact(directory: &Path, size: u64) -> ArtifactFile {
    let path = directory.join("01build.tar.gz");
    std::fs::File::create(&path).unwrap().set_len(size).unwrap();
    ArtifactFile { path, file_name: "01build.tar.gz".into(), size, md5: "0".repeat(32), sha256: "0".repeat(64) }
}

async fn deploy(host: &Host, url: &str, artifact: ArtifactFile) -> Result<DeployOutcome, DeployProblem> {
    let mut binding = host.binding("custom-deploy", json!({"url": url}));
    binding.secrets = [("authorization".to_owned(), Secret::new(AUTHORIZATION.to_owned()))].into();
    host.plugins.deploy(&binding, metadata(), artifact, host.call()).await
}

/// Reads a whole request: its head, the length of its body, and the body's two ends.
async fn receive(stream: &mut TcpStream) -> (String, u64, Vec<u8>, Vec<u8>) {
    let mut buffer = vec![0; 1 << 18];
    let mut head = Vec::new();
    let end = loop {
        let count = stream.read(&mut buffer).await.unwrap();
        assert_ne!(count, 0, "the request ended in its head");
        head.extend_from_slice(&buffer[..count]);
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let mut first = head.split_off(end);
    let head = String::from_utf8(head).unwrap();
    let length: u64 = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut received = first.len() as u64;
    let mut last = first.clone();
    while received < length {
        let count = stream.read(&mut buffer).await.unwrap();
        assert_ne!(count, 0, "the request ended after {received} of {length}");
        received += count as u64;
        if first.len() < 4096 {
            first.extend_from_slice(&buffer[..count]);
        }
        last.extend_from_slice(&buffer[..count]);
        let excess = last.len().saturating_sub(4096);
        last.drain(..excess);
    }
    first.truncate(4096);
    (head, received, first, last)
}

#[cfg(target_os = "linux")]
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_gibibytes_pass_through_little_memory() {
    // In a process of its own: what other tests of this binary allocate is not the upload's.
    const ALONE: &str = "COOKHOUSE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut alone = tokio::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "plugins::deploy::five_gibibytes_pass_through_little_memory", "--nocapture"]).env(ALONE, "1");
        let output = alone.output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let host = Host::bundled();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/upload", listener.local_addr().unwrap());
    // Compiled and called once, so that what grows is the upload's.
    let small = deploy(&host, "http://127.0.0.1:1/", artifact(host.directory.path(), 10)).await.unwrap_err();
    assert_eq!(small.code, DeployFailureCode::ConnectFailed, "{small}");
    let before = resident_bytes();
    let most = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let (watched, stop) = (most.clone(), tokio_util::sync::CancellationToken::new());
    let watch = tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
        loop {
            watched.fetch_max(resident_bytes(), std::sync::atomic::Ordering::Relaxed);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }));
    let receiver = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = receive(&mut stream).await;
        stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await.unwrap();
        request
    });
    deploy(&host, &url, artifact(host.directory.path(), SIZE)).await.unwrap();
    stop.cancel();
    watch.await.unwrap();
    let (head, received, first, last) = receiver.await.unwrap();
    let growth = most.load(std::sync::atomic::Ordering::Relaxed).saturating_sub(before);
    assert!(growth < 32 << 20, "memory grew by {} MiB", growth >> 20);
    assert!(head.starts_with("POST /upload HTTP/1.1\r\n") && head.contains(&format!("authorization: {AUTHORIZATION}\r\n")), "{head}");
    assert!(head.contains("content-type: multipart/form-data; boundary="), "{head}");
    let first = String::from_utf8_lossy(&first).into_owned();
    assert!(
        first.contains("name=\"metadata\"") && first.contains("application/json") && first.contains("\"buildId\":\"01build\""),
        "{first}"
    );
    assert!(first.contains("filename=\"01build.tar.gz\"") && first.contains("application/gzip"), "{first}");
    assert!(String::from_utf8_lossy(&last).ends_with("--\r\n"));
    assert!(received > SIZE);
    assert!(!host.log.text().contains("deploy-0123456789-token"));
}

#[tokio::test]
async fn receivers_that_fail_are_told_apart() {
    let host = Host::bundled();
    let file = || artifact(host.directory.path(), 100_000);
    for (answer, code, status) in [
        ("HTTP/1.1 500 X\r\ncontent-length: 5\r\nconnection: close\r\n\r\nsorry", DeployFailureCode::HttpStatus, Some(500)),
        (
            "HTTP/1.1 302 X\r\nlocation: /elsewhere\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            DeployFailureCode::HttpStatus,
            Some(302),
        ),
        ("", DeployFailureCode::ConnectFailed, None),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let receiver = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            receive(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let problem = deploy(&host, &url, file()).await.unwrap_err();
        assert_eq!((problem.code, problem.http_status), (code, status), "{problem}");
        receiver.await.unwrap();
    }
    // It speaks no TLS.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let receiver = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 plain\r\n\r\n").await.unwrap();
        let _ = stream.read(&mut [0; 1000]).await;
    });
    let problem = deploy(&host, &url, file()).await.unwrap_err();
    assert_eq!(problem.code, DeployFailureCode::TlsFailed, "{problem}");
    receiver.await.unwrap();
    // The artifact is gone, or is not what was recorded.
    let mut gone = file();
    gone.size += 1;
    let problem = deploy(&host, &url, gone).await.unwrap_err();
    assert_eq!(problem.code, DeployFailureCode::ArtifactMissing, "{problem}");
    let problem = deploy(&host, "not an address", file()).await.unwrap_err();
    assert_eq!(problem.code, DeployFailureCode::PluginError, "{problem}");
}

#[tokio::test]
async fn a_receiver_that_never_answers_ends_with_the_wall_or_the_cancel() {
    let mut host = Host::bundled();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    host.wall = std::time::Duration::from_secs(1);
    let problem = deploy(&host, &url, artifact(host.directory.path(), 1000)).await.unwrap_err();
    assert_eq!(problem.code, DeployFailureCode::Timeout, "{problem}");
    host.wall = std::time::Duration::from_secs(60);
    let cancel = host.cancel.clone();
    let stop = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        cancel.cancel();
    };
    let (done, ()) = tokio::join!(deploy(&host, &url, artifact(host.directory.path(), 1000)), stop);
    assert_eq!(done.unwrap_err().code, DeployFailureCode::Interrupted);
}
