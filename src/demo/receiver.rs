//! Stands for a studio's own endpoint: takes what custom deploy sends over HTTPS, and says what came.
//!
//! It reads multipart with a reader that the service does not use, so that the demo shows an agreement and no echo.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use md5::Md5;
use multer::{Constraints, Multipart, SizeLimit};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};

/// More than any demo artifact; a receiver has a limit.
const LARGEST_UPLOAD: u64 = 4 << 30;

/// One deploy that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The whole `Authorization` header.
    pub authorization: String,
    /// The request's content type, without its boundary.
    pub content_type: String,
    /// The parts in the order they came.
    pub parts: Vec<Part>,
    /// The part `metadata`, read as JSON.
    pub metadata: serde_json::Value,
}

/// One part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its file name, where it has one.
    pub file_name: Option<String>,
    /// Its content type.
    pub content_type: String,
    /// Bytes.
    pub size: u64,
    /// Lower-case hex.
    pub md5: String,
    /// Lower-case hex.
    pub sha256: String,
}

impl Received {
    /// The part of this name.
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }
}

/// The running receiver; ends when it is dropped.
pub struct Receiver {
    address: SocketAddr,
    received: mpsc::Receiver<Received>,
    _stop: DropGuard,
}

impl Receiver {
    /// Listens on a free port of loopback.
    pub async fn start(acceptor: TlsAcceptor) -> io::Result<Receiver> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (sender, received) = mpsc::channel(16);
        let stop = CancellationToken::new();
        tokio::spawn(accept(listener, acceptor, sender, stop.clone()));
        Ok(Receiver { address, received, _stop: stop.drop_guard() })
    }

    /// Where deploys go.
    pub fn url(&self) -> String {
        format!("https://{}/builds", self.address)
    }

    /// The next deploy.
    pub async fn next(&mut self) -> Option<Received> {
        self.received.recv().await
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, sender: mpsc::Sender<Received>, stop: CancellationToken) {
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let (acceptor, sender, stop) = (acceptor.clone(), Arc::new(sender.clone()), stop.clone());
        tokio::spawn(async move {
            let serve = async {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(|request| {
                    let sender = sender.clone();
                    async move { Ok::<_, Infallible>(answer(request, &sender).await) }
                });
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            };
            tokio::select! {
                () = serve => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

async fn answer(request: Request<Incoming>, sender: &mpsc::Sender<Received>) -> Response<Full<Bytes>> {
    let (status, text) = match receive(request).await {
        Ok(received) => match sender.try_send(received) {
            Ok(()) => (StatusCode::NO_CONTENT, String::new()),
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "nobody looks at what comes\n".to_owned()),
        },
        Err((status, text)) => (status, text),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

async fn receive(request: Request<Incoming>) -> Result<Received, (StatusCode, String)> {
    let bad = |text: String| (StatusCode::BAD_REQUEST, text);
    if request.method() != Method::POST || request.uri().path() != "/builds" {
        return Err((StatusCode::NOT_FOUND, "POST /builds is all there is\n".into()));
    }
    let text = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let (authorization, content_type) = (text(header::AUTHORIZATION), text(header::CONTENT_TYPE));
    let boundary = multer::parse_boundary(&content_type).map_err(|error| bad(format!("{error}\n")))?;
    let limits = Constraints::new().size_limit(SizeLimit::new().whole_stream(LARGEST_UPLOAD).for_field("metadata", 64 << 10));
    let mut multipart = Multipart::with_constraints(request.into_body().into_data_stream(), boundary, limits);
    let mut received = Received {
        authorization,
        content_type: content_type.split(';').next().unwrap_or_default().to_owned(),
        parts: Vec::new(),
        metadata: serde_json::Value::Null,
    };
    while let Some(mut field) = multipart.next_field().await.map_err(|error| bad(format!("{error}\n")))? {
        let mut part = Part {
            name: field.name().unwrap_or_default().to_owned(),
            file_name: field.file_name().map(str::to_owned),
            content_type: field.content_type().map(ToString::to_string).unwrap_or_default(),
            size: 0,
            md5: String::new(),
            sha256: String::new(),
        };
        let (mut md5, mut sha256, mut metadata) = (Md5::new(), Sha256::new(), Vec::new());
        while let Some(chunk) = field.chunk().await.map_err(|error| bad(format!("{error}\n")))? {
            part.size += chunk.len() as u64;
            md5.update(&chunk);
            sha256.update(&chunk);
            if part.name == "metadata" {
                metadata.extend_from_slice(&chunk);
            }
        }
        (part.md5, part.sha256) = (hex(&md5.finalize()), hex(&sha256.finalize()));
        if part.name == "metadata" {
            received.metadata = serde_json::from_slice(&metadata).map_err(|error| bad(format!("metadata is no JSON: {error}\n")))?;
        }
        received.parts.push(part);
    }
    Ok(received)
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
