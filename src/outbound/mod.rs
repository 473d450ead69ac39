//! The one HTTP client: every request that the service sends goes through here, and nothing else names the client's
//! library. What is no HTTP connects through here too ([`Outbound::connect`]).
//!
//! A name is resolved once, every address is checked, and only checked ones are connected to. No redirect is followed,
//! no proxy used but the configured one, no cookie kept, nothing unpacked, no connection used twice.

mod address;
mod error;
mod message;
mod progress;
mod resolve;
mod stream;
mod trust;

use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use address::Policy;
pub use error::{OutboundError, OutboundErrorKind};
pub use message::{OutboundBody, OutboundRequest, OutboundResponse};
use progress::{Progress, Sending, Sent};
pub use resolve::Lookup;
use resolve::{CheckedResolver, ResolveError};
pub use stream::OutboundStream;

/// How long a connection, its TLS handshake included, may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer ones are nobody's address.
const LONGEST_URL: usize = 8 * 1024;

/// Bytes of a request's body as they become known.
pub type BodyStream = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// What an administrator decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// This machine itself may be called.
    pub allow_loopback: bool,
    /// Files with certificates (PEM) of authorities that are trusted besides the machine's own.
    pub ca_certificates: Vec<PathBuf>,
    /// `http://host:port` of the proxy for everything outside the local network.
    pub proxy: Option<String>,
}

/// Why the client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A file of `outbound.ca_certificates`.
    #[error("outbound.ca_certificates: {}: {reason}", .path.display())]
    Certificates {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// `outbound.proxy`.
    #[error("outbound.proxy: {0}")]
    Proxy(String),
    /// The library refused.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

/// The client. A handle: clones share everything.
#[derive(Clone)]
pub struct Outbound {
    inner: Arc<Inner>,
}

struct Inner {
    allow_loopback: bool,
    lookup: Lookup,
    /// For https, and for http: the second knows only private addresses.
    encrypted: reqwest::Client,
    plain: reqwest::Client,
    through_proxy: Option<reqwest::Client>,
    /// For what is no HTTP.
    tls: Arc<rustls::ClientConfig>,
}

/// A URL that could be called, as far as can be told without asking for addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedUrl {
    /// In its normal form.
    pub url: String,
    /// `scheme://host:port`, in its normal form: what a secret may be bound to.
    pub origin: String,
    /// Not encrypted: it is sent to private addresses only.
    pub is_plain: bool,
}

/// How a host is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// At one of these addresses. They were checked; others of the same name were not.
    Direct(Vec<IpAddr>),
    /// By the configured proxy, which knows the name.
    Proxy,
}

impl Outbound {
    /// Loads certificates and makes the clients.
    ///
    /// # Errors
    /// A sentence that names the setting.
    pub fn new(settings: &Settings) -> Result<Outbound, SetupError> {
        Outbound::with_lookup(settings, resolve::system_lookup())
    }

    /// The same, with another way from names to addresses than the operating system's: for tests of names whose
    /// addresses change.
    ///
    /// # Errors
    /// As [`Outbound::new`].
    pub fn with_lookup(settings: &Settings, lookup: Lookup) -> Result<Outbound, SetupError> {
        let tls = trust::client_config(&settings.ca_certificates)?;
        let mut for_streams = tls.clone();
        for_streams.alpn_protocols.clear();
        let allow_loopback = settings.allow_loopback;
        let client = |policy: Option<Policy>, proxy: Option<reqwest::Proxy>| {
            let builder = reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .http1_only()
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .referer(false)
                .no_proxy()
                .pool_max_idle_per_host(0)
                .connect_timeout(CONNECT_TIMEOUT)
                .user_agent(concat!("Cookhouse/", env!("CARGO_PKG_VERSION")))
                .dns_resolver(CheckedResolver { policy, lookup: lookup.clone() });
            let builder = match proxy {
                Some(proxy) => builder.proxy(proxy),
                None => builder,
            };
            builder.build().map_err(|error| SetupError::Client(error.to_string()))
        };
        let through_proxy = match settings.proxy.as_deref().filter(|proxy| !proxy.is_empty()) {
            Some(proxy) => {
                let proxy = reqwest::Proxy::all(proxy).map_err(|_| SetupError::Proxy("give it as http://host:port".to_owned()))?;
                Some(client(None, Some(proxy))?)
            }
            None => None,
        };
        Ok(Outbound {
            inner: Arc::new(Inner {
                allow_loopback,
                encrypted: client(Some(Policy { allow_loopback, only_private: false }), None)?,
                plain: client(Some(Policy { allow_loopback, only_private: true }), None)?,
                through_proxy,
                lookup,
                tls: Arc::new(for_streams),
            }),
        })
    }

