//! Addresses that users type and the service will call: checked when they are stored. Where a name leads is checked
//! again when it is called, after it was resolved (see `outbound`).

use std::net::IpAddr;

use hyper::Uri;
use serde_json::{Value, json};

use super::check::{Check, Fault};

const LONGEST: usize = 2048;

/// An address that the service may be told to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// As it was sent.
    pub(super) text: String,
    /// Scheme, host and port: what a secret is bound to.
    pub(super) origin: (String, String, u16),
}

/// https to anywhere; http to a private or loopback address only.
pub(super) fn address() -> Check<'static, Address> {
    let schema = json!({"type": "string", "format": "uri", "maxLength": LONGEST, "pattern": "^[hH][tT][tT][pP][sS]?://[!-~]+$"});
    Check::new(schema, |value| {
        let Value::String(text) = value else { return Err(Fault::wrong_type("a URL")) };
        if text.len() > LONGEST {
            return Err(Fault::too_long(LONGEST));
        }
        parse(text)
    })
}

/// The origin of an address that was checked before.
pub(super) fn origin_of(text: &str) -> Option<(String, String, u16)> {
    parse(text.to_owned()).ok().map(|address| address.origin)
}

fn parse(text: String) -> Result<Address, Fault> {
    let not_a_url = || Fault::invalid("must be a URL such as https://builds.example.com/upload");
    // Other readers of URLs take these for something else than hyper does.
    if !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&byte)) {
        return Err(not_a_url());
    }
    if text.contains('#') {
        return Err(Fault::invalid("must have no fragment"));
    }
    let uri: Uri = text.parse().map_err(|_| not_a_url())?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(not_a_url()) };
    if authority.as_str().contains('@') {
        return Err(Fault::invalid("must hold no user name or password"));
    }
    let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
    let port = match authority.as_str().get(authority.host().len()..).unwrap_or_default() {
        "" if scheme == "http" => 80,
        "" => 443,
        text => text.strip_prefix(':').and_then(|port| port.parse().ok()).filter(|port: &u16| *port > 0).ok_or_else(not_a_url)?,
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if bare.is_empty() || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte)) {
        return Err(not_a_url());
    }
    if bare.parse().is_ok_and(is_never_reached) {
        return Err(Fault::invalid("is an address that the service never connects to"));
    }
    let is_near = is_near(bare);
    match scheme {
        "https" => {}
        "http" if is_near => {}
        "http" => return Err(Fault::invalid("must be https; http is taken only to a private or loopback address, given as numbers")),
        _ => return Err(not_a_url()),
    }
    let origin = (scheme.to_owned(), host, port);
    Ok(Address { text, origin })
}

/// Whether a host can only be this machine or one of the local network. Names are not resolved here: they could lead
/// anywhere by the time they are called.
pub(super) fn is_near(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(is_private)
}

fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_private() || address.is_loopback(),
        // fc00::/7 is the private range of IPv6.
        IpAddr::V6(address) => address.is_loopback() || address.segments()[0] & 0xfe00 == 0xfc00,
    }
}

/// What `outbound` refuses whatever is configured, as far as its form tells: a machine's own neighbourhood, where clouds keep
/// their metadata, and what is no address of one machine.
fn is_never_reached(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_link_local() || address.is_unspecified() || address.is_multicast() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unspecified() || address.is_multicast() || address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_goes_anywhere_and_http_stays_near() {
        for good in [
            "https://a.example/upload?x=1",
            "https://a.example:8443",
            "http://10.1.2.3/u",
            "http://127.0.0.1:9/u",
            "http://[::1]:9/u",
            "http://localhost/u",
            "http://192.168.0.9",
            "http://[fd00::1]/",
            "HTTPS://A.example/",
        ] {
            assert!(parse(good.into()).is_ok(), "{good}");
        }
        for bad in [
            "",
            "upload",
            "/upload",
            "ftp://a.example/",
            "file:///etc/passwd",
            "http://a.example/",
            "http://8.8.8.8/",
            "http://169.254.169.254/",
            "https://169.254.169.254/latest",
            "https://[fe80::1]/",
            "https://[::ffff:169.254.1.1]/",
            "https://0.0.0.0/",
            "https://[::]/",
            "https://224.0.0.1/",
            "https://user:word@a.example/",
            "https://a.example/#x",
            "https://a.example\\@b/",
            "https://a b/",
            "https:///x",
            "https://a.example:0/",
            "https://a.example:99999/",
            "https://a.example:/",
            "https://a\r\n.example/",
            "https://ä.example/",
            "javascript:alert(1)",
            "http://172.32.0.1/",
            "http://localhost.evil.example/",
            "http://10.0.0.1.evil.example/",
            "http://[::ffff:8.8.8.8]/",
        ] {
            assert!(parse(bad.into()).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        assert_eq!(origin_of("https://A.example/x"), origin_of("https://a.example:443/y"));
        assert_ne!(origin_of("https://a.example/x"), origin_of("https://a.example:444/x"));
        assert_ne!(origin_of("https://127.0.0.1/x"), origin_of("http://127.0.0.1:443/x"));
    }
}
