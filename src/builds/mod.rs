//! The life of a build.
//!
//! ```text
//! request ─ push (`inbound`) ─ tick
//!    └─ trigger     one write: the build is pending, what it makes needless is superseded
//!         └─ queue  woken by a hint; reads the index of pending builds, so a lost hint only delays
//!              └─ run
//!                   claim     one write: pending → running, step `sync` begun
//!                   sync      source control → workspace          ┐ each step: lines into the log, a deadline,
//!                   prepare   engine, project file, arguments      │ a typed failure
//!                   build     the engine's own tool, as a process  │
//!                   package   output → tarball, synced and renamed ┘
//!                   finish    one write: running → complete + artifact + deploys wanted, or → failed + why
//!                   └─ deploy one write before and one after each target; never touches the status
//! ```
//!
//! `turns` is the order in which waiting builds begin, `outlook` what can be told of one that waits.
//!
//! `lifecycle` is the only file that moves a status. `recovery` is what happens to all this at a start.
//!
//! # What a build may touch
//!
//! A build runs commands that its project decides. It gets a cleared environment with an allow list, its own process
//! group, control group and marker by which the whole tree is ended, a workspace of its setting with temporary files and
//! a home inside it, and no open files of the service. `isolation` holds it to that workspace and to what its engine
//! writes, where the kernel can, and runs it as another user, where the administrator says so. The service trusts nothing
//! that a build wrote: paths are resolved beneath the workspace, and git runs there only through the plugin host's
//! profile, which ignores what the repository configures.

mod bounds;
pub mod connections;
mod deploy;
pub mod diagnostics;
pub mod engines;
pub mod executor;
mod heads;
pub mod inbound;
pub mod isolation;
pub mod keeping;
pub mod lifecycle;
pub mod logs;
mod notes;
pub mod notices;
mod outlook;
mod pausing;
mod prepare;
mod queue;
mod recovery;
mod renames;
pub mod room;
mod run;
mod sync;
mod tidying;
pub mod trigger;
mod turns;
pub mod uat;
pub mod verdict;
mod workspace;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::artifacts::Artifacts;
use crate::clock::Clock;
use crate::model::queue::ProjectTurn;
use crate::model::retention::Keep;
use crate::model::{Build, BuildSetting, Id, Organization, Project, TriggeredBy};
use crate::seams::{DeployTarget, Executor, SourceControl};
use crate::store::{Change, Read, Store, StoreError};
use crate::vault::Vault;
pub use heads::HeadError;
use isolation::Isolation;
use lifecycle::{Cancelled, LifecycleError};
use logs::Logs;
pub use outlook::Outlook;
pub use pausing::{Draining, QueueState};
pub use recovery::{Recovered, RecoveryError};
pub use trigger::{Overrides, Request, TriggerError};

/// How builds are run on this machine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many builds at once.
    pub slots: usize,
    /// The longest a build takes when neither its setting nor its organization says otherwise.
    pub timeout: Duration,
    /// How long the build command may print nothing; zero: for ever.
    pub silence_timeout: Duration,
    /// How long running builds have when the service is asked to stop.
    pub shutdown_grace: Duration,
    /// Builds that were interrupted are repeated once.
    pub retry_interrupted: bool,
    /// Names of the variables that build commands see.
    pub environment: Vec<String>,
    /// Which engines there are.
    pub engines: engines::Settings,
    /// One directory for each setting; where the gigabytes are.
    pub workspaces: PathBuf,
    /// What the process markers of this data directory begin with, see [`crate::platform::process::Command::marker`].
    pub marker: String,
    /// How long artifacts are kept, where an organization does not say otherwise.
    pub keep: Keep,
    /// How full the disks may be.
    pub marks: room::Marks,
    /// What keeps builds from the rest of the machine.
    pub isolation: Isolation,
}

/// What builds are made with.
pub struct Parts {
    /// Where they are recorded.
    pub store: Store,
    /// Opens the secrets of connections and deploy targets.
    pub vault: Arc<Vault>,
    /// Now, and new ids.
    pub clock: Arc<Clock>,
    /// Where tarballs are kept.
    pub artifacts: Artifacts,
    /// Where logs are kept.
    pub logs: Logs,
    /// Reads code.
    pub source_control: Arc<dyn SourceControl>,
    /// Hands tarballs on.
    pub deploy_target: Arc<dyn DeployTarget>,
    /// Runs build commands.
    pub executor: Arc<dyn Executor>,
}

/// The life of all builds. A cheap handle; [`Builds::run`] does the work.
#[derive(Clone)]
pub struct Builds(Arc<Inner>);

