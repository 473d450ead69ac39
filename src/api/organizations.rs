//! The caller's organization: name, defaults, connections (decisions 5).

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;

use super::auth::Caller;
use super::body::{self, Change, Check, Fault, Fields, Later, ReadFields, ReadLater};
use super::build_setting_fields::checked_version;
use super::build_settings::labels;
use super::conditional::check_match;
use super::endpoint::{Call, NoContent, Ok200, Resource};
use super::error::{ApiError, Problem, Result};
use super::githost::{self, Githost};
use super::integration_settings::{IntegrationSettingsView, SettingsChange};
use super::streamvc::StreamvcView;
use super::urls;
use crate::app;
use crate::builds::connections::{GITHOST_PLUGIN, githost_key_place, githost_token_place, githost_webhook_place};
use crate::model::build_setting::{BUILD_TYPES, PLATFORMS, Supersede};
use crate::model::organization::{
    DefaultProjectSettings, GithostApp, GithostConnection, GithostStatus, Installation, PLAN, WebhookSecrets,
};
use crate::model::retention::Keep;
use crate::model::secret::Sealed;
use crate::model::validation::InvalidCode;
use crate::model::{Id, Organization, Secret, Timestamp};
use crate::plugins::can_sign;
use crate::seams::{PluginBinding, SourceError, SourceProblem};
use crate::store::Read;
use crate::vault::Vault;

/// Where the public git host lives, for connections that name no other.
const PUBLIC_API: &str = "https://api.github.com";
const PUBLIC_GIT: &str = "https://github.com";
/// What a server of one's own adds to its address for its API.
const API_PATH: &str = "/api/v3";
/// In bytes.
const SHORTEST_WEBHOOK_SECRET: usize = 16;

/// An organization: it owns projects, people and connections.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Organization")]
pub(super) struct OrganizationView {
    /// Its id.
    id: Id<Organization>,
    /// What people call it.
    #[schemars(example = &"Kitchen Studio")]
    name: String,
    /// Made from the first name, never changes.
    #[schemars(example = &"kitchen-studio")]
    slug: String,
    /// Always `self-hosted`.
    #[schemars(extend("enum" = [PLAN]))]
    plan: &'static str,
    /// What new projects and build settings begin with.
    default_project_settings: DefaultProjectSettings,
    /// Where notifications go.
    integration_settings: IntegrationSettingsView,
    /// Its connections to source control.
    integrations: Integrations,
    /// When it was made.
    created_at: Timestamp,
    /// When it was last changed.
    updated_at: Timestamp,
}

/// Connections to source control.
#[derive(Serialize, JsonSchema)]
struct Integrations {
    /// The git host.
    githost: GithostView,
    /// The version-control server; null without one.
    streamvc: Option<StreamvcView>,
}

/// The git host's connection, without its secret.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "GithostConnection")]
pub(super) struct GithostView {
    /// Whether builds can reach the git host.
    status: GithostStatus,
    /// What the connection reaches.
    installations: Vec<Installation>,
    /// Base of the host's API; `""` while disconnected.
    api_base_url: String,
    /// Base of clone addresses; `""` while disconnected.
    git_base_url: String,
    /// Whether a token is stored; it is never shown.
    token_set: bool,
    /// With an app: its id, or its client id.
    app_id: Option<String>,
    /// Whether an app's private key is stored; it is never shown.
    private_key_set: bool,
    /// Whether a webhook secret is stored; it is never shown.
    webhook_secret_set: bool,
    /// When the credentials were last seen to work.
    checked_at: Option<Timestamp>,
}

impl GithostView {
    fn new(connection: Option<&GithostConnection>) -> Self {
        let connection = connection.filter(|connection| connection.status != GithostStatus::Disconnected);
        GithostView {
            status: connection.map_or(GithostStatus::Disconnected, |connection| connection.status),
            installations: connection.map(|connection| connection.installations.clone()).unwrap_or_default(),
            api_base_url: connection.map(|connection| connection.api_base_url.clone()).unwrap_or_default(),
            git_base_url: connection.map(|connection| connection.git_base_url.clone()).unwrap_or_default(),
            token_set: connection.is_some_and(|connection| connection.token.is_some()),
            app_id: connection.and_then(|connection| connection.app.as_ref()).map(|app| app.id.clone()),
            private_key_set: connection.is_some_and(|connection| connection.app.is_some()),
            webhook_secret_set: connection.is_some_and(|connection| connection.webhook.current.is_some()),
            checked_at: connection.map(|connection| connection.checked_at),
        }
    }
}

