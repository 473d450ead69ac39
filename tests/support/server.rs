//! A whole API on a temporary directory with a real listener; only the git host is a model.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use cookhouse::api::server::Settings;
use cookhouse::api::{Route, Router, Server, routes};
use cookhouse::app::{self, App, KeysInFlight};
use cookhouse::artifacts::signed_url::LinkSigner;
use cookhouse::artifacts::{self, Artifacts};
use cookhouse::builds::connections::CUSTOM_DEPLOY_PLUGIN;
use cookhouse::builds::executor::LocalExecutor;
use cookhouse::builds::logs::{self, Logs};
use cookhouse::builds::room::Marks;
use cookhouse::builds::{self, Builds};
use cookhouse::clock::Clock;
use cookhouse::live::{self, Live};
use cookhouse::model::organization::DefaultProjectSettings;
use cookhouse::model::permission::{Role, Scope};
use cookhouse::model::retention::Keep;
use cookhouse::model::{Id, Organization, Secret, Timestamp, User};
use cookhouse::notifications::{self, Notifications};
use cookhouse::outbound::{self, Outbound};
use cookhouse::people::{NewToken, People, Reach, SetupToken};
use cookhouse::seams::{
    ArtifactFile, CallContext, DeployMetadata, DeployOutcome, DeployProblem, DeployTarget, PluginBinding, SourceControl,
};
use cookhouse::store::{Store, StoreError};
use cookhouse::vault::{self, Vault};
use cookhouse::webhooks::{self, Webhooks};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::client::{Ask, Reply};
use super::repositories::FakeHost;

/// The one before may hold its file for a moment: it still notes the use of a token.
async fn open_store(path: &Path) -> Store {
    loop {
        match Store::open(&cookhouse::store::Settings { path: path.join("store.redb"), cache_bytes: 8 << 20 }) {
            Err(StoreError::InUse) => tokio::task::yield_now().await,
            store => return store.expect("a store"),
        }
    }
}

/// Builds wait: nothing runs them unless a test does.
fn build_settings(path: &Path) -> builds::Settings {
    builds::Settings {
        slots: 1,
        timeout: Duration::from_secs(60),
        silence_timeout: Duration::ZERO,
        shutdown_grace: Duration::ZERO,
        retry_interrupted: true,
        environment: vec!["PATH".into()],
        engines: builds::engines::Settings { engines: Vec::new(), discover_engines: false },
        workspaces: path.join("workspaces"),
        marker: format!("test-{}", std::process::id()),
        keep: Keep::default(),
        marks: Marks::default(),
        isolation: Default::default(),
    }
}

/// Reaches this machine, too. Loading the machine's certificates takes a moment.
static NEAR: LazyLock<Outbound> =
    LazyLock::new(|| Outbound::new(&outbound::Settings { allow_loopback: true, ..Default::default() }).expect("a client"));

/// A receiver that takes everything.
struct NoReceiver;

impl DeployTarget for NoReceiver {
    fn deploy<'a>(
        &'a self,
        _: &'a PluginBinding,
        _: DeployMetadata,
        _: ArtifactFile,
        _: CallContext,
    ) -> BoxFuture<'a, Result<DeployOutcome, DeployProblem>> {
        async { Ok(DeployOutcome::default()) }.boxed()
    }
}

/// Somebody with a token that reaches as far as their role.
#[derive(Debug, Clone)]
pub struct Person {
    pub user: User,
    pub token: String,
}

/// The appliance under test.
pub struct TestServer {
    pub address: SocketAddr,
    pub app: Arc<App>,
    pub host: Arc<FakeHost>,
    pub directory: Arc<TempDir>,
    pub setup_token: Option<Secret>,
    stop: CancellationToken,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl TestServer {
    /// An empty service, as at its first start.
    pub async fn start() -> Self {
        Self::start_in(Arc::new(TempDir::new().expect("a directory")), |_| {}).await
    }

    /// The same with other limits of the live channel.
    pub async fn start_live(directory: Arc<TempDir>, live: live::Settings) -> Self {
        Self::start_all(directory, |_| {}, |_, _| {}, None, live, None, Clock::default()).await
    }

    /// The same while the clock stands still.
    pub async fn start_at(time: Timestamp) -> Self {
        let (directory, clock) = (Arc::new(TempDir::new().expect("a directory")), Clock::standing_at(time));
        Self::start_all(directory, |_| {}, |_, _| {}, None, live::Settings::default(), None, clock).await
    }

    /// The same with other limits.
    pub async fn start_with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::start_in(Arc::new(TempDir::new().expect("a directory")), change).await
    }

