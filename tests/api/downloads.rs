//! Artifacts behind signed links: permission, ranges, conditions, resuming.

use std::time::Duration;

use cookhouse::model::{Artifact, Build, Id, Status, Timestamp};
use cookhouse::store::Read;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::support::builds::{build, put};
use crate::support::client::Reply;
use crate::support::server::TestServer;

struct Stored {
    server: TestServer,
    build: Build,
    bytes: Vec<u8>,
    link: String,
}

/// A build with an artifact of `size` bytes that cannot be compressed.
async fn stored(size: usize) -> Stored {
    let server = TestServer::start().await;
    let organization = server.organization("Studio").await;
    let mut build = Build { status: Status::Complete, ..build(&server.app.clock, organization.id, "Win64", "main") };
    let source = server.directory.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let mut noise = vec![0; size];
    getrandom::fill(&mut noise).unwrap();
    std::fs::write(source.join("game.pak"), noise).unwrap();
    let staged = server.app.artifacts.package(source, build.id, CancellationToken::new(), |_, _| {}).await.unwrap();
    build.artifact = Some(Artifact {
        size_bytes: staged.size_bytes,
        checksum_md5: staged.md5.clone(),
        checksum_sha256: staged.sha256.clone(),
        expires_at: None,
        deleted_at: None,
        deleted_reason: None,
    });
    staged.publish().await.unwrap();
    put(&server, &build).await;
    let bytes = std::fs::read(server.app.artifacts.path(build.id)).unwrap();
    let link = server.app.links.sign(build.id, server.app.clock.now().plus(Duration::from_secs(3600)));
    Stored { server, build, bytes, link }
}

impl Stored {
    async fn get(&self, headers: &[(&str, &str)]) -> Reply {
        self.ask("GET", &self.link, headers).await
    }