fn resource(organization: &Organization, host: Keep) -> Resource<OrganizationView> {
    let mut defaults = organization.default_project_settings.clone();
    let keep = host.of(&defaults);
    (defaults.artifact_retention_days, defaults.keep_last_artifacts) = (Some(keep.days), Some(keep.last));
    let view = OrganizationView {
        id: organization.id,
        name: organization.name.clone(),
        slug: organization.slug.clone(),
        plan: PLAN,
        default_project_settings: defaults,
        integration_settings: IntegrationSettingsView::new(&organization.integration_settings),
        integrations: Integrations {
            githost: GithostView::new(organization.githost.as_ref()),
            streamvc: organization.streamvc.as_ref().map(StreamvcView::new),
        },
        created_at: organization.created_at,
        updated_at: organization.updated_at,
    };
    Resource { value: view, version: organization.version }
}

/// The caller's own organization; any other is not found.
pub(super) fn find(rows: &impl Read, caller: &Caller, id: Id<Organization>) -> Result<Organization> {
    if id != caller.organization() {
        return Err(Problem::NotFound.into());
    }
    rows.get(id, id)?.ok_or_else(|| Problem::NotFound.into())
}

/// The organization.
pub(super) async fn show(call: Call<Id<Organization>>) -> Result<Resource<OrganizationView>> {
    call.app
        .store
        .read(|snapshot| find(snapshot, &call.caller, call.path).map(|organization| resource(&organization, call.app.builds.keep())))
}

/// Body of PATCH `/organizations/:id`
pub(super) struct OrganizationChange {
    name: Option<String>,
    defaults: Option<DefaultsChange>,
    settings: SettingsChange,
}

impl OrganizationChange {
    fn read(fields: &mut Fields, extra_platforms: &[String], labels: &[String]) -> Self {
        let name = fields.optional("name", body::name(80).about("What people call it.").example("Kitchen Studio"));
        let about =
            "What new projects and build settings begin with. A field that is null, or the whole object, goes back to its first value.";
        let defaults = match fields.nested("defaultProjectSettings", about) {
            Change::Absent => None,
            Change::Null => Some(DefaultsChange::to_the_beginning()),
            Change::Value(mut nested) => {
                let change = DefaultsChange::read(&mut nested, extra_platforms, labels);
                fields.absorb(nested);
                Some(change)
            }
        };
        let settings = SettingsChange::read(fields);
        fields.read_only(&["id", "slug", "plan", "integrations", "createdAt", "updatedAt"]);
        OrganizationChange { name, defaults, settings }
    }
}

impl ReadLater for OrganizationChange {
    fn describe(mut fields: Fields, settings: &app::Settings) -> Fields {
        OrganizationChange::read(&mut fields, &settings.extra_platforms, &[]);
        fields
    }
}

/// Changes name, defaults and where notifications go.
pub(super) async fn change(call: Call<Id<Organization>, (), Later<OrganizationChange>>) -> Result<Resource<OrganizationView>> {
    call.caller.check_unlimited()?;
    let (app, caller, head, id, mut fields) = (call.app.clone(), call.caller, call.head, call.path, call.body.fields);
    app.store.read(|snapshot| find(snapshot, &caller, id))?;
    let labels = labels(&app).await?;
    let OrganizationChange { name, defaults, settings } = OrganizationChange::read(&mut fields, &app.settings.extra_platforms, &labels);
    let (now, host) = (app.clock.now(), app.builds.keep());
    let update = {
        let app = app.clone();
        move |tx: &crate::store::Change| {
            let mut organization = find(tx, &caller, id)?;
            check_match(&head, organization.version)?;
            organization.name = name.unwrap_or(organization.name);
            if let Some(defaults) = defaults {
                defaults.apply(&mut organization.default_project_settings);
            }
            settings.apply(&mut fields, &mut organization.integration_settings, &app, id)?;
            fields.finish()?;
            organization.updated_at = now;
            organization.version += 1;
            tx.put(&organization)?;
            Ok::<_, ApiError>(resource(&organization, host))
        }
    };
    app.store.write(update).await
}

/// `null` brings a default back to what a new organization has.
#[derive(Default)]
struct DefaultsChange {
    is_reset: bool,
    ue_version: Change<String>,
    platform: Change<String>,
    build_type: Change<String>,
    timeout_minutes: Change<u32>,
    artifact_retention_days: Change<u32>,
    keep_last_artifacts: Change<u32>,
    notify_on_complete: Change<bool>,
    supersede: Change<Supersede>,
}

impl DefaultsChange {
    fn to_the_beginning() -> Self {
        DefaultsChange { is_reset: true, ..DefaultsChange::default() }
    }

