//! A studio in which every resource exists, and what the API says of each.

use std::time::Duration;

use cookhouse::model::deploy::{DeployAttempt, DeployStatus};
use cookhouse::model::log::LogStream;
use cookhouse::model::notification::{Destination, NotificationState, NotificationStatus};
use cookhouse::model::schedule_slot::SlotOutcome;
use cookhouse::model::webhook::delivery::{Response, WebhookDelivery};
use cookhouse::model::{Artifact, Build, Id, Notification, Project, ScheduleSlot, Status, Timestamp};
use cookhouse::store::{Change, Read, StoreError};
use serde_json::{Value, json};

use crate::api::{hooks, project, repository, setting, streamvc_projects, with};
use crate::support::repositories::{GOOD_TOKEN, UPROJECT};
use crate::support::server::{Person, TestServer};

/// 2026-01-02T03:04:05.678Z
const NOW: Timestamp = Timestamp(1_767_323_045_678);

struct Scene {
    server: TestServer,
    admin: Person,
    answers: Vec<(&'static str, Value)>,
}

/// Every resource by the name of its file.
pub(super) async fn answers() -> Vec<(&'static str, Value)> {
    let server = TestServer::start_at(NOW).await;
    let admin = server.admin().await;
    let mut scene = Scene { server, admin, answers: Vec::new() };
    scene.organization().await;
    scene.git_host().await;
    scene.projects().await;
    scene.people().await;
    scene.telling().await;
    scene.service().await;
    scene.answers
}

impl Scene {
    fn keep(&mut self, name: &'static str, answer: Value) {
        self.answers.push((name, answer));
    }

    async fn get(&self, path: &str) -> Value {
        self.server.get(&self.admin, path).await.expect(200).json()
    }

    async fn make(&self, path: &str, body: Value) -> Value {
        self.server.post(&self.admin, path, body).await.expect(201).json()
    }

    async fn store(&self, job: impl FnOnce(&Change) -> Result<(), StoreError> + Send + 'static) {
        self.server.app.store.write(job).await.expect("stored");
    }

    async fn organization(&mut self) {
        let path = format!("/organizations/{}", self.admin.user.organization_id);
        let settings = json!({
            "name": "Kitchen Studio", "defaultProjectSettings": {"platform": "Linux", "keepLastArtifacts": 5},
            "integrationSettings": {
                "notificationEmails": ["team@studio.example"], "slackWebhookUrl": "https://hooks.slack.example/services/x",
                "smtp": {"host": "mail.studio.example", "username": "builds", "password": "secret", "from": "builds@studio.example"},
            },
        });
        self.server.patch(&self.admin, &path, settings).await.expect(200);
        let connection = json!({"token": GOOD_TOKEN, "webhookSecret": hooks::SECRET});
        self.server.put(&self.admin, &format!("{path}/integrations/githost"), connection).await.expect(200);
        streamvc_projects::connect(&self.server, &self.admin).await;
        let again = self.server.patch(&self.admin, &format!("{path}/streamvc"), streamvc_projects::credentials()).await.expect(200);
        self.keep("streamvc-connection", again.json());
        let shown = self.get(&path).await;
        self.keep("organization", shown);
        let me = self.get("/auth/me").await;
        self.keep("me", me);
    }

    async fn git_host(&mut self) {
        self.server.host.add("studio/kitchen", &[("Game/Kitchen.uproject", UPROJECT), ("Readme.md", "Cook")]);
        let repositories = self.get("/gitghost/repos/studio").await;
        let kitchen = repositories["items"].as_array().expect("items").iter().find(|one| one["fullName"] == "studio/kitchen");
        self.keep("repository", kitchen.expect("the repository").clone());
        let branches = self.get("/gitghost/branches/studio?repoFullName=studio/kitchen").await;
        self.keep("branch", branches["items"][0].clone());
        let uproject = self.get("/gitghost/uproject/studio?repoFullName=studio/kitchen").await;
        self.keep("uproject", uproject);
    }

