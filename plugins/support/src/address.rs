//! An http or https address that a person typed, checked by rules that leave nothing to guess.

use std::fmt;

/// A checked address: scheme, host, port and a path without query or fragment handling of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    text: String,
    path: usize,
}

impl Address {
    /// Checks the text. The error is a sentence that goes on after "the address": "must begin with ...".
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > 2048 {
            return Err("is longer than 2048 characters");
        }
        if text.chars().any(|character| character.is_control() || character.is_whitespace() || character == '\\') {
            return Err("contains white space, control characters or a backslash");
        }
        let rest = strip_scheme(text).ok_or("must begin with https:// or http://")?;
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        if authority.contains('@') {
            return Err("must not contain a user name or password");
        }
        if text.contains('#') {
            return Err("must not contain a fragment (#)");
        }
        check_authority(authority)?;
        let path = text.len() - rest.len() + authority.len();
        Ok(Address { text: text.to_owned(), path })
    }

    /// The address as it was typed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// `scheme://host[:port]`.
    pub fn origin(&self) -> &str {
        &self.text[..self.path]
    }

    /// Everything behind the origin.
    pub fn path(&self) -> &str {
        &self.text[self.path..]
    }

    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.text.as_bytes().get(4).is_some_and(|byte| byte.eq_ignore_ascii_case(&b's'))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

fn strip_scheme(text: &str) -> Option<&str> {
    ["https://", "http://"].iter().find_map(|scheme| {
        let (head, rest) = text.split_at_checked(scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

fn check_authority(authority: &str) -> Result<(), &'static str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("has a host that is not closed with ]")?;
            if host.is_empty() || !host.chars().all(|character| character.is_ascii_hexdigit() || matches!(character, ':' | '.')) {
                return Err("has a host that is no IPv6 address");
            }
            (host, port.strip_prefix(':').or(port.is_empty().then_some("")).ok_or("has text between its host and its path")?)
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    if host.is_empty() {
        return Err("has no host");
    }
    if !host.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_' | ':')) {
        return Err("has a host with characters that no host name has");
    }
    if authority.ends_with(':') || (!port.is_empty() && port.parse::<u16>().ok().filter(|port| *port != 0).is_none()) {
        return Err("has a port that is not a number from 1 to 65535");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn an_address_is_cut_into_origin_and_path() {
        for (text, origin, path) in [
            ("https://builds.example/upload?x=1", "https://builds.example", "/upload?x=1"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080", ""),
            ("HTTPS://[::1]:9/x", "HTTPS://[::1]:9", "/x"),
            ("https://host?token=1", "https://host", "?token=1"),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.origin(), address.path()), (origin, path));
        }
        assert!(Address::parse("HTTPS://host").unwrap().is_https());
        assert!(!Address::parse("http://shost").unwrap().is_https());
    }

    #[test]
    fn what_is_no_plain_address_is_refused() {
        for text in [
            "",
            "ftp://host/",
            "https:/host",
            "host/path",
            "https://",
            "https:///path",
            "https://:80/",
            "https://user@host/",
            "https://u:p@host/",
            "https://host:0/",
            "https://host:65536/",
            "https://host:/",
            "https://host:80x/",
            "https://host/#top",
            "https://ho st/",
            "https://host/\n",
            "https://[::1/",
            "https://[::1]x/",
            "https://[]/",
            "https://ho%73t/",
            "https://höst/",
            "https://host\\@evil/",
            "-https://host",
        ] {
            assert!(Address::parse(text).is_err(), "{text:?}");
        }
    }
}