struct Inner {
    settings: Settings,
    parts: Parts,
    running: Mutex<HashMap<Id<Build>, Running>>,
    /// Hints; see `queue`, `deploy` and `inbound`.
    queue: Notify,
    deploys: Notify,
    deliveries: Notify,
    /// A hint to whoever can give up something.
    space_wanted: Notify,
    /// How the disk stood when it was looked at last.
    level: Mutex<room::Level>,
    /// Set while builds are being started.
    runtime: Mutex<Option<tokio::runtime::Handle>>,
    /// Nothing is started any more until the service ends, or somebody thinks better of it.
    is_draining: AtomicBool,
}

/// A build that occupies a slot.
#[derive(Clone)]
struct Running {
    setting: Id<BuildSetting>,
    ue_version: String,
    /// Bytes that it is expected to come to.
    reserved: u64,
    stop: Stop,
}

/// Asks a running build to end, and says why.
#[derive(Clone, Default)]
struct Stop {
    token: CancellationToken,
    reason: Arc<std::sync::OnceLock<StopReason>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopReason {
    Cancelled,
    Superseded,
    TimedOut,
    Shutdown,
}

impl Stop {
    /// The first reason stays.
    fn ask(&self, reason: StopReason) {
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    fn reason(&self) -> Option<StopReason> {
        self.reason.get().copied()
    }
}

/// Why something was not done to a build.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is no such build in this organization.
    #[error("there is no such build")]
    NotFound,
    /// It has reached a final status.
    #[error("the build is finished")]
    Finished,
    /// It has not reached a final status.
    #[error("the build is not finished")]
    Unfinished,
    /// Its setting was deleted.
    #[error("the build's setting was deleted")]
    SettingDeleted,
    /// It never had an artifact, or it was deleted.
    #[error("the build has no artifact")]
    NoArtifact,
    /// Its setting names no place to deploy to.
    #[error("the build's setting has no deploy target")]
    NoDeployTarget,
    /// A deploy of it waits or is under way.
    #[error("a deploy of this build is under way")]
    DeployUnderWay,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<LifecycleError> for Refused {
    fn from(error: LifecycleError) -> Self {
        match error {
            LifecycleError::NotFound => Refused::NotFound,
            LifecycleError::Transition(_) | LifecycleError::CancelRequested => Refused::Finished,
            LifecycleError::Store(error) => Refused::Store(error),
        }
    }
}

impl Builds {
    /// The handle; nothing runs yet.
    pub fn new(settings: Settings, parts: Parts) -> Builds {
        let running = Mutex::new(HashMap::new());
        let (queue, deploys, deliveries, space_wanted) = (Notify::new(), Notify::new(), Notify::new(), Notify::new());
        let (runtime, is_draining, level) = (Mutex::new(None), AtomicBool::new(false), Mutex::new(room::Level::Ample));
        Builds(Arc::new(Inner { settings, parts, running, queue, deploys, deliveries, space_wanted, level, runtime, is_draining }))
    }

    /// What keeps builds from the rest of this machine.
    pub fn isolation(&self) -> &Isolation {
        &self.0.settings.isolation
    }

    /// Makes a pending build; it is on disk when this returns.
    pub async fn trigger(&self, request: Request) -> Result<Build, TriggerError> {
        let builds = self.clone();
        self.0.parts.store.write(move |tx| builds.trigger_in(tx, &request)).await
    }

    /// The same as a part of the caller's transaction. The answer is the build as it was accepted; where nothing has to
    /// wait for anything, the same transaction lets it begin.
    pub fn trigger_in(&self, tx: &Change, request: &Request) -> Result<Build, TriggerError> {
        let created = trigger::create(tx, &self.0.parts.clock, request)?;
        self.after(tx, created.to_end, StopReason::Superseded);
        self.begin_in(tx, &created.build)?;
        Ok(created.build)
    }

    /// Ends a build that nobody wants any more. A waiting one is `failed` when this returns, a running one soon after.
    pub async fn cancel(&self, organization: Id<Organization>, id: Id<Build>) -> Result<Build, Refused> {
        let builds = self.clone();
        let job = move |tx: &Change| match lifecycle::cancel(tx, organization, id, "It was cancelled.", builds.0.parts.clock.now())? {
            Cancelled::TooLate => Err(Refused::Finished),
            Cancelled::Finished(build) => Ok(build),
            Cancelled::Ending(build) => {
                builds.after(tx, vec![id], StopReason::Cancelled);
                Ok(build)
            }
        };
        self.0.parts.store.write(job).await
    }

    /// A new build of the same revision, with the setting as it is now.
    pub async fn retry(&self, organization: Id<Organization>, id: Id<Build>, by: TriggeredBy) -> Result<Build, Refused> {
        let builds = self.clone();
        self.0.parts.store.write(move |tx| builds.retry_in(tx, organization, id, by)).await
    }