    /// The same with other settings of the API and other routes.
    pub async fn start_api(change: impl FnOnce(&mut app::Settings, &mut Vec<Route>)) -> Self {
        Self::start_all(
            Arc::new(TempDir::new().expect("a directory")),
            |_| {},
            change,
            None,
            live::Settings::default(),
            None,
            Clock::default(),
        )
        .await
    }

    /// The same with another git host than the model.
    pub async fn start_on(host: Arc<dyn SourceControl>) -> Self {
        Self::start_all(
            Arc::new(TempDir::new().expect("a directory")),
            |_| {},
            |_, _| {},
            Some(host),
            live::Settings::default(),
            None,
            Clock::default(),
        )
        .await
    }

    /// On a directory that another one left behind.
    pub async fn start_in(directory: Arc<TempDir>, change: impl FnOnce(&mut Settings)) -> Self {
        Self::start_all(directory, change, |_, _| {}, None, live::Settings::default(), None, Clock::default()).await
    }

    /// On a directory that may be another one's, sending to webhooks in this way.
    pub async fn start_sending(directory: Arc<TempDir>, outbound: Outbound, settings: webhooks::Settings) -> Self {
        Self::start_all(directory, |_| {}, |_, _| {}, None, live::Settings::default(), Some((outbound, settings)), Clock::default()).await
    }

    async fn start_all(
        directory: Arc<TempDir>,
        change: impl FnOnce(&mut Settings),
        change_api: impl FnOnce(&mut app::Settings, &mut Vec<Route>),
        source_control: Option<Arc<dyn SourceControl>>,
        live: live::Settings,
        sends: Option<(Outbound, webhooks::Settings)>,
        clock: Clock,
    ) -> Self {
        let path = directory.path();
        let store = open_store(path).await;
        let key_file = path.join("secret.key");
        let vault = Vault::open(&vault::Settings { key: None, credentials_directory: None, key_file }).expect("a vault");
        let clock = Arc::new(clock);
        let people = People::new(store.clone(), clock.clone());
        let setup_token = SetupToken::new(path);
        let printed = setup_token.prepare(&people).expect("a setup token");
        let host = Arc::new(FakeHost::default());
        let source_control = source_control.unwrap_or_else(|| host.clone());
        let mut app_settings = app::Settings { deploy_plugins: vec![CUSTOM_DEPLOY_PLUGIN.to_owned()], ..app::Settings::default() };
        let mut rows = routes();
        change_api(&mut app_settings, &mut rows);
        let vault = Arc::new(vault);
        let logs = logs::Settings { directory: path.join("logs"), limits: logs::Limits::default() };
        let places = artifacts::Settings { directory: path.join("artifacts"), temporary: path.join("temporary"), largest: 1 << 30 };
        let artifacts = Artifacts::open(&places).expect("artifacts");
        let logs = Logs::open(logs, clock.clone()).expect("logs");
        let parts = builds::Parts {
            store: store.clone(),
            vault: vault.clone(),
            clock: clock.clone(),
            artifacts: artifacts.clone(),
            logs: logs.clone(),
            source_control: source_control.clone(),
            deploy_target: Arc::new(NoReceiver),
            executor: Arc::new(LocalExecutor),
        };
        let notifications = notifications::Parts {
            store: store.clone(),
            vault: vault.clone(),
            clock: clock.clone(),
            logs: logs.clone(),
            outbound: NEAR.clone(),
        };
        let settings = notifications::Settings { base_url: "https://builds.studio.test".into(), mail: None, plan: Default::default() };
        let notifications = Notifications::new(settings, notifications);
        let live = Live::new(live, store.clone(), logs.clone(), clock.clone());
        let is_sending = sends.is_some();
        let (outbound, settings) = sends.unwrap_or_else(|| (NEAR.clone(), webhooks::Settings::default()));
        let parts_of_webhooks = webhooks::Parts { store: store.clone(), vault: vault.clone(), clock: clock.clone(), outbound };
        let webhooks = Webhooks::new(settings, parts_of_webhooks);
        let app = Arc::new(App {
            notifications,
            live,
            store,
            artifacts,
            logs,
            links: LinkSigner::new(vault.derive("artifact links")),
            vault,
            clock,
            builds: Builds::new(build_settings(path), parts),
            people,
            setup_token,
            source_control: source_control.clone(),
            settings: app_settings,
            webhooks: webhooks.clone(),
            keys_in_flight: KeysInFlight::default(),
            detections: Default::default(),
            traffic: Default::default(),
        });
        let mut settings = Settings::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        change(&mut settings);
        let server = Server::bind(settings).await.expect("a listener");
        let address = server.address();
        let router = Arc::new(Router::new(app.clone(), rows).expect("routes that do not contradict"));
        let stop = CancellationToken::new();
        let (serve, send) = (server.serve(router, stop.clone()), stop.clone());
        let task = Some(tokio::spawn(async move {
            let send = async move {
                if is_sending {
                    webhooks.run(send).await;
                }
            };
            tokio::join!(serve, send);
        }));
        TestServer { address, app, host, directory, setup_token: printed, stop, task }
    }

