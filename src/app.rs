//! The handles that a handler may use.

pub mod detections;
pub mod traffic;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::artifacts::Artifacts;
use crate::artifacts::signed_url::LinkSigner;
use crate::builds::Builds;
use crate::builds::logs::Logs;
use crate::clock::Clock;
use crate::live::Live;
use crate::model::network::Network;
use crate::model::{Id, Organization};
use crate::notifications::Notifications;
use crate::people::{People, SetupToken};
use crate::seams::SourceControl;
use crate::store::Store;
use crate::vault::Vault;
use crate::webhooks::Webhooks;
use detections::Detections;
use traffic::Traffic;

/// What handlers need to know of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Base of links to this server, without a slash at the end; `None`: from the request's `Host`.
    pub public_url: Option<String>,
    /// Platforms besides the engine's own.
    pub extra_platforms: Vec<String>,
    /// Names of the plugins that `deployTargets` may name.
    pub deploy_plugins: Vec<String>,
    /// How often somebody may ask; `None`: as often as they like.
    pub rate_limits: Option<RateLimits>,
    /// Whose word on the address of a client is taken.
    pub trusted_proxies: Vec<Network>,
    /// Whether other machines are told the metrics.
    pub metrics_are_public: bool,
}

/// How often somebody may ask, in a minute (decisions 4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimits {
    /// Of one token or signed-in person.
    pub requests_per_minute: u32,
    /// Of those, how many at once.
    pub burst: u32,
    /// Builds that one token or person starts.
    pub trigger_per_minute: u32,
    /// Attempts to sign in from one address.
    pub login_per_minute: u32,
    /// Everything without a caller from one address.
    pub unauthenticated_per_minute: u32,
}

/// Everything a handler may use.
pub struct App {
    /// Records.
    pub store: Store,
    /// Secrets at rest, and keys.
    pub vault: Arc<Vault>,
    /// Now, and new ids.
    pub clock: Arc<Clock>,
    /// Accounts, sessions, tokens.
    pub people: People,
    /// The first start.
    pub setup_token: SetupToken,
    /// The life of builds.
    pub builds: Builds,
    /// Tarballs.
    pub artifacts: Artifacts,
    /// Signed links to them.
    pub links: LinkSigner,
    /// Logs of builds.
    pub logs: Logs,
    /// Tells people that builds have ended.
    pub notifications: Notifications,
    /// What followers of builds and events share.
    pub live: Live,
    /// Other machines that are told what happens.
    pub webhooks: Webhooks,
    /// Git hosts.
    pub source_control: Arc<dyn SourceControl>,
    /// From the configuration.
    pub settings: Settings,
    /// Requests with an `Idempotency-Key` that are being answered right now.
    pub keys_in_flight: KeysInFlight,
    /// Which repositories hold a project file.
    pub detections: Detections,
    /// Requests as monitoring counts them.
    pub traffic: Traffic,
}

/// A set of keys, each held by one request.
#[derive(Default)]
pub struct KeysInFlight(Mutex<HashSet<(Id<Organization>, String)>>);

impl KeysInFlight {
    /// False: somebody holds it.
    pub fn take(&self, organization: Id<Organization>, key: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((organization, key.to_owned()))
    }

    /// It is free again.
    pub fn release(&self, organization: Id<Organization>, key: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&(organization, key));
    }
}
