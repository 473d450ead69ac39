//! Pushes that nobody told us of: the tracked heads are looked at from time to time. Also forgets old deliveries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::payload;
use super::push::{known_head, note_head};
use crate::builds::connections::{self, ServiceLog};
use crate::builds::{Builds, TriggerError};
use crate::model::build_setting::Trigger;
use crate::model::delivery::{DeliveryBody, TrackedHead};
use crate::model::organization::GithostStatus;
use crate::model::project::SourceLink;
use crate::model::{Build, BuildSetting, Delivery, Id, Organization, Project};
use crate::seams::{CallContext, Revision, SourceError, SourceProblem};
use crate::store::key::Key;
use crate::store::tables::ORGANIZATIONS_ALL;
use crate::store::{Change, Order, Read, StoreError};

/// How often the tracked heads are looked at.
const PERIOD: Duration = Duration::from_secs(10 * 60);
/// The longest that one question to a git host may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the ledger keeps a delivery: git hosts deliver again for as long.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How many it keeps of an organization.
const MOST_REMEMBERED: usize = 10_000;

/// One branch of one repository, and the settings that wait for it.
struct Tracked {
    link: SourceLink,
    branch: String,
    /// Each with the head that was known when the question was asked.
    settings: Vec<(Id<BuildSetting>, Option<String>)>,
}

