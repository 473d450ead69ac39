//! The bundled custom-deploy plugin against receivers of every temper, and a large artifact in little memory.

#[cfg(target_os = "linux")]
mod receiver;

#[cfg(unix)]
use std::os::unix::fs::FileExt as _;
use std::path::Path;

#[cfg(target_os = "linux")]
use cookhouse::demo::certificate::Authority;
use cookhouse::model::Secret;
use cookhouse::model::deploy::DeployFailureCode;
use cookhouse::seams::{ArtifactFile, DeployMetadata, DeployOutcome, DeployProblem, DeployTarget};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::Host;
#[cfg(target_os = "linux")]
use super::trusting;

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

/// Reads a whole request: its head and its body.
async fn receive_whole(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    let end = loop {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the request ended in its head");
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let mut body = bytes.split_off(end);
    let head = String::from_utf8(bytes).unwrap();
    let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    while body.len() < length {
        assert_ne!(stream.read_buf(&mut body).await.unwrap(), 0, "the request ended after {} of {length}", body.len());
    }
    (head, body)
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
    let authority = Authority::new().unwrap();
    let host = trusting(&authority);
    // Compiled and called once, so that what grows is the upload's.
    let small = deploy(&host, "http://127.0.0.1:1/", artifact(host.directory.path(), 10)).await.unwrap_err();
    assert_eq!(small.code, DeployFailureCode::ConnectFailed, "{small}");
    let artifact = artifact(host.directory.path(), SIZE);
    let file = std::fs::File::options().write(true).open(&artifact.path).unwrap();
    for (place, offset) in (0..).zip([0, 4096, (1 << 32) - 7, SIZE / 2, SIZE - 13]) {
        file.write_all_at(&[b'\r', b'\n', b'-', b'-', place, b'm', b'a', b'r', b'k', place, b'-', b'\r', b'\n'], offset).unwrap();
    }
    let (url, received) = receiver::start(authority.acceptor, artifact.path.clone()).await;
    let before = resident_bytes();
    let most = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let (watched, stop) = (most.clone(), tokio_util::sync::CancellationToken::new());
    let watch = tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
        loop {
            watched.fetch_max(resident_bytes(), std::sync::atomic::Ordering::Relaxed);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }));
    deploy(&host, &url, artifact).await.unwrap();
    stop.cancel();
    watch.await.unwrap();
    let growth = most.load(std::sync::atomic::Ordering::Relaxed).saturating_sub(before);
    assert!(growth < 32 << 20, "memory grew by {} MiB", growth >> 20);
    let received = received.await.unwrap();
    received.assert_is(SIZE);
    assert!(!host.log.text().contains("deploy-0123456789-token"));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_parser_reads_the_same_two_parts() {
    let Some(python) = super::which("python3") else {
        eprintln!("python3 is not here: its parser is not asked");
        return;
    };
    let host = Host::bundled();
    let artifact = artifact(host.directory.path(), 0);
    // Every kind of line end, and what looks like a boundary.
    let mut bytes: Vec<u8> = (0..200_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    bytes.extend_from_slice(b"\r\n--\r\n--boundary--\r\n\r\r\n\n\x1a\0\r\n");
    std::fs::write(&artifact.path, &bytes).unwrap();
    let artifact = ArtifactFile { size: bytes.len() as u64, ..artifact };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/upload", listener.local_addr().unwrap());
    let receiver = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (head, body) = receive_whole(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await.unwrap();
        (head, body)
    });
    deploy(&host, &url, artifact).await.unwrap();
    let (head, body) = receiver.await.unwrap();
    let kind = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap();
    let message = host.directory.path().join("message");
    std::fs::write(&message, [format!("Content-Type: {kind}\r\n\r\n").as_bytes(), &body].concat()).unwrap();
    let output = tokio::process::Command::new(python).arg("-c").arg(PARSER).arg(&message).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let sent: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = read.as_array().unwrap();
    assert_eq!(parts.len(), 2);
    let metadata = json!({"type": "application/json", "disposition": "form-data", "names": {"name": "metadata"}});
    let file = json!({"type": "application/gzip", "disposition": "form-data", "names": {"name": "artifact", "filename": "01build.tar.gz"}});
    for (part, wanted) in parts.iter().zip([metadata, file]) {
        for key in ["type", "disposition", "names"] {
            assert_eq!(part[key], wanted[key]);
        }
    }
    assert!(parts[1]["hex"] == sent.as_str(), "the artifact is another one");
}

/// Python's own reader of MIME messages.
#[cfg(unix)]
const PARSER: &str = r#"
import email, json, sys
message = email.message_from_bytes(open(sys.argv[1], "rb").read())
assert message.is_multipart() and not message.defects, message.defects
print(json.dumps([{
    "type": part.get_content_type(), "disposition": part.get_content_disposition(), "hex": part.get_payload(decode=True).hex(),
    "names": dict(part.get_params(header="content-disposition")[1:]),
} for part in message.get_payload()]))
"#;

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
            receive_whole(&mut stream).await;
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
