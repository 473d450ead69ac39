//! How an async function becomes a row of the route table: what it takes ([`Call`]) and what it gives ([`Answer`]).

use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Response, StatusCode};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use super::activity::Activity;
use super::auth::Caller;
use super::body::FromBody;
use super::check::Schema;
use super::conditional::Tag;
use super::error::{ApiError, BoxError, Problem, Result};
use super::idempotency::{Begun, Idempotency};
use super::link::Link;
use super::openapi::shape::{Answered, Shape, id_of};
use super::query::{FromQuery, Pairs, Query};
use super::rate_limits::Counted;
use crate::app::{self, App};
use crate::model::permission::Permission;
use crate::model::{Id, Timestamp};

/// A response's body: bytes at hand, or a stream (downloads, logs).
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// No bytes.
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// These bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A response with this value as JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Result<Response<Body>> {
    let bytes = serde_json::to_vec(value).map_err(ApiError::internal)?;
    Ok(json_bytes(status, bytes))
}

/// A response with bytes that are JSON already.
pub(super) fn json_bytes(status: StatusCode, bytes: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Who may use a row. There is no default: a row without a decision does not compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, without a token.
    Public,
    /// A caller with this permission.
    Needs(Permission),
}

/// What kind of answer a row gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Produces {
    /// JSON; a client that accepts nothing of the kind gets 406 before anything happens.
    Json,
    /// Something else, or nothing.
    Other,
}

/// When a row was given up, and when it goes (RFC 9745, RFC 8594; decisions 1: at least twelve months between them).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deprecation {
    /// Since when nobody should use it.
    pub since: Timestamp,
    /// From when on it may be gone.
    pub sunset: Timestamp,
    /// The path that does the same from now on.
    pub successor: Option<&'static str>,
}

/// One endpoint.
pub struct Route {
    /// GET also answers HEAD.
    pub method: Method,
    /// As matchit reads it, without `/v1`.
    pub path: &'static str,
    /// Distinct, and never changed: clients see it.
    pub operation_id: &'static str,
    /// Who may.
    pub access: Access,
    /// One line for the documentation.
    pub summary: &'static str,
    /// What comes back.
    pub produces: Produces,
    /// Takes an `Idempotency-Key`.
    pub is_idempotent: bool,
    /// What it changes is recorded in the audit log.
    pub is_recorded: bool,
    /// What its requests are counted as.
    pub counted: Counted,
    /// It will go; every answer says so.
    pub deprecation: Option<Deprecation>,
    /// An endless answer, which browsers may open with a ticket.
    pub is_stream: bool,
    /// Honours `If-Match`.
    pub is_conditional: bool,
    /// What this row refuses besides what its columns tell already: its handler's own problems.
    pub refuses: Vec<Problem>,
    pub(super) handler: Handler,
    pub(super) shape: fn(&mut SchemaGenerator, &app::Settings) -> Shape,
}

pub(super) type Handler = Box<dyn Fn(RawCall) -> BoxFuture<'static, Result<Response<Body>>> + Send + Sync>;

impl Route {
    /// Whether the row changes something: such requests are recorded in the audit log, refused ones too.
    pub fn changes(&self) -> bool {
        self.method != Method::GET
    }

    /// The resources that a request's path names: kind and id, in the audit log's words.
    pub(super) fn ids<'a>(&self, parameters: &'a [String]) -> Vec<(&'static str, &'a str)> {
        let segments: Vec<&'static str> = self.path.split('/').collect();
        let places = segments.windows(2).filter(|pair| pair[1].starts_with('{'));
        let named = places.zip(parameters).map(|(pair, id)| (kind_of(pair[0]), id.as_str()));
        // What is no id is not kept: a stranger may have put anything there.
        named.filter(|(_, id)| id.parse::<Id<()>>().is_ok()).collect()
    }

    /// The row answers with something else than JSON.
    pub fn not_json(mut self) -> Self {
        self.produces = Produces::Other;
        self
    }

    /// The row starts builds.
    pub fn triggers(mut self) -> Self {
        self.counted = Counted::Triggers;
        self
    }

    /// The row takes passwords.
    pub fn signs_in(mut self) -> Self {
        self.counted = Counted::LogIns;
        self
    }

    /// The row's requests count against no limit: downloads and streams, and what monitors ask every second.
    pub fn uncounted(mut self) -> Self {
        self.counted = Counted::Not;
        self
    }

    /// The row takes what machines tell of themselves, which is recorded elsewhere: the audit log is about people. Refused
    /// requests are in it all the same.
    pub fn unrecorded(mut self) -> Self {
        self.is_recorded = false;
        self
    }

    /// The row will go.
    pub fn deprecated(mut self, deprecation: Deprecation) -> Self {
        self.deprecation = Some(deprecation);
        self
    }

    /// The row answers with a stream: it takes a `ticket` in the query, and a cookie only from this server's own pages.
    /// Streams have a limit of their own.
    pub fn streams(mut self) -> Self {
        self.produces = Produces::Other;
        self.counted = Counted::Not;
        self.is_stream = true;
        self
    }

    /// The row changes something that others may change, too: its handler calls `check_match` with `If-Match`.
    pub fn conditional(mut self) -> Self {
        self.is_conditional = true;
        self
    }

    /// The row's handler has reasons of its own to refuse; called again, further ones. Tests fail when it answers with one that is not listed.
    pub fn refuses(mut self, problems: &'static [Problem]) -> Self {
        self.refuses.extend_from_slice(problems);
        self
    }

    /// The row creates something: an `Idempotency-Key` makes repeating it safe (decisions 2). Its handler calls
    /// [`Idempotency::remember`] in the transaction that creates.
    pub fn creates(mut self) -> Self {
        self.is_idempotent = true;
        self
    }
}