    /// The same as a part of the caller's transaction.
    pub fn retry_in(&self, tx: &Change, organization: Id<Organization>, id: Id<Build>, by: TriggeredBy) -> Result<Build, Refused> {
        let old: Build = tx.get(organization, id)?.ok_or(Refused::NotFound)?;
        if old.status.is_unfinished() {
            return Err(Refused::Unfinished);
        }
        let setting: BuildSetting = tx.get(organization, old.build_setting_id)?.ok_or(Refused::SettingDeleted)?;
        let clock = &self.0.parts.clock;
        let now = clock.now();
        let mut build = old.repeated(clock.new_id(), now);
        build.triggered_by = by;
        if !old.commit.is_empty() {
            build.changelist = old.changelist.as_ref().map(|_| old.commit.clone());
            build.requested_revision = Some(old.commit);
        }
        let created = lifecycle::create(tx, build, &setting, now)?;
        self.after(tx, created.to_end, StopReason::Superseded);
        Ok(created.build)
    }

    /// Hands the artifact on once more, to every target of the setting as it is now.
    pub async fn deploy(&self, organization: Id<Organization>, id: Id<Build>, by: TriggeredBy) -> Result<Build, Refused> {
        let builds = self.clone();
        let job = move |tx: &Change| {
            let build = deploy::request(tx, organization, id, by)?;
            tx.after_commit(move || builds.0.deploys.notify_one());
            Ok(build)
        };
        self.0.parts.store.write(job).await
    }

    /// Keeps the artifact from retention, or gives it back to it.
    pub async fn pin(&self, organization: Id<Organization>, id: Id<Build>, pinned: bool) -> Result<Build, Refused> {
        let job = move |tx: &Change| {
            let mut build: Build = tx.get(organization, id)?.ok_or(Refused::NotFound)?;
            build.pinned = pinned;
            tx.put(&build)?;
            Ok(build)
        };
        self.0.parts.store.write(job).await
    }

    /// Ends whatever a project still has to build, as a part of the transaction that deletes it and its `settings`.
    pub fn project_deleted_in(
        &self,
        tx: &Change,
        organization: Id<Organization>,
        project: Id<Project>,
        settings: Vec<Id<BuildSetting>>,
    ) -> Result<(), LifecycleError> {
        let to_end = lifecycle::cancel_project(tx, organization, project, self.0.parts.clock.now())?;
        tx.remove(organization, ProjectTurn::id_of(project))?;
        self.after(tx, to_end, StopReason::Cancelled);
        self.discard_workspaces(tx, organization, settings)?;
        Ok(())
    }

    /// The same for one setting.
    pub fn setting_deleted_in(&self, tx: &Change, organization: Id<Organization>, setting: Id<BuildSetting>) -> Result<(), LifecycleError> {
        let to_end = lifecycle::cancel_setting(tx, organization, setting, self.0.parts.clock.now())?;
        self.after(tx, to_end, StopReason::Cancelled);
        self.discard_workspaces(tx, organization, vec![setting])?;
        Ok(())
    }

    /// How long artifacts are kept where an organization does not say otherwise.
    pub fn keep(&self) -> Keep {
        self.0.settings.keep
    }

    /// Answers when artifacts end.
    pub fn keeping(&self) -> keeping::Keeping {
        keeping::Keeping::new(self.0.settings.keep)
    }

    /// The logs of all builds.
    pub fn logs(&self) -> &Logs {
        &self.0.parts.logs
    }

    /// The marker of a process that is started for `purpose`, so that the next start of the service can end it.
    pub fn process_marker(&self, purpose: &str) -> String {
        format!("{}/{purpose}", self.0.settings.marker)
    }

    /// What is on this machine to build with.
    pub fn engines(&self) -> engines::Inventory {
        engines::Inventory::read(&self.0.settings.engines)
    }

    /// Once the change is on disk: ends the running builds that it moved, and lets the queue look again.
    fn after(&self, tx: &Change, to_end: Vec<Id<Build>>, reason: StopReason) {
        let builds = self.clone();
        tx.after_commit(move || {
            for id in to_end {
                if let Some(running) = builds.0.running().get(&id) {
                    running.stop.ask(reason);
                }
            }
            builds.0.queue.notify_one();
        });
    }

    fn discard_workspaces(&self, tx: &Change, organization: Id<Organization>, settings: Vec<Id<BuildSetting>>) -> Result<(), StoreError> {
        room::forget_workspaces(tx, organization, &settings)?;
        let builds = self.clone();
        tx.after_commit(move || {
            // On a thread of its own: the writer must not wait for gigabytes.
            let discard = move || builds.0.discard_when_idle(organization, &settings);
            let _ = std::thread::Builder::new().name("discard-workspaces".into()).spawn(discard);
        });
        Ok(())
    }
}

impl Inner {
    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<Id<Build>, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
