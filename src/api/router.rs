//! How a request travels: find the row, identify, authorize, read, run, answer. Each step exists here and only here.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Version};
use percent_encoding::percent_decode_str;

use super::activity::Activity;
use super::auth;
use super::compress;
use super::endpoint::{self, Access, Body, Deprecation, Head, Produces, RawCall, Route};
use super::error::{ApiError, Problem, Result};
use super::link::Link;
use super::openapi;
use super::query::Pairs;
use super::rate_limits::{self, Counted, RateLimiter, Standing};
use super::refusals::Refusals;
use crate::app::App;
use crate::model::Timestamp;
use crate::model::network::Network;
use crate::model::permission::Permission;
use crate::model::validation::InvalidCode;
use crate::store::audit::{self, Origin};

/// More headers than any client of ours sends; hyper's own bounds lie above, so that these get the envelope.
const MAXIMUM_HEADERS: usize = 96;
/// Bytes of all names and values.
const MAXIMUM_HEADER_BYTES: usize = 32 * 1024;
/// Bytes of a path with its query.
const MAXIMUM_TARGET: usize = 8 * 1024;
const FORWARDED_FOR: &str = "x-forwarded-for";

/// What a connection adds to its requests.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The other end.
    pub peer: IpAddr,
    /// Over TLS.
    pub is_tls: bool,
    /// Told when the connection waits for its client and when for us.
    pub activity: Arc<Activity>,
    /// For answers that outlive the request.
    pub link: Link,
}

/// Finds rows and runs them.
pub struct Router {
    app: Arc<App>,
    limiter: RateLimiter,
    paths: matchit::Router<BTreeMap<&'static str, Route>>,
    refusals: Refusals,
}

impl Router {
    /// Over these rows. An error names a row that contradicts another.
    pub fn new(app: Arc<App>, routes: Vec<Route>) -> std::result::Result<Self, matchit::InsertError> {
        let mut rows: BTreeMap<&'static str, BTreeMap<&'static str, Route>> = BTreeMap::new();
        for route in routes {
            let method = name_of(&route.method);
            rows.entry(route.path).or_default().insert(method, route);
        }
        let mut paths = matchit::Router::new();
        for (path, methods) in rows {
            paths.insert(path, methods)?;
        }
        let limiter = RateLimiter::new(app.settings.rate_limits.clone());
        Ok(Router { app, limiter, paths, refusals: Refusals::default() })
    }

    /// Answers one request. Never fails: what goes wrong is an answer too.
    pub async fn answer(&self, request: Request<Incoming>, connection: Connection) -> Response<Body> {
        let started = Instant::now();
        let request_id = request_id(request.headers()).unwrap_or_else(|| self.new_request_id());
        // A body in chunks could be framed differently by a proxy in front (request smuggling): nothing that follows it on
        // the connection is read as a request.
        let ends_connection = request.headers().contains_key(header::TRANSFER_ENCODING);
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let is_get = auth::is_safe(&method);
        let takes_gzip = compress::takes_gzip(request.headers());
        let client = Client::of(&connection, request.headers(), &self.app.settings.trusted_proxies);
        let mut trace = Trace::default();
        connection.activity.works();
        let mut result = self.run(request, &connection, client, request_id.clone(), &mut trace).await;
        if !trace.is_counted {
            // Nobody knows who asks.
            trace.standings = self.limiter.address(client.address, Counted::Requests);
            if let Err(refusal) = rate_limits::check(&trace.standings) {
                result = Err(refusal);
            }
        }
        let is_body_unread = matches!(&result, Err(error) if matches!(error.problem, Problem::PayloadTooLarge | Problem::RequestTimeout | Problem::HeadersTooLarge));
        let mut response = result.unwrap_or_else(|error| {
            note(&error, &request_id);
            error.into_response(&request_id)
        });
        if is_get {
            response = compress::compress(response, takes_gzip).await.unwrap_or_else(|error| {
                note(&error, &request_id);
                error.into_response(&request_id)
            });
        }
        if !trace.is_stream || !response.status().is_success() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            connection.activity.waits();
        }
        finish(response.headers_mut(), &request_id);
        rate_limits::tell(response.headers_mut(), &trace.standings);
        if let Some(deprecation) = trace.deprecation {
            deprecate(response.headers_mut(), &deprecation);
        }
        if ends_connection || is_body_unread {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        self.app.traffic.note(trace.operation.unwrap_or("none"), response.status().as_u16(), started.elapsed());
        // The query is left out: it may hold a signature.
        tracing::info!(
            target: "cookhouse::access",
            request_id,
            %method,
            path = shown(&path),
            operation = trace.operation.unwrap_or("-"),
            caller = trace.caller.as_deref().unwrap_or("-"),
            peer = %client.address,
            status = response.status().as_u16(),
            milliseconds = (started.elapsed().as_secs_f64() * 10_000.0).round() / 10.0,
            "{} {} {}", method, shown(&path), response.status().as_u16(),
        );
        response
    }

