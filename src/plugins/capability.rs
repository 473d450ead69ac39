//! What a plugin may reach: what its manifest asks for, and was granted, and the server allows. The one place that
//! says yes; everything starts at nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::manifest::{CommandPermission, HttpPermission, Manifest, Permissions, SecretUse};

/// The server's own limits, whatever a manifest asks for and an administrator grants.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    /// Names of the tools that are bound to a program.
    pub(crate) tools: BTreeSet<String>,
    /// Largest sum of memories, bytes.
    pub(crate) memory: usize,
    /// Longest processor time of one call.
    pub(crate) cpu: Duration,
}

/// What one call may reach.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grants {
    origins: Vec<OriginPattern>,
    secrets: BTreeMap<String, BTreeSet<SecretUse>>,
    tools: BTreeSet<String>,
    /// Tool to the one server that it may speak to.
    servers: BTreeMap<String, String>,
    /// Sum of memories, bytes.
    pub(crate) memory: usize,
    /// Processor time.
    pub(crate) cpu: Duration,
}

impl Grants {
    /// Manifest and grant and policy, with the origins that the settings name.
    pub(crate) fn of(manifest: &Manifest, granted: &Permissions, policy: &Policy, config: &Value) -> Grants {
        let asked = &manifest.permissions;
        let origins = asked.http.iter().filter(|one| granted.http.iter().any(|other| same_place(one, other)));
        let mut secrets = BTreeMap::new();
        for secret in &asked.secrets {
            let allowed = granted.secrets.iter().filter(|other| other.name == secret.name).flat_map(|other| &other.uses);
            let allowed: BTreeSet<SecretUse> = allowed.copied().filter(|one| secret.uses.contains(one)).collect();
            if !allowed.is_empty() {
                secrets.insert(secret.name.clone(), allowed);
            }
        }
        let is_granted = |one: &&CommandPermission| {
            let same = |other: &CommandPermission| other.tool == one.tool && other.server_from == one.server_from;
            granted.commands.iter().any(same) && policy.tools.contains(&one.tool)
        };
        let tools: Vec<&CommandPermission> = asked.commands.iter().filter(is_granted).collect();
        let servers =
            tools.iter().filter_map(|one| Some((one.tool.clone(), config.pointer(one.server_from.as_ref()?)?.as_str()?.to_owned())));
        let least = |own: u64, asked: Option<u64>, granted: Option<u64>| own.min(asked.unwrap_or(own)).min(granted.unwrap_or(own));
        Grants {
            origins: origins.filter_map(|one| OriginPattern::of(one, config)).collect(),
            secrets,
            servers: servers.collect(),
            tools: tools.iter().map(|one| one.tool.clone()).collect(),
            memory: usize::try_from(
                least(policy.memory as u64 >> 20, asked.limits.memory_mebibytes, granted.limits.memory_mebibytes) << 20,
            )
            .unwrap_or(policy.memory),
            cpu: Duration::from_secs(least(policy.cpu.as_secs(), asked.limits.cpu_seconds, granted.limits.cpu_seconds)),
        }
    }

    /// May this origin be reached?
    pub(crate) fn allows_origin(&self, origin: &Origin) -> bool {
        self.origins.iter().any(|pattern| pattern.matches(origin))
    }

    /// May this URL be reached? A URL with credentials in it never.
    pub(crate) fn allows_url(&self, url: &str) -> bool {
        Origin::parse(url).is_some_and(|origin| self.allows_origin(&origin)) && !has_credentials(url)
    }

    /// The fixed origins, for tools that take a list.
    pub(crate) fn fixed_origins(&self) -> impl Iterator<Item = &Origin> {
        self.origins.iter().filter(|pattern| !pattern.subdomains).map(|pattern| &pattern.origin)
    }

    /// May the secret be used like this? `register`ed secrets are the guest's own and not asked for here.
    pub(crate) fn allows_secret(&self, name: &str, wanted: SecretUse) -> bool {
        self.secrets.get(name).is_some_and(|uses| uses.contains(&wanted))
    }

    /// May the secret be used at all?
    pub(crate) fn knows_secret(&self, name: &str) -> bool {
        self.secrets.contains_key(name)
    }

    /// Where the one server is that a tool may speak to.
    pub(crate) fn server_of(&self, tool: &str) -> Option<&str> {
        self.servers.get(tool).map(String::as_str)
    }

    /// May the tool be started?
    pub(crate) fn allows_tool(&self, tool: &str) -> bool {
        self.tools.contains(tool)
    }
}

fn same_place(one: &HttpPermission, other: &HttpPermission) -> bool {
    match (one, other) {
        (HttpPermission::Fixed { origin: a, .. }, HttpPermission::Fixed { origin: b, .. }) => a == b,
        (HttpPermission::FromSettings { origin_from: a, .. }, HttpPermission::FromSettings { origin_from: b, .. }) => a == b,
        _ => false,
    }
}

fn has_credentials(url: &str) -> bool {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

/// Scheme, host and port of an http(s) URL, in one spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    secure: bool,
    host: String,
    port: u16,
}

