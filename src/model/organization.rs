//! An organization, its defaults and its connections (decisions 5).

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::build_setting::Supersede;
use super::secret::Sealed;
use super::{Id, Timestamp};

/// An organization as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Organization {
    /// Its id.
    pub id: Id<Organization>,
    /// What people call it, 1 to 80 characters.
    pub name: String,
    /// Made from the first name, never changes.
    pub slug: String,
    /// What new projects and settings begin with.
    pub default_project_settings: DefaultProjectSettings,
    /// Where notifications go.
    #[serde(default)]
    pub integration_settings: IntegrationSettings,
    /// The git host, once connected.
    pub githost: Option<GithostConnection>,
    /// The version-control server, once its credentials are known to work.
    #[serde(default)]
    pub streamvc: Option<StreamvcConnection>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Counts changes; the ETag.
    pub version: u64,
}

/// The only plan there is.
pub const PLAN: &str = "self-hosted";

/// Defaults of an organization's build settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefaultProjectSettings {
    /// An engine version or the label of an engine; `""`: no default.
    #[schemars(example = &"5.4")]
    pub ue_version: String,
    /// What to build for.
    #[schemars(example = &"Win64")]
    pub platform: String,
    /// The engine's build configuration.
    #[schemars(example = &"Development")]
    pub build_type: String,
    /// How long a build may run before it is ended.
    #[schemars(example = 360)]
    pub timeout_minutes: u32,
    /// How long artifacts are kept, in days. `None`: what the configuration of the host says; clients are shown that.
    #[schemars(with = "u32", example = 30)]
    pub artifact_retention_days: Option<u32>,
    /// How many of a setting's newest artifacts are kept however old they are. `None`: what the configuration of the host says;
    /// clients are shown that.
    #[schemars(with = "u32", example = 3)]
    pub keep_last_artifacts: Option<u32>,
    /// Tell people when a build ends.
    pub notify_on_complete: bool,
    /// What a newer automatic build of the same branch does to older ones.
    pub supersede: Supersede,
}

impl Default for DefaultProjectSettings {
    fn default() -> Self {
        DefaultProjectSettings {
            ue_version: String::new(),
            platform: "Win64".into(),
            build_type: "Development".into(),
            timeout_minutes: 360,
            artifact_retention_days: None,
            keep_last_artifacts: None,
            notify_on_complete: false,
            supersede: Supersede::Pending,
        }
    }
}

/// Where notifications go; addresses that hold a secret are sealed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IntegrationSettings {
    /// Who gets an e-mail besides the person who started a build.
    pub notification_emails: Vec<String>,
    /// An incoming webhook; whoever knows its address may write.
    pub slack_webhook_url: Option<Sealed>,
    /// The same of another chat.
    pub discord_webhook_url: Option<Sealed>,
    /// The same of another chat.
    pub teams_webhook_url: Option<Sealed>,
    /// The server that e-mail leaves by.
    pub smtp: Option<Smtp>,
}

/// A mail server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Smtp {
    /// Name or address.
    pub host: String,
    /// 587 unless somebody says otherwise.
    pub port: u16,
    /// How the connection is protected.
    pub security: SmtpSecurity,
    /// `""`: the server asks for none.
    pub username: String,
    /// Only ever sent to the host, port and security that it was given for.
    pub password: Option<Sealed>,
    /// The sender's address.
    pub from: String,
}

/// How a connection to a mail server is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SmtpSecurity {
    /// Plain at first, then TLS or nothing.
    Starttls,
    /// TLS from the first byte.
    Tls,
    /// None; to loopback and private addresses only.
    None,
}

/// How the organization reaches its version-control server. Stored only after the server took the credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamvcConnection {
    /// As the server's own tools take it, such as `ssl:vcs.studio.lan:1666`.
    pub server_url: String,
    /// Whose credentials.
    pub user_name: String,
    /// The credentials.
    pub ticket: Option<Sealed>,
    /// When they were last seen to work.
    pub checked_at: Timestamp,
    /// What the server said that it is.
    pub server_version: String,
    /// Of the server's key, where the connection is encrypted: seen first, or confirmed, by whoever stored the
    /// credentials. A server with another one is not spoken to.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// When the ticket ends, as the server said.
    #[serde(default)]
    pub ticket_expires_at: Option<Timestamp>,
}