    pub(super) fn new_request_id(&self) -> String {
        self.app.clock.new_id::<()>().to_string()
    }

    /// The time for the header `Date`.
    pub(super) fn date(&self) -> String {
        http_date(self.app.clock.now())
    }

    /// Counts and logs an answer to a head that nobody could read.
    pub(super) fn note_unread(&self, status: StatusCode, request_id: &str, connection: &Connection) {
        self.app.traffic.note("none", status.as_u16(), std::time::Duration::ZERO);
        let (peer, status) = (connection.peer, status.as_u16());
        tracing::info!(target: "cookhouse::access", request_id, %peer, status, "a head that cannot be read {status}");
    }

    async fn run(
        &self,
        request: Request<Incoming>,
        connection: &Connection,
        client: Client,
        request_id: String,
        trace: &mut Trace,
    ) -> Result<Response<Body>> {
        check_size(&request)?;
        let (mut parts, body) = request.into_parts();
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let host = check_host(parts.version, &parts.headers)?;
        let path = parts.uri.path().to_owned();
        let (base_url, is_secure) = self.base_url(host, connection.is_tls);
        let Client { address: peer, is_local } = client;
        let link = connection.link.clone();
        let head =
            Head { method: parts.method, path, headers: parts.headers, request_id, peer, is_local, base_url, is_secure, link, upgrade };
        let head = Arc::new(head);
        let (row, parameters) = match self.find(&head.method, &head.path) {
            Ok((Some(row), parameters)) => (row, parameters),
            Ok((None, _)) => {
                self.count_without_row(&head, trace)?;
                return Ok(options(&self.allowed(&head.path)));
            }
            Err(refusal) => {
                self.count_without_row(&head, trace)?;
                return Err(refusal);
            }
        };
        trace.operation = Some(row.operation_id);
        trace.deprecation = row.deprecation;
        if row.produces == Produces::Json && !accepts_json(&head.headers) {
            self.count_without_row(&head, trace)?;
            return Err(Problem::NotAcceptable.into());
        }
        let origin = Origin::of_request(self.app.clock.clone(), row.operation_id, &head.request_id, head.peer);
        let request = Asked { parameters, query: parts.uri.query().unwrap_or(""), body, activity: connection.activity.clone() };
        let outcome = self.serve(row, &head, request, &origin, trace).await;
        match &outcome {
            Err(error) if row.changes() && is_refusal(error) => self.refusals.note(&self.app, origin, error).await,
            _ => {}
        }
        outcome
    }

    /// Counts a request that no row looks at: as one of whoever shows a good token, and of its address otherwise.
    fn count_without_row(&self, head: &Head, trace: &mut Trace) -> Result<()> {
        let Ok(Some(caller)) = auth::identify(&self.app, Access::Needs(Permission::Own), head) else { return Ok(()) };
        trace.caller = Some(caller.label());
        trace.standings = self.limiter.caller(&caller, Counted::Requests);
        trace.is_counted = true;
        rate_limits::check(&trace.standings)
    }

