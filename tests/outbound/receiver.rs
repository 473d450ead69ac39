//! A server made of bytes: it says what a test tells it, when the test tells it, over TLS or without.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// One accepted connection.
pub type Connection = Box<dyn Wire>;
type Served = Pin<Box<dyn Future<Output = ()> + Send>>;

pub struct Receiver {
    pub port: u16,
    pub connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Receiver {
    pub async fn plain<S: Future<Output = ()> + Send + 'static>(serve: impl Fn(Connection) -> S + Send + Sync + 'static) -> Receiver {
        Receiver::start(None, Arc::new(move |connection| Box::pin(serve(connection)))).await
    }

    pub async fn tls<S: Future<Output = ()> + Send + 'static>(
        certificate: &Certificate,
        serve: impl Fn(Connection) -> S + Send + Sync + 'static,
    ) -> Receiver {
        Receiver::start(Some(certificate.acceptor()), Arc::new(move |connection| Box::pin(serve(connection)))).await
    }

    /// Says the same to everybody who has sent a whole head.
    pub async fn saying(answer: &'static str) -> Receiver {
        Receiver::plain(move |mut connection| async move {
            head(&mut connection).await;
            connection.write_all(answer.as_bytes()).await.unwrap();
        })
        .await
    }

    async fn start(tls: Option<TlsAcceptor>, serve: Arc<dyn Fn(Connection) -> Served + Send + Sync>) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (tls, serve) = (tls.clone(), serve.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(Box::new(stream)).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(Box::new(stream)).await;
                            }
                        }
                    }
                });
            }
        });
        Receiver { port, connections, task }
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn http(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn https(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads a request's head, its empty line included.
pub async fn head(connection: &mut Connection) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match connection.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

/// A certificate with its key, in a directory of its own, and the authority that issued it.
pub struct Certificate {
    home: TempDir,
}

impl Certificate {
    /// Valid, issued by a studio's own authority.
    pub fn of_authority(name: &str) -> Certificate {
        Certificate::with(name, |_| {})
    }

    pub fn with(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "Studio Authority");
        let authority_key = KeyPair::generate().unwrap();
        let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
        Certificate::store(&authority_pem, &certificate.pem(), &key.serialize_pem())
    }

    pub fn self_signed(name: &str) -> Certificate {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        Certificate::store(&made.cert.pem(), &made.cert.pem(), &made.signing_key.serialize_pem())
    }

    fn store(authority: &str, certificate: &str, key: &str) -> Certificate {
        let home = TempDir::new().unwrap();
        for (name, text) in [("authority.pem", authority), ("certificate.pem", certificate), ("key.pem", key)] {
            std::fs::write(home.path().join(name), text).unwrap();
        }
        Certificate { home }
    }

    /// The authority's certificate, for `outbound.ca_certificates`.
    pub fn authority(&self) -> PathBuf {
        self.home.path().join("authority.pem")
    }

    pub fn acceptor(&self) -> TlsAcceptor {
        let certificate = CertificateDer::from_pem_file(self.home.path().join("certificate.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.home.path().join("key.pem")).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}
