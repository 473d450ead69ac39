//! Builds of no settings, put straight into a store, for tests of what shows and tells them.

use cookhouse::clock::Clock;
use cookhouse::model::{Build, BuildSetting, Id, Organization, Timestamp};

use super::server::{Person, TestServer};
use super::studio::{self, Kind};

/// A waiting build; all of them belong to one project and setting, whatever their organization.
pub(crate) fn build(clock: &Clock, organization_id: Id<Organization>, platform: &str, branch: &str) -> Build {
    let setting = BuildSetting {
        id: Id::from_parts(1, 2),
        organization_id,
        project_id: Id::from_parts(1, 1),
        platform: platform.into(),
        branch: branch.into(),
        ..studio::records(clock, Kind::Githost).setting
    };
    studio::build(&setting, clock.new_id(), Timestamp(0))
}

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