/// How the organization reaches its git host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GithostConnection {
    /// `connected`, `suspended`, `disconnected`.
    pub status: GithostStatus,
    /// Base of the host's API, without a slash at the end.
    pub api_base_url: String,
    /// Base of its repositories' clone addresses, without a slash at the end.
    pub git_base_url: String,
    /// Token mode: the access token.
    pub token: Option<Sealed>,
    /// App mode: the app.
    #[serde(default)]
    pub app: Option<GithostApp>,
    /// What the git host signs its deliveries with.
    #[serde(default)]
    pub webhook: WebhookSecrets,
    /// What the connection reaches.
    pub installations: Vec<Installation>,
    /// When the credentials were last seen to work.
    pub checked_at: Timestamp,
}

/// An app that the git host knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GithostApp {
    /// Its id, or its client id.
    pub id: String,
    /// Its private key, PEM.
    pub private_key: Sealed,
}

/// What deliveries of a git host are signed with. For a day after a change both secrets are taken, so that none is lost
/// between changing it here and there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookSecrets {
    /// The one that counts; none: nothing is taken.
    pub current: Option<Sealed>,
    /// The one before.
    pub former: Option<Sealed>,
    /// Until when the one before is taken, too.
    pub former_until: Option<Timestamp>,
}

impl WebhookSecrets {
    /// How long the former secret is taken after a change.
    pub const OVERLAP: Duration = Duration::from_secs(24 * 60 * 60);

    /// Those that count at this time.
    pub fn valid(&self, now: Timestamp) -> impl Iterator<Item = &Sealed> {
        let former = self.former.as_ref().filter(|_| self.former_until.is_some_and(|until| now < until));
        self.current.iter().chain(former)
    }

    /// With another secret, at this time.
    pub fn rotated(self, new: Sealed, now: Timestamp) -> Self {
        let former_until = self.current.is_some().then(|| now.plus(Self::OVERLAP));
        WebhookSecrets { current: Some(new), former: self.current, former_until }
    }
}

/// Whether builds can reach the git host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GithostStatus {
    /// Credentials work.
    Connected,
    /// The host suspended the installation.
    Suspended,
    /// An admin, or the host, took the connection away.
    Disconnected,
}

/// One installation; token mode has exactly one, named after the token's account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Installation {
    /// The path parameter of the proxy endpoints.
    pub id: String,
    /// Whose repositories.
    pub account: String,
    /// `all` or `selected`.
    pub repository_selection: String,
    /// The git host lets it reach nothing for now.
    #[serde(default)]
    pub suspended: bool,
}

impl GithostConnection {
    /// What its installations make of a connection that has credentials.
    pub fn status_by_installations(&self) -> GithostStatus {
        match self.installations.as_slice() {
            [] => GithostStatus::Disconnected,
            all if all.iter().all(|installation| installation.suspended) => GithostStatus::Suspended,
            _ => GithostStatus::Connected,
        }
    }

    /// Whether a delivery that names this installation concerns projects of `installation_id`. Without an app, what an
    /// installation is called is our own choice.
    pub fn is_of(&self, delivered: Option<&str>, installation_id: &str) -> bool {
        self.token.is_some() || delivered.is_none_or(|delivered| delivered == installation_id)
    }

    /// Whether builds of an installation's repositories can be synced.
    pub fn status_of(&self, installation_id: &str) -> GithostStatus {
        let found = self.installations.iter().find(|installation| installation.id == installation_id);
        match (self.status, found) {
            (GithostStatus::Connected, Some(installation)) if installation.suspended => GithostStatus::Suspended,
            (GithostStatus::Connected, None) if self.app.is_some() => GithostStatus::Disconnected,
            (status, _) => status,
        }
    }
}