    fn read(fields: &mut Fields, extra_platforms: &[String], labels: &[String]) -> Self {
        // An empty one says that there is no default.
        let version = body::text(64).and(|version| if version.is_empty() { Ok(version) } else { checked_version(version, labels) });
        let version = version.about("An engine version or the label of an engine; `\"\"`: no default.").example("5.4");
        let platforms: Vec<&str> = PLATFORMS.into_iter().chain(extra_platforms.iter().map(String::as_str)).collect();
        DefaultsChange {
            is_reset: false,
            ue_version: fields.change("ueVersion", version),
            platform: fields.change("platform", body::one_of(&platforms).about("What to build for.").example("Win64")),
            build_type: fields
                .change("buildType", body::one_of(BUILD_TYPES).about("The engine's build configuration.").example("Development")),
            timeout_minutes: fields
                .change("timeoutMinutes", body::number(5, 2880).about("How long a build may run before it is ended.").example(360)),
            artifact_retention_days: fields
                .change("artifactRetentionDays", body::number(1, 36_500).about("How long artifacts are kept.").example(30)),
            keep_last_artifacts: fields.change(
                "keepLastArtifacts",
                body::number(0, 1000).about("How many of a setting's newest artifacts are kept however old they are.").example(3),
            ),
            notify_on_complete: fields.change("notifyOnComplete", body::boolean().about("Tell people when a build ends.").example(false)),
            supersede: fields.change("supersede", supersede()),
        }
    }

    fn apply(self, defaults: &mut DefaultProjectSettings) {
        let beginning = DefaultProjectSettings::default();
        if self.is_reset {
            *defaults = beginning;
            return;
        }
        self.ue_version.apply_or(&mut defaults.ue_version, beginning.ue_version);
        self.platform.apply_or(&mut defaults.platform, beginning.platform);
        self.build_type.apply_or(&mut defaults.build_type, beginning.build_type);
        self.timeout_minutes.apply_or(&mut defaults.timeout_minutes, beginning.timeout_minutes);
        self.artifact_retention_days.apply(&mut defaults.artifact_retention_days);
        self.keep_last_artifacts.apply(&mut defaults.keep_last_artifacts);
        self.notify_on_complete.apply_or(&mut defaults.notify_on_complete, beginning.notify_on_complete);
        self.supersede.apply_or(&mut defaults.supersede, beginning.supersede);
    }
}

/// `off`, `pending` or `running`.
pub(super) fn supersede() -> Check<'static, Supersede> {
    let check = body::one_of(["off", "pending", "running"]).and(|word| {
        Ok(match word.as_str() {
            "off" => Supersede::Off,
            "running" => Supersede::Running,
            _ => Supersede::Pending,
        })
    });
    let about = "What a newer automatic build of the same setting and branch does to older ones: nothing, take the place of waiting ones, or end running ones too.";
    check.about(about).example("pending")
}

/// What the git host knows the service by.
enum Credentials {
    Token(Secret),
    App { id: String, key: Secret },
}

/// Body of PUT `/organizations/:id/integrations/githost`, with a token or with an app.
pub(super) struct ConnectGithost {
    credentials: Credentials,
    webhook_secret: Change<Secret>,
    api_base_url: String,
    git_base_url: String,
}