    /// Looks at a URL before anything is sent there, or stored: its form, and its host if that is an address.
    ///
    /// # Errors
    /// `InvalidUrl`, `AddressDenied`.
    pub fn check_url(&self, url: &str) -> Result<CheckedUrl, OutboundError> {
        let parsed = parse_url(url)?;
        if let Some(address) = resolve::literal(parsed.host_str().unwrap_or_default()) {
            let host = address.to_string();
            let denied = |reason| OutboundError::from(&ResolveError::Denied { host, address, reason });
            self.policy(&parsed).check(address).map_err(denied)?;
        }
        let is_plain = parsed.scheme() == "http";
        let origin = format!("{}://{}", parsed.scheme(), place(&parsed));
        Ok(CheckedUrl { origin, is_plain, url: parsed.into() })
    }

    fn policy(&self, url: &reqwest::Url) -> Policy {
        Policy { allow_loopback: self.inner.allow_loopback, only_private: url.scheme() == "http" }
    }

    /// Sends a request and waits for the head of its answer, whatever its status is. A receiver that answers in the
    /// middle of an upload is heard; one that answers 2xx early still gets the whole body before this returns.
    ///
    /// # Errors
    /// See [`OutboundErrorKind`]. Nothing is sent a second time.
    pub async fn send(&self, request: OutboundRequest) -> Result<OutboundResponse, OutboundError> {
        let url = parse_url(&request.url)?;
        let place = place(&url);
        self.check_url(&request.url)?;
        let method = reqwest::Method::from_bytes(request.method.as_bytes())
            .ok()
            .filter(|method| *method != reqwest::Method::CONNECT)
            .ok_or_else(|| OutboundError::new(OutboundErrorKind::InvalidRequest, "the method cannot be sent"))?;
        let mut headers = checked_headers(&request.headers)?;
        let progress = Progress::new(request.idle_timeout, request.total_timeout);
        let client = self.client_for(&url, &progress).await?;
        let body = match request.body {
            OutboundBody::Empty => {
                progress.set(Sending::Done);
                None
            }
            OutboundBody::Bytes(bytes) => {
                let length = u64::try_from(bytes.len()).ok();
                Some((Box::pin(futures_util::stream::iter([Ok(bytes)])) as BodyStream, length))
            }
            OutboundBody::Stream { stream, length } => Some((stream, length)),
        };
        let mut builder = client.request(method, url);
        if let Some((stream, length)) = body {
            if let Some(length) = length {
                headers.insert(reqwest::header::CONTENT_LENGTH, HeaderValue::from(length));
            }
            builder = builder.body(reqwest::Body::wrap_stream(Sent::new(stream, length, progress.clone())));
        }
        let stalled = |_| stalled(&place);
        let sent = progress.watch(builder.headers(headers).send()).await.map_err(stalled)?;
        let response = sent.map_err(|error| error::classify(&error, &place))?;
        progress.moved();
        // The rest of an upload goes on in the background; a success counts only when all of it was taken.
        if response.status().is_success() && progress.watch(progress.sent()).await.map_err(stalled)? == Sending::Broken {
            return Err(OutboundError::new(
                OutboundErrorKind::Reset,
                format!("{place} said yes in the middle of the upload and broke the connection off"),
            ));
        }
        Ok(OutboundResponse::new(response, place, progress))
    }

    /// Resolves and checks the host of a URL, for a tool that makes its own connections. Nothing is promised about a
    /// tool that resolves the name again.
    ///
    /// # Errors
    /// `InvalidUrl`, `Dns`, `AddressDenied`, `Timeout`.
    pub async fn route(&self, url: &str) -> Result<Route, OutboundError> {
        self.check_url(url)?;
        let url = parse_url(url)?;
        let host = url.host_str().unwrap_or_default();
        let policy = self.policy(&url);
        let find = async {
            if self.inner.through_proxy.is_some() && self.is_outside(host, policy).await? {
                return Ok(Route::Proxy);
            }
            let addresses = resolve::resolve(host, policy, &self.inner.lookup).await.map_err(|error| OutboundError::from(&error))?;
            Ok(Route::Direct(addresses))
        };
        tokio::time::timeout(CONNECT_TIMEOUT, find).await.unwrap_or_else(|_| Err(stalled(host)))
    }

    /// The same for a protocol that no proxy of ours speaks: the addresses of the host, wherever it is.
    ///
    /// # Errors
    /// As [`Outbound::route`].
    pub async fn addresses(&self, url: &str) -> Result<Vec<std::net::IpAddr>, OutboundError> {
        self.check_url(url)?;
        let url = parse_url(url)?;
        let host = url.host_str().unwrap_or_default();
        let found = tokio::time::timeout(CONNECT_TIMEOUT, resolve::resolve(host, self.policy(&url), &self.inner.lookup)).await;
        found.map_err(|_| stalled(host))?.map_err(|error| OutboundError::from(&error))
    }

