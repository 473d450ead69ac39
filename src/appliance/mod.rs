//! Builds the parts in order, runs them, shuts them down in reverse order.
//!
//! ```text
//! lock ─ store ─ vault ─ people ─ outbound ─ plugins ─ artifacts, logs ─ builds
//!   └─ bind the address      a taken address is told before anything is changed
//!        └─ recover          what the last run left in the middle
//!             └─ run         builds, schedules, webhooks, HTTP, orders from the command line
//! ```

mod directory;
mod parts;
mod start_error;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api::{Router, Server, routes};
use crate::app::detections::Detections;
use crate::app::traffic::Traffic;
use crate::app::{App, KeysInFlight};
use crate::artifacts::Artifacts;
use crate::artifacts::signed_url::LinkSigner;
use crate::builds::executor::LocalExecutor;
use crate::builds::isolation::Isolation;
use crate::builds::logs::Logs;
use crate::builds::{Builds, Recovered};
use crate::clock::Clock;
use crate::config::Config;
use crate::control::server::ControlServer;
use crate::keys::{self, Rotated};
use crate::live::{self, Live};
use crate::model::Secret;
use crate::notifications::{self, Notifications};
use crate::outbound::Outbound;
use crate::people::{People, SetupToken};
use crate::platform::lock::{Lock, lock};
use crate::plugins::Plugins;
use crate::plugins::manifest::PluginKind;
use crate::retention::{self, Retention};
use crate::schedules::Schedules;
use crate::seams::{DeployTarget, SourceControl};
use crate::store::Store;
use crate::webhooks::{self, Webhooks};

pub use directory::{expect as expect_directory, prepare as prepare_directory};
pub use start_error::StartError;

/// What tests replace: the two seams to other machines.
#[derive(Clone)]
pub struct Seams {
    /// Reads code.
    pub source_control: Arc<dyn SourceControl>,
    /// Hands artifacts on.
    pub deploy_target: Arc<dyn DeployTarget>,
}

/// The running service.
pub struct Appliance {
    address: SocketAddr,
    url: String,
    setup_token: Option<Secret>,
    recovered: Recovered,
    app: Arc<App>,
    control: ControlServer,
    stop_builds: CancellationToken,
    builds: JoinHandle<()>,
    schedules: JoinHandle<()>,
    stop_server: CancellationToken,
    server: JoinHandle<()>,
    // Last, so that it is let go last.
    _lock: Lock,
}

impl Appliance {
    /// Starts everything with the bundled plugins; returns when requests are answered.
    pub async fn start(config: &Config) -> Result<Appliance, StartError> {
        Appliance::start_with(config, None).await
    }

