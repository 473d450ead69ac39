//! What receivers answer, and how they fail to.

use std::time::Duration;

use cookhouse::outbound::{OutboundErrorKind as Kind, OutboundRequest};
use tokio::io::AsyncWriteExt;

use super::receiver::{Receiver, head};
use super::{get, outbound};

#[tokio::test]
async fn any_status_is_an_answer() {
    let broken = Receiver::saying("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\nouch").await;
    assert_eq!(get(&outbound(), broken.http("/")).await, Ok((500, "ouch".to_owned())));
    let gone = Receiver::saying("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(get(&outbound(), gone.http("/")).await, Ok((204, String::new())));
    let chunked = Receiver::saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").await;
    assert_eq!(get(&outbound(), chunked.http("/")).await, Ok((200, "abcde".to_owned())));
}

#[tokio::test]
async fn a_redirect_is_reported_and_not_followed() {
    let target = Receiver::saying("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let location = target.http("/stolen");
    let redirecting = Receiver::plain(move |mut connection| {
        let answer = format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {location}\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n");
        async move {
            head(&mut connection).await;
            connection.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let response = outbound().send(OutboundRequest::new("GET", redirecting.http("/"))).await.unwrap();
    assert_eq!((response.status, response.header("location")), (307, Some(target.http("/stolen").as_str())));
    assert_eq!((target.connections(), redirecting.connections()), (0, 1));
}

#[tokio::test]
async fn nothing_is_unpacked() {
    let packed = Receiver::saying("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\npacked").await;
    assert_eq!(get(&outbound(), packed.http("/")).await, Ok((200, "packed".to_owned())));
}

#[tokio::test]
async fn silence_ends_at_the_idle_timeout() {
    let silent = Receiver::plain(|connection| async move {
        std::future::pending::<()>().await;
        drop(connection);
    })
    .await;
    let mut request = OutboundRequest::new("GET", silent.http("/"));
    request.idle_timeout = Duration::from_millis(100);
    assert_eq!(outbound().send(request).await.unwrap_err().kind, Kind::Timeout);

    let stops = Receiver::plain(|mut connection| async move {
        head(&mut connection).await;
        connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let mut request = OutboundRequest::new("GET", stops.http("/"));
    request.idle_timeout = Duration::from_millis(300);
    let mut response = outbound().send(request).await.unwrap();
    assert_eq!(response.read_all(100).await.unwrap_err().kind, Kind::Timeout);
}

#[tokio::test]
async fn an_answer_that_drips_for_ever_is_bounded_in_time_and_size() {
    let drips = Receiver::plain(|mut connection| async move {
        head(&mut connection).await;
        connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        while connection.write_all(b".").await.is_ok() && connection.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let mut request = OutboundRequest::new("GET", drips.http("/"));
    request.total_timeout = Some(Duration::from_millis(300));
    let mut response = outbound().send(request).await.unwrap();
    assert_eq!(response.read_all(1 << 20).await.unwrap_err().kind, Kind::Timeout);

    let mut response = outbound().send(OutboundRequest::new("GET", drips.http("/"))).await.unwrap();
    assert_eq!(response.read_all(20).await.unwrap_err().kind, Kind::TooLarge);

    let head_drips = Receiver::plain(|mut connection| async move {
        head(&mut connection).await;
        connection.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        while connection.write_all(b"X-Padding: x\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let mut request = OutboundRequest::new("GET", head_drips.http("/"));
    request.idle_timeout = Duration::from_millis(300);
    assert_eq!(outbound().send(request).await.unwrap_err().kind, Kind::Timeout);

    let head_floods = Receiver::plain(|mut connection| async move {
        head(&mut connection).await;
        connection.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        while connection.write_all(&b"X-Padding: x\r\n".repeat(1000)).await.is_ok() {}
    })
    .await;
    let error = outbound().send(OutboundRequest::new("GET", head_floods.http("/"))).await.unwrap_err();
    assert_eq!(error.kind, Kind::Protocol, "more headers than anybody needs: {error}");
}

#[tokio::test]
async fn a_connection_that_breaks_is_no_protocol_error() {
    let silent = Receiver::saying("").await;
    assert_eq!(get(&outbound(), silent.http("/")).await, Err(Kind::Reset));
    let in_the_head = Receiver::saying("HTTP/1.1 200 OK\r\nContent-Le").await;
    assert_eq!(get(&outbound(), in_the_head.http("/")).await, Err(Kind::Reset));
    let in_the_body = Receiver::saying("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").await;
    assert_eq!(get(&outbound(), in_the_body.http("/")).await, Err(Kind::Reset));
    let in_a_chunk = Receiver::saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhalf").await;
    assert_eq!(get(&outbound(), in_a_chunk.http("/")).await, Err(Kind::Reset));
}

#[tokio::test]
async fn what_is_not_http_is_a_protocol_error() {
    for answer in [
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
        "HTTP/1.1 9999 What\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "\0\0\0\0\0\0\0\0\0\0\r\n\r\n",
    ] {
        let receiver = Receiver::saying(answer).await;
        assert_eq!(get(&outbound(), receiver.http("/")).await, Err(Kind::Protocol), "{answer:?}");
    }
    let bad_chunk = Receiver::saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").await;
    assert_eq!(get(&outbound(), bad_chunk.http("/")).await, Err(Kind::Protocol));
}