    async fn client_for(&self, url: &reqwest::Url, progress: &Progress) -> Result<&reqwest::Client, OutboundError> {
        let policy = self.policy(url);
        if let Some(proxy) = &self.inner.through_proxy {
            let host = url.host_str().unwrap_or_default();
            if progress.watch(self.is_outside(host, policy)).await.map_err(|_| stalled(host))?? {
                return Ok(proxy);
            }
        }
        Ok(if policy.only_private { &self.inner.plain } else { &self.inner.encrypted })
    }

    /// Whether the way to a host is the proxy's. On the local network a proxy for the internet is not the way.
    async fn is_outside(&self, host: &str, policy: Policy) -> Result<bool, OutboundError> {
        let local = Policy { only_private: true, ..policy };
        match resolve::resolve(host, local, &self.inner.lookup).await {
            Ok(_) => Ok(false),
            // Names of the outside may be known to the proxy alone.
            Err(ResolveError::Unknown(_)) => Ok(true),
            Err(ResolveError::Denied { reason: address::Forbidden::NotPrivate, .. }) if !policy.only_private => Ok(true),
            Err(error) => Err((&error).into()),
        }
    }
}

fn stalled(place: &str) -> OutboundError {
    OutboundError::new(OutboundErrorKind::Timeout, format!("{place} stopped answering"))
}

fn place(url: &reqwest::Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default())
}