    /// The same, with these seams in place of the plugins.
    pub async fn start_with(config: &Config, seams: Option<Seams>) -> Result<Appliance, StartError> {
        prepare_directory(&config.data_dir)?;
        let isolation = Isolation::establish(parts::isolation(config)).map_err(StartError::Isolation)?;
        isolation.admit(&config.data_dir).map_err(|error| StartError::Isolation(error.to_string()))?;
        match (&isolation.remark, &isolation.account) {
            (Some(remark), _) => tracing::warn!("{remark}"),
            (None, Some(account)) => tracing::info!(user = %account.name, "builds are held to their workspaces, and run as another user"),
            (None, None) => tracing::info!("builds are held to their workspaces"),
        }
        let lock = lock(&config.data_dir)?;
        let store = Store::open(&parts::store(config))?;
        let vault = Arc::new(keys::open(&parts::vault(config), &store).await?);
        let clock = Arc::new(Clock::default());
        let people = People::new(store.clone(), clock.clone());
        let outbound = Outbound::new(&parts::outbound(config))?;
        let plugins = Arc::new(Plugins::open(parts::plugins(config), outbound.clone(), vault.derive("compiled plugins"))?);
        let seams = seams.unwrap_or_else(|| Seams { source_control: plugins.clone(), deploy_target: plugins.clone() });
        let artifacts = Artifacts::open(&parts::artifacts(config))?;
        let logs = Logs::open(parts::logs(config), clock.clone()).map_err(StartError::Logs)?;
        let builds = Builds::new(
            parts::builds(config, isolation.clone()),
            crate::builds::Parts {
                store: store.clone(),
                vault: vault.clone(),
                clock: clock.clone(),
                artifacts: artifacts.clone(),
                logs: logs.clone(),
                source_control: seams.source_control.clone(),
                deploy_target: seams.deploy_target.clone(),
                executor: Arc::new(LocalExecutor),
            },
        );
        let server = Server::bind(parts::server(config)).await?;
        let recovered = builds.recover().await?;
        isolation.probe(&config.data_dir.join("workspaces")).map_err(StartError::Isolation)?;

        let setup_token = SetupToken::new(&config.data_dir);
        let printed = setup_token.prepare(&people)?;
        let control = ControlServer::start(&config.data_dir, people.clone(), setup_token.clone(), Some(builds.clone()));
        let control = control.await.map_err(StartError::Control)?;
        let deploy = plugins.list().into_iter().filter(|plugin| plugin.kind == PluginKind::DeployTarget);
        let deploy_plugins = deploy.map(|plugin| plugin.id).collect();
        let schedules = Schedules::new(store.clone(), builds.clone(), clock.clone());
        let retention = retention::Parts {
            store: store.clone(),
            clock: clock.clone(),
            artifacts: artifacts.clone(),
            logs: logs.clone(),
            people: people.clone(),
            builds: builds.clone(),
        };
        let address = server.address();
        let url = url(config, address);
        let notifications = notifications::Parts {
            store: store.clone(),
            vault: vault.clone(),
            clock: clock.clone(),
            logs: logs.clone(),
            outbound: outbound.clone(),
        };
        let notifications = Notifications::new(parts::notifications(config, url.clone())?, notifications);
        let live = Live::new(live::Settings::default(), store.clone(), logs.clone(), clock.clone());
        let parts_of_webhooks = webhooks::Parts { store: store.clone(), vault: vault.clone(), clock: clock.clone(), outbound };
        let webhooks = Webhooks::new(webhooks::Settings::default(), parts_of_webhooks);
        let app = Arc::new(App {
            notifications: notifications.clone(),
            live,
            webhooks: webhooks.clone(),
            store,
            clock,
            people,
            setup_token,
            builds: builds.clone(),
            artifacts,
            logs,
            links: LinkSigner::new(vault.derive("links to artifacts")),
            source_control: seams.source_control,
            settings: parts::app(config, deploy_plugins),
            keys_in_flight: KeysInFlight::default(),
            detections: Detections::default(),
            traffic: Traffic::default(),
            vault,
        });
        let router = Router::new(app.clone(), routes()).map_err(|error| StartError::Routes(error.to_string()))?;
        let (stop_builds, stop_server) = (CancellationToken::new(), CancellationToken::new());
        let server = tokio::spawn(server.serve(Arc::new(router), stop_server.clone()));
        let stop = stop_builds.clone();
        let work = builds.clone();
        let retention = Retention::new(parts::retention(config), retention);
        let work = tokio::spawn(async move {
            let stops = [stop.clone(), stop.clone(), stop.clone()];
            let [stop_retention, stop_webhooks, stop_notifications] = stops;
            let tellers = async { tokio::join!(webhooks.run(stop_webhooks), notifications.run(stop_notifications)) };
            tokio::join!(work.run(stop), retention.run(stop_retention), tellers);
        });
        // Whoever is told the address may ask whether it is ready.
        while !builds.is_running() && !work.is_finished() {
            tokio::task::yield_now().await;
        }
        // After the builds, so that what was missed meets a queue that runs.
        let stop = stop_builds.clone();
        let schedules = tokio::spawn(async move { schedules.run(stop).await });
        Ok(Appliance {
            address,
            url,
            setup_token: printed,
            recovered,
            app,
            control,
            stop_builds,
            builds: work,
            schedules,
            stop_server,
            server,
            _lock: lock,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How to reach it from here, without a slash at the end.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The one-time token of the first start; nothing once somebody has an account.
    pub fn setup_token(&self) -> Option<&Secret> {
        self.setup_token.as_ref()
    }

    /// What the last run had left in the middle.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// The handles of the running service.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Waits until the service cannot go on: the disk refused what was written.
    pub async fn failed(&self) {
        self.app.store.failed().await;
    }

    /// Ends it in order. Running builds get their grace, answers under way end, then the data directory is let go.
    pub async fn stop(self) {
        // While builds end, requests are still answered and triggers are still stored for the next start.
        self.stop_builds.cancel();
        let _ = self.schedules.await;
        let _ = self.builds.await;
        self.stop_server.cancel();
        let _ = self.server.await;
        drop(self.control);
        let app = Arc::downgrade(&self.app);
        drop(self.app);
        // A task that outlived its connection may hold the store for a moment; the lock goes when nobody does.
        for _ in 0..200 {
            if app.strong_count() == 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

fn url(config: &Config, address: SocketAddr) -> String {
    let scheme = if config.tls_certificate.is_some() { "https" } else { "http" };
    match address.ip().is_unspecified() {
        true => format!("{scheme}://localhost:{}", address.port()),
        false => format!("{scheme}://{address}"),
    }
}

/// Opens the store of a data directory for what the command line does with people. The caller holds the lock.
pub fn open_people(config: &Config) -> Result<(People, SetupToken), StartError> {
    let store = Store::open(&parts::store(config))?;
    Ok((People::new(store, Arc::new(Clock::default())), SetupToken::new(&config.data_dir)))
}

/// Gives a data directory a new master key. The caller holds the lock.
pub async fn rotate_key(config: &Config) -> Result<Rotated, StartError> {
    let store = Store::open(&parts::store(config))?;
    let people = People::new(store.clone(), Arc::new(Clock::default()));
    let settings = parts::vault(config);
    let rotate = keys::rotate(&settings, &store, |_| Ok(()));
    Ok(people.for_the_host("key rotate", rotate).await?)
}
