//! Changelists that no script told us of: the streams that push settings track are looked at from time to time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::builds::connections::{self, ServiceLog};
use crate::builds::{Builds, Overrides, Request, TriggerError};
use crate::model::build_setting::Trigger;
use crate::model::delivery::TrackedHead;
use crate::model::{Build, BuildSetting, Id, Organization, TriggeredBy};
use crate::seams::{CallContext, SourceProblem};
use crate::store::build_list::{self, BuildFilter};
use crate::store::{Change, Read, StoreError};

/// The longest that one question to the server may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Builds of a setting that are looked at for the changelist.
const LOOKED_AT: usize = 50;
/// What stands for the repository of a tracked stream.
const REPOSITORY: &str = "streamvc";

impl Builds {
    /// Compares the newest changelist of every tracked stream with the last one seen, and builds what was missed.
    pub(super) async fn reconcile_streams(&self, organization: &Organization, stop: &CancellationToken) -> Result<Vec<Build>, StoreError> {
        let mut started = Vec::new();
        let Ok(binding) = connections::streamvc(&self.0.parts.vault, organization) else { return Ok(started) };
        for (stream, settings) in self.tracked_streams(organization.id)? {
            if stop.is_cancelled() {
                return Ok(started);
            }
            let call = CallContext {
                log: Arc::new(ServiceLog),
                cancel: stop.clone(),
                wall: PATIENCE,
                process_marker: self.process_marker("reconcile"),
            };
            let head = match self.0.parts.source_control.resolve_head(&binding, &stream, &stream, call).await {
                Ok(head) => head.id,
                Err(error) => {
                    tracing::warn!(%error, stream, "the newest changelist of a tracked stream cannot be read");
                    // What concerns the whole connection will not be better for its next stream.
                    match error.problem {
                        SourceProblem::Unauthenticated | SourceProblem::Unavailable | SourceProblem::Cancelled => return Ok(started),
                        _ => continue,
                    }
                }
            };
            let Ok(number) = head.parse::<u64>() else { continue };
            let (builds, id) = (self.clone(), organization.id);
            let job = move |tx: &Change| {
                let mut started = Vec::new();
                for setting in &settings {
                    started.extend(builds.stream_seen(tx, id, *setting, &stream, number)?);
                }
                Ok::<_, TriggerError>(started)
            };
            match self.0.parts.store.write(job).await {
                Ok(new) => {
                    new.iter().for_each(|build| tracing::info!(build.id = %build.id, "a changelist that nobody told of is built"));
                    started.extend(new);
                }
                Err(TriggerError::Store(error)) => return Err(error),
                Err(error) => tracing::warn!(%error, "a missed changelist cannot be built"),
            }
        }
        Ok(started)
    }

    fn tracked_streams(&self, organization: Id<Organization>) -> Result<BTreeMap<String, Vec<Id<BuildSetting>>>, StoreError> {
        let mut tracked: BTreeMap<String, Vec<Id<BuildSetting>>> = BTreeMap::new();
        self.0.parts.store.read(|snapshot| {
            snapshot.for_each(organization, None, |setting: BuildSetting| {
                if let (Trigger::Push, Some(stream)) = (&setting.trigger, &setting.stream_path) {
                    tracked.entry(stream.clone()).or_default().push(setting.id);
                }
                Ok(true)
            })
        })?;
        Ok(tracked)
    }

    /// One setting's stream was seen at a changelist.
    fn stream_seen(
        &self,
        tx: &Change,
        organization: Id<Organization>,
        setting: Id<BuildSetting>,
        stream: &str,
        head: u64,
    ) -> Result<Option<Build>, TriggerError> {
        let Some(setting) = tx.get::<BuildSetting>(organization, setting)? else { return Ok(None) };
        if setting.trigger != Trigger::Push || setting.stream_path.as_deref() != Some(stream) {
            return Ok(None);
        }
        let known: Option<TrackedHead> = tx.get(organization, setting.id.cast())?;
        let known = known.filter(|known| known.branch == stream && known.repository == REPOSITORY);
        // Numbers only grow; a lower one is of a server that was set back, or of another one.
        if known.as_ref().and_then(|known| known.commit.parse().ok()) == Some(head) {
            return Ok(None);
        }
        tx.put(&TrackedHead {
            id: setting.id.cast(),
            organization_id: organization,
            repository: REPOSITORY.to_owned(),
            branch: stream.to_owned(),
            commit: head.to_string(),
            came_from: known.as_ref().map(|known| known.commit.clone()),
            seen_at: self.0.parts.clock.now(),
        })?;
        // The first sight of a stream is where its changelists begin; the script may have told of this one.
        if known.is_none() || is_built(tx, &setting, stream, head)? {
            return Ok(None);
        }
        let request = Request {
            organization,
            project: setting.project_id,
            setting: setting.id,
            by: TriggeredBy::Push(head.to_string()),
            overrides: Overrides { changelist: Some(head.to_string()), ..Overrides::default() },
        };
        self.trigger_in(tx, &request).map(Some)
    }
}

/// Whether a build of the setting is of this changelist or of a later one.
fn is_built(rows: &impl Read, setting: &BuildSetting, stream: &str, head: u64) -> Result<bool, StoreError> {
    let filter = BuildFilter { build_setting_id: Some(setting.id), branch: Some(stream.to_owned()), ..BuildFilter::default() };
    let builds = build_list::page(rows, setting.organization_id, &filter, None, LOOKED_AT)?.items;
    let number = |build: &Build| build.requested_revision.as_ref().unwrap_or(&build.commit).parse::<u64>().ok();
    Ok(builds.iter().any(|build| number(build).is_some_and(|number| number >= head)))
}
