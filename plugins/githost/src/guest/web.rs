//! Requests to the REST API.

use std::io;

use serde::de::DeserializeOwned;

use super::bindings::cookhouse::plugin::http::{self, Body, Exchange, Request, Response};
use super::bindings::cookhouse::plugin::types::Error;
use super::bindings::cookhouse::plugin::{cache, clock};
use super::credentials;
use crate::answers;
use crate::names::RepositoryName;
use crate::settings::Settings;
use crate::status::{self, Limits};

/// The most of an answer that is held at once; lists of a hundred are far below it.
pub(super) const ANSWER_LIMIT: u32 = 4 << 20;
/// The most of a refusal that is read.
const REFUSAL_LIMIT: usize = 16 << 10;
/// Redirects of renamed repositories; the host checks each against the grants.
const REDIRECTS: u8 = 3;
const CHUNK: u32 = 256 << 10;
/// Until when the server wants no requests, in milliseconds since 1970.
const LIMITED: &str = "limited until";

/// Objects as the API has them.
pub(super) const JSON: &str = "application/vnd.github+json";
/// A file's bytes instead of an object around them.
pub(super) const RAW: &str = "application/vnd.github.raw+json";

/// The API of one connection.
pub(super) struct Web {
    settings: Settings,
    /// The only one that is asked for, where that is known.
    repository: Option<RepositoryName>,
}

impl Web {
    pub(super) fn new(settings: Settings, repository: Option<RepositoryName>) -> Self {
        Web { settings, repository }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Asks and reads the answer.
    pub(super) fn get<T: DeserializeOwned>(&self, what: &str, path: &str) -> Result<T, Error> {
        read(what, &self.send(path, JSON)?)
    }

    /// Asks; the answer is 2xx.
    pub(super) fn send(&self, path: &str, accept: &str) -> Result<Response, Error> {
        self.signed_in(|| self.request(path, accept))
    }

    /// Asks by GraphQL; the answer is 2xx.
    pub(super) fn query(&self, address: &str, body: &str) -> Result<Response, Error> {
        self.signed_in(|| {
            let request = self.prepared("POST", address, JSON)?;
            request.set_header("content-type", "application/json")?;
            let bytes = Body::new();
            bytes.append_bytes(body.as_bytes())?;
            request.set_body(bytes)?;
            Ok(request)
        })
    }

    /// Asks in the background; [`finish`] waits.
    pub(super) fn start(&self, path: &str) -> Result<Exchange, Error> {
        http::start(self.request(path, JSON)?)
    }

    fn request(&self, path: &str, accept: &str) -> Result<Request, Error> {
        let request = self.prepared("GET", &format!("{}{path}", self.settings.api()), accept)?;
        request.set_max_redirects(REDIRECTS)?;
        Ok(request)
    }

    fn prepared(&self, method: &str, address: &str, accept: &str) -> Result<Request, Error> {
        still_allowed()?;
        let request = plain(method, address, accept)?;
        if let Some(token) = credentials::of(&self.settings, self.repository.as_ref())? {
            request.set_secret_header("authorization", self.settings.authorization_prefix(), &token)?;
        }
        Ok(request)
    }

    /// A token that was kept may have been taken back, and one that was signed may be of another time: then once more, with a new one.
    fn signed_in(&self, request: impl Fn() -> Result<Request, Error>) -> Result<Response, Error> {
        let response = http::send(request()?)?;
        if response.status() == 401 && credentials::renew(&self.settings, self.repository.as_ref(), &response) {
            return accepted(http::send(request()?)?);
        }
        accepted(response)
    }
}

/// A request that nobody has signed in yet.
pub(super) fn plain(method: &str, address: &str, accept: &str) -> Result<Request, Error> {
    let request = Request::new(method, address);
    request.set_header("accept", accept)?;
    request.set_header("x-github-api-version", "2022-11-28")?;
    request.set_header("user-agent", "Cookhouse")?;
    Ok(request)
}

/// Git hosts shut out whoever goes on asking before the time is up: nobody of this connection does.
fn still_allowed() -> Result<(), Error> {
    let until = cache::get(LIMITED).and_then(|text| String::from_utf8(text).ok()?.parse::<u64>().ok());
    match until.map(|until| until.saturating_sub(clock::now_ms())) {
        Some(wait) if wait > 0 => Err(status::must_wait(429, wait).into()),
        _ => Ok(()),
    }
}

/// The headers that say how long to wait.
pub(super) fn limits(response: &Response) -> Limits {
    Limits {
        date: response.header("date"),
        retry_after: response.header("retry-after"),
        remaining: response.header("x-ratelimit-remaining"),
        reset: response.header("x-ratelimit-reset"),
    }
}

/// Waits for what [`Web::start`] began.
pub(super) fn finish<T: DeserializeOwned>(what: &str, exchange: &Exchange) -> Result<T, Error> {
    read(what, &accepted(exchange.finish()?)?)
}

/// Reads a whole answer.
pub(super) fn read<T: DeserializeOwned>(what: &str, response: &Response) -> Result<T, Error> {
    Ok(answers::parse(what, &response.read_all(ANSWER_LIMIT)?)?)
}

pub(super) fn accepted(response: Response) -> Result<Response, Error> {
    let code = response.status();
    if (200..300).contains(&code) {
        return Ok(response);
    }
    let mut refusal = Vec::new();
    while refusal.len() < REFUSAL_LIMIT {
        match response.read(REFUSAL_LIMIT as u32) {
            Ok(Some(bytes)) if !bytes.is_empty() => refusal.extend_from_slice(&bytes),
            _ => break,
        }
    }
    let now = clock::now_ms();
    let problem = status::problem(code, &limits(&response), &refusal, now);
    if let Some(wait) = problem.retry_after_ms {
        cache::put(LIMITED, now.saturating_add(wait).to_string().as_bytes(), wait);
    }
    Err(problem.into())
}

/// Whether an error is an answer with this status.
pub(super) fn is_status(error: &Error, status: u16) -> bool {
    error.reason.as_deref().and_then(|reason| reason.strip_prefix("http-status-")).and_then(|number| number.parse().ok()) == Some(status)
}

/// An answer as a stream of at most `room` bytes. What the host said when it broke off is kept for the caller.
pub(super) struct Download<'a> {
    response: &'a Response,
    held: Vec<u8>,
    at: usize,
    room: u64,
    pub(super) fault: Option<Error>,
}

impl<'a> Download<'a> {
    pub(super) fn new(response: &'a Response, room: u64) -> Self {
        Download { response, held: Vec::new(), at: 0, room, fault: None }
    }
}

impl io::Read for &mut Download<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.held.len() {
            match self.response.read(CHUNK) {
                Ok(Some(bytes)) => {
                    self.room = self.room.checked_sub(bytes.len() as u64).ok_or_else(|| io::Error::other("the answer is too large"))?;
                    (self.held, self.at) = (bytes, 0);
                }
                Ok(None) => return Ok(0),
                Err(error) => {
                    self.fault = Some(error);
                    return Err(io::Error::other("the answer broke off"));
                }
            }
        }
        let count = out.len().min(self.held.len() - self.at);
        out[..count].copy_from_slice(&self.held[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}