/// What the audit log calls the resources of a path's segment.
fn kind_of(segment: &'static str) -> &'static str {
    match segment {
        "projects" => "project",
        "build-settings" => "buildSetting",
        "builds" => "build",
        "organizations" => "organization",
        "members" => "user",
        "tokens" => "token",
        "deliveries" => "delivery",
        "webhooks" => "webhook",
        other => other,
    }
}

/// A row from an async function; its argument says what is read from the request.
pub(super) fn route<P, Q, B, C, A, F, W>(
    method: Method,
    path: &'static str,
    operation_id: &'static str,
    access: Access,
    summary: &'static str,
    function: F,
) -> Route
where
    P: FromPath,
    Q: FromQuery,
    B: FromBody,
    C: Who,
    A: Answer,
    F: Fn(Call<P, Q, B, C>) -> W + Copy + Send + Sync + 'static,
    W: Future<Output = Result<A>> + Send + 'static,
{
    let handler: Handler = Box::new(move |raw: RawCall| {
        Box::pin(async move {
            let caller = C::from_caller(raw.caller.clone())?;
            let parameters = P::from_path(&raw.path)?;
            let query = Q::from_query(raw.query)?;
            raw.activity.waits();
            let (body, digest) = B::from_body(raw.body, &raw.head).await?;
            raw.activity.works();
            let idempotency = match (raw.is_idempotent, &raw.caller) {
                (true, Some(caller)) => match Idempotency::begin(&raw.app, caller, &raw.head, digest)? {
                    Begun::First(idempotency) => idempotency,
                    Begun::Replay(answer) => return Ok(answer),
                },
                _ => Idempotency::none(),
            };
            let (head, _held_until_answered) = (raw.head.clone(), idempotency.clone());
            let answer = function(Call { app: raw.app, head: raw.head, caller, path: parameters, query, body, idempotency }).await?;
            answer.into_response(&head)
        })
    });
    Route {
        method,
        path,
        operation_id,
        access,
        summary,
        produces: Produces::Json,
        is_idempotent: false,
        is_recorded: true,
        counted: Counted::Requests,
        deprecation: None,
        is_stream: false,
        is_conditional: false,
        refuses: Vec::new(),
        handler,
        shape: shape::<P, Q, B, A>,
    }
}

fn shape<P: FromPath, Q: FromQuery, B: FromBody, A: Answer>(generator: &mut SchemaGenerator, settings: &app::Settings) -> Shape {
    let mut query = Query::describing();
    // It fails for want of values; what it asked for is noted.
    let _ = Q::read(&mut query);
    Shape {
        path: P::describe(),
        query: query.parameters(),
        body: B::describe(settings),
        headers: B::headers(),
        answers: A::describe(generator),
    }
}

/// A request as the router hands it to a row.
pub(super) struct RawCall {
    pub(super) app: Arc<App>,
    pub(super) head: Arc<Head>,
    pub(super) caller: Option<Caller>,
    /// Decoded path parameters, in the order of the path.
    pub(super) path: Vec<String>,
    pub(super) query: Pairs,
    pub(super) body: Incoming,
    pub(super) activity: Arc<Activity>,
    pub(super) is_idempotent: bool,
}

/// What every handler may look at besides its own parameters.
#[derive(Debug)]
pub struct Head {
    /// As sent.
    pub method: Method,
    /// The path as sent, without the query.
    pub path: String,
    /// As sent.
    pub headers: HeaderMap,
    /// Also in the answer.
    pub request_id: String,
    /// The client's address: the other end of the connection, or what a trusted proxy says.
    pub peer: IpAddr,
    /// Comes from this machine, as far as anybody can tell.
    pub is_local: bool,
    /// `https://host:port`, the beginning of links to this server.
    pub base_url: String,
    /// Came over TLS, or `public_url` says so.
    pub is_secure: bool,
    /// The connection it came on.
    pub link: Link,
    /// What the connection becomes after an answer with 101.
    pub upgrade: Option<OnUpgrade>,
}

impl Head {
    /// A header that is text.
    pub fn text(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// `Prefer: handling=strict` (RFC 7240).
    pub fn wants_strict(&self) -> bool {
        self.headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split([',', ';'])).any(
            |preference| {
                preference.split_once('=').is_some_and(|(name, value)| {
                    name.trim().eq_ignore_ascii_case("handling") && value.trim().trim_matches('"').eq_ignore_ascii_case("strict")
                })
            },
        )
    }
}

/// A request as a handler sees it: everything is parsed and permitted.
pub struct Call<P = (), Q = (), B = (), C = Caller> {
    /// The handles.
    pub app: Arc<App>,
    /// Method, headers, request id.
    pub head: Arc<Head>,
    /// Who asks. The only way to an organization.
    pub caller: C,
    /// Path parameters.
    pub path: P,
    /// Query parameters.
    pub query: Q,
    /// The body.
    pub body: B,
    /// The request's `Idempotency-Key`, for rows that create.
    pub idempotency: Idempotency,
}

/// Who a handler takes calls from.
pub trait Who: Sized + Send + 'static {
    /// Fails closed: a handler that wants a caller gets none from a public row.
    fn from_caller(caller: Option<Caller>) -> Result<Self>;
}