fn parse_url(text: &str) -> Result<reqwest::Url, OutboundError> {
    let invalid = |message: &str| OutboundError::new(OutboundErrorKind::InvalidUrl, message);
    // The parser would quietly drop these.
    if text.len() > LONGEST_URL || text.chars().any(|character| character.is_control() || character.is_whitespace()) {
        return Err(invalid("the URL is too long or holds spaces or control characters"));
    }
    let url = reqwest::Url::parse(text).map_err(|error| invalid(&format!("not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("the URL has to begin with https:// (or, inside the local network, http://)"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("the URL must not hold a user name or password"));
    }
    if url.port() == Some(0) || url.host_str().is_none_or(str::is_empty) {
        return Err(invalid("the URL names no host and port that could be called"));
    }
    Ok(url)
}

/// Headers about the connection and the length are the client's own: with them one could smuggle a second request.
fn checked_headers(headers: &[(String, String)]) -> Result<HeaderMap, OutboundError> {
    const OURS: &[&str] = &[
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "proxy-connection",
        "proxy-authorization",
        "http2-settings",
    ];
    let invalid = |name: &str| OutboundError::new(OutboundErrorKind::InvalidRequest, format!("the header {name:?} cannot be sent"));
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid(name))?;
        if OURS.contains(&parsed.as_str()) {
            return Err(invalid(name));
        }
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid(name))?;
        // Any of them may hold a credential; this keeps the library from showing it.
        value.set_sensitive(true);
        map.append(parsed, value);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn outbound(allow_loopback: bool) -> Outbound {
        Outbound::new(&Settings { allow_loopback, ..Settings::default() }).unwrap()
    }

    #[test]
    fn urls_are_checked_in_every_spelling() {
        use OutboundErrorKind::{AddressDenied, InvalidUrl};
        let outbound = outbound(false);
        let kind_of = |url: &str| outbound.check_url(url).err().map(|error| error.kind);
        for url in ["https://uploads.example/x?y=1", "https://10.0.0.7:8443/", "http://10.0.0.7/", "https://[fd00::7]/", "http://nas.lan/"]
        {
            assert_eq!(kind_of(url), None, "{url}");
        }
        for url in [
            "",
            "uploads.example",
            "/x",
            "ftp://a.example/",
            "file:///etc/passwd",
            "https://",
            "https://user@a.example/",
            "https://u:p@a.example/",
            "https://a.example:0/",
            "https://a.example:70000/",
            "https://a b.example/",
            "https://a.example/\n",
            "\thttps://a.example/",
            "https://[::1",
            "javascript:alert(1)",
            "https://256.256.256.256/",
            "https://@/",
        ] {
            assert_eq!(kind_of(url), Some(InvalidUrl), "{url:?}");
        }
        assert_eq!(kind_of(&format!("https://a.example/{}", "x".repeat(9000))), Some(InvalidUrl));
        for url in [
            "https://127.0.0.1/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f000001/",
            "https://0177.0.0.1/",
            "https://0x7f.1/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[::ffff:7f00:1]/",
            "https://169.254.169.254/latest/meta-data",
            "https://2852039166/",
            "https://0251.0376.0251.0376/",
            "https://[64:ff9b::a9fe:a9fe]/",
            "https://[fd00:ec2::254]/",
            "https://0/",
            "https://127.0.0.1./",
            "https://\u{ff11}27.0.0.1/",
            "https:127.0.0.1/",
            "http://8.8.8.8/",
        ] {
            assert_eq!(kind_of(url), Some(AddressDenied), "{url}");
        }
    }

    #[test]
    fn loopback_is_for_the_administrator_to_allow_and_metadata_is_not() {
        assert!(outbound(true).check_url("http://127.0.0.1:8080/").is_ok());
        assert!(outbound(true).check_url("http://169.254.169.254/").is_err());
    }

    #[test]
    fn an_origin_is_the_same_in_every_spelling() {
        let outbound = outbound(false);
        let origin = |url: &str| outbound.check_url(url).unwrap().origin;
        assert_eq!(origin("https://Uploads.Example/x?y"), "https://uploads.example:443");
        assert_eq!(origin("https://uploads.example:443"), "https://uploads.example:443");
        assert_ne!(origin("https://uploads.example:8443"), origin("https://uploads.example"));
        assert_eq!(origin("https://b\u{fc}cher.example"), "https://xn--bcher-kva.example:443");
    }

    #[test]
    fn headers_and_methods_that_could_smuggle_are_refused() {
        let outbound = outbound(false);
        let refused = |method: &str, name: &str, value: &str| {
            let mut request = OutboundRequest::new(method, "https://missing.invalid/");
            request.headers.push((name.to_owned(), value.to_owned()));
            // Refused before anything is waited for.
            outbound.send(request).now_or_never().and_then(Result::err).map(|error| error.kind)
        };
        let invalid = Some(OutboundErrorKind::InvalidRequest);
        for name in ["Host", "content-length", "Transfer-Encoding", "connection", "Expect", "TE", "upgrade", "a b", "a\r\nb", "", "\u{e4}"]
        {
            assert_eq!(refused("GET", name, "x"), invalid, "{name:?}");
        }
        for value in ["a\r\nb: c", "a\nb", "a\0", "\u{7f}"] {
            assert_eq!(refused("GET", "authorization", value), invalid, "{value:?}");
        }
        for method in ["", "GET /", "CONNECT", "G\r\n"] {
            assert_eq!(refused(method, "accept", "x"), invalid, "{method:?}");
        }
    }

    #[test]
    fn wrong_settings_are_named() {
        let home = tempfile::tempdir().unwrap();
        let empty = home.path().join("empty.pem");
        std::fs::write(&empty, "no certificate").unwrap();
        for path in [empty, home.path().join("missing.pem")] {
            let settings = Settings { ca_certificates: vec![path], ..Settings::default() };
            assert!(Outbound::new(&settings).err().unwrap().to_string().starts_with("outbound.ca_certificates: "));
        }
        let settings = Settings { proxy: Some("not a proxy".to_owned()), ..Settings::default() };
        assert!(Outbound::new(&settings).err().unwrap().to_string().starts_with("outbound.proxy: "));
    }

    #[test]
    fn secrets_of_a_request_are_not_shown() {
        let mut request = OutboundRequest::new("POST", "https://a.example/x?token=hunter2");
        request.headers.push(("authorization".to_owned(), "Bearer hunter2".to_owned()));
        assert!(!format!("{request:?}").contains("hunter2"));
    }

    async fn fails(lookup: Lookup, url: &str) -> OutboundError {
        let outbound = Outbound::with_lookup(&Settings::default(), lookup).unwrap();
        outbound.send(OutboundRequest::new("GET", url)).await.unwrap_err()
    }

    #[tokio::test]
    async fn a_name_that_leads_to_a_forbidden_address_is_denied() {
        for url in ["https://rebound.example/", "http://rebound.example/", "https://localhost/"] {
            let lookup: Lookup = Arc::new(|_| async { Ok(vec![[127, 0, 0, 1].into(), [169, 254, 169, 254].into()]) }.boxed());
            let error = fails(lookup, url).await;
            assert_eq!(error.kind, OutboundErrorKind::AddressDenied, "{error}");
        }
        let lookup: Lookup = Arc::new(|_| async { Ok(vec![[8, 8, 8, 8].into()]) }.boxed());
        let error = fails(lookup, "http://public.example/").await;
        assert_eq!(error.kind, OutboundErrorKind::AddressDenied, "{error}");
        assert!(error.message.contains("use https"), "{error}");
        let lookup: Lookup = Arc::new(|_| async { Err(std::io::Error::other("no such name")) }.boxed());
        assert_eq!(fails(lookup, "https://missing.example/").await.kind, OutboundErrorKind::Dns);
    }
}