impl ReadFields for ConnectGithost {
    fn read(fields: &mut Fields) -> Option<Self> {
        let (has_token, has_secret) = (fields.has("token"), fields.has("webhookSecret"));
        let is_app = fields.has("appId") || fields.has("privateKeyPem");
        let about = "An access token of the git host that may read the repositories; never shown again. Not together with an app.";
        let token = fields.change("token", token().about(about)).value();
        let about = "The app's id or client id at the git host, where the service signs in as an app.";
        let id = fields.change("appId", app_id().about(about).example("Iv1.8a61f9b3a7aba766")).value();
        let about = "The app's private RSA key, PEM; never shown again. Required together with `appId`.";
        let key = fields.change("privateKeyPem", private_key().about(about)).value();
        fields.never_null(&["token", "appId", "privateKeyPem"]);
        let mut must_have = |field: &str, value: bool, message: &str| {
            if !value && !fields.has_failed_on(field) {
                fields.refuse(field, InvalidCode::Required, message);
            }
        };
        match is_app {
            true => {
                must_have("appId", id.is_some(), "is required for an app");
                must_have("privateKeyPem", key.is_some(), "is required for an app");
                must_have("webhookSecret", has_secret, "is required for an app");
                if has_token {
                    fields.refuse("token", InvalidCode::NotAllowed, "is not given together with an app");
                }
            }
            false => must_have("token", token.is_some(), "is required, or appId and privateKeyPem"),
        }
        let secret = webhook_secret().about("What the git host signs its deliveries to `/hooks/githost` with; never shown. Absent: stays (an app needs one); null: is forgotten.");
        let webhook_secret = fields.change("webhookSecret", secret);
        let about = "Base of the git host's API. Absent: the public host's. A server of one's own: its address and `/api/v3`.";
        let api = fields.change("apiBaseUrl", base_url().about(about).example("https://git.studio.example/api/v3")).value();
        let about = "Base of clone addresses. Absent: `apiBaseUrl` without `/api/v3`.";
        let git = fields.change("gitBaseUrl", base_url().about(about).example("https://git.studio.example")).value();
        if api.is_none() && git.is_some() && !fields.has_failed_on("apiBaseUrl") {
            fields.refuse("apiBaseUrl", InvalidCode::Required, "is required together with gitBaseUrl");
        }
        let (api_base_url, git_base_url) = match (api, git) {
            (None, _) => (PUBLIC_API.to_owned(), PUBLIC_GIT.to_owned()),
            (Some(api), Some(git)) => (api, git),
            (Some(api), None) if api == PUBLIC_API => (api, PUBLIC_GIT.to_owned()),
            (Some(api), None) => {
                let git = api.strip_suffix(API_PATH).unwrap_or(&api).to_owned();
                (api, git)
            }
        };
        let credentials = match is_app {
            true => Credentials::App { id: id?, key: key? },
            false => Credentials::Token(token?),
        };
        Some(ConnectGithost { credentials, webhook_secret, api_base_url, git_base_url })
    }
}

fn token() -> Check<'static, Secret> {
    let check = body::secret(1024).and(|token: Secret| {
        let is_plain = !token.reveal().is_empty() && token.reveal().bytes().all(|byte| byte.is_ascii_graphic());
        if is_plain { Ok(token) } else { Err(Fault::invalid("must be visible ASCII without spaces")) }
    });
    check.with("pattern", "^[!-~]+$").example("<GITHOST_TOKEN>")
}

/// A number, or the client id that newer servers prefer.
fn app_id() -> Check<'static, String> {
    let check = body::text(100).and(|id: String| {
        let is_plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if is_plain { Ok(id) } else { Err(Fault::invalid("must be the app's id or client id")) }
    });
    check.with("pattern", "^[A-Za-z0-9._-]+$")
}

fn private_key() -> Check<'static, Secret> {
    body::secret(16 * 1024).and(|key: Secret| {
        if can_sign(key.reveal()) { Ok(key) } else { Err(Fault::invalid("must be the app's private RSA key in PEM, of 2048 bits or more")) }
    })
}

/// Long enough that nobody finds it by trying.
fn webhook_secret() -> Check<'static, Secret> {
    let check = body::secret(1024).and(|secret: Secret| {
        let is_long = secret.reveal().len() >= SHORTEST_WEBHOOK_SECRET;
        if is_long { Ok(secret) } else { Err(Fault::invalid(format!("must have at least {SHORTEST_WEBHOOK_SECRET} characters"))) }
    });
    check.with("minLength", SHORTEST_WEBHOOK_SECRET)
}

fn base_url() -> Check<'static, String> {
    urls::address().with("pattern", "^[hH][tT][tT][pP][sS]?://[!->@-~]+$").and(|address| match address.text.contains('?') {
        true => Err(Fault::invalid("must have no query")),
        false => Ok(address.text.trim_end_matches('/').to_owned()),
    })
}