/// Anybody; for rows with [`Access::Public`].
#[derive(Debug, Clone, Copy)]
pub struct Anybody;

impl Who for Anybody {
    fn from_caller(_: Option<Caller>) -> Result<Self> {
        Ok(Anybody)
    }
}

impl Who for Caller {
    fn from_caller(caller: Option<Caller>) -> Result<Self> {
        caller.ok_or_else(|| Problem::Unauthenticated.into())
    }
}

/// Path parameters. A malformed id cannot exist: 404.
pub trait FromPath: Sized + Send + 'static {
    /// From the decoded parameters in the order of the path.
    fn from_path(parameters: &[String]) -> Result<Self>;

    /// The schema of each, for the documentation; text says what it is in `openapi::guide`.
    fn describe() -> Vec<Schema>;
}

impl FromPath for () {
    fn from_path(_: &[String]) -> Result<Self> {
        Ok(())
    }

    fn describe() -> Vec<Schema> {
        Vec::new()
    }
}

impl FromPath for String {
    fn from_path(parameters: &[String]) -> Result<Self> {
        parameters.first().cloned().ok_or_else(|| Problem::NotFound.into())
    }

    fn describe() -> Vec<Schema> {
        vec![Schema::from_iter([("type".to_owned(), "string".into())])]
    }
}

impl<R: 'static> FromPath for Id<R> {
    fn from_path(parameters: &[String]) -> Result<Self> {
        parameters.first().and_then(|text| text.parse().ok()).ok_or_else(|| Problem::NotFound.into())
    }

    fn describe() -> Vec<Schema> {
        vec![id_of::<R>()]
    }
}

impl<R: 'static, S: 'static> FromPath for (Id<R>, Id<S>) {
    fn from_path(parameters: &[String]) -> Result<Self> {
        let first = Id::from_path(parameters)?;
        let second = Id::from_path(parameters.get(1..).unwrap_or_default())?;
        Ok((first, second))
    }

    fn describe() -> Vec<Schema> {
        vec![id_of::<R>(), id_of::<S>()]
    }
}

/// What a handler gives.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no answer of a row: what it may be is not documented",
    note = "give JSON as `Ok200`, `Resource`, `Created` or `Accepted` of a type that derives `JsonSchema`; give a response made by hand as `Custom` of a `CustomAnswer`"
)]
pub trait Answer: Send {
    /// The response; security headers, request id and the rest are added by the router.
    fn into_response(self, head: &Head) -> Result<Response<Body>>;

    /// The successes it may be, for the documentation.
    fn describe(generator: &mut SchemaGenerator) -> Vec<Answered>;
}

/// A response that was made by hand, and what kind it is.
pub struct Custom<K> {
    response: Response<Body>,
    kind: PhantomData<fn() -> K>,
}

/// What responses made by hand may be.
pub trait CustomAnswer: 'static {
    /// Every success, for the documentation.
    fn describe(generator: &mut SchemaGenerator) -> Vec<Answered>;
}

impl<K> From<Response<Body>> for Custom<K> {
    fn from(response: Response<Body>) -> Self {
        Custom { response, kind: PhantomData }
    }
}

