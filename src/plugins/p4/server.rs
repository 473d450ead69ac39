//! The address of a version-control server as its own tools take it: `[tcp|ssl]:host:port`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A checked address. `rsh:`, which runs a command, and everything else that is no host and port is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    is_encrypted: bool,
    /// Without brackets.
    host: String,
    port: u16,
}

impl Server {
    /// Reads `host:port`, `tcp:host:port` or `ssl:host:port`; `tcp4`, `ssl64` and the like count as their base.
    pub fn parse(text: &str) -> Option<Server> {
        if text.len() > 300 || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let (is_encrypted, place) = match text.split_once(':') {
            Some((scheme, place)) if is_scheme(scheme, "ssl") => (true, place),
            Some((scheme, place)) if is_scheme(scheme, "tcp") => (false, place),
            _ => (false, text),
        };
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once("]:")?;
                (host.parse::<Ipv6Addr>().ok()?.to_string(), port)
            }
            None => {
                let (host, port) = place.split_once(':')?;
                let is_host = !host.is_empty()
                    && !host.starts_with('-')
                    && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
                is_host.then(|| (host.trim_end_matches('.').to_ascii_lowercase(), port))?
            }
        };
        let port = port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok())??;
        (port != 0 && !host.is_empty()).then_some(Server { is_encrypted, host, port })
    }

    /// The URL whose host and port are the same, for the rules about addresses.
    pub(crate) fn url(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{}://{host}:{}", if self.is_encrypted { "https" } else { "http" }, self.port)
    }

    /// `P4PORT` for one of its addresses: p4 resolves nothing itself.
    pub(crate) fn at(&self, address: IpAddr) -> String {
        let scheme = if self.is_encrypted { "ssl" } else { "tcp" };
        match address {
            IpAddr::V4(_) => format!("{scheme}:{}", self.place(address)),
            IpAddr::V6(_) => format!("{scheme}6:{}", self.place(address)),
        }
    }

    /// An address and the port, as the trust file has it.
    pub(crate) fn place(&self, address: IpAddr) -> String {
        match address {
            IpAddr::V4(address) => format!("{address}:{}", self.port),
            IpAddr::V6(address) => format!("[{address}]:{}", self.port),
        }
    }

    /// Over TLS.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }
}

/// `ssl`, `ssl4`, `ssl6`, `ssl46`, `ssl64`.
fn is_scheme(text: &str, base: &str) -> bool {
    let rest = text.get(..base.len()).filter(|head| head.eq_ignore_ascii_case(base)).map(|_| &text[base.len()..]);
    rest.is_some_and(|rest| matches!(rest, "" | "4" | "6" | "46" | "64"))
}

impl fmt::Display for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(out, "{}:{host}:{}", if self.is_encrypted { "ssl" } else { "tcp" }, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_form() {
        for (text, expected, port) in [
            ("ssl:Vcs.Studio.lan:1666", "ssl:vcs.studio.lan:1666", "ssl:10.0.0.7:1666"),
            ("vcs:1666", "tcp:vcs:1666", "tcp:10.0.0.7:1666"),
            ("tcp4:vcs.:1666", "tcp:vcs:1666", "tcp:10.0.0.7:1666"),
            ("SSL64:vcs:1", "ssl:vcs:1", "ssl:10.0.0.7:1"),
            ("ssl6:[::1]:1666", "ssl:[::1]:1666", "ssl:10.0.0.7:1666"),
        ] {
            let server = Server::parse(text).unwrap();
            assert_eq!((server.to_string().as_str(), server.at([10, 0, 0, 7].into()).as_str()), (expected, port));
            assert_eq!(Server::parse(&server.to_string()), Some(server));
        }
        let server = Server::parse("ssl:vcs:1666").unwrap();
        assert_eq!((server.url().as_str(), server.at(Ipv6Addr::LOCALHOST.into()).as_str()), ("https://vcs:1666", "ssl6:[::1]:1666"));
    }

    #[test]
    fn what_runs_something_or_is_no_place_is_refused() {
        for text in [
            "",
            "1666",
            "vcs",
            "vcs:",
            "vcs:0",
            "vcs:65536",
            "vcs:x",
            ":1666",
            "rsh:sh -c x",
            "rsh:x:1",
            "jsh:x:1",
            "file:/x:1",
            "ssl:vcs:1666:2",
            "ssl:-x:1666",
            "ssl:v cs:1666",
            "ssl:vcs\n:1666",
            "https://vcs:1666",
            "ssl:[::1:1666",
            "ssl:u@vcs:1666",
            "ssl:vcs$(x):1",
            "tcp:tcp:vcs:1",
        ] {
            assert_eq!(Server::parse(text), None, "{text}");
        }
    }
}