    async fn projects(&mut self) {
        let project = project(&self.server, &self.admin).await;
        let settings = format!("{project}/build-settings");
        let full = json!({
            "name": "Nightly", "targetType": "Client", "trigger": "scheduled", "autoDeploy": true, "notifyOnComplete": true,
            "schedule": {"cron": "0 3 * * *", "timezone": "Europe/Stockholm", "onlyIfChanged": true, "catchUp": false},
            "uploadBuildUrl": "https://drop.example/upload", "uploadBuildAuthHeader": "Bearer x", "timeoutMinutes": 60, "cleanBuild": true,
            "supersede": "off", "extraUatArgs": ["-compressed"],
            "deployTargets": [{"plugin": "custom-deploy", "config": {"url": "https://drop.example/other"}, "secrets": {"authorization": "Bearer y"}}],
        });
        let made = self.make(&settings, with(setting(), full)).await;
        let path = format!("{settings}/{}", made["id"].as_str().expect("an id"));
        self.keep("build-setting", made);
        let started = self.make(&format!("{path}/trigger"), json!({})).await;
        let (build, setting_id) = (started["buildId"].as_str().expect("an id").to_owned(), started["buildSettingId"].clone());
        self.keep("started-build", started);
        let waiting = self.get(&format!("/builds/{build}")).await;
        self.keep("build-waiting", waiting);
        self.finish(&build).await;
        let shown = self.get(&format!("/builds/{build}")).await;
        self.keep("build", shown);
        let listed = self.get("/builds?status=complete").await["items"][0].clone();
        self.keep("build-listed", listed);
        let lines = self.get(&format!("/builds/{build}/log/lines")).await;
        self.keep("log-lines", lines);
        for (name, rest) in [("download", "download"), ("diagnostics", "diagnostics")] {
            let answer = self.get(&format!("/builds/{build}/{rest}")).await;
            self.keep(name, answer);
        }
        for (name, rest) in [("deploy", "deploys"), ("notification", "notifications")] {
            let answer = self.get(&format!("/builds/{build}/{rest}")).await["items"][0].clone();
            self.keep(name, answer);
        }
        self.slot(&project, setting_id.as_str().expect("an id")).await;
        let slot = self.get(&format!("{path}/schedule-slots")).await["items"][0].clone();
        self.keep("schedule-slot", slot);
        let page = self.get("/projects?limit=1").await;
        self.keep("project-summary", page["items"][0].clone());
        self.keep("page", page);
        let shown = self.get(&project).await;
        self.keep("project", shown);

        let stream = self.make("/projects/add-streamvc", streamvc_projects::stream()).await;
        let settings = format!("/projects/{}/build-settings", stream["id"].as_str().expect("an id"));
        self.keep("project-streamvc", stream);
        let made = self.make(&settings, with(setting(), json!({"branch": null, "streamPath": "//Games/main"}))).await;
        self.keep("build-setting-streamvc", made);
        let refused = self.server.post(&self.admin, "/projects/add-repo", with(repository(), json!({"name": 5, "repoFullName": "x"})));
        let refused = refused.await.expect(400).json();
        self.keep("error", with(refused.clone(), json!({"error": with(refused["error"].clone(), json!({"requestId": "REQUEST"}))})));
    }

    /// Ends a build as an executor would, and what follows from it.
    async fn finish(&self, build: &str) {
        let (organization, id) = (self.admin.user.organization_id, build.parse::<Id<Build>>().expect("an id"));
        let pending: Build = self.server.read(|snapshot| snapshot.get(organization, id)).expect("the build");
        let writer = self.server.app.logs.writer(id).await.expect("a log");
        writer.output(LogStream::Stdout, b"Cooking\n").await;
        writer.output(LogStream::Stderr, b"Too hot\n").await;
        writer.flush().await.expect("stored");
        let hash = |digit: &str, length| digit.repeat(length);
        let artifact = Artifact {
            size_bytes: 1_482_366_976,
            checksum_md5: hash("a", 32),
            checksum_sha256: hash("b", 64),
            expires_at: None,
            deleted_at: None,
            deleted_reason: None,
        };
        let running = pending.moved_to(Status::Running, NOW).expect("allowed");
        let complete = running.moved_to(Status::Complete, NOW.plus(Duration::from_secs(5))).expect("allowed");
        let complete = Build {
            artifact: Some(artifact),
            commit: hash("0123456789", 4),
            commit_message: "Season the soup".into(),
            auto_deploy_status: Some(DeployStatus::Succeeded),
            notification_status: Some(NotificationStatus::Sent),
            ..complete
        };
        let attempt = DeployAttempt {
            id: self.server.app.clock.new_id(),
            organization_id: organization,
            build_id: id,
            entry: 0,
            plugin: "custom-deploy".into(),
            requested_by: None,
            status: DeployStatus::Succeeded,
            error: None,
            started_at: NOW,
            finished_at: Some(NOW.plus(Duration::from_secs(2))),
        };
        let notification = Notification {
            id: self.server.app.clock.new_id(),
            organization_id: organization,
            build_id: id,
            project_id: complete.project_id,
            project_name: "Kitchen".into(),
            destination: Destination::Email { to: "team@studio.example".into() },
            is_failure: false,
            is_held: false,
            state: NotificationState::Sent,
            created_at: NOW,
            due_at: NOW,
            attempts: 1,
            finished_at: Some(NOW),
            error: None,
        };
        self.store(move |tx| {
            tx.put(&complete)?;
            tx.put(&attempt)?;
            tx.put(&notification)
        })
        .await;
    }

