//! At a start: whatever the last run of the service left in the middle of something.

use super::lifecycle::{self, Closing, LifecycleError};
use super::{Builds, deploy, workspace};
use crate::artifacts::{ArtifactError, Fate, Swept};
use crate::model::deploy::DeployStatus;
use crate::model::{Build, BuildSetting, Id, Organization};
use crate::platform::{files, process};
use crate::store::key::Key;
use crate::store::tables::{BUILDS_RUNNING, BUILDS_TO_DEPLOY, ORGANIZATIONS_ALL};
use crate::store::{Change, Read, Record, StoreError};

/// What a recovery found and did.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Processes of former runs that were ended.
    pub ended_processes: usize,
    /// Builds that were running, with the successor of each.
    pub interrupted: Vec<(Id<Build>, Option<Id<Build>>)>,
    /// Builds whose artifact was being handed on.
    pub interrupted_deploys: Vec<Id<Build>>,
    /// Half-made artifacts and artifacts without a record.
    pub artifacts: Swept,
}

/// Why the service cannot begin to work.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A build could not be moved.
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
    /// The artifacts could not be swept.
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
    /// The workspaces could not be made or swept.
    #[error("the workspaces: {0}")]
    Workspaces(std::io::Error),
}

impl Builds {
    /// Brings everything to a state from which [`Builds::run`] goes on. Call it once, before anything is started.
    pub async fn recover(&self) -> Result<Recovered, RecoveryError> {
        let marker = format!("{}/", self.0.settings.marker);
        let workspaces = self.0.settings.workspaces.clone();
        let builds = self.clone();
        // Processes go first: they may still write into workspaces, and hold an engine's lock.
        let blocking = tokio::task::spawn_blocking(move || {
            let ended = process::end_marked(&marker);
            files::create_private_directory(&workspaces)?;
            builds.0.settings.isolation.admit(&workspaces)?;
            // In doubt a workspace stays.
            workspace::sweep(&workspaces, |setting| builds.on_record::<BuildSetting>(setting).map_or(true, |setting| setting.is_some()))?;
            Ok::<_, std::io::Error>(ended)
        });
        let ended_processes = blocking.await.map_err(std::io::Error::other).and_then(|ended| ended).map_err(RecoveryError::Workspaces)?;
        let mut recovered = Recovered { ended_processes, ..Recovered::default() };
        for build in self.on_host(&BUILDS_RUNNING)? {
            let successor = self.interrupt(build.organization_id, build.id).await?;
            recovered.interrupted.push((build.id, successor.map(|successor| successor.id)));
        }
        for build in self.on_host(&BUILDS_TO_DEPLOY)? {
            if build.deployments.iter().any(|deployment| deployment.status == DeployStatus::InProgress) {
                self.interrupt_deploy(build.organization_id, build.id).await?;
                recovered.interrupted_deploys.push(build.id);
            }
        }
        let builds = self.clone();
        let fate = move |id: Id<Build>| match builds.on_record(id) {
            // In doubt an artifact stays where it is.
            Err(_) => Fate::Keep,
            Ok(Some(build)) if build.kept_artifact().is_some() => Fate::Keep,
            Ok(Some(build)) if build.artifact.is_some() => Fate::Delete,
            Ok(_) => Fate::Quarantine,
        };
        recovered.artifacts = self.0.parts.artifacts.sweep(fate).await?;
        Ok(recovered)
    }

    fn on_host(&self, index: &crate::store::Index<Build>) -> Result<Vec<Build>, StoreError> {
        self.0.parts.store.read(|snapshot| snapshot.find_on_host(index, &Key::all(), usize::MAX))
    }

    /// Fails a running build as interrupted, and answers its successor. Also the end of a build at a graceful stop.
    pub(super) async fn interrupt(&self, organization: Id<Organization>, id: Id<Build>) -> Result<Option<Build>, LifecycleError> {
        let builds = self.clone();
        let (lines, bytes) = match self.0.parts.logs.writer(id).await {
            Ok(log) => {
                log.system("The service ended while this build ran.");
                let _ = log.flush().await;
                (log.position(), log.stored_bytes())
            }
            Err(error) => {
                tracing::warn!(%error, build.id = %id, "the log of an interrupted build cannot be closed");
                (0, 0)
            }
        };
        let job = move |tx: &Change| {
            let clock = &builds.0.parts.clock;
            let Some(build) = tx.get::<Build>(organization, id)? else { return Err(LifecycleError::NotFound) };
            let closing = Closing { diagnostics: build.diagnostics, log_lines: lines, log_bytes: bytes };
            let successor = builds.0.settings.retry_interrupted.then(|| clock.new_id());
            lifecycle::interrupt(tx, organization, id, successor, closing, clock.now())
        };
        self.0.parts.store.write(job).await
    }

    async fn interrupt_deploy(&self, organization: Id<Organization>, id: Id<Build>) -> Result<(), StoreError> {
        let now = self.0.parts.clock.now();
        let job = move |tx: &Change| {
            let Some(mut build) = tx.get::<Build>(organization, id)? else { return Ok(()) };
            deploy::interrupt(&mut build, now);
            tx.put(&build)
        };
        self.0.parts.store.write(job).await
    }

    /// This record, in whichever organization.
    fn on_record<R: Record>(&self, id: Id<R>) -> Result<Option<R>, StoreError> {
        self.0.parts.store.read(|snapshot| {
            for organization in snapshot.ids_on_host(&ORGANIZATIONS_ALL, &Key::all(), usize::MAX)? {
                if let Some(record) = snapshot.get::<R>(organization, id)? {
                    return Ok(Some(record));
                }
            }
            Ok(None)
        })
    }
}
