//! Large bodies on their way out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cookhouse::outbound::{BodyStream, OutboundBody, OutboundErrorKind as Kind, OutboundRequest};
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::outbound;
use super::receiver::{Certificate, Connection, Receiver, head};

const PIECE: usize = 100_000;
const YES: &[u8] = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";

fn pieces(count: usize) -> BodyStream {
    Box::pin(stream::iter((0..count).map(|number| Ok(Bytes::from(vec![number.to_le_bytes()[0]; PIECE])))))
}

fn upload(url: String, stream: BodyStream, length: Option<usize>) -> OutboundRequest {
    let mut request = OutboundRequest::new("POST", url);
    request.headers.push(("authorization".to_owned(), "Bearer x".to_owned()));
    request.body = OutboundBody::Stream { stream, length: length.map(|length| length as u64) };
    request
}

async fn read(connection: &mut Connection, mut count: usize) -> bool {
    let mut buffer = vec![0; 64 * 1024];
    while count > 0 {
        let want = count.min(buffer.len());
        match connection.read(&mut buffer[..want]).await {
            Ok(0) | Err(_) => return false,
            Ok(read) => count -= read,
        }
    }
    true
}

#[tokio::test]
async fn a_known_length_is_announced_exactly_and_the_bytes_arrive() {
    let certificate = Certificate::of_authority("localhost");
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let receiver = Receiver::tls(&certificate, move |mut connection| {
        let sender = sender.clone();
        async move {
            let head = head(&mut connection).await;
            let mut body = vec![0; 3 * PIECE];
            connection.read_exact(&mut body).await.unwrap();
            sender.send((head, body)).unwrap();
            connection.write_all(YES).await.unwrap();
        }
    })
    .await;
    let settings = cookhouse::outbound::Settings { allow_loopback: true, ca_certificates: vec![certificate.authority()], proxy: None };
    let client = cookhouse::outbound::Outbound::new(&settings).unwrap();
    let response = client.send(upload(receiver.https("/in?x=1"), pieces(3), Some(3 * PIECE))).await.unwrap();
    assert_eq!(response.status, 201);
    let (head, body) = seen.recv().await.unwrap();
    let mut lines: Vec<String> = head.to_ascii_lowercase().lines().map(str::to_owned).collect();
    lines.sort();
    let expected = [
        String::new(),
        "accept: */*".to_owned(),
        "authorization: bearer x".to_owned(),
        "content-length: 300000".to_owned(),
        format!("host: localhost:{}", receiver.port),
        "post /in?x=1 http/1.1".to_owned(),
        concat!("user-agent: cookhouse/", env!("CARGO_PKG_VERSION")).to_owned(),
    ];
    assert_eq!(lines, expected);
    assert!((0..3).all(|number| body[number * PIECE..(number + 1) * PIECE].iter().all(|byte| usize::from(*byte) == number)));
}

#[tokio::test]
async fn an_unknown_length_is_sent_in_chunks() {
    let receiver = Receiver::plain(|mut connection| async move {
        let head = head(&mut connection).await.to_ascii_lowercase();
        assert!(head.contains("transfer-encoding: chunked") && !head.contains("content-length"), "{head}");
        let mut body = Vec::new();
        while !body.ends_with(b"\r\n0\r\n\r\n") {
            connection.read_buf(&mut body).await.unwrap();
        }
        connection.write_all(YES).await.unwrap();
    })
    .await;
    assert_eq!(outbound().send(upload(receiver.http("/"), pieces(2), None)).await.unwrap().status, 201);
}

#[tokio::test]
async fn a_body_of_another_length_than_announced_ends_the_request() {
    for (count, length) in [(2, 2 * PIECE + 1), (3, 2 * PIECE + 5), (0, 1)] {
        let receiver = Receiver::plain(move |mut connection| async move {
            head(&mut connection).await;
            assert!(!read(&mut connection, length).await, "a whole request arrived");
        })
        .await;
        let error = outbound().send(upload(receiver.http("/"), pieces(count), Some(length))).await.unwrap_err();
        assert_eq!(error.kind, Kind::InvalidRequest, "{count} {length}: {error}");
    }
    let failing: BodyStream = Box::pin(pieces(2).chain(stream::iter([Err(std::io::Error::other("the disk broke"))])));
    let receiver = Receiver::plain(move |mut connection| async move {
        read(&mut connection, usize::MAX).await;
    })
    .await;
    let error = outbound().send(upload(receiver.http("/"), failing, Some(5 * PIECE))).await.unwrap_err();
    assert_eq!(error.kind, Kind::InvalidRequest, "{error}");
    assert!(error.message.contains("the disk broke"), "{error}");
}