    async fn slot(&self, project: &str, setting: &str) {
        let build_setting_id = setting.parse().expect("an id");
        let slot = ScheduleSlot {
            id: ScheduleSlot::id_of(build_setting_id, NOW),
            organization_id: self.admin.user.organization_id,
            project_id: project.rsplit('/').next().and_then(|id| id.parse::<Id<Project>>().ok()).expect("an id"),
            build_setting_id,
            due_at: NOW,
            until: None,
            outcome: SlotOutcome::Built { build_id: self.server.app.clock.new_id() },
            decided_at: NOW,
        };
        self.store(move |tx| tx.put(&slot)).await;
    }

    async fn people(&mut self) {
        let invited = self.make("/members", json!({"email": "grace@studio.example", "name": "Grace", "role": "member"})).await;
        let member = self.get(&format!("/members/{}", invited["id"].as_str().expect("an id"))).await;
        self.keep("invitation", invited);
        self.keep("member", member);
        let token = json!({"name": "script", "scopes": ["read", "trigger"], "expiresAt": "2030-01-01T00:00:00Z"});
        let made = self.make("/auth/tokens", token).await;
        let shown = self.get(&format!("/auth/tokens/{}", made["id"].as_str().expect("an id"))).await;
        self.keep("token-made", made);
        self.keep("token", shown);
        let ticket = self.server.post(&self.admin, "/auth/stream-ticket", json!({})).await.expect(200).json();
        self.keep("stream-ticket", ticket);
        let audit = self.get("/audit?operationId=inviteMember").await["items"][0].clone();
        self.keep("audit-entry", audit);
    }

    async fn telling(&mut self) {
        let body =
            json!({"url": "https://hooks.studio.example/x", "events": ["build.failed", "build.completed"], "description": "calendar"});
        let made = self.make("/webhooks", body).await;
        let path = format!("/webhooks/{}", made["id"].as_str().expect("an id"));
        self.keep("webhook-made", made);
        let shown = self.get(&path).await;
        self.keep("webhook", shown);
        let ping = self.server.post(&self.admin, &format!("{path}/ping"), json!({})).await.expect(202).json();
        let delivery = ping["id"].as_str().expect("an id").to_owned();
        self.keep("webhook-delivery-waiting", ping);
        let (organization, id) = (self.admin.user.organization_id, delivery.parse::<Id<WebhookDelivery>>().expect("an id"));
        self.store(move |tx| {
            let mut delivery = tx.get(organization, id)?.expect("the delivery");
            delivery.begin(NOW);
            let response = Response { status: 204, headers: Vec::new(), body: String::new(), is_truncated: false };
            delivery.end(12, Some(204), None, Some(response));
            delivery.status = cookhouse::model::webhook::delivery::DeliveryStatus::Delivered;
            tx.put(&delivery)
        })
        .await;
        let shown = self.get(&format!("{path}/deliveries/{delivery}")).await;
        self.keep("webhook-delivery", shown);
        let push = hooks::push("refs/heads/other", &hooks::commit(1), &hooks::commit(2)).to_string();
        hooks::deliver(&self.server, "delivery-1", "push", push.as_bytes()).await.expect(202);
        hooks::settle(&self.server).await;
        let delivery = self.get("/hooks/deliveries").await["items"][0].clone();
        self.keep("hook-delivery", delivery);
    }

    async fn service(&mut self) {
        let platforms = self.get("/platforms").await["items"].as_array().cloned().expect("items");
        let linux = platforms.into_iter().find(|platform| platform["name"] == "Linux").expect("a platform");
        self.keep("platform", linux);
        for (name, path) in [("version", "/version"), ("health", "/healthz")] {
            let answer = self.get(path).await;
            self.keep(name, answer);
        }
        let queue = self.get("/queue").await;
        // What isolates builds is the machine's.
        self.keep("queue", with(queue, json!({"isolation": {}})));
        let storage = self.get("/storage").await;
        // So is its disk.
        self.keep("storage", with(storage, json!({"disk": {}})));
    }
}
