//! What is deleted, when, and in which order.

use std::time::Duration;

use cookhouse::model::audit::Actor;
use cookhouse::model::deploy::DeployStatus;
use cookhouse::model::idempotency::RememberedAnswer;
use cookhouse::model::secret::Sealed;
use cookhouse::model::user::Session;
use cookhouse::model::{Artifact, AuditEntry, Build, BuildSetting, Event, Id, Project, Status, Timestamp};
use cookhouse::retention::{Parts, Removed, Retention, Settings};
use cookhouse::store::{Read, Record, StoreError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::server::{Person, TestServer};
use crate::support::studio::{self, Kind};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A service with one setting, whose builds ended when a test says so.
struct House {
    server: TestServer,
    admin: Person,
    setting: BuildSetting,
    retention: Retention,
}

impl House {
    async fn open() -> House {
        let server = TestServer::start().await;
        let admin = server.admin().await;
        let mut records = studio::records(&server.app.clock, Kind::Githost);
        records.project.organization_id = admin.user.organization_id;
        records.setting.organization_id = admin.user.organization_id;
        let app = &server.app;
        let parts = Parts {
            store: app.store.clone(),
            clock: app.clock.clone(),
            artifacts: app.artifacts.clone(),
            logs: app.logs.clone(),
            people: app.people.clone(),
            builds: app.builds.clone(),
        };
        let retention = Retention::new(Settings { log_days: 180, event_days: 30, delivery_days: 30, audit_days: 365 }, parts);
        let house = House { admin, setting: records.setting, retention, server };
        house.put(&records.project).await;
        house.put(&house.setting).await;
        house
    }

    async fn put<R: Record>(&self, record: &R) {
        let record = record.clone();
        self.server.app.store.write::<(), StoreError>(move |tx| tx.put(&record)).await.expect("stored");
    }

    fn days_ago(&self, days: u32) -> Timestamp {
        self.server.app.clock.now().minus(DAY * days)
    }

    /// A complete build that ended so many days ago, with an artifact.
    async fn built(&self, days: u32) -> Build {
        let app = &self.server.app;
        let ended = self.days_ago(days);
        let id = Id::from_parts(u64::try_from(ended.0).expect("after 1970"), u128::from(days));
        let source = self.server.directory.path().join(format!("output-{days}"));
        std::fs::create_dir(&source).expect("a directory");
        std::fs::write(source.join("Game.pak"), vec![7; 1000]).expect("a file");
        let staged = app.artifacts.package(source, id, CancellationToken::new(), |_, _| {}).await.expect("packaged");
        let mut build = studio::build(&self.setting, id, ended);
        (build.status, build.finished_at, build.log_bytes) = (Status::Complete, Some(ended), 100);
        build.artifact = Some(Artifact {
            size_bytes: staged.size_bytes,
            checksum_md5: staged.md5.clone(),
            checksum_sha256: staged.sha256.clone(),
            expires_at: None,
            deleted_at: None,
            deleted_reason: None,
        });
        staged.publish().await.expect("published");
        self.put(&build).await;
        build
    }

    fn read(&self, id: Id<Build>) -> Build {
        self.server.read(|snapshot| snapshot.get(self.setting.organization_id, id)).expect("records stay for ever")
    }

    fn is_on_disk(&self, build: &Build) -> bool {
        self.server.app.artifacts.path(build.id).exists()
    }

    async fn get(&self, path: &str) -> Value {
        self.server.get(&self.admin, path).await.expect(200).json()
    }

    async fn shown_end(&self, build: &Build) -> Value {
        self.get(&format!("/builds/{}", build.id)).await["artifact"]["expiresAt"].clone()
    }

    async fn set_defaults(&self, defaults: Value) {
        let path = format!("/organizations/{}", self.setting.organization_id);
        self.server.patch(&self.admin, &path, json!({ "defaultProjectSettings": defaults })).await.expect(200);
    }

    async fn removed(&self) -> usize {
        self.retention.pass(false).await.expect("a pass").artifacts
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_go_by_age_except_the_newest_the_pinned_and_those_still_to_be_handed_on() {
    let house = House::open().await;
    let mut builds = Vec::new();
    for days in [100, 90, 80, 70, 60, 50, 40] {
        builds.push(house.built(days).await);
    }
    builds[1].pinned = true;
    builds[2].auto_deploy_status = Some(DeployStatus::InProgress);
    house.put(&builds[1]).await;
    house.put(&builds[2]).await;
    let end = |build: &Build| Value::String(build.finished_at.expect("ended").plus(30 * DAY).to_string());
    for (number, build) in builds.iter().enumerate() {
        let wanted = if number == 1 || number >= 4 { Value::Null } else { end(build) };
        assert_eq!(house.shown_end(build).await, wanted, "build {number}");
    }
    let listed = house.get("/builds").await;
    let listed: Vec<&Value> = listed["items"].as_array().expect("items").iter().map(|item| &item["artifact"]["expiresAt"]).collect();
    assert_eq!(listed[..5], [&Value::Null, &Value::Null, &Value::Null, &end(&builds[3]), &end(&builds[2])]);
    let link = house.server.app.links.sign(builds[0].id, house.server.app.clock.now().plus(DAY));
    house.server.ask("GET", &link).send().await.expect(200);

    assert_eq!(house.removed().await, 2);
    let there: Vec<bool> = builds.iter().map(|build| house.is_on_disk(build)).collect();
    assert_eq!(there, [false, true, true, false, true, true, true]);
    let gone = house.read(builds[0].id).artifact.expect("its record stays");
    assert!(gone.deleted_at.is_some() && gone.deleted_reason.as_deref() == Some("retention"));
    assert_eq!(house.shown_end(&builds[0]).await, end(&builds[0]), "what is gone says when its time was over");
    let path = format!("/builds/{}/download", builds[0].id);
    let reply = house.server.get(&house.admin, &path).await;
    assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"));
    assert!(reply.text().contains("retention"), "{}", reply.text());
    house.server.ask("GET", &link).send().await.expect(404);
    assert_eq!(house.removed().await, 0, "nothing is removed twice");
    let storage = house.get("/storage").await;
    assert_eq!((&storage["totals"]["artifacts"], &storage["totals"]["logBytes"]), (&json!(5), &json!(700)));
    assert_eq!(storage["projects"][0]["buildSettings"][0]["buildSettingId"], json!(house.setting.id));
    assert_eq!(storage["projects"][0]["artifactBytes"], storage["totals"]["artifactBytes"]);
    assert!(storage["disk"]["freeBytes"].as_u64() > Some(0) && storage["disk"]["status"] == "ok");
    let stranger = house.server.admin().await;
    let theirs = house.server.get(&stranger, "/storage").await.expect(200).json();
    assert_eq!((&theirs["projects"], &theirs["totals"]["artifactBytes"]), (&json!([]), &json!(0)));

    // Let go, handed on, and with other rules of the organization.
    house.server.patch(&house.admin, &format!("/builds/{}", builds[1].id), json!({"pinned": false})).await.expect(200);
    house.put(&Build { auto_deploy_status: Some(DeployStatus::Succeeded), ..house.read(builds[2].id) }).await;
    assert_eq!(house.removed().await, 2);
    house.set_defaults(json!({"artifactRetentionDays": 45, "keepLastArtifacts": 1})).await;
    assert_eq!(house.shown_end(&builds[5]).await, Value::String(builds[5].finished_at.expect("ended").plus(45 * DAY).to_string()));
    assert_eq!(house.removed().await, 2);
    house.set_defaults(json!({"artifactRetentionDays": null, "keepLastArtifacts": 0})).await;
    assert_eq!(house.removed().await, 1, "thirty days again, and none for its number");
    let organization = house.get(&format!("/organizations/{}", house.setting.organization_id)).await;
    let defaults = &organization["defaultProjectSettings"];
    assert_eq!((&defaults["artifactRetentionDays"], &defaults["keepLastArtifacts"]), (&json!(30), &json!(0)));
    let storage = house.get("/storage").await;
    assert_eq!((&storage["totals"]["artifacts"], &storage["totals"]["artifactBytes"]), (&json!(0), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_of_a_deleted_setting_go_by_age_alone() {
    let house = House::open().await;
    let (old, young) = (house.built(31).await, house.built(29).await);
    assert_eq!(house.removed().await, 0);
    let setting = house.setting.clone();
    let builds = house.server.app.builds.clone();
    let delete = move |tx: &cookhouse::store::Change| {
        tx.remove::<BuildSetting>(setting.organization_id, setting.id)?;
        builds.setting_deleted_in(tx, setting.organization_id, setting.id)
    };
    house.server.app.store.write(delete).await.expect("deleted");
    assert_eq!(house.removed().await, 1);
    assert!(!house.is_on_disk(&old) && house.is_on_disk(&young));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_the_record_and_the_file_is_made_up_for() {
    let house = House::open().await;
    let (mut cut_short, kept) = (house.built(50).await, house.built(1).await);
    let artifact = cut_short.artifact.as_mut().expect("an artifact");
    (artifact.deleted_at, artifact.deleted_reason) = (Some(house.days_ago(0)), Some("retention".into()));
    house.put(&cut_short).await;
    let link = house.server.app.links.sign(cut_short.id, house.server.app.clock.now().plus(DAY));
    house.server.ask("GET", &link).send().await.expect(404);
    let recovered = house.server.app.builds.recover().await.expect("recovered");
    assert_eq!((recovered.artifacts.deleted, recovered.artifacts.quarantined.len()), (1, 0));
    assert!(!house.is_on_disk(&cut_short) && house.is_on_disk(&kept));
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_go_half_a_year_after_their_build_ended() {
    let house = House::open().await;
    let logs = house.server.app.logs.clone();
    let mut builds = Vec::new();
    for (made, ended) in [(400, Some(181)), (399, Some(179)), (398, None), (10, Some(9))] {
        let id = Id::from_parts(u64::try_from(house.days_ago(made).0).expect("after 1970"), 1);
        let mut build = studio::build(&house.setting, id, house.days_ago(made));
        if let Some(ended) = ended {
            (build.status, build.finished_at, build.log_bytes) = (Status::Failed, Some(house.days_ago(ended)), 50);
        }
        house.put(&build).await;
        builds.push(build);
    }
    // Of a build that no record names, and one that is being written.
    let stray: Id<Build> = Id::from_parts(u64::try_from(house.days_ago(300).0).expect("after 1970"), 1);
    let open: Id<Build> = Id::from_parts(u64::try_from(house.days_ago(301).0).expect("after 1970"), 1);
    for id in builds.iter().map(|build| build.id).chain([stray]) {
        let writer = logs.writer(id).await.expect("a log");
        writer.system("a line");
        writer.flush().await.expect("stored");
        let mut follower = logs.follow(id).expect("open");
        drop(writer);
        assert!(!follower.grown(1).await, "it is closed");
    }
    let writer = logs.writer(open).await.expect("a log");
    writer.system("a line");
    writer.flush().await.expect("stored");
    while logs.follow(stray).is_some() {
        tokio::task::yield_now().await;
    }
    assert_eq!(house.retention.pass(false).await.expect("a pass"), Removed::default());
    assert_eq!(house.retention.pass(true).await.expect("a pass").logs, 2);
    let lines = |id| {
        let logs = logs.clone();
        async move { logs.reader(id).await.expect("readable").line_count() }
    };
    for (build, count) in builds.iter().zip([0, 1, 1, 1]) {
        assert_eq!(lines(build.id).await, count, "{build:#?}");
        assert_eq!(house.read(build.id).log_deleted_at.is_some(), count == 0);
    }
    assert_eq!((lines(stray).await, lines(open).await), (0, 1));
    assert_eq!(house.get("/storage").await["totals"]["logBytes"], json!(100));
    assert_eq!(house.retention.pass(true).await.expect("a pass").logs, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_interest_nobody_any_more_go() {
    let house = House::open().await;
    let organization_id = house.setting.organization_id;
    let clock = house.server.app.clock.clone();
    let hours_ago = |hours: u32| clock.now().minus(DAY / 24 * hours);
    for hours in [25, 23] {
        house
            .put(&RememberedAnswer {
                id: Id::from_parts(u64::try_from(hours_ago(hours).0).expect("after 1970"), 1),
                organization_id,
                key_hash: hours.to_string(),
                request_hash: String::new(),
                answer: serde_json::from_value::<Sealed>(json!(""))
                    .unwrap_or_else(|_| house.server.app.vault.seal("x", "x").expect("sealed")),
                created_at: hours_ago(hours),
            })
            .await;
    }
    // Unused for too long, too old, and alive.
    for (created, used) in [(12, 9), (25, 0), (12, 1)] {
        house
            .put(&Session {
                id: clock.new_id(),
                organization_id,
                user_id: house.admin.user.id,
                token_hash: format!("{created}-{used}"),
                created_at: hours_ago(created),
                last_used_at: hours_ago(used),
            })
            .await;
    }
    // The log is in the order of time: its oldest entry lies before those of this test.
    for (number, days) in [(0, 31), (1 << 30, 29)] {
        let id = Event::id_of(number);
        let project_id: Id<Project> = house.setting.project_id;
        let what = cookhouse::model::event::What::ProjectCreated;
        house.put(&Event { id, organization_id, at: house.days_ago(days), project_id, build_id: None, what }).await;
    }
    for (sequence, days) in [(1, 366), (2, 364)] {
        house
            .put(&AuditEntry {
                id: clock.new_id(),
                organization_id,
                sequence,
                at: house.days_ago(days),
                actor: Actor::Host,
                address: None,
                operation_id: "test".into(),
                request_id: String::new(),
                refused: None,
                resources: Vec::new(),
                resources_omitted: 0,
                refusals_omitted: 0,
                previous_hash: String::new(),
                hash: String::new(),
            })
            .await;
    }
    let counts = || {
        house.server.read(|snapshot| {
            let mut counts = [0; 4];
            snapshot.every::<RememberedAnswer>(|_| {
                counts[0] += 1;
                Ok(true)
            })?;
            snapshot.every::<Session>(|_| {
                counts[1] += 1;
                Ok(true)
            })?;
            snapshot.every::<Event>(|_| {
                counts[2] += 1;
                Ok(true)
            })?;
            snapshot.every::<AuditEntry>(|_| {
                counts[3] += 1;
                Ok(true)
            })?;
            Ok(counts)
        })
    };
    let before = counts();
    assert_eq!(house.retention.pass(false).await.expect("a pass").records, 5);
    assert_eq!(counts(), [before[0] - 1, before[1] - 2, before[2] - 1, before[3] - 1]);
}