#[tokio::test]
async fn an_upload_may_take_longer_than_its_idle_timeout_as_long_as_bytes_move() {
    let receiver = Receiver::plain(|mut connection| async move {
        head(&mut connection).await;
        assert!(read(&mut connection, 20 * PIECE).await);
        connection.write_all(YES).await.unwrap();
    })
    .await;
    let slow: BodyStream = Box::pin(pieces(20).then(async |piece| {
        tokio::time::sleep(Duration::from_millis(75)).await;
        piece
    }));
    let mut request = upload(receiver.http("/"), slow, Some(20 * PIECE));
    request.idle_timeout = Duration::from_millis(1000);
    assert_eq!(outbound().send(request).await.unwrap().status, 201);
}

#[tokio::test]
async fn an_upload_that_nobody_takes_ends_and_holds_little() {
    let receiver = Receiver::plain(|connection| async move {
        std::future::pending::<()>().await;
        drop(connection);
    })
    .await;
    let pulled = Arc::new(AtomicU64::new(0));
    let count = pulled.clone();
    let counted: BodyStream = Box::pin(pieces(1000).inspect(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    }));
    let mut request = upload(receiver.http("/"), counted, Some(1000 * PIECE));
    request.idle_timeout = Duration::from_millis(300);
    assert_eq!(outbound().send(request).await.unwrap_err().kind, Kind::Timeout);
    // What the operating system's buffers took, and no more.
    assert!(pulled.load(Ordering::SeqCst) < 200, "{}", pulled.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_refusal_in_the_middle_of_an_upload_is_heard() {
    let refusing = |lingers: bool| {
        Receiver::plain(move |mut connection| async move {
            head(&mut connection).await;
            read(&mut connection, 3 * PIECE).await;
            connection.write_all(b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig").await.unwrap();
            if lingers {
                // As careful servers do: until the client has heard it and hangs up.
                let _ = connection.shutdown().await;
                read(&mut connection, usize::MAX).await;
            }
            // Closing with unread bytes resets the connection.
        })
    };
    let (careful, rude) = (refusing(true).await, refusing(false).await);
    let mut heard = 0;
    for _ in 0..50 {
        let response = outbound().send(upload(careful.http("/"), pieces(100), Some(100 * PIECE))).await.unwrap();
        assert_eq!(response.status, 413);
        drop(response);
        match outbound().send(upload(rude.http("/"), pieces(100), Some(100 * PIECE))).await {
            Ok(response) => heard += usize::from(response.status == 413),
            Err(error) => assert_eq!(error.kind, Kind::Reset, "{error}"),
        }
    }
    assert!(heard > 25, "only {heard} of 50 rude refusals were heard");
}

#[tokio::test]
async fn an_early_yes_counts_only_with_the_whole_body() {
    let early = |count: usize| async move {
        Receiver::plain(move |mut connection| async move {
            head(&mut connection).await;
            connection.write_all(YES).await.unwrap();
            read(&mut connection, count).await;
        })
        .await
    };
    let patient = early(100 * PIECE).await;
    assert_eq!(outbound().send(upload(patient.http("/"), pieces(100), Some(100 * PIECE))).await.unwrap().status, 201);
    let hasty = early(PIECE).await;
    let error = outbound().send(upload(hasty.http("/"), pieces(300), Some(300 * PIECE))).await.unwrap_err();
    assert_eq!(error.kind, Kind::Reset, "{error}");
}

#[tokio::test]
async fn a_reset_in_the_middle_of_an_upload_is_a_reset_and_nothing_is_sent_again() {
    let receiver = Receiver::plain(|mut connection| async move {
        head(&mut connection).await;
        read(&mut connection, 3 * PIECE).await;
    })
    .await;
    let error = outbound().send(upload(receiver.http("/"), pieces(300), Some(300 * PIECE))).await.unwrap_err();
    assert_eq!(error.kind, Kind::Reset, "{error}");
    assert_eq!(receiver.connections(), 1);
}
