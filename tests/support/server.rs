//! A whole API on a temporary directory with a real listener; only the git host is a model.

use std::net::SocketAddr;
use std::sync::Arc;

use cookhouse::api::server::Settings;
use cookhouse::api::{Router, Server, routes};
use cookhouse::app::{self, App, KeysInFlight};
use cookhouse::artifacts::signed_url::LinkSigner;
use cookhouse::artifacts::{self, Artifacts};
use cookhouse::builds::logs::{self, Logs};
use cookhouse::clock::Clock;
use cookhouse::model::organization::DefaultProjectSettings;
use cookhouse::model::permission::{Role, Scope};
use cookhouse::model::{Id, Organization, Secret, Timestamp, User};
use cookhouse::people::{NewToken, People, Reach, SetupToken};
use cookhouse::store::{Store, StoreError};
use cookhouse::vault::{self, Vault};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::client::{Ask, Reply};
use super::repositories::FakeHost;

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

    /// The same with other limits.
    pub async fn start_with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::start_in(Arc::new(TempDir::new().expect("a directory")), change).await
    }

    /// On a directory that another one left behind.
    pub async fn start_in(directory: Arc<TempDir>, change: impl FnOnce(&mut Settings)) -> Self {
        let path = directory.path();
        let store = Store::open(&cookhouse::store::Settings { path: path.join("store.redb"), cache_bytes: 8 << 20 }).expect("a store");
        let key_file = path.join("secret.key");
        let vault = Vault::open(&vault::Settings { key: None, credentials_directory: None, key_file }).expect("a vault");
        let clock = Arc::new(Clock::default());
        let people = People::new(store.clone(), clock.clone());
        let setup_token = SetupToken::new(path);
        let printed = setup_token.prepare(&people).expect("a setup token");
        let host = Arc::new(FakeHost::default());
        let places = artifacts::Settings { directory: path.join("artifacts"), temporary: path.join("temporary"), largest: 1 << 30 };
        let logs = logs::Settings { directory: path.join("logs"), limits: logs::Limits::default() };
        let app = Arc::new(App {
            artifacts: Artifacts::open(&places).expect("artifacts"),
            links: LinkSigner::new(vault.derive("artifact links")),
            logs: Logs::open(logs, clock.clone()).expect("logs"),
            store,
            vault: Arc::new(vault),
            clock,
            people,
            setup_token,
            source_control: host.clone(),
            settings: app::Settings { allow_loopback: true, ..app::Settings::default() },
            keys_in_flight: KeysInFlight::default(),
        });
        let mut settings = Settings::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        change(&mut settings);
        let server = Server::bind(settings).await.expect("a listener");
        let address = server.address();
        let router = Arc::new(Router::new(app.clone(), routes()).expect("routes that do not contradict"));
        let stop = CancellationToken::new();
        let task = Some(tokio::spawn(server.serve(router, stop.clone())));
        TestServer { address, app, host, directory, setup_token: printed, stop, task }
    }

    /// Ends it in an orderly way; the directory stays.
    pub async fn stop(mut self) -> Arc<TempDir> {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            task.await.expect("an orderly end");
        }
        let (directory, app) = (self.directory.clone(), Arc::downgrade(&self.app));
        drop(self);
        // A note of a token's use may still hold the store for a moment.
        while app.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        directory
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
            githost: None,
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
