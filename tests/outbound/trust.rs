//! Whom the client talks to at all.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use cookhouse::outbound::{Outbound, OutboundErrorKind as Kind, OutboundRequest, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::receiver::{Certificate, Receiver, head};
use super::{get, outbound};

const YES: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nyes";

fn trusting(certificate: &Certificate) -> Outbound {
    Outbound::new(&Settings { allow_loopback: true, ca_certificates: vec![certificate.authority()], proxy: None }).unwrap()
}

async fn https(certificate: &Certificate) -> Receiver {
    Receiver::tls(certificate, |mut connection| async move {
        head(&mut connection).await;
        connection.write_all(YES.as_bytes()).await.unwrap();
        let _ = connection.shutdown().await;
    })
    .await
}

async fn refusal(outbound: &Outbound, url: String) -> String {
    let error = outbound.send(OutboundRequest::new("GET", url)).await.unwrap_err();
    assert_eq!(error.kind, Kind::Tls, "{error}");
    error.message
}

#[tokio::test]
async fn an_authority_is_trusted_when_it_is_configured_and_not_before() {
    let certificate = Certificate::of_authority("localhost");
    let receiver = https(&certificate).await;
    assert_eq!(get(&trusting(&certificate), receiver.https("/")).await, Ok((200, "yes".to_owned())));
    assert!(refusal(&outbound(), receiver.https("/")).await.contains("outbound.ca_certificates"));
    let other = Certificate::of_authority("localhost");
    assert!(refusal(&trusting(&other), receiver.https("/")).await.contains("no trusted connection"));
}

#[tokio::test]
async fn a_certificate_that_nobody_issued_for_another_name_or_time_is_refused() {
    let self_signed = Certificate::self_signed("localhost");
    assert!(refusal(&outbound(), https(&self_signed).await.https("/")).await.contains("outbound.ca_certificates"));

    let elsewhere = Certificate::of_authority("elsewhere.example");
    assert!(refusal(&trusting(&elsewhere), https(&elsewhere).await.https("/")).await.contains("another name"));

    let expired = Certificate::with("localhost", |params| {
        params.not_before = (SystemTime::now() - Duration::from_secs(3 * 86_400)).into();
        params.not_after = (SystemTime::now() - Duration::from_secs(86_400)).into();
    });
    assert!(refusal(&trusting(&expired), https(&expired).await.https("/")).await.contains("expired"));
}

#[tokio::test]
async fn a_server_without_tls_is_told_apart_from_one_that_is_down() {
    let plain = Receiver::plain(|mut connection| async move {
        connection.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    assert!(refusal(&outbound(), format!("https://127.0.0.1:{}/", plain.port)).await.contains("port"));
    let port = {
        let down = Receiver::saying(YES).await;
        down.port
    };
    tokio::task::yield_now().await;
    for scheme in ["http", "https"] {
        assert_eq!(get(&outbound(), format!("{scheme}://127.0.0.1:{port}/")).await, Err(Kind::Connect));
    }
    let hangs_up = Receiver::plain(|connection| async move { drop(connection) }).await;
    assert_eq!(get(&outbound(), hangs_up.https("/")).await, Err(Kind::Connect));
}

#[tokio::test]
async fn loopback_is_denied_unless_it_is_configured() {
    let receiver = Receiver::saying(YES).await;
    let strict = Outbound::new(&Settings::default()).unwrap();
    for host in ["127.0.0.1", "localhost", "[::1]", "2130706433", "[::ffff:127.0.0.1]", "0.0.0.0"] {
        for scheme in ["http", "https"] {
            assert_eq!(get(&strict, format!("{scheme}://{host}:{}/", receiver.port)).await, Err(Kind::AddressDenied), "{host}");
        }
    }
    assert_eq!(get(&outbound(), format!("http://0.0.0.0:{}/", receiver.port)).await, Err(Kind::AddressDenied));
    assert_eq!(receiver.connections(), 0);
    assert_eq!(get(&outbound(), receiver.http("/")).await, Ok((200, "yes".to_owned())));
}

#[tokio::test]
async fn a_proxy_carries_what_is_outside_and_nothing_else() {
    let asked = Arc::new(Mutex::new(String::new()));
    let seen = asked.clone();
    let proxy = Receiver::plain(move |mut connection| {
        let seen = seen.clone();
        async move {
            let head = head(&mut connection).await;
            seen.lock().unwrap().push_str(&head);
            connection.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        }
    })
    .await;
    let receiver = Receiver::saying(YES).await;
    let settings = Settings { allow_loopback: true, ca_certificates: Vec::new(), proxy: Some(proxy.http("")) };
    let outbound = Outbound::new(&settings).unwrap();

    assert_eq!(get(&outbound, receiver.http("/")).await, Ok((200, "yes".to_owned())));
    assert_eq!(get(&outbound, "https://169.254.169.254/".to_owned()).await, Err(Kind::AddressDenied));
    assert_eq!(proxy.connections(), 0);
    // The name means nothing here; only the proxy may know it.
    assert_eq!(get(&outbound, "https://uploads.invalid/path?token=x".to_owned()).await, Err(Kind::Connect));
    let asked = asked.lock().unwrap().clone();
    assert!(asked.starts_with("CONNECT uploads.invalid:443 HTTP/1.1\r\n"), "{asked}");
    assert!(!asked.contains("token"), "{asked}");
}

#[tokio::test]
async fn a_request_that_is_given_up_closes_its_connection() {
    let (sender, mut closed) = tokio::sync::mpsc::unbounded_channel();
    let receiver = Receiver::plain(move |mut connection| {
        let sender = sender.clone();
        async move {
            head(&mut connection).await;
            sender.send(false).unwrap();
            let mut rest = Vec::new();
            let _ = connection.read_to_end(&mut rest).await;
            sender.send(true).unwrap();
        }
    })
    .await;
    let url = receiver.http("/");
    let request = tokio::spawn(async move { get(&outbound(), url).await });
    assert_eq!(closed.recv().await, Some(false));
    request.abort();
    assert_eq!(closed.recv().await, Some(true));
}