    /// Ends it in an orderly way; the directory stays.
    pub async fn stop(mut self) -> Arc<TempDir> {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            task.await.expect("an orderly end");
        }
        self.directory.clone()
    }

    pub fn ask(&self, method: &str, path: &str) -> Ask {
        Ask::new(self.address, method, path)
    }

    pub async fn get(&self, person: &Person, path: &str) -> Reply {
        self.ask("GET", path).bearer(&person.token).send().await
    }

    pub async fn delete(&self, person: &Person, path: &str) -> Reply {
        self.ask("DELETE", path).bearer(&person.token).send().await
    }

    pub async fn post(&self, person: &Person, path: &str, body: serde_json::Value) -> Reply {
        self.ask("POST", path).bearer(&person.token).json(&body).send().await
    }

    pub async fn patch(&self, person: &Person, path: &str, body: serde_json::Value) -> Reply {
        self.ask("PATCH", path).bearer(&person.token).json(&body).send().await
    }

    pub async fn put(&self, person: &Person, path: &str, body: serde_json::Value) -> Reply {
        self.ask("PUT", path).bearer(&person.token).json(&body).send().await
    }

    /// A new organization, written straight into the store: hashing passwords is tested elsewhere.
    pub async fn organization(&self, name: &str) -> Organization {
        let now = self.app.clock.now();
        let organization = Organization {
            id: self.app.clock.new_id(),
            name: name.to_owned(),
            slug: name.to_lowercase(),
            default_project_settings: DefaultProjectSettings::default(),
            integration_settings: Default::default(),
            githost: None,
            streamvc: None,
            created_at: now,
            updated_at: now,
            version: 1,
        };
        let stored = organization.clone();
        self.app.store.write(move |change| change.put(&stored)).await.expect("a stored organization");
        organization
    }

    /// Somebody new in an organization, with a token of every scope their role allows.
    pub async fn person(&self, organization: Id<Organization>, role: Role) -> Person {
        let now = self.app.clock.now();
        let id: Id<User> = self.app.clock.new_id();
        let user = User {
            id,
            organization_id: organization,
            email: format!("{id}@example.com"),
            name: role.as_str().to_owned(),
            role,
            password_hash: "$argon2id$none".into(),
            created_at: now,
            sessions_valid_from: Timestamp(0),
            invitation: None,
            version: 1,
        };
        let stored = user.clone();
        self.app.store.write(move |change| change.put(&stored)).await.expect("a stored user");
        let scope = match role {
            Role::Viewer => Scope::Read,
            Role::Member => Scope::Write,
            Role::Admin => Scope::Admin,
        };
        let token = self.token(&user, &[scope]).await;
        Person { user, token }
    }

    /// A token of somebody with these scopes.
    pub async fn token(&self, user: &User, scopes: &[Scope]) -> String {
        let new = NewToken { name: "test".into(), scopes: scopes.to_vec(), project_ids: None, build_setting_ids: None, expires_at: None };
        let reach = Reach { user: user.clone(), token: None };
        let (_, secret) = self.app.people.create_token(&reach, new).await.expect("a token");
        secret.reveal().clone()
    }

    /// A new organization and its admin.
    pub async fn admin(&self) -> Person {
        let organization = self.organization("Studio").await;
        self.person(organization.id, Role::Admin).await
    }

    /// Reads the store directly.
    pub fn read<T>(&self, job: impl FnOnce(&cookhouse::store::Snapshot) -> Result<T, StoreError>) -> T {
        self.app.store.read(job).expect("a readable store")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