/// Connects the git host with a token or as an app: verified against the server before it is stored.
pub(super) async fn connect_githost(call: Call<Id<Organization>, (), ConnectGithost>) -> Result<Ok200<GithostView>> {
    let (app, caller, head, id) = (call.app.clone(), call.caller, call.head, call.path);
    let ConnectGithost { credentials, webhook_secret, api_base_url, git_base_url } = call.body;
    app.store.read(|snapshot| find(snapshot, &caller, id))?;
    let (mode, name, secret, field) = match &credentials {
        Credentials::Token(token) => (json!({"mode": "token"}), "token", token, "token"),
        Credentials::App { id, key } => (json!({"mode": "app", "appId": id}), "privateKey", key, "privateKeyPem"),
    };
    let mut config = mode;
    config["apiBaseUrl"] = api_base_url.clone().into();
    config["gitBaseUrl"] = git_base_url.clone().into();
    let secrets = BTreeMap::from([(name.to_owned(), secret.clone())]);
    let host = Githost::with(&app, PluginBinding { plugin: GITHOST_PLUGIN.into(), organization: id, config, secrets });
    let checked = app.source_control.check(host.binding(), host.call()).await;
    let described = checked.map_err(|error| not_verified(error, field))?;
    let now = app.clock.now();
    let seal = |place: &str, secret: &Secret| app.vault.seal(place, secret.reveal()).map_err(ApiError::internal);
    let mut connection = GithostConnection {
        status: GithostStatus::Connected,
        api_base_url,
        git_base_url,
        token: None,
        app: None,
        webhook: WebhookSecrets::default(),
        installations: described.installations,
        checked_at: now,
    };
    match &credentials {
        Credentials::Token(token) => {
            let account = described.account.filter(|account| is_plain_account(account)).unwrap_or_else(|| "token".to_owned());
            connection.token = Some(seal(&githost_token_place(id), token)?);
            connection.installations =
                vec![Installation { id: account.clone(), account, repository_selection: "all".into(), suspended: false }];
        }
        Credentials::App { id: app_id, key } => {
            connection.app = Some(GithostApp { id: app_id.clone(), private_key: seal(&githost_key_place(id), key)? });
            connection.status = connection.status_by_installations();
        }
    }
    let vault = app.vault.clone();
    let update = move |tx: &crate::store::Change| {
        let mut organization = find(tx, &caller, id)?;
        check_match(&head, organization.version)?;
        let kept = organization.githost.take().map(|connection| connection.webhook).unwrap_or_default();
        connection.webhook = webhook_secrets(&vault, id, kept, webhook_secret, now)?;
        let view = GithostView::new(Some(&connection));
        organization.githost = Some(connection);
        organization.updated_at = now;
        organization.version += 1;
        tx.put(&organization)?;
        Ok::<_, ApiError>(Ok200(view))
    };
    app.store.write(update).await
}

/// What the git host said to credentials that are not stored yet.
fn not_verified(error: SourceError, field: &str) -> ApiError {
    let invalid = |field: &str, message: &str| ApiError::field(field, InvalidCode::InvalidValue, message);
    match error.problem {
        SourceProblem::Unauthenticated => invalid(field, "the git host does not take these credentials").because(error),
        SourceProblem::Forbidden => invalid(field, "the git host does not allow these credentials enough").because(error),
        SourceProblem::NotFound | SourceProblem::Invalid => {
            invalid("apiBaseUrl", "there is no git host's API at this address").because(error)
        }
        SourceProblem::RateLimited
        | SourceProblem::Unavailable
        | SourceProblem::TimedOut
        | SourceProblem::TooLarge
        | SourceProblem::Cancelled
        | SourceProblem::StorageFull
        | SourceProblem::Broken => githost::refusal(error),
    }
}

/// Who reconnects without naming a secret keeps the one there is; the same secret again is no change.
fn webhook_secrets(
    vault: &Vault,
    id: Id<Organization>,
    kept: WebhookSecrets,
    change: Change<Secret>,
    now: Timestamp,
) -> Result<WebhookSecrets> {
    let place = githost_webhook_place(id);
    match change {
        Change::Absent => Ok(kept),
        Change::Null => Ok(WebhookSecrets::default()),
        Change::Value(new) => {
            let is_known = |sealed: &Sealed| vault.open_sealed(&place, sealed).is_ok_and(|known| known == new);
            if kept.current.as_ref().is_some_and(is_known) {
                return Ok(kept);
            }
            Ok(kept.rotated(vault.seal(&place, new.reveal()).map_err(ApiError::internal)?, now))
        }
    }
}

/// An account becomes a part of paths.
fn is_plain_account(account: &str) -> bool {
    (1..=100).contains(&account.len())
        && account.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !account.starts_with('.')
}

/// Takes the connection and its token away; git-hosted projects fail their builds until it is made again.
pub(super) async fn disconnect_githost(call: Call<Id<Organization>>) -> Result<NoContent> {
    let (caller, head, id, now) = (call.caller, call.head, call.path, call.app.clock.now());
    let update = move |tx: &crate::store::Change| {
        let mut organization = find(tx, &caller, id)?;
        check_match(&head, organization.version)?;
        let connection = organization.githost.as_mut().filter(|connection| connection.status != GithostStatus::Disconnected);
        let connection = connection.ok_or_else(|| ApiError::new(Problem::NotFound, "The organization is not connected to a git host."))?;
        connection.status = GithostStatus::Disconnected;
        connection.token = None;
        connection.app = None;
        connection.webhook = WebhookSecrets::default();
        organization.updated_at = now;
        organization.version += 1;
        tx.put(&organization)?;
        Ok::<_, ApiError>(NoContent)
    };
    call.app.store.write(update).await
}
