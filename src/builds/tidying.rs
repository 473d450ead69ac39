//! What is done elsewhere before the workspace of a deleted build setting is removed.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Inner;
use super::connections::{self, ConnectionError, ServiceLog};
use super::workspace::Workspace;
use crate::model::{BuildSetting, Id, Organization};
use crate::seams::CallContext;
use crate::store::Read as _;

/// A server that does not answer keeps its entry.
const PATIENCE: Duration = Duration::from_secs(60);

impl Inner {
    /// Lets the version-control server forget a workspace: it keeps a list of what each one has. Whatever goes wrong is said, and
    /// the workspace is removed all the same. Not from within a task: this waits.
    pub(super) fn forget_on_server(&self, organization: Id<Organization>, setting: Id<BuildSetting>) {
        let place = Workspace::of(&self.settings.workspaces, setting).source();
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (true, Some(runtime)) = (place.is_dir(), runtime) else { return };
        let complain = |error: &dyn std::fmt::Display| {
            tracing::warn!(%error, build_setting.id = %setting, "the client workspace cookhouse-{setting}-... of a deleted build setting may be \
                left on the version-control server; `p4 client -d` removes it there");
        };
        let found = self.parts.store.read(|snapshot| snapshot.get::<Organization>(organization, organization));
        let binding = match found {
            Ok(Some(organization)) => connections::streamvc(&self.parts.vault, &organization),
            Ok(None) => return,
            Err(error) => return complain(&error),
        };
        let binding = match binding {
            Ok(binding) => binding,
            Err(ConnectionError::NotConnected) => return,
            Err(error) => return complain(&error),
        };
        let call = CallContext {
            log: Arc::new(ServiceLog),
            cancel: CancellationToken::new(),
            wall: PATIENCE,
            process_marker: format!("{}/forget/{setting}", self.settings.marker),
        };
        if let Err(error) = runtime.block_on(self.parts.source_control.forget_workspace(&binding, place, call)) {
            complain(&error);
        }
    }
}