impl Builds {
    /// Looks at the tracked heads at once and then every ten minutes, until `stop`.
    pub(in crate::builds) async fn run_reconciliation(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.reconcile(stop).await {
                tracing::warn!(%error, "missed pushes could not be looked for");
            }
            tokio::select! {
                () = tokio::time::sleep(PERIOD) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Compares the head of every branch that a push setting tracks with the last one seen, and builds what was missed.
    pub async fn reconcile(&self, stop: &CancellationToken) -> Result<Vec<Build>, StoreError> {
        let organizations: Vec<Organization> =
            self.0.parts.store.read(|snapshot| snapshot.find_on_host(&ORGANIZATIONS_ALL, &Key::all(), usize::MAX))?;
        let mut started = Vec::new();
        for organization in organizations {
            self.forget(organization.id).await?;
            let is_connected = organization.githost.as_ref().is_some_and(|connection| connection.status == GithostStatus::Connected);
            if is_connected {
                self.reconcile_organization(&organization, stop, &mut started).await?;
            }
            if organization.streamvc.is_some() {
                started.extend(self.reconcile_streams(&organization, stop).await?);
            }
        }
        Ok(started)
    }

    async fn reconcile_organization(
        &self,
        organization: &Organization,
        stop: &CancellationToken,
        started: &mut Vec<Build>,
    ) -> Result<(), StoreError> {
        for tracked in self.tracked(organization.id)? {
            if stop.is_cancelled() {
                return Ok(());
            }
            let head = match self.head_of(organization, &tracked, stop).await {
                Ok(head) => head,
                Err(error) => {
                    let repository = tracked.link.repo_link();
                    tracing::warn!(%error, repository, branch = tracked.branch, "the head of a tracked branch cannot be read");
                    // What concerns the whole connection will not be better for its next branch.
                    match error.problem {
                        SourceProblem::RateLimited | SourceProblem::Unauthenticated | SourceProblem::Cancelled => return Ok(()),
                        _ => continue,
                    }
                }
            };
            let commit = head.id.to_ascii_lowercase();
            if !payload::is_hash(&commit) {
                continue;
            }
            let (builds, is_skipped) = (self.clone(), payload::is_skipped(&head.message));
            let (id, repository) = (organization.id, tracked.link.repo_link().to_owned());
            let job = move |tx: &Change| {
                let mut started = Vec::new();
                for (setting, known) in tracked.settings {
                    let seen = Seen { repository: &repository, branch: &tracked.branch, commit: &commit, is_skipped, known };
                    started.extend(builds.seen(tx, id, setting, &seen)?);
                }
                Ok::<_, TriggerError>(started)
            };
            match self.0.parts.store.write(job).await {
                Ok(new) => {
                    new.iter().for_each(|build| tracing::info!(build.id = %build.id, "a push that nobody told of is built"));
                    started.extend(new);
                }
                Err(TriggerError::Store(error)) => return Err(error),
                Err(error) => tracing::warn!(%error, "a missed push cannot be built"),
            }
        }
        Ok(())
    }

    fn tracked(&self, organization: Id<Organization>) -> Result<Vec<Tracked>, StoreError> {
        let mut tracked: BTreeMap<(String, String, String), Tracked> = BTreeMap::new();
        self.0.parts.store.read(|snapshot| {
            snapshot.for_each(organization, None, |setting: BuildSetting| {
                if setting.trigger != Trigger::Push || setting.branch.is_empty() {
                    return Ok(true);
                }
                let Some(project) = snapshot.get::<Project>(organization, setting.project_id)? else { return Ok(true) };
                let SourceLink::Githost { installation_id, repo_full_name, .. } = &project.source else { return Ok(true) };
                let known = known_head(snapshot, &setting, repo_full_name)?.map(|head| head.commit);
                let key = (installation_id.clone(), repo_full_name.to_lowercase(), setting.branch.clone());
                let one = tracked.entry(key).or_insert_with(|| Tracked {
                    link: project.source.clone(),
                    branch: setting.branch.clone(),
                    settings: Vec::new(),
                });
                one.settings.push((setting.id, known));
                Ok(true)
            })
        })?;
        Ok(tracked.into_values().collect())
    }

    async fn head_of(&self, organization: &Organization, tracked: &Tracked, stop: &CancellationToken) -> Result<Revision, SourceError> {
        let connection = connections::source(&self.0.parts.vault, organization, &tracked.link, &tracked.branch);
        let (binding, repository) = connection.map_err(|error| SourceError {
            problem: SourceProblem::Unauthenticated,
            message: error.to_string(),
            retry_after: None,
            reason: None,
        })?;
        let call = CallContext {
            log: Arc::new(ServiceLog),
            cancel: stop.clone(),
            wall: PATIENCE,
            process_marker: self.process_marker("reconcile"),
        };
        self.0.parts.source_control.resolve_head(&binding, repository, &tracked.branch, call).await
    }

    /// One setting's branch was seen at a commit.
    fn seen(
        &self,
        tx: &Change,
        organization: Id<Organization>,
        setting: Id<BuildSetting>,
        seen: &Seen<'_>,
    ) -> Result<Option<Build>, TriggerError> {
        let Some(setting) = tx.get::<BuildSetting>(organization, setting)? else { return Ok(None) };
        if setting.trigger != Trigger::Push || setting.branch != seen.branch {
            return Ok(None);
        }
        let known = known_head(tx, &setting, seen.repository)?.map(|head| head.commit);
        // A delivery came while the git host was asked: it knows better. Or nothing happened.
        if known != seen.known || known.as_deref() == Some(seen.commit) {
            return Ok(None);
        }
        // The first sight of a branch is where its pushes begin.
        let build = match known {
            Some(_) => self.arrived(tx, &setting, seen.repository, seen.commit, None, seen.is_skipped)?,
            None => None,
        };
        note_head(tx, &setting, seen.repository, seen.commit, known.as_deref(), self.0.parts.clock.now())?;
        Ok(build)
    }

    /// Forgets deliveries that are too old or too many, and heads that nothing tracks any more.
    async fn forget(&self, organization: Id<Organization>) -> Result<(), StoreError> {
        let oldest = self.0.parts.clock.now();
        let (mut old, mut stale): (Vec<Id<Delivery>>, Vec<Id<TrackedHead>>) = (Vec::new(), Vec::new());
        self.0.parts.store.read(|snapshot| {
            let (mut after, mut kept) = (None, 0);
            loop {
                let page = snapshot.page::<Delivery>(organization, None, after, Order::NewestFirst, 500)?;
                for delivery in page.items.iter().filter(|delivery| delivery.processed_at.is_some()) {
                    kept += 1;
                    if kept > MOST_REMEMBERED || u128::from(oldest.since(delivery.received_at)) > REMEMBERED.as_millis() {
                        old.push(delivery.id);
                    }
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            snapshot.for_each(organization, None, |head: TrackedHead| {
                let setting = snapshot.get::<BuildSetting>(organization, head.setting())?;
                if !setting.is_some_and(|setting| {
                    setting.trigger == Trigger::Push && setting.stream_path.as_ref().unwrap_or(&setting.branch) == &head.branch
                }) {
                    stale.push(head.id);
                }
                Ok(true)
            })
        })?;
        if old.is_empty() && stale.is_empty() {
            return Ok(());
        }
        let job = move |tx: &Change| {
            for id in old {
                tx.remove::<DeliveryBody>(organization, id.cast())?;
                tx.remove::<Delivery>(organization, id)?;
            }
            for id in stale {
                tx.remove::<TrackedHead>(organization, id)?;
            }
            Ok(())
        };
        self.0.parts.store.write(job).await
    }
}

/// Where a branch stands, as the git host says.
struct Seen<'a> {
    repository: &'a str,
    branch: &'a str,
    commit: &'a str,
    is_skipped: bool,
    /// What was known of it when the git host was asked.
    known: Option<String>,
}
