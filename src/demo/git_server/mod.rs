//! A small git host for studios that have none at hand: the demo's source, and the other side of the tests.
//!
//! Bare repositories below one directory, `<owner>/<name>.git`, served by git's own `http-backend` over smart HTTP; the
//! REST endpoints that source-control plugins read, in the shapes that GitHub (`/api/v3`) and Gitea (`/api/v1`) publish, answered
//! from those repositories; and the Git LFS batch API. Read-only, one token for everything, loopback.

mod answer;
mod apps;
mod graphql;
mod large_files;
mod repositories;
mod rest;
mod rest_shapes;
mod smart_http;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use answer::{Answer, message};
pub use apps::App;
pub use repositories::{Commit, Repositories};

/// Requests that are remembered.
const REMEMBERED: usize = 10_000;

/// What a git server needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Holds `<owner>/<name>.git`.
    pub directory: PathBuf,
    /// Opens everything, as a bearer token or as the password of any user.
    pub token: String,
    /// Whose the token is.
    pub account: String,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Entries of a recursive tree before it is cut short; GitHub cuts at 100,000.
    pub tree_limit: usize,
    /// Speaks git's protocol of before 2018, in which a commit can be fetched by its branch only.
    pub is_old: bool,
    /// Its address as clients see it (`https://host:port`), where something stands in front of it and speaks TLS.
    pub base: Option<String>,
    /// An app whose installations' tokens open their repositories, in the shape of `/api/v3`.
    pub app: Option<App>,
    /// Answers GraphQL, beside `/api/v3`.
    pub speaks_graphql: bool,
    /// The most of a list that `/api/v3` gives at once, however much is asked for.
    pub largest_page: usize,
}

impl Settings {
    /// A server on a free port of the loopback address.
    pub fn new(directory: impl Into<PathBuf>, token: impl Into<String>) -> Self {
        Settings {
            directory: directory.into(),
            token: token.into(),
            account: "studio".to_owned(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tree_limit: 100_000,
            is_old: false,
            base: None,
            app: None,
            speaks_graphql: true,
            largest_page: 100,
        }
    }
}

/// A running git server. It ends when this is dropped.
#[derive(Debug)]
pub struct GitServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

/// Why API requests are refused, and in how many seconds they are welcome again.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    /// Too many at once.
    Pace(u64),
    /// The hour's share is used up.
    Spent(u64),
}

impl Refusal {
    fn answer(self) -> Answer {
        let number = |seconds: u64| hyper::header::HeaderValue::from(seconds);
        let (mut refusal, remaining, reset) = match self {
            Refusal::Pace(seconds) => {
                let text = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
                let mut refusal = message(StatusCode::FORBIDDEN, text);
                refusal.headers_mut().insert(RETRY_AFTER, number(seconds));
                (refusal, 4000, 3600)
            }
            Refusal::Spent(seconds) => (message(StatusCode::FORBIDDEN, "API rate limit exceeded for installation ID 42."), 0, seconds),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        for (name, value) in [
            ("x-ratelimit-limit", 5000),
            ("x-ratelimit-remaining", remaining),
            ("x-ratelimit-used", 5000 - remaining),
            ("x-ratelimit-reset", now + reset),
        ] {
            refusal.headers_mut().insert(name, number(value));
        }
        refusal
    }
}

/// What the server was told to refuse.
#[derive(Debug, Default)]
struct Limits {
    /// API requests to come, and why.
    refused: Option<(usize, Refusal)>,
    /// Every bought token is taken back after the next answer to a path that ends like this.
    revoke_after: Option<String>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    base: String,
    repositories: Repositories,
    listed: rest::Listed,
    tokens: apps::Tokens,
    requests: Mutex<VecDeque<String>>,
    limits: Mutex<Limits>,
    bytes: Arc<AtomicU64>,
}

impl GitServer {
    /// Listens and serves until dropped.
    pub async fn start(settings: Settings) -> io::Result<Self> {
        let listener = TcpListener::bind(settings.listen).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            base: settings.base.clone().unwrap_or_else(|| format!("http://{address}")),
            repositories: Repositories::new(&settings.directory),
            settings,
            listed: rest::Listed::default(),
            tokens: apps::Tokens::default(),
            requests: Mutex::default(),
            limits: Mutex::default(),
            bytes: Arc::default(),
        });
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(accept(listener, shared.clone())));
        Ok(GitServer { address, shared, stop })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `gitBaseUrl`: clone addresses are `<this>/<owner>/<name>.git`.
    pub fn git_base_url(&self) -> String {
        self.shared.base.clone()
    }

    /// `apiBaseUrl` in GitHub's shape.
    pub fn api_base_url(&self) -> String {
        format!("{}/api/v3", self.shared.base)
    }

    /// `apiBaseUrl` in Gitea's shape.
    pub fn second_api_base_url(&self) -> String {
        format!("{}/api/v1", self.shared.base)
    }

    /// The repositories it serves.
    pub fn repositories(&self) -> &Repositories {
        &self.shared.repositories
    }

    /// `METHOD path?query` of the requests so far, oldest first; of very many the newest.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Takes back every token that the app bought.
    pub fn revoke_tokens(&self) {
        self.shared.tokens.revoke();
    }

    /// Takes back every token that the app bought, once the next request whose path ends like this was answered.
    pub fn revoke_tokens_after(&self, path: &str) {
        self.shared.limits().revoke_after = Some(path.to_owned());
    }

    /// Refuses the next API requests, as GitHub does with too many at once: come back in so many seconds.
    pub fn limit(&self, requests: usize, seconds: u64) {
        self.shared.limits().refused = Some((requests, Refusal::Pace(seconds)));
    }

    /// Refuses the next API requests, as GitHub does when the hour's share is used up: the next begins in so many seconds.
    pub fn exhaust(&self, requests: usize, seconds: u64) {
        self.shared.limits().refused = Some((requests, Refusal::Spent(seconds)));
    }

    /// Suspends an installation of the app, or lets it go on.
    pub fn suspend(&self, installation: u64, is_suspended: bool) {
        self.shared.tokens.suspend(installation, is_suspended);
    }

    /// Every token that the app ever bought.
    pub fn issued_tokens(&self) -> Vec<String> {
        self.shared.tokens.ever_issued()
    }

    /// Bytes of packs and large files that were sent.
    pub fn bytes_sent(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Connections end with this future: they live in its set.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // Out of descriptors, or the client is gone already: the next one may do better.
                let Ok((socket, _)) = accepted else {
                    tokio::task::yield_now().await;
                    continue;
                };
                let shared = shared.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let shared = shared.clone();
                        async move { Ok::<_, std::convert::Infallible>(shared.answer(request).await) }
                    });
                    // A connection that breaks off concerns its client alone.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .timer(TokioTimer::new())
                        .serve_connection(TokioIo::new(socket), service)
                        .await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

