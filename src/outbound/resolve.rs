//! Names to addresses that may be connected to.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::address::{Forbidden, Policy};
use super::error::{OutboundError, OutboundErrorKind};

/// How a name becomes addresses.
pub type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> + Send + Sync>;

/// Why a name led nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ResolveError {
    #[error("the name {0} has no address; is it spelled right?")]
    Unknown(String),
    #[error("{host} ({address}) is never called: {reason}")]
    Denied { host: String, address: IpAddr, reason: Forbidden },
}

impl From<&ResolveError> for OutboundError {
    fn from(error: &ResolveError) -> Self {
        let kind = match error {
            ResolveError::Unknown(_) => OutboundErrorKind::Dns,
            ResolveError::Denied { .. } => OutboundErrorKind::AddressDenied,
        };
        OutboundError::new(kind, error.to_string())
    }
}

/// As the operating system does it: files, the studio's own servers, the internet's.
pub(super) fn system_lookup() -> Lookup {
    Arc::new(|host| {
        async move {
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        }
        .boxed()
    })
}

/// The address that a host of a URL already is.
pub(super) fn literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}

/// Resolves once and checks every address. What is left is what may be connected to, and all of it may.
pub(super) async fn resolve(host: &str, policy: Policy, lookup: &Lookup) -> Result<Vec<IpAddr>, ResolveError> {
    let found = match literal(host) {
        Some(address) => vec![address],
        None => lookup(host.to_owned()).await.map_err(|_| ResolveError::Unknown(host.to_owned()))?,
    };
    let (mut allowed, mut denied) = (Vec::new(), None);
    for address in found {
        match policy.check(address) {
            Ok(()) => allowed.push(address),
            Err(reason) => denied = denied.or(Some(ResolveError::Denied { host: host.to_owned(), address, reason })),
        }
    }
    match (allowed.is_empty(), denied) {
        (false, _) => Ok(allowed),
        (true, Some(denied)) => Err(denied),
        (true, None) => Err(ResolveError::Unknown(host.to_owned())),
    }
}

/// What the client resolves names with: it connects to nothing but what comes out here.
pub(super) struct CheckedResolver {
    /// Nothing is checked for the connection to the administrator's own proxy.
    pub(super) policy: Option<Policy>,
    pub(super) lookup: Lookup,
}

impl reqwest::dns::Resolve for CheckedResolver {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let (policy, lookup) = (self.policy, self.lookup.clone());
        Box::pin(async move {
            let host = name.as_str();
            let addresses = match policy {
                Some(policy) => resolve(host, policy, &lookup).await?,
                None => lookup(host.to_owned()).await.map_err(|_| ResolveError::Unknown(host.to_owned()))?,
            };
            // Port 0 stands for the port of the URL.
            let addresses: reqwest::dns::Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answering(addresses: &'static [&'static str]) -> Lookup {
        Arc::new(move |_| async move { Ok(addresses.iter().map(|address| address.parse().unwrap()).collect()) }.boxed())
    }

    #[tokio::test]
    async fn only_checked_addresses_are_left_and_one_good_one_is_enough() {
        let policy = Policy { allow_loopback: false, only_private: false };
        let resolved = resolve("git.lan", policy, &answering(&["127.0.0.1", "10.0.0.1", "fe80::1"])).await;
        assert_eq!(resolved.unwrap(), ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        let denied = resolve("rebound.example", policy, &answering(&["169.254.169.254", "::1"])).await.unwrap_err();
        assert!(matches!(&denied, ResolveError::Denied { reason: Forbidden::Metadata, .. }), "{denied}");
        assert_eq!(resolve("nothing.example", policy, &answering(&[])).await, Err(ResolveError::Unknown("nothing.example".to_owned())));
        let literal = resolve("[::ffff:169.254.169.254]", policy, &answering(&["10.0.0.1"])).await;
        assert!(matches!(literal, Err(ResolveError::Denied { .. })));
    }
}
