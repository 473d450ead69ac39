//! What texts in the configuration have to look like. Each error finishes the sentence "must be ...".

use std::net::SocketAddr;

use crate::model::network::Network;

/// An address and a port.
pub fn address(text: &str) -> Result<(), &'static str> {
    parse_address(text).map(|_| ()).ok_or("an address with a port such as 127.0.0.1:8080 or [::]:8080")
}

/// Reads an address with a port; the only name among them is `localhost`.
pub fn parse_address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => port.parse().ok().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port))),
        None => text.parse().ok(),
    }
}

/// Scheme and host, perhaps a port; nothing after them.
pub fn base_url(text: &str) -> Result<(), &'static str> {
    const WHAT: &str = "a base address such as https://builds.studio.lan, without a path";
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or(WHAT)?;
    let host = rest.strip_suffix('/').unwrap_or(rest);
    let fine = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c)) && !host.starts_with(':');
    let port = host.rsplit_once(':').filter(|_| !host.ends_with(']')).map(|(_, port)| port);
    if fine && port.is_none_or(|port| port.parse::<u16>().is_ok()) { Ok(()) } else { Err(WHAT) }
}

/// A host name or an address, without a port.
pub fn host_name(text: &str) -> Result<(), &'static str> {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let fine = text.len() <= 253 && (text.split('.').all(is_label) || text.parse::<std::net::IpAddr>().is_ok());
    if fine { Ok(()) } else { Err("a host name or an address, without a port") }
}

/// An address of mail, without a name beside it.
pub fn mail_address(text: &str) -> Result<(), &'static str> {
    let fine = text.len() <= 254
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>()[],;:\\\"".contains(&byte))
        && text
            .rsplit_once('@')
            .is_some_and(|(name, host)| (1..=64).contains(&name.len()) && !name.contains('@') && host_name(host).is_ok());
    if fine { Ok(()) } else { Err("an address such as builds@studio.lan") }
}

/// Text without line ends and other control characters.
pub fn one_line(text: &str) -> Result<(), &'static str> {
    if text.chars().any(char::is_control) { Err("text on one line") } else { Ok(()) }
}

/// The name of an environment variable.
pub fn variable_name(text: &str) -> Result<(), &'static str> {
    let fine = !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        // Windows has names such as `ProgramFiles(x86)`.
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_()".contains(c));
    if !fine {
        return Err("names of environment variables");
    }
    // They would hand the service's own secrets to a build.
    if text.to_ascii_uppercase().starts_with(super::keys::PREFIX) || text == "CREDENTIALS_DIRECTORY" {
        return Err("variables without secrets of the service");
    }
    Ok(())
}

/// An address or a range of addresses.
pub fn network(text: &str) -> Result<(), &'static str> {
    let is_network = text.parse::<Network>().is_ok();
    if is_network { Ok(()) } else { Err("addresses such as 10.0.0.7 or ranges such as 10.0.0.0/8") }
}

/// The name of a target platform: it becomes an argument of the engine's build tool.
pub fn platform_name(text: &str) -> Result<(), &'static str> {
    let fine = (1..=32).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric());
    if fine { Ok(()) } else { Err("names of 1 to 32 letters and digits") }
}

/// The name or number of a user or group of this machine; empty: none.
pub fn account_name(text: &str) -> Result<(), &'static str> {
    let fine = text.len() <= 64 && !text.starts_with('-') && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.@$\\".contains(c));
    if fine { Ok(()) } else { Err("the name or the number of a user or group of this machine") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for fine in ["127.0.0.1:0", "[::]:80", "localhost:9000", "0.0.0.0:65535"] {
            assert!(address(fine).is_ok(), "{fine}");
        }
        for wrong in ["8080", ":8080", "127.0.0.1", "example.com:80", "1.2.3.4:65536", "localhost:", ""] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn base_urls() {
        for fine in ["https://a.b", "http://10.0.0.1:8080", "https://[::1]:8443", "https://[::1]", "https://a.b/"] {
            assert!(base_url(fine).is_ok(), "{fine}");
        }
        for wrong in
            ["a.b", "ftp://a", "https://", "https:///", "https://u:p@a", "https://a/b", "https://a?b", "https://a b", "https://a:x"]
        {
            assert!(base_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mail_servers_and_addresses() {
        for fine in ["mail.studio.lan", "localhost", "10.0.0.5", "fd00::25"] {
            assert!(host_name(fine).is_ok(), "{fine}");
        }
        for wrong in ["", "mail:25", "a b", "[::1]", "a\r\nb", "-a", "a..b"] {
            assert!(host_name(wrong).is_err(), "{wrong:?}");
        }
        assert!(mail_address("builds+ci@studio.lan").is_ok());
        for wrong in ["", "a", "@b.c", "a@", "a@b@c.d", "A <a@b.c>", "a@b.c\r\nBcc: x@y.z", "a b@c.d", "a@b c"] {
            assert!(mail_address(wrong).is_err(), "{wrong:?}");
        }
        assert!(one_line("Ada Lovelace").is_ok() && one_line("a\nb").is_err());
    }

    #[test]
    fn a_build_gets_no_secret_of_the_service() {
        assert!(variable_name("PATH").is_ok());
        for wrong in ["COOKHOUSE_SECRET_KEY", "cookhouse_secret_key", "CREDENTIALS_DIRECTORY", "A=B", "", "1A"] {
            assert!(variable_name(wrong).is_err(), "{wrong}");
        }
    }
}
