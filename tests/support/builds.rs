//! Builds put straight into the store of a server, for tests of what tells of them.

use cookhouse::model::Build;

use super::server::{Person, TestServer};
use crate::store::build;

/// Stores a build as it is.
pub(crate) async fn put(server: &TestServer, build: &Build) {
    let build = build.clone();
    server.app.store.write(move |change| change.put(&build)).await.expect("stored");
}

/// A build of theirs that waits.
pub(crate) async fn waiting(server: &TestServer, person: &Person) -> Build {
    let build = build(&server.app.clock, person.user.organization_id, "Win64", "main");
    let build = Build { created_at: server.app.clock.now(), ..build };
    put(server, &build).await;
    build
}
