//! Requests under construction. What the host owns of a request, a guest cannot set.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wasmtime::component::Resource;

use super::super::super::bindings::http as contract;
use super::super::super::bindings::types::ErrorCode;
use super::super::super::manifest::SecretUse;
use super::super::secrets::Secret;
use super::super::{CallState, Failure};
use super::body::Body;

const MOST_HEADERS: usize = 100;
const MOST_HEADER_BYTES: usize = 32 * 1024;
const LONGEST_URL: usize = 8 * 1024;
const MOST_REDIRECTS: u8 = 10;
/// Without a byte moving, when the guest says nothing.
pub(super) const IDLE: Duration = Duration::from_secs(120);
const LONGEST_IDLE: Duration = Duration::from_secs(3600);
/// `connection` and everything about framing and proxies is the host's.
const FORBIDDEN: &[&str] =
    &["host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect"];

/// What will be sent.
pub struct Request {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) headers: Vec<Header>,
    pub(super) content: Content,
    pub(super) idle: Duration,
    pub(super) redirects: u8,
    pub(super) phase: Option<String>,
}

/// One header; secret ones stay with the first origin.
#[derive(Clone)]
pub(super) struct Header {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) is_secret: bool,
}

/// Where the body comes from.
pub(super) enum Content {
    /// Put together beforehand.
    Known(Body),
    /// Written while it is sent; chunked without a length.
    Streamed(Option<u64>),
}

impl Request {
    fn set(&mut self, name: &str, value: String, is_secret: bool) -> Result<(), Failure> {
        let name = name.to_ascii_lowercase();
        check_header(&name, &value)?;
        self.headers.retain(|header| header.name != name);
        let bytes: usize = self.headers.iter().map(|header| header.name.len() + header.value.len()).sum();
        if self.headers.len() >= MOST_HEADERS || bytes + name.len() + value.len() > MOST_HEADER_BYTES {
            return Err(Failure::said(ErrorCode::TooLarge, "a request has at most 100 headers and 32 KiB of them"));
        }
        self.headers.push(Header { name, value, is_secret });
        Ok(())
    }
}

fn check_header(name: &str, value: &str) -> Result<(), Failure> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || name.len() > 256 || !name.bytes().all(is_token) {
        return Err(Failure::said(ErrorCode::InvalidArgument, "not a usable header name"));
    }
    if FORBIDDEN.contains(&name) || name.starts_with("proxy-") {
        return Err(Failure::said(ErrorCode::Denied, format!("the header `{name}` is set by the host")).reason("header-forbidden"));
    }
    if value.bytes().any(|byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
        return Err(Failure::said(ErrorCode::InvalidArgument, format!("the value of the header `{name}` contains control characters")));
    }
    Ok(())
}

/// A method that a guest may use: no tunnel, no echo of the headers.
pub(super) fn check_method(method: &str) -> Result<(), Failure> {
    if matches!(method, "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS") {
        return Ok(());
    }
    Err(Failure::said(ErrorCode::InvalidArgument, "not a usable method"))
}

impl contract::HostRequest for CallState {
    async fn new(&mut self, method: String, url: String) -> wasmtime::Result<Resource<Request>> {
        if method.len() > 16 || url.len() > LONGEST_URL {
            return Err(wasmtime::Error::msg("the method or the URL of a request is too long"));
        }
        let content = Content::Known(Body::default());
        let request = Request { method, url, headers: Vec::new(), content, idle: IDLE, redirects: 0, phase: None };
        Ok(self.table.push(request)?)
    }

    async fn set_header(&mut self, request: Resource<Request>, name: String, value: String) -> Result<(), Failure> {
        self.table.get_mut(&request)?.set(&name, value, false)
    }

    async fn set_secret_header(
        &mut self,
        request: Resource<Request>,
        name: String,
        prefix: String,
        value: Resource<Secret>,
    ) -> Result<(), Failure> {
        let secret = self.secret_for(&value, SecretUse::Header)?;
        let unusable = |_| Failure::said(ErrorCode::InvalidConfig, "the secret cannot stand in a header");
        let secret = String::from_utf8(secret).map_err(unusable)?;
        self.table.get_mut(&request)?.set(&name, format!("{prefix}{secret}"), true)
    }

    async fn set_basic_auth(&mut self, request: Resource<Request>, user: String, password: Resource<Secret>) -> Result<(), Failure> {
        if user.contains(':') {
            return Err(Failure::said(ErrorCode::InvalidArgument, "a user name has no colon"));
        }
        let mut pair = format!("{user}:").into_bytes();
        pair.extend(self.secret_for(&password, SecretUse::Basic)?);
        let value = STANDARD.encode(pair);
        self.redactor.add(&value);
        self.call.log.mask(&value);
        self.table.get_mut(&request)?.set("authorization", format!("Basic {value}"), true)
    }

    async fn set_body(&mut self, request: Resource<Request>, body: Resource<Body>) -> Result<(), Failure> {
        let body = self.table.delete(body)?;
        self.table.get_mut(&request)?.content = Content::Known(body);
        Ok(())
    }

    async fn set_streamed_body(&mut self, request: Resource<Request>, length: Option<u64>) -> Result<(), Failure> {
        self.table.get_mut(&request)?.content = Content::Streamed(length);
        Ok(())
    }

    async fn set_idle_timeout(&mut self, request: Resource<Request>, milliseconds: u32) -> Result<(), Failure> {
        self.table.get_mut(&request)?.idle = Duration::from_millis(milliseconds.max(1).into()).min(LONGEST_IDLE);
        Ok(())
    }

    async fn set_max_redirects(&mut self, request: Resource<Request>, count: u8) -> Result<(), Failure> {
        self.table.get_mut(&request)?.redirects = count.min(MOST_REDIRECTS);
        Ok(())
    }

    async fn report_as(&mut self, request: Resource<Request>, phase: String) -> Result<(), Failure> {
        let phase = self.shown(&phase, 80);
        self.table.get_mut(&request)?.phase = Some(phase);
        Ok(())
    }

    async fn drop(&mut self, request: Resource<Request>) -> wasmtime::Result<()> {
        self.table.delete(request)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_host_and_broken_ones_are_refused() {
        assert!(check_header("x-a", "tab\tand text é").is_ok());
        for name in [
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "proxy-authorization",
            "te",
            "upgrade",
            "expect",
            "",
            "a b",
            "a:b",
            "a\r\nb",
        ] {
            assert!(check_header(name, "x").is_err(), "{name}");
        }
        for value in ["a\r\nX: y", "a\nb", "a\0", "\u{7f}"] {
            assert!(check_header("x-a", value).is_err());
        }
        assert!(check_method("CONNECT").is_err() && check_method("GET /").is_err() && check_method("POST").is_ok());
    }
}
