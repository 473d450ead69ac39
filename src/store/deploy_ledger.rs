//! The ledger of deploys: rows that the store itself writes when a deployment of a build begins and ends, so that none is
//! missing and none says something else than the build did.

use super::key::Key;
use super::read::{Order, Read};
use super::tables::DEPLOY_ATTEMPTS_BY_BUILD;
use super::webhook_queue::IDS;
use super::{Change, StoreError};
use crate::model::Build;
use crate::model::deploy::{DeployAttempt, DeployStatus, Deployment};

pub(super) fn build(change: &Change, old: Option<&Build>, new: Option<&Build>) -> Result<(), StoreError> {
    let Some(new) = new else { return Ok(()) };
    for (entry, deployment) in new.deployments.iter().enumerate() {
        let before = old.and_then(|old| old.deployments.get(entry));
        let was_open = before.is_some_and(|before| before.status == DeployStatus::InProgress);
        match (was_open, deployment.status) {
            (false, DeployStatus::InProgress) => change.put(&begun(new, entry, deployment))?,
            (true, DeployStatus::Succeeded | DeployStatus::Failed) => {
                let mut attempt = open(change, new, entry)?.unwrap_or_else(|| begun(new, entry, deployment));
                (attempt.status, attempt.error, attempt.finished_at) = (deployment.status, deployment.error.clone(), Some(IDS.now()));
                change.put(&attempt)?;
            }
            (_, DeployStatus::Pending | DeployStatus::InProgress | DeployStatus::Succeeded | DeployStatus::Failed) => {}
        }
    }
    Ok(())
}

fn begun(build: &Build, entry: usize, deployment: &Deployment) -> DeployAttempt {
    DeployAttempt {
        id: IDS.new_id(),
        organization_id: build.organization_id,
        build_id: build.id,
        entry,
        plugin: deployment.plugin.clone(),
        requested_by: build.deploy_requested_by.clone(),
        status: DeployStatus::InProgress,
        error: None,
        started_at: IDS.now(),
        finished_at: None,
    }
}

fn open(change: &Change, build: &Build, entry: usize) -> Result<Option<DeployAttempt>, StoreError> {
    // One target at a time is tried: what is open is among the newest.
    let newest = change.find_all(build.organization_id, &DEPLOY_ATTEMPTS_BY_BUILD, &Key::of_id(build.id), Order::NewestFirst, 4)?;
    Ok(newest.into_iter().find(|attempt: &DeployAttempt| attempt.entry == entry && attempt.finished_at.is_none()))
}