    /// Identifies, authorizes, runs.
    async fn serve(
        &self,
        row: &Route,
        head: &Arc<Head>,
        request: Asked<'_>,
        origin: &Arc<Origin>,
        trace: &mut Trace,
    ) -> Result<Response<Body>> {
        let Asked { parameters, query, body, activity } = request;
        for (kind, id) in row.ids(&parameters) {
            origin.names(kind, id);
        }
        trace.is_stream = row.is_stream;
        let caller = match row.is_stream {
            false => auth::identify(&self.app, row.access, head)?,
            true => auth::identify_stream(&self.app, row.access, head, query)?,
        };
        if let Some(caller) = &caller {
            origin.identified(caller.organization(), caller.actor());
        }
        trace.caller = caller.as_ref().map(super::auth::Caller::label);
        trace.standings = match &caller {
            Some(caller) => self.limiter.caller(caller, row.counted),
            None if row.counted == Counted::Not => Vec::new(),
            None => self.limiter.address(head.peer, row.counted),
        };
        trace.is_counted = true;
        rate_limits::check(&trace.standings)?;
        auth::permit(caller.as_ref(), row.access, head)?;
        let query = pairs(query)?;
        let (app, is_idempotent) = (self.app.clone(), row.is_idempotent);
        let call = RawCall { app, head: head.clone(), caller, path: parameters, query, body, activity, is_idempotent };
        let work = AssertUnwindSafe((row.handler)(call)).catch_unwind();
        let outcome = if !row.changes() {
            work.await
        } else {
            // A change that began goes on to its end when the client hangs up.
            let recorded = row.is_recorded.then(|| origin.clone());
            tokio::spawn(audit::scope_if(recorded, work)).await.map_err(ApiError::internal)?
        };
        let outcome = outcome.unwrap_or_else(|_| Err(ApiError::internal("a handler panicked")));
        if let Err(error) = &outcome {
            debug_assert!(
                openapi::is_documented(row, error.problem),
                "{} answered {}, which its row in api/routes.rs does not document: add it with `.refuses(&[..])`",
                row.operation_id,
                error.problem.code(),
            );
        }
        outcome
    }

    /// The row, or `None` for OPTIONS, with the decoded path parameters.
    fn find(&self, method: &Method, path: &str) -> Result<(Option<&Route>, Vec<String>)> {
        // The server as a whole (RFC 9110, 9.3.7).
        if path == "*" && method == Method::OPTIONS {
            return Ok((None, Vec::new()));
        }
        let found = is_plain(path).then(|| self.paths.at(without_version(path)).ok()).flatten().ok_or(Problem::NotFound)?;
        let parameters = found.params.iter().map(|(_, value)| decode(value)).collect::<Option<Vec<_>>>().ok_or(Problem::NotFound)?;
        let wanted = if method == Method::HEAD { Method::GET } else { method.clone() };
        if wanted == Method::OPTIONS {
            return Ok((None, parameters));
        }
        match found.value.get(wanted.as_str()) {
            Some(row) => Ok((Some(row), parameters)),
            None => Err(ApiError::from(Problem::MethodNotAllowed).with_header(header::ALLOW, &self.allowed(path))),
        }
    }

    fn allowed(&self, path: &str) -> String {
        if path == "*" {
            return "DELETE, GET, PATCH, POST, PUT, HEAD, OPTIONS".to_owned();
        }
        let mut methods: Vec<&str> =
            self.paths.at(without_version(path)).map(|found| found.value.keys().copied().collect()).unwrap_or_default();
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.push("OPTIONS");
        methods.join(", ")
    }

    fn base_url(&self, host: Option<String>, is_tls: bool) -> (String, bool) {
        match (&self.app.settings.public_url, host) {
            (Some(url), _) => (url.trim_end_matches('/').to_owned(), url.starts_with("https:")),
            (None, Some(host)) => (format!("{}://{host}", if is_tls { "https" } else { "http" }), is_tls),
            (None, None) => (String::new(), is_tls),
        }
    }
}

/// Somebody was not let; everything else that can be wrong with a request is no matter of the audit log.
fn is_refusal(error: &ApiError) -> bool {
    matches!(error.problem.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// What a request asks of its row.
struct Asked<'a> {
    parameters: Vec<String>,
    query: &'a str,
    body: Incoming,
    activity: Arc<Activity>,
}

/// What the access log learns on the way.
#[derive(Default)]
struct Trace {
    operation: Option<&'static str>,
    caller: Option<String>,
    deprecation: Option<Deprecation>,
    /// Whether the request counted against a limit, or against none because of its row.
    is_counted: bool,
    /// What is answered goes on: the connection is not waiting for its client, however quiet it is.
    is_stream: bool,
    standings: Vec<Standing>,
}

/// Who is at the other end, behind proxies that are trusted to say so.
#[derive(Debug, Clone, Copy)]
struct Client {
    address: IpAddr,
    is_local: bool,
}

impl Client {
    fn of(connection: &Connection, headers: &HeaderMap, trusted: &[Network]) -> Self {
        let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
        let mut address = connection.peer;
        // Each proxy adds whom it heard from at the end; what stands before the last untrusted one anybody can write.
        let forwarded: Vec<&str> = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok()).collect();
        let mut hops = forwarded.iter().flat_map(|value| value.split(',')).rev();
        while is_trusted(address)
            && let Some(hop) = hops.next().and_then(address_of_hop)
        {
            address = hop.to_canonical();
        }
        // A proxy on this machine that nobody declared makes everybody look local.
        let is_forwarded = ["x-forwarded-for", "forwarded", "x-real-ip", "via"].iter().any(|name| headers.contains_key(*name));
        Client { address, is_local: address.is_loopback() && (!is_forwarded || is_trusted(connection.peer)) }
    }
}

