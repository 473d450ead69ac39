//! Endpoints that mean no good: each try is bounded in size and time, and the ledger says what happened.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::outbound::receiver::{Certificate, Receiver, head};

/// The one entry of the ledger after one try that failed or did not.
async fn one_try(server: &TestServer, admin: &Person, url: &str) -> Value {
    let (id, _) = webhook(server, admin, url, json!({"events": ["build.created"]})).await;
    waiting(server, admin).await;
    let (_, mut entries) = until(server, admin, &id, |_, entries| entries.len() == 1 && is_over(entries)).await;
    server.delete(admin, &format!("/webhooks/{id}")).await.expect(204);
    entries.remove(0)
}

fn error(entry: &Value) -> (&str, &str) {
    let error = &entry["attempts"][0]["error"];
    (error["code"].as_str().unwrap_or_default(), error["message"].as_str().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_an_endless_drip_and_nonsense_cost_a_moment_and_a_kilobyte() {
    let (server, admin) = start(hasty(1)).await;
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let large = Receiver::plain(move |mut connection| {
        let counted = counted.clone();
        async move {
            head(&mut connection).await;
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\nset-cookie: a=b\r\n\r\n").await;
            let piece = vec![b'x'; 64 * 1024];
            while connection.write_all(&piece).await.is_ok() {
                counted.fetch_add(piece.len(), Ordering::Relaxed);
            }
        }
    })
    .await;
    let entry = one_try(&server, &admin, &large.http("/")).await;
    assert_eq!(entry["status"], "delivered");
    assert_eq!((&entry["response"]["isTruncated"], text(&entry["response"]["body"]).len()), (&true.into(), 1024));
    assert!(sent.load(Ordering::Relaxed) < 64 << 20);

    // The status is what counts; what it says afterwards is not waited for.
    let drip = Receiver::plain(|mut connection| async move {
        head(&mut connection).await;
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await;
        while connection.write_all(b".").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    assert_eq!(one_try(&server, &admin, &drip.http("/")).await["status"], "delivered");

    let slow_head = Receiver::plain(|mut connection| async move {
        head(&mut connection).await;
        for byte in b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n" {
            if connection.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    })
    .await;
    let entry = one_try(&server, &admin, &slow_head.http("/")).await;
    assert_eq!((&entry["status"], error(&entry).0, &entry["response"]), (&"failed".into(), "timeout", &Value::Null));

    for (answer, code) in [
        ("SSH-2.0-OpenSSH_9.2\r\n", "protocol"),
        ("", "connect_failed"),
        ("HTTP/1.1 301 x\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", "http_status"),
        ("HTTP/1.1 200 OK\r\nx: ", "connect_failed"),
    ] {
        let entry = one_try(&server, &admin, &Receiver::saying(answer).await.http("/")).await;
        assert_eq!((&entry["status"], error(&entry).0), (&"failed".into(), code), "{answer:?}: {entry}");
    }
    let many: String = (0..90).map(|number| format!("x-{number}: {}\r\n", "y".repeat(300))).collect();
    let answer: &'static str = format!("HTTP/1.1 400 x\r\n{many}content-length: 0\r\n\r\n").leak();
    let entry = one_try(&server, &admin, &Receiver::saying(answer).await.http("/")).await;
    let headers = entry["response"]["headers"].as_array().unwrap();
    assert!(headers.len() <= 16 && headers.iter().all(|header| header["value"].as_str().unwrap().len() <= 160), "{headers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed_and_says_so() {
    let (server, admin) = start(hasty(1)).await;
    let target = Endpoint::taking().await;
    let answer: &'static str = format!("HTTP/1.1 307 x\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", target.url()).leak();
    let entry = one_try(&server, &admin, &Receiver::saying(answer).await.http("/")).await;
    assert!(error(&entry).1.contains("redirects are not followed"), "{entry}");
    assert_eq!(target.got().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_has_to_be_good() {
    let certificate = Certificate::of_authority("localhost");
    let trusting = outbound::Settings { allow_loopback: true, ca_certificates: vec![certificate.authority()], proxy: None };
    let outbound = Outbound::new(&trusting).unwrap();
    let server = TestServer::start_sending(Arc::new(TempDir::new().unwrap()), outbound, hasty(1)).await;
    let admin = server.admin().await;
    let answer = |mut connection| async move {
        head(&mut connection).await;
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    };
    let good = Receiver::tls(&certificate, answer).await;
    assert_eq!(one_try(&server, &admin, &good.https("/")).await["status"], "delivered");
    for bad in [Certificate::self_signed("localhost"), Certificate::of_authority("localhost")] {
        let receiver = Receiver::tls(&bad, answer).await;
        let entry = one_try(&server, &admin, &receiver.https("/")).await;
        assert_eq!((&entry["status"], error(&entry).0), (&"failed".into(), "tls_failed"), "{entry}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_leads_elsewhere_the_second_time_leads_nowhere() {
    let endpoint = Endpoint::answering(|_, _| Some(endpoint::status(500))).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    // First an address that may be called; nothing listens there. From then on this machine.
    let lookup: outbound::Lookup = Arc::new(move |_| {
        let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
        async move { Ok(vec![if first { IpAddr::from([10, 255, 255, 1]) } else { IpAddr::from([127, 0, 0, 1]) }]) }.boxed()
    });
    let outbound = Outbound::with_lookup(&outbound::Settings::default(), lookup).unwrap();
    let server = TestServer::start_sending(Arc::new(TempDir::new().unwrap()), outbound, hasty(3)).await;
    let admin = server.admin().await;
    let port = endpoint.url().split(':').nth(2).unwrap().split('/').next().unwrap().to_owned();
    let entry = one_try(&server, &admin, &format!("https://rebound.example:{port}/")).await;
    let codes: Vec<_> = entry["attempts"].as_array().unwrap().iter().map(|attempt| text(&attempt["error"]["code"])).collect();
    assert_eq!(codes[1..], ["address_denied", "address_denied"], "{entry}");
    assert!(asked.load(Ordering::SeqCst) >= 3 && endpoint.got().is_empty());
    // And what is forbidden as it stands is not even stored.
    for url in ["https://127.0.0.1/", "https://169.254.169.254/latest", "https://[::ffff:169.254.169.254]/", "http://localhost:1/"] {
        let reply = server.post(&admin, "/webhooks", json!({"url": url, "events": ["ping"]})).await;
        let details = (url != "http://localhost:1/").then(|| vec!["url:invalid_value".to_owned()]);
        match details {
            Some(details) => assert_eq!((reply.status, reply.details()), (400, details), "{url}"),
            // A name: where it leads is looked at when it is called.
            None => assert_eq!(reply.status, 201),
        }
    }
}