impl Shared {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            if requests.len() == REMEMBERED {
                requests.pop_front();
            }
            requests.push_back(format!("{} {}", request.method(), request.uri()));
        }
        let path = request.uri().path().to_owned();
        let answer = self.answer_to(&path, request).await;
        let mut limits = self.limits();
        if limits.revoke_after.as_ref().is_some_and(|end| path.ends_with(end)) {
            limits.revoke_after = None;
            self.tokens.revoke();
        }
        answer
    }

    async fn answer_to(&self, path: &str, request: Request<Incoming>) -> Answer {
        if let Some(key) = large_files::key_of(&request) {
            return large_files::object(self, path, key).await;
        }
        if let Some(refusal) = path.starts_with("/api/").then(|| self.refused()).flatten() {
            return refusal.answer();
        }
        if apps::is_app_path(path) {
            return apps::answer(self, request).await;
        }
        if path == graphql::PATH {
            return graphql::answer(self, request).await;
        }
        let subject = self.repositories.subject(path).await;
        if !self.is_authorized(request.headers(), subject.as_deref(), path) {
            // A good token of something else: this is not there, as far as it is told.
            if self.is_known(request.headers()) {
                return message(StatusCode::NOT_FOUND, "Not Found");
            }
            let mut refusal = message(StatusCode::UNAUTHORIZED, "Bad credentials");
            refusal.headers_mut().insert(WWW_AUTHENTICATE, hyper::header::HeaderValue::from_static("Basic realm=\"git\""));
            return refusal;
        }
        if path.starts_with("/api/") {
            return rest::answer(self, &request).await;
        }
        match large_files::batch_repository(path) {
            Some(_) => large_files::batch(self, request).await,
            None => smart_http::answer(self, request).await,
        }
    }

    fn limits(&self) -> std::sync::MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why this request is not welcome, if it is not.
    fn refused(&self) -> Option<Refusal> {
        let mut limits = self.limits();
        let (left, refusal) = limits.refused?;
        limits.refused = (left > 1).then(|| (left - 1, refusal));
        (left > 0).then_some(refusal)
    }

    /// Whether the request's credentials open a path, which is about a repository or about none.
    fn is_authorized(&self, headers: &HeaderMap, repository: Option<&str>, path: &str) -> bool {
        let repository = repository.map(|name| (name, self.repositories.number(name)));
        self.has_token(headers, |token| self.tokens.opens(token, repository, path))
    }

    /// Whether the request's credentials are good for anything.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        self.has_token(headers, |token| self.tokens.knows(token))
    }

    fn has_token(&self, headers: &HeaderMap, is_bought: impl Fn(&str) -> bool) -> bool {
        let Some((scheme, value)) =
            headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| value.split_once(' '))
        else {
            return false;
        };
        let is_bought = |candidate: &[u8]| std::str::from_utf8(candidate).is_ok_and(&is_bought);
        let is_token = |candidate: &[u8]| bool::from(candidate.ct_eq(self.settings.token.as_bytes())) || is_bought(candidate);
        if scheme.eq_ignore_ascii_case("basic") {
            let Ok(pair) = BASE64_STANDARD.decode(value.trim()) else { return false };
            let password = pair.iter().position(|byte| *byte == b':').map(|at| &pair[at + 1..]);
            return password.is_some_and(is_token);
        }
        (scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token")) && is_token(value.trim().as_bytes())
    }
}