impl<K: CustomAnswer> Answer for Custom<K> {
    fn into_response(self, _: &Head) -> Result<Response<Body>> {
        Ok(self.response)
    }

    fn describe(generator: &mut SchemaGenerator) -> Vec<Answered> {
        K::describe(generator)
    }
}

/// 200 with a value.
pub struct Ok200<T>(pub T);

/// 200 with a single resource and its `ETag`; 304 when the client has it already.
pub struct Resource<T> {
    /// What is shown.
    pub value: T,
    /// Counts the changes that a client may have made; see [`Tag`].
    pub version: u64,
}

/// 202 with what was accepted.
pub struct Accepted<T>(pub T);

/// 204.
pub struct NoContent;

/// 201 with `Location` and the full resource, a `T`. The bytes are made before the transaction that creates the resource,
/// so that [`Idempotency::remember`] can keep exactly what is sent.
#[derive(Debug)]
pub struct Created<T> {
    pub(super) location: String,
    pub(super) etag: Option<String>,
    pub(super) body: Vec<u8>,
    pub(super) shows: PhantomData<fn() -> T>,
}

impl<T> Clone for Created<T> {
    fn clone(&self) -> Self {
        Created { location: self.location.clone(), etag: self.etag.clone(), body: self.body.clone(), shows: PhantomData }
    }
}

impl<T: Serialize> Created<T> {
    /// A new resource under `/v1` + `path`.
    pub fn new(path: &str, value: &T, version: Option<u64>) -> Result<Self> {
        let body = serde_json::to_vec(value).map_err(ApiError::internal)?;
        let etag = version.map(|version| Tag::new(version, &body).to_string());
        Ok(Created { location: format!("/v1{path}"), etag, body, shows: PhantomData })
    }
}

impl<T: Serialize + JsonSchema + Send> Answer for Ok200<T> {
    fn into_response(self, _: &Head) -> Result<Response<Body>> {
        json(StatusCode::OK, &self.0)
    }

    fn describe(generator: &mut SchemaGenerator) -> Vec<Answered> {
        vec![Answered::json::<T>(StatusCode::OK, generator)]
    }
}

impl<T: Serialize + JsonSchema + Send> Answer for Accepted<T> {
    fn into_response(self, _: &Head) -> Result<Response<Body>> {
        json(StatusCode::ACCEPTED, &self.0)
    }

    fn describe(generator: &mut SchemaGenerator) -> Vec<Answered> {
        vec![Answered::json::<T>(StatusCode::ACCEPTED, generator)]
    }
}

impl Answer for NoContent {
    fn into_response(self, _: &Head) -> Result<Response<Body>> {
        let mut response = Response::new(empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        Ok(response)
    }

    fn describe(_: &mut SchemaGenerator) -> Vec<Answered> {
        vec![Answered::empty(StatusCode::NO_CONTENT)]
    }
}

impl<T: JsonSchema> Answer for Created<T> {
    fn into_response(self, _: &Head) -> Result<Response<Body>> {
        let mut response = json_bytes(StatusCode::CREATED, self.body);
        response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&self.location).map_err(ApiError::internal)?);
        if let Some(etag) = self.etag {
            response.headers_mut().insert(header::ETAG, HeaderValue::from_str(&etag).map_err(ApiError::internal)?);
        }
        Ok(response)
    }

    fn describe(generator: &mut SchemaGenerator) -> Vec<Answered> {
        vec![Answered::json::<T>(StatusCode::CREATED, generator).with(&["Location"]).perhaps(&["ETag", "Idempotent-Replayed"])]
    }
}

impl<T: Serialize + JsonSchema + Send> Answer for Resource<T> {
    fn into_response(self, head: &Head) -> Result<Response<Body>> {
        let body = serde_json::to_vec(&self.value).map_err(ApiError::internal)?;
        let tag = Tag::new(self.version, &body);
        let known = matches!(head.method, Method::GET | Method::HEAD).then(|| tag.known_to(&head.headers)).flatten();
        let (mut response, tag) = match known {
            Some(known) => {
                let mut response = Response::new(empty());
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                (response, known)
            }
            None => (json_bytes(StatusCode::OK, body), tag.to_string()),
        };
        response.headers_mut().insert(header::ETAG, HeaderValue::from_str(&tag).map_err(ApiError::internal)?);
        Ok(response)
    }

    fn describe(generator: &mut SchemaGenerator) -> Vec<Answered> {
        vec![Answered::json::<T>(StatusCode::OK, generator).with(&["ETag"]), Answered::empty(StatusCode::NOT_MODIFIED).with(&["ETag"])]
    }
}