impl Origin {
    /// The origin of a URL. `None` for other schemes and for hosts that different readers could take for different
    /// hosts: only letters, digits, `-`, `_`, `.` or a bracketed IPv6 address.
    pub(crate) fn parse(url: &str) -> Option<Origin> {
        // Readers of URLs disagree about these; nobody needs them.
        if url.chars().any(|character| character.is_control() || character.is_whitespace() || character == '\\') {
            return None;
        }
        let (scheme, rest) = url.split_once("://")?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next()?;
        let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
        let (host, port) = match place.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((inner, after)) => {
                // One spelling per address.
                let address: std::net::Ipv6Addr = inner.parse().ok()?;
                (format!("[{address}]"), if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
            }
            None => {
                let (host, port) = place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port)));
                let plain = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
                if !plain {
                    return None;
                }
                (host.trim_end_matches('.').to_ascii_lowercase(), port)
            }
        };
        let port = match port {
            Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok()?,
            Some(_) => return None,
            None => {
                if secure {
                    443
                } else {
                    80
                }
            }
        };
        (!host.is_empty() && port != 0).then_some(Origin { secure, host, port })
    }

    /// Its host, in brackets when it is an IPv6 address.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Its port, also where the URL leaves it out.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.secure
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}://{}:{}", if self.secure { "https" } else { "http" }, self.host, self.port)
    }
}

/// A granted origin; its host may stand for every host below it.
#[derive(Debug, Clone)]
struct OriginPattern {
    origin: Origin,
    subdomains: bool,
}

impl OriginPattern {
    /// An unset or unreadable setting is no origin, not an error.
    fn of(permission: &HttpPermission, config: &Value) -> Option<OriginPattern> {
        match permission {
            HttpPermission::FromSettings { origin_from, .. } => {
                let origin = Origin::parse(config.pointer(origin_from)?.as_str()?)?;
                Some(OriginPattern { origin, subdomains: false })
            }
            HttpPermission::Fixed { origin, .. } => match origin.split_once("://*.") {
                // At least two labels: `*.com` would be half of the world.
                Some((scheme, domain)) if domain.split([':', '/']).next()?.contains('.') => {
                    Some(OriginPattern { origin: Origin::parse(&format!("{scheme}://{domain}"))?, subdomains: true })
                }
                Some(_) => None,
                None => Some(OriginPattern { origin: Origin::parse(origin)?, subdomains: false }),
            },
        }
    }

    fn matches(&self, origin: &Origin) -> bool {
        let same_service = self.origin.secure == origin.secure && self.origin.port == origin.port;
        let same_host = if self.subdomains {
            origin.host.strip_suffix(&self.origin.host).is_some_and(|prefix| prefix.len() > 1 && prefix.ends_with('.'))
        } else {
            origin.host == self.origin.host
        };
        same_service && same_host
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn grants(permissions: Value, granted: Option<Value>, config: Value) -> Grants {
        let manifest: Manifest = serde_json::from_value(json!({
            "manifest": 1, "id": "a", "name": "A", "version": "1", "api": "1.0", "world": "source-control-plugin", "permissions": permissions
        }))
        .unwrap();
        let granted = granted.map_or_else(|| manifest.permissions.clone(), |granted| serde_json::from_value(granted).unwrap());
        let policy = Policy { tools: ["git".to_owned()].into(), memory: 64 << 20, cpu: Duration::from_secs(60) };
        Grants::of(&manifest, &granted, &policy, &config)
    }

    #[test]
    fn origins_match_exactly_and_wildcards_only_below() {
        let grants = grants(
            json!({"http": [{"origin": "https://*.example.com"}, {"originFrom": "/api"}, {"originFrom": "/unset"}, {"origin": "https://*.com"}]}),
            None,
            json!({"api": "http://Host.LAN:8080/api/v3?x"}),
        );
        for url in ["https://a.example.com/x", "https://a.b.example.com:443", "http://host.lan:8080", "http://host.lan.:8080/x"] {
            assert!(grants.allows_url(url), "{url}");
        }
        for url in [
            "https://example.com",
            "http://a.example.com",
            "https://a.example.com:8443",
            "https://evilexample.com",
            "https://a.example.com.evil.org",
            "http://host.lan",
            "https://host.lan:8080",
            "https://x.com",
            "https://user:pw@a.example.com",
            "https://a.example.com@evil.org",
            "https://evil.org\\@a.example.com",
            "https://evil.org#@a.example.com",
            "ftp://a.example.com",
            "https://",
            "",
            "https://a.example.com:0",
        ] {
            assert!(!grants.allows_url(url), "{url}");
        }
    }

    #[test]
    fn everything_is_the_intersection() {
        let asked = json!({
            "http": [{"origin": "https://a.example"}, {"origin": "https://b.example"}], "secrets": [{"name": "token", "use": ["header", "reveal"]}],
            "commands": [{"tool": "git"}, {"tool": "p4"}], "limits": {"memoryMiB": 512, "cpuSeconds": 5}
        });
        let granted = json!({
            "http": [{"origin": "https://b.example", "why": "other words"}, {"origin": "https://c.example"}],
            "secrets": [{"name": "token", "use": ["header", "env"]}, {"name": "other", "use": ["header"]}], "commands": [{"tool": "git"}, {"tool": "p4"}]
        });
        let grants = grants(asked, Some(granted), Value::Null);
        assert!(
            !grants.allows_url("https://a.example") && grants.allows_url("https://b.example") && !grants.allows_url("https://c.example")
        );
        assert!(grants.allows_secret("token", SecretUse::Header));
        assert!(
            !grants.allows_secret("token", SecretUse::Reveal)
                && !grants.allows_secret("token", SecretUse::Env)
                && !grants.knows_secret("other")
        );
        assert!(grants.allows_tool("git") && !grants.allows_tool("p4") && !grants.allows_tool("sh"));
        assert_eq!((grants.memory, grants.cpu), (64 << 20, Duration::from_secs(5)));
    }
}