/// One address of `X-Forwarded-For`; some proxies add the port.
fn address_of_hop(hop: &str) -> Option<IpAddr> {
    let hop = hop.trim();
    let bare = hop.trim_start_matches('[').trim_end_matches(']');
    bare.parse().ok().or_else(|| hop.parse::<std::net::SocketAddr>().ok().map(|address| address.ip()))
}

/// A time as headers have it.
fn http_date(at: Timestamp) -> String {
    chrono::DateTime::from_timestamp(at.seconds(), 0).unwrap_or_default().format("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// What every answer of a row says that will go.
fn deprecate(headers: &mut HeaderMap, deprecation: &Deprecation) {
    let mut set = |name: &'static str, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    set("deprecation", format!("@{}", deprecation.since.seconds()));
    set("sunset", http_date(deprecation.sunset));
    if let Some(successor) = deprecation.successor {
        set("link", format!("<{successor}>; rel=\"successor-version\""));
    }
}

fn name_of(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        _ => "DELETE",
    }
}

/// `/v1` and the bare host are the same (decisions 1).
pub(super) fn without_version(path: &str) -> &str {
    match path.strip_prefix("/v1") {
        Some(rest) if rest.starts_with('/') => rest,
        _ => path,
    }
}

/// Whether a path can be one of ours. Everything that two readers could take for two things is none: dot segments, empty
/// segments, encoded separators, backslashes, parameters after a semicolon.
fn is_plain(path: &str) -> bool {
    let is_plain_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,=:@".contains(&byte);
    let lower = path.to_ascii_lowercase();
    path.starts_with('/')
        && path.bytes().all(is_plain_byte)
        && !path.contains("//")
        && !path.split('/').any(|segment| matches!(segment, "." | ".."))
        && !["%2f", "%5c", "%00", "%2e", "%25"].iter().any(|hostile| lower.contains(hostile))
}

/// A path parameter, decoded once.
fn decode(value: &str) -> Option<String> {
    let text = percent_decode_str(value).decode_utf8().ok()?;
    (!text.chars().any(|character| character.is_control() || matches!(character, '/' | '\\'))).then(|| text.into_owned())
}

/// The decoded pairs of a query.
fn pairs(query: &str) -> Result<Pairs> {
    serde_urlencoded::from_str(query).map_err(|error| ApiError::field("query", InvalidCode::InvalidValue, "is not readable").because(error))
}

fn check_size(request: &Request<Incoming>) -> Result<()> {
    let bytes: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if request.headers().len() > MAXIMUM_HEADERS || bytes > MAXIMUM_HEADER_BYTES || target > MAXIMUM_TARGET {
        return Err(Problem::HeadersTooLarge.into());
    }
    Ok(())
}

/// HTTP/1.1 wants exactly one `Host` (RFC 9112, 3.2).
fn check_host(version: Version, headers: &HeaderMap) -> Result<Option<String>> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok().filter(|host| is_host(host)).map(str::to_owned),
        (None, _) if version == Version::HTTP_10 => return Ok(None),
        _ => None,
    };
    match host {
        Some(host) => Ok(Some(host)),
        None => Err(ApiError::field("Host", InvalidCode::InvalidValue, "must be sent once, as a host name with or without a port")),
    }
}

fn is_host(host: &str) -> bool {
    !host.is_empty() && host.len() <= 255 && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte))
}

