//! What the newest revision of a setting's branch or stream is, asked outside a build.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Builds;
use super::connections::{self, ConnectionError, ServiceLog};
use crate::model::{BuildSetting, Organization, Project};
use crate::seams::{CallContext, Revision, SourceError};
use crate::store::{Read, StoreError};

/// Why it is not known.
#[derive(Debug, thiserror::Error)]
pub enum HeadError {
    /// Its project or its organization is gone.
    #[error("the project was deleted")]
    NoSuchProject,
    /// The server cannot be called.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The server did not say.
    #[error("{}", .0.message)]
    Source(SourceError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Builds {
    /// The newest revision of what a setting tracks.
    pub async fn head(&self, setting: &BuildSetting, patience: Duration) -> Result<Revision, HeadError> {
        let organization = setting.organization_id;
        let (project, owner): (Option<Project>, Option<Organization>) = self.0.parts.store.read::<_, StoreError>(|snapshot| {
            Ok((snapshot.get(organization, setting.project_id)?, snapshot.get(organization, organization)?))
        })?;
        let (Some(project), Some(owner)) = (project, owner) else { return Err(HeadError::NoSuchProject) };
        let tracked = setting.stream_path.as_deref().unwrap_or(&setting.branch);
        let (binding, repository) = connections::source(&self.0.parts.vault, &owner, &project.source, tracked)?;
        let cancel = CancellationToken::new();
        // Whoever stops waiting stops the call.
        let _stop = cancel.clone().drop_guard();
        let call = CallContext {
            log: Arc::new(ServiceLog),
            cancel,
            wall: patience,
            process_marker: self.process_marker(&format!("head/{}", setting.id)),
        };
        self.0.parts.source_control.resolve_head(&binding, repository, tracked, call).await.map_err(HeadError::Source)
    }
}
