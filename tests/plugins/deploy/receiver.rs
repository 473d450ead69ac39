//! A receiver of the studio behind TLS, with a reader of multipart bodies that is not ours.

use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// What came in.
#[derive(Default)]
pub(super) struct Received {
    line: String,
    authorization: Vec<String>,
    content_length: u64,
    /// Name, file name, content type, bytes.
    parts: Vec<(String, Option<String>, String, u64)>,
    metadata: Value,
    /// The first byte in which the artifact is not the file.
    difference: Option<u64>,
}

impl Received {
    /// Exactly what the specification says, nothing more.
    pub(super) fn assert_is(&self, size: u64) {
        assert_eq!(self.line, "POST /upload?to=here");
        assert_eq!(self.authorization, [super::AUTHORIZATION]);
        let metadata = self.metadata.to_string().len() as u64;
        assert_eq!(
            self.parts,
            [
                ("metadata".to_owned(), None, "application/json".to_owned(), metadata),
                ("artifact".to_owned(), Some("01build.tar.gz".to_owned()), "application/gzip".to_owned(), size)
            ]
        );
        let wanted = json!({
            "buildId": "01build", "projectId": "01project", "platform": "Win64", "buildType": "Development", "ueVersion": "5.4", "branch": "main",
            "commit": "0123abc"
        });
        assert_eq!(self.metadata, wanted);
        assert_eq!(self.difference, None);
        assert!(self.content_length > size + metadata && self.content_length < size + metadata + 1000, "{}", self.content_length);
    }
}

/// Takes one request, and compares its artifact with the file as it comes.
pub(super) async fn start(acceptor: TlsAcceptor, artifact: PathBuf) -> (String, JoinHandle<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/upload?to=here", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = acceptor.accept(stream).await.unwrap();
        let received = Arc::new(Mutex::new(Received::default()));
        let service = hyper::service::service_fn(|request| {
            let (received, artifact) = (received.clone(), artifact.clone());
            async move {
                *received.lock().unwrap() = read(request, artifact).await;
                Ok::<_, std::convert::Infallible>(Response::builder().status(204).body(Empty::<Bytes>::new()).unwrap())
            }
        });
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        std::mem::take(&mut *received.lock().unwrap())
    });
    (url, task)
}

async fn read(request: Request<Incoming>, artifact: PathBuf) -> Received {
    let file = std::fs::File::open(artifact).unwrap();
    let header = |name: &str| request.headers().get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>();
    let [kind] = header("content-type").try_into().unwrap();
    let [length] = <[String; 1]>::try_from(header("content-length")).unwrap();
    let mut received = Received {
        line: format!("{} {}", request.method(), request.uri()),
        authorization: header("authorization"),
        content_length: length.parse().unwrap(),
        ..Received::default()
    };
    let mut parts = multer::Multipart::new(request.into_body().into_data_stream(), multer::parse_boundary(kind).unwrap());
    let mut beside = Vec::new();
    while let Some(mut field) = parts.next_field().await.unwrap() {
        let name = field.name().unwrap().to_owned();
        let (mut size, mut text) = (0u64, Vec::new());
        while let Some(chunk) = field.chunk().await.unwrap() {
            if name == "metadata" {
                text.extend_from_slice(&chunk);
            } else {
                beside.resize(chunk.len(), 0);
                let is_whole = file.read_exact_at(&mut beside, size).is_ok();
                if !(is_whole && beside == chunk) {
                    received.difference.get_or_insert(size);
                }
            }
            size += chunk.len() as u64;
        }
        if name == "metadata" {
            received.metadata = serde_json::from_slice(&text).unwrap();
        }
        let content_type = field.content_type().map(ToString::to_string).unwrap_or_default();
        received.parts.push((name, field.file_name().map(str::to_owned), content_type, size));
    }
    received
}
