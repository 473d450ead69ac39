//! TLS from certificate files.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cookhouse::api::tls::{Certificates, Settings};
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::support::client::parse;
use crate::support::server::TestServer;

/// Writes a new certificate of `localhost`, as changed `age` ago; what trusts it.
fn write(directory: &Path, age: Duration) -> (Settings, RootCertStore) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let settings = Settings { certificate: directory.join("certificate.pem"), key: directory.join("key.pem") };
    std::fs::write(&settings.certificate, made.cert.pem()).expect("written");
    std::fs::write(&settings.key, made.signing_key.serialize_pem()).expect("written");
    date(&settings, age);
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    (settings, roots)
}

/// Modification times differ whatever the file system's clock does.
fn date(settings: &Settings, age: Duration) {
    for path in [&settings.certificate, &settings.key] {
        let file = std::fs::File::options().append(true).open(path).expect("a file");
        file.set_modified(SystemTime::now() - age).expect("a time");
    }
}

fn connector(roots: RootCertStore) -> TlsConnector {
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    TlsConnector::from(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_speaks_tls_and_its_links_and_cookies_say_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let (files, roots) = write(directory.path(), Duration::ZERO);
    let server = TestServer::start_with(|settings| settings.tls = Some(files)).await;
    let token = server.setup_token.clone().expect("a setup token");
    let body = format!(
        r#"{{"setupToken":"{}","email":"a@b.example","name":"Ada","password":"correct horse battery","organizationName":"S"}}"#,
        token.reveal()
    );
    let stream = TcpStream::connect(server.address).await.expect("a connection");
    let mut stream = connector(roots).connect(ServerName::try_from("localhost").expect("a name"), stream).await.expect("TLS");
    let head = format!(
        "POST /setup HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let reply = parse(&answer, false).expect("an answer").expect(201);
    assert!(reply.header("set-cookie").is_some_and(|cookie| cookie.ends_with("; Secure")));

    // Plain HTTP on the same port is no conversation, and ends nothing.
    let mut plain = TcpStream::connect(server.address).await.expect("a connection");
    plain.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_certificate_is_served_and_a_broken_one_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let (files, first) = write(directory.path(), Duration::from_secs(300));
    let certificates = Certificates::load(files.clone()).expect("a certificate");
    let acceptor = certificates.acceptor().expect("an acceptor");
    let shakes_hands = |roots: RootCertStore| {
        let acceptor = acceptor.clone();
        async move {
            let (client, server) = tokio::io::duplex(64 * 1024);
            let name = ServerName::try_from("localhost").expect("a name");
            let (accepted, connected) = tokio::join!(acceptor.accept(server), connector(roots).connect(name, client));
            accepted.is_ok() && connected.is_ok()
        }
    };
    assert!(shakes_hands(first.clone()).await);
    assert!(!certificates.refresh().expect("unchanged"));

    let (_, second) = write(directory.path(), Duration::from_secs(200));
    assert!(!shakes_hands(second.clone()).await, "not before it is read again");
    assert!(certificates.refresh().expect("a new one"));
    assert!(shakes_hands(second.clone()).await);
    assert!(!shakes_hands(first).await);

    // Half a replacement: the certificate is new, the key is not its own.
    let key = std::fs::read(&files.key).expect("a key");
    write(directory.path(), Duration::from_secs(100));
    std::fs::write(&files.key, key).expect("written");
    assert!(certificates.refresh().is_err());
    assert!(shakes_hands(second.clone()).await, "the former one stays");
    std::fs::write(&files.certificate, "nonsense").expect("written");
    date(&files, Duration::ZERO);
    assert!(certificates.refresh().is_err());
    assert!(shakes_hands(second).await);
}