    async fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Reply {
        let ask = self.server.ask(method, target);
        headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value)).send().await
    }

    fn tag(&self) -> String {
        format!("\"{}\"", self.build.artifact.as_ref().unwrap().checksum_sha256)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_gives_the_whole_tarball_with_everything_a_client_needs() {
    let stored = stored(1_500_000).await;
    for link in [stored.link.clone(), format!("/v1{}", stored.link)] {
        let reply = stored.ask("GET", &link, &[]).await.expect(200);
        assert!(reply.body == stored.bytes);
        assert_eq!(reply.header("content-type"), Some("application/gzip"));
        assert_eq!(reply.header("content-length"), Some(stored.bytes.len().to_string().as_str()));
        assert_eq!(reply.header("content-disposition"), Some(format!("attachment; filename=\"{}.tar.gz\"", stored.build.id).as_str()));
        assert_eq!(reply.header("accept-ranges"), Some("bytes"));
        assert_eq!(reply.header("etag"), Some(stored.tag().as_str()));
        assert!(reply.header("cache-control").unwrap().starts_with("private"));
        assert!(reply.header("last-modified").unwrap().ends_with(" GMT"));
        let head = stored.ask("HEAD", &link, &[]).await.expect(200);
        assert!(head.body.is_empty());
        for name in ["content-length", "etag", "last-modified", "content-type", "accept-ranges", "content-disposition"] {
            assert_eq!(head.header(name), reply.header(name), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_expired_and_foreign_links_are_refused() {
    let stored = stored(100).await;
    let (path, query) = stored.link.split_once('?').unwrap();
    let other: Id<Build> = stored.server.app.clock.new_id();
    let expired = stored.server.app.links.sign(stored.build.id, Timestamp(1_000));
    let foreign = cookhouse::artifacts::signed_url::LinkSigner::new([9; 32]).sign(stored.build.id, Timestamp(9_000_000_000_000));
    for (link, code) in [
        (path.to_owned(), "signature_invalid"),
        (format!("{path}?"), "signature_invalid"),
        (format!("{path}?{query}x"), "signature_invalid"),
        (format!("{path}?{query}&{query}"), "signature_invalid"),
        (format!("{path}?{}", query.replace("expires=1", "expires=2")), "signature_invalid"),
        (format!("{path}?{query}&expires=99999999999"), "signature_invalid"),
        (format!("/artifacts/{other}.tar.gz?{query}"), "signature_invalid"),
        (foreign, "signature_invalid"),
        (expired, "url_expired"),
    ] {
        for method in ["GET", "HEAD"] {
            let reply = stored.ask(method, &link, &[]).await.expect(403);
            assert!(method == "HEAD" || reply.code() == code, "{link}: {}", reply.text());
        }
    }
    for path in ["/artifacts/x.tar.gz", &format!("/artifacts/{}", stored.build.id), &format!("/artifacts/{}.zip", stored.build.id)] {
        assert_eq!(stored.ask("GET", &format!("{path}?{query}"), &[]).await.expect(404).code(), "not_found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_that_retention_deleted_is_not_found() {
    let mut stored = stored(100).await;
    stored.build.artifact.as_mut().unwrap().deleted_at = Some(Timestamp(5));
    put(&stored.server, &stored.build).await;
    assert_eq!(stored.get(&[]).await.expect(404).code(), "not_found");
    // And so is one whose file is gone, whatever the record says.
    stored.build.artifact.as_mut().unwrap().deleted_at = None;
    put(&stored.server, &stored.build).await;
    stored.get(&[]).await.expect(200);
    stored.server.app.artifacts.delete(stored.build.id).await.unwrap();
    assert_eq!(stored.get(&[]).await.expect(404).code(), "not_found");
    let kept = stored.server.read(|snapshot| snapshot.get(stored.build.organization_id, stored.build.id));
    assert_eq!(kept, Some(stored.build.clone()));
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_are_exact_and_conditions_hold() {
    let stored = stored(2_000_000).await;
    let length = stored.bytes.len();
    let tag = stored.tag();
    for (range, start, end) in [
        ("bytes=0-0", 0, 1),
        ("bytes=100-1999", 100, 2000),
        ("bytes=524287-524288", 524_287, 524_289),
        ("bytes=-7", length - 7, length),
        ("bytes=1500000-", 1_500_000, length),
    ] {
        let reply = stored.get(&[("Range", range)]).await.expect(206);
        assert!(reply.body == stored.bytes[start..end], "{range}");
        assert_eq!(reply.header("content-range"), Some(format!("bytes {start}-{}/{length}", end - 1).as_str()));
        assert_eq!(reply.header("content-length"), Some((end - start).to_string().as_str()));
    }
    let beyond = stored.get(&[("Range", "bytes=99999999-")]).await.expect(416);
    assert_eq!(beyond.header("content-range"), Some(format!("bytes */{length}").as_str()));
    assert_eq!(beyond.code(), "range_not_satisfiable");
    assert!(stored.get(&[("Range", "bytes=0-1,5-6")]).await.expect(200).body == stored.bytes);
    stored.ask("HEAD", &stored.link, &[("Range", "bytes=0-1")]).await.expect(200);

    let modified = stored.get(&[]).await.header("last-modified").unwrap().to_owned();
    for condition in [tag.as_str(), &modified] {
        stored.get(&[("Range", "bytes=5-9"), ("If-Range", condition)]).await.expect(206);
    }
    for condition in ["\"other\"", "W/\"other\"", &format!("W/{tag}"), "Thu, 01 Jan 1970 00:00:00 GMT"] {
        stored.get(&[("Range", "bytes=5-9"), ("If-Range", condition)]).await.expect(200);
    }
    for condition in [tag.as_str(), "*", &format!("\"x\", {tag}")] {
        let reply = stored.get(&[("If-None-Match", condition), ("Range", "bytes=5-9")]).await.expect(304);
        assert!(reply.body.is_empty());
        assert_eq!(reply.header("etag"), Some(tag.as_str()));
    }
    stored.get(&[("If-None-Match", "\"other\"")]).await.expect(200);
    stored.get(&[("If-Modified-Since", &modified)]).await.expect(304);
    stored.get(&[("If-Modified-Since", "Thu, 01 Jan 1970 00:00:00 GMT")]).await.expect(200);
    stored.get(&[("If-Modified-Since", &modified), ("If-None-Match", "\"other\"")]).await.expect(200);
    stored.get(&[("If-Match", "\"other\"")]).await.expect(412);
    stored.get(&[("If-Match", &tag)]).await.expect(200);
    stored.get(&[("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT")]).await.expect(412);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_that_broke_off_is_resumed_and_outlives_the_deletion() {
    let stored = stored(6_000_000).await;
    let mut stream = TcpStream::connect(stored.server.address).await.unwrap();
    let request = format!("GET {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", stored.link);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = vec![0; 100_000];
    stream.read_exact(&mut first).await.unwrap();
    // Retention deletes it while it is on its way: who has it open gets it to its end.
    stored.server.app.artifacts.delete(stored.build.id).await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    let whole = [first, rest].concat();
    let head = whole.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    assert!(whole[head..] == stored.bytes);

    std::fs::write(stored.server.app.artifacts.path(stored.build.id), &stored.bytes).unwrap();
    let mut got = stored.bytes[..1_234_567].to_vec();
    let reply = stored.get(&[("Range", "bytes=1234567-"), ("If-Range", &stored.tag())]).await.expect(206);
    got.extend(reply.body);
    assert!(got == stored.bytes);
}
