//! From stored connections and settings to what a plugin is called with. Under which names their
//! secrets are sealed says `model::places`.

use std::collections::BTreeMap;

use serde_json::json;

use crate::model::log::LogStream;
pub use crate::model::places::{
    deploy_secret as deploy_secret_place, githost_key as githost_key_place, githost_token as githost_token_place,
    githost_webhook as githost_webhook_place, streamvc_ticket as streamvc_ticket_place, upload_header as upload_header_place,
};
use crate::model::project::SourceLink;
use crate::model::{BuildSetting, Id, Organization, Secret};
use crate::seams::{LogSink, PluginBinding};
use crate::vault::{Vault, VaultError};

/// The plugin that reaches git hosts.
pub const GITHOST_PLUGIN: &str = "githost";
/// The plugin that reaches stream-based servers.
pub const STREAMVC_PLUGIN: &str = "streamvc";
/// The plugin behind `uploadBuildUrl`.
pub const CUSTOM_DEPLOY_PLUGIN: &str = "custom-deploy";

/// Where a plugin's lines go while no build is concerned: the service's own log.
pub struct ServiceLog;

impl LogSink for ServiceLog {
    fn line(&self, _: LogStream, text: &str) {
        tracing::debug!(target: "cookhouse::plugins", "{text}");
    }
    fn mask(&self, _: &str) {}
    fn progress(&self, _: &str, _: u64, _: Option<u64>) {}
}

/// Why a plugin cannot be called on somebody's behalf.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// There is no connection of this kind, or it has no credentials.
    #[error("the connection is not set up: an administrator has to connect it")]
    NotConnected,
    /// The stored secret does not open.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

/// How to call the git host of an organization, whatever the connection's status. With an app, `installation` says for
/// whom; what it may reach then is the installation's.
pub fn githost(vault: &Vault, organization: &Organization, installation: &str) -> Result<PluginBinding, ConnectionError> {
    let connection = organization.githost.as_ref().ok_or(ConnectionError::NotConnected)?;
    let (mut config, name, secret) = match (&connection.app, &connection.token) {
        (Some(app), _) => {
            let key = vault.open_sealed(&githost_key_place(organization.id), &app.private_key)?;
            (json!({"mode": "app", "appId": app.id, "installationId": installation}), "privateKey", key)
        }
        (None, Some(token)) => (json!({"mode": "token"}), "token", vault.open_sealed(&githost_token_place(organization.id), token)?),
        (None, None) => return Err(ConnectionError::NotConnected),
    };
    config["apiBaseUrl"] = connection.api_base_url.clone().into();
    config["gitBaseUrl"] = connection.git_base_url.clone().into();
    Ok(PluginBinding {
        plugin: GITHOST_PLUGIN.into(),
        organization: organization.id,
        config,
        secrets: BTreeMap::from([(name.to_owned(), secret)]),
    })
}

/// How to call the version-control server of an organization.
pub fn streamvc(vault: &Vault, organization: &Organization) -> Result<PluginBinding, ConnectionError> {
    let connection = organization.streamvc.as_ref().ok_or(ConnectionError::NotConnected)?;
    let ticket = connection.ticket.as_ref().map(|ticket| vault.open_sealed(&streamvc_ticket_place(organization.id), ticket)).transpose()?;
    Ok(streamvc_binding(organization.id, &connection.server_url, &connection.user_name, connection.fingerprint.as_deref(), ticket))
}

/// The same for a connection that is about to be made.
pub fn streamvc_binding(
    organization: Id<Organization>,
    server_url: &str,
    user_name: &str,
    fingerprint: Option<&str>,
    ticket: Option<Secret>,
) -> PluginBinding {
    PluginBinding {
        plugin: STREAMVC_PLUGIN.into(),
        organization,
        config: json!({"serverUrl": server_url, "userName": user_name, "fingerprint": fingerprint.unwrap_or_default()}),
        secrets: ticket.map(|ticket| ("ticket".to_owned(), ticket)).into_iter().collect(),
    }
}

/// How to call the server that holds a project's code, and what the plugin knows the codebase by: the repository, or the
/// stream that is built (`tracked`).
pub fn source<'a>(
    vault: &Vault,
    organization: &Organization,
    link: &'a SourceLink,
    tracked: &'a str,
) -> Result<(PluginBinding, &'a str), ConnectionError> {
    match link {
        SourceLink::Githost { installation_id, repo_full_name, .. } => Ok((githost(vault, organization, installation_id)?, repo_full_name)),
        SourceLink::Streamvc { .. } => Ok((streamvc(vault, organization)?, tracked)),
    }
}

/// Names of the plugins that a setting's artifact is handed to, in order.
pub fn deploy_plugins(setting: &BuildSetting) -> Vec<String> {
    let custom = setting.upload_build_url.as_ref().map(|_| CUSTOM_DEPLOY_PLUGIN.to_owned());
    custom.into_iter().chain(setting.deploy_targets.iter().map(|target| target.plugin.clone())).collect()
}

/// How to call each of [`deploy_plugins`], in the same order; opened one by one, so that a secret that does not open
/// fails its own target only.
pub fn deploy_bindings(vault: &Vault, setting: &BuildSetting) -> Vec<Result<PluginBinding, ConnectionError>> {
    let binding =
        |plugin: &str, config, secrets| PluginBinding { plugin: plugin.into(), organization: setting.organization_id, config, secrets };
    let custom = setting.upload_build_url.as_ref().map(|url| {
        let header = setting.upload_build_auth_header.as_ref();
        let header = header.map(|sealed| vault.open_sealed(&upload_header_place(setting.id), sealed)).transpose()?;
        let secrets: BTreeMap<String, Secret> = header.map(|header| ("authorization".to_owned(), header)).into_iter().collect();
        Ok(binding(CUSTOM_DEPLOY_PLUGIN, json!({ "url": url }), secrets))
    });
    let further = setting.deploy_targets.iter().enumerate().map(|(entry, target)| {
        let open =
            |(name, sealed): (&String, _)| Ok((name.clone(), vault.open_sealed(&deploy_secret_place(setting.id, entry, name), sealed)?));
        let secrets: Result<BTreeMap<String, Secret>, ConnectionError> = target.secrets.iter().map(open).collect();
        Ok(binding(&target.plugin, target.config.clone(), secrets?))
    });
    custom.into_iter().chain(further).collect()
}