fn accepts_json(headers: &HeaderMap) -> bool {
    let mut ranges =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).peekable();
    ranges.peek().is_none()
        || ranges.any(|range| {
            let (range, parameters) = range.split_once(';').unwrap_or((range, ""));
            let is_refused = parameters.split(';').any(|parameter| matches!(parameter.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
            matches!(range.trim().to_ascii_lowercase().as_str(), "" | "*/*" | "application/*" | "application/json") && !is_refused
        })
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("x-request-id")?.to_str().ok()?;
    let is_valid = (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:+/=".contains(&byte));
    is_valid.then(|| id.to_owned())
}

fn options(allowed: &str) -> Response<Body> {
    let mut response = Response::new(endpoint::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    if let Ok(allowed) = HeaderValue::from_str(allowed) {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

/// What every answer carries.
pub(super) fn finish(headers: &mut HeaderMap, request_id: &str) {
    const ALWAYS: [(&str, &str); 6] = [
        ("api-version", "1"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'; sandbox"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-frame-options", "DENY"),
    ];
    for (name, value) in ALWAYS {
        headers.entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(HeaderName::from_static("x-request-id"), id);
    }
}

fn note(error: &ApiError, request_id: &str) {
    let code = error.problem.code();
    match (&error.cause, error.problem.status().is_server_error()) {
        (Some(cause), true) => tracing::error!(request_id, code, cause = %cause, "request {request_id} failed: {cause}"),
        (None, true) => tracing::error!(request_id, code, "request {request_id} failed: {}", error.message),
        (Some(cause), false) => tracing::debug!(request_id, code, cause = %cause, "request {request_id} refused: {cause}"),
        (None, false) => {}
    }
}

/// A path as the log shows it: bounded, and without characters that a terminal would act on.
fn shown(path: &str) -> String {
    path.chars().take(256).map(|character| if character.is_control() { '?' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_spellings_of_a_path_are_no_paths_of_ours() {
        for path in ["/projects", "/v1/projects/abc", "/gitghost/repos/a%20b", "/artifacts/a.tar.gz"] {
            assert!(is_plain(path), "{path}");
        }
        for path in [
            "projects",
            "//projects",
            "/projects//x",
            "/projects/..",
            "/./projects",
            "/projects/%2e%2e/x",
            "/projects/%2Fx",
            "/projects/%5cx",
            "/projects;a=b",
            "/projects\\x",
            "/projects/%00",
            "/projects/%252e",
            "/pro\u{e4}",
            "/a b",
        ] {
            assert!(!is_plain(path), "{path}");
        }
        assert_eq!([without_version("/v1/builds"), without_version("/v1builds"), without_version("/v1")], ["/builds", "/v1builds", "/v1"]);
    }

    #[test]
    fn a_client_behind_trusted_proxies_is_who_the_outermost_of_them_heard_from() {
        let trusted: Vec<Network> = ["127.0.0.1", "10.0.0.0/8"].iter().map(|text| text.parse().unwrap()).collect();
        let client = |peer: &str, forwarded: &[&'static str], trusted: &[Network]| {
            let peer = peer.parse().unwrap();
            let headers = forwarded.iter().map(|value| (HeaderName::from_static(FORWARDED_FOR), HeaderValue::from_static(value)));
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(name, value);
            }
            let client = Client::of(&Connection { peer, is_tls: false, activity: Arc::default(), link: Link::default() }, &map, trusted);
            (client.address.to_string(), client.is_local)
        };
        assert_eq!(client("127.0.0.1", &[], &[]), ("127.0.0.1".into(), true));
        assert_eq!(client("127.0.0.1", &["127.0.0.1"], &[]), ("127.0.0.1".into(), false), "an undeclared proxy");
        assert_eq!(client("127.0.0.1", &["9.9.9.9, 192.0.2.7, 10.1.1.1"], &trusted), ("192.0.2.7".into(), false));
        assert_eq!(client("127.0.0.1", &["9.9.9.9", "192.0.2.7:4711"], &trusted), ("192.0.2.7".into(), false));
        assert_eq!(client("127.0.0.1", &["[2001:db8::1]"], &trusted), ("2001:db8::1".into(), false));
        assert_eq!(client("127.0.0.1", &["nonsense"], &trusted), ("127.0.0.1".into(), true));
        assert_eq!(client("192.0.2.9", &["127.0.0.1"], &trusted), ("192.0.2.9".into(), false), "a stranger says what it likes");
        assert_eq!(client("10.0.0.1", &["10.0.0.2"], &trusted), ("10.0.0.2".into(), false));
    }

    #[test]
    fn request_ids_are_kept_only_when_harmless() {
        let mut headers = HeaderMap::new();
        for (id, kept) in [("abc-123", true), ("", false), ("a b", false), ("<script>", false)] {
            headers.insert("x-request-id", HeaderValue::from_str(id).unwrap());
            assert_eq!(request_id(&headers).is_some(), kept, "{id}");
        }
    }

    #[test]
    fn json_is_refused_only_to_those_who_exclude_it() {
        let accepts = |value: &'static str| accepts_json(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(value))]));
        assert!(accepts("*/*") && accepts("text/html, application/*;q=0.5") && accepts("application/json; charset=utf-8"));
        assert!(!accepts("text/html") && !accepts("application/json;q=0"));
        assert!(accepts_json(&HeaderMap::new()));
    }
}
