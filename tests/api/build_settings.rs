//! Build settings: every field, every refusal, secrets, the trigger.

use cookhouse::model::build_setting::BuildSetting;
use cookhouse::model::permission::{Role, Scope};
use cookhouse::model::schedule_slot::{SkipReason, SlotOutcome};
use cookhouse::model::{ScheduleSlot, Timestamp};
use cookhouse::people::{NewToken, Reach};
use cookhouse::store::{Read, StoreError};
use serde_json::{Value, json};

use super::{build_setting, connected, project, setting, triggered, with};
use crate::support::server::{Person, TestServer};

async fn studio() -> (TestServer, Person, String) {
    let (server, admin) = connected().await;
    let project = project(&server, &admin).await;
    (server, admin, project)
}

/// What is stored, past the API.
fn stored(server: &TestServer, admin: &Person, path: &str) -> BuildSetting {
    let id = path.rsplit('/').next().expect("an id").parse().expect("an id");
    server.read(|snapshot| snapshot.get(admin.user.organization_id, id)).expect("a setting")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_body_makes_a_whole_document() {
    let (server, admin, project) = studio().await;
    let reply = server.post(&admin, &format!("{project}/build-settings"), setting()).await.expect(201);
    let path = reply.header("location").expect("a location").to_owned();
    let created = reply.json();
    let mut rest = created.as_object().cloned().expect("an object");
    for field in ["id", "createdAt", "updatedAt"] {
        assert!(rest.remove(field).is_some_and(|value| value.is_string()), "{field}");
    }
    assert_eq!(rest.remove("projectId").as_ref().and_then(Value::as_str), project.rsplit('/').next());
    assert_eq!(
        Value::Object(rest),
        json!({
            "name": "", "platform": "Win64", "buildType": "Development", "targetType": "Game", "branch": "main", "streamPath": null,
            "ueVersion": "5.4", "uprojectPath": "Game/Kitchen.uproject", "trigger": "manual", "schedule": null, "notifyOnComplete": false,
            "autoDeploy": false, "uploadBuildUrl": null, "uploadBuildAuthHeaderSet": false, "deployTargets": [], "timeoutMinutes": null,
            "supersede": "pending", "cleanBuild": false, "extraUatArgs": []
        })
    );
    let shown = server.get(&admin, &path).await.expect(200);
    assert_eq!((shown.json(), shown.header("etag")), (created.clone(), reply.header("etag")));
    assert_eq!(
        server.get(&admin, &format!("{project}/build-settings")).await.expect(200).json(),
        json!({"items": [created], "nextCursor": null})
    );
    assert_eq!(server.get(&admin, &project).await.json()["buildSettings"], json!([created]));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_is_kept_as_it_was_sent() {
    let (server, admin, project) = studio().await;
    let full = json!({
        "name": "Nightly", "platform": "Linux", "buildType": "Shipping", "targetType": "Server", "branch": "release/5.4", "streamPath": null,
        "ueVersion": "5.4.3", "uprojectPath": "Other/Game.uproject", "trigger": "scheduled",
        "schedule": {"cron": "0 3 * * mon-fri", "timezone": "Europe/Stockholm", "enabled": false, "onlyIfChanged": true, "catchUp": false},
        "notifyOnComplete": true, "autoDeploy": true, "uploadBuildUrl": "https://receiver.example/upload",
        "deployTargets": [{"plugin": "custom-deploy", "config": {"url": "https://second.example/"}, "secrets": {"authorization": "Bearer two"}}],
        "timeoutMinutes": 90, "supersede": "running", "cleanBuild": true, "extraUatArgs": ["-nodebuginfo", "-map=Start"]
    });
    let body = with(full.clone(), json!({"uploadBuildAuthHeader": "Bearer one"}));
    let created = server.post(&admin, &format!("{project}/build-settings"), body).await.expect(201).json();
    for (key, value) in full.as_object().expect("an object") {
        let expected = match key.as_str() {
            "schedule" => with(value.clone(), json!({"nextRunAt": null, "lastRunAt": null, "lastError": null})),
            "deployTargets" => {
                json!([{"plugin": "custom-deploy", "config": {"url": "https://second.example/"}, "secretsSet": ["authorization"]}])
            }
            _ => value.clone(),
        };
        assert_eq!(created[key], expected, "{key}");
    }
    assert_eq!(created["uploadBuildAuthHeaderSet"], true);
    assert!(created.get("uploadBuildAuthHeader").is_none() && !created.to_string().contains("Bearer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_missing_or_wrong_is_named_at_once() {
    let (server, admin, project) = studio().await;
    let path = format!("{project}/build-settings");
    let reply = server.post(&admin, &path, json!({})).await.expect(400);
    assert_eq!(reply.details(), ["branch:required", "buildType:required", "platform:required", "trigger:required", "ueVersion:required"]);
    let reply = server.post(&admin, &path, json!({
        "platform": "Amiga", "buildType": 5, "ueVersion": "latest", "trigger": "scheduled", "branch": "--upload-pack=x", "streamPath": "//depot/main",
        "timeoutMinutes": 4, "supersede": "all", "extraUatArgs": ["-archivedirectory=/etc", "-ok"], "uploadBuildUrl": "ftp://x", "uploadBuildAuthHeader": "a\r\nb",
        "notifyOnComplete": "yes", "name": "x".repeat(81), "schedule": {"cron": "* * * * *", "timezone": "Mars/Olympus", "enabled": 1},
        "deployTargets": [{"plugin": "ftp"}], "targetType": "Program", "uprojectPath": "../x.uproject", "cleanBuild": [], "autoDeploy": true
    })).await.expect(400);
    assert_eq!(
        reply.details(),
        [
            "branch:invalid_value",
            "buildType:invalid_type",
            "cleanBuild:invalid_type",
            "deployTargets:invalid_value",
            "extraUatArgs:invalid_value",
            "name:too_long",
            "notifyOnComplete:invalid_type",
            "platform:invalid_value",
            "schedule.cron:invalid_value",
            "schedule.enabled:invalid_type",
            "schedule.timezone:invalid_value",
            "streamPath:not_allowed",
            "supersede:invalid_value",
            "targetType:invalid_value",
            "timeoutMinutes:invalid_value",
            "ueVersion:invalid_value",
            "uploadBuildAuthHeader:invalid_value",
            "uploadBuildUrl:invalid_value",
            "uprojectPath:invalid_value"
        ]
    );
    let platform = reply.json()["error"]["details"]
        .as_array()
        .and_then(|details| details.iter().find(|detail| detail["field"] == "platform").cloned());
    assert_eq!(
        platform.expect("a detail")["allowed"],
        json!(["Win64", "Linux", "LinuxArm64", "Mac", "Android", "IOS", "TVOS", "VisionOS"])
    );
    assert_eq!(server.get(&admin, &path).await.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_a_tool_could_misread_are_refused() {
    let (server, admin, project) = studio().await;
    let path = format!("{project}/build-settings");
    for (field, value) in [
        ("branch", "refs/heads/-x"),
        ("branch", "-x"),
        ("branch", "a b"),
        ("branch", "@{-1}"),
        ("branch", "a\u{0}b"),
        ("ueVersion", "../5.4"),
        ("ueVersion", "5"),
        ("ueVersion", "5.4;rm"),
        ("platform", "win64"),
        ("platform", "Win64 -x"),
        ("uploadBuildUrl", "http://receiver.example/"),
        ("uploadBuildUrl", "http://169.254.169.254/"),
        ("uploadBuildUrl", "https://a:b@c/"),
        ("uprojectPath", "Game/../../x.uproject"),
        ("uprojectPath", "Game/x.uproject\u{0}"),
    ] {
        let reply = server.post(&admin, &path, with(setting(), json!({field: value}))).await.expect(400);
        assert_eq!(reply.details(), [format!("{field}:invalid_value")], "{value}");
    }
    for argument in ["build", "-project=x", "-run", "-a\"b", "-a%PATH%", "-a\nb", "", "-"] {
        let reply = server.post(&admin, &path, with(setting(), json!({"extraUatArgs": [argument]}))).await;
        assert_eq!(reply.status, 400, "{argument}");
    }
    let reply = server.post(&admin, &path, with(setting(), json!({"extraUatArgs": vec!["-x"; 33]}))).await.expect(400);
    assert_eq!(reply.details(), ["extraUatArgs:too_long"]);
    for header in ["", " x", "x\u{e4}", "a\u{0}", "a\tb", "a\nSet-Cookie: x"] {
        let body = with(setting(), json!({"uploadBuildUrl": "https://r.example/", "uploadBuildAuthHeader": header}));
        assert_eq!(server.post(&admin, &path, body).await.expect(400).details(), ["uploadBuildAuthHeader:invalid_value"]);
    }
    assert_eq!(server.get(&admin, &path).await.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_leaves_alone_what_it_does_not_name() {
    let (server, admin, project) = studio().await;
    let path = build_setting(&server, &admin, &project).await;
    let before = server.get(&admin, &path).await.json();
    let after = server.patch(&admin, &path, json!({"buildType": "Shipping", "timeoutMinutes": 30, "id": "x"})).await.expect(200).json();
    let expected = with(before.clone(), json!({"buildType": "Shipping", "timeoutMinutes": 30, "updatedAt": after["updatedAt"]}));
    assert_eq!(after, expected);
    assert_eq!(server.patch(&admin, &path, json!({"timeoutMinutes": null})).await.expect(200).json()["timeoutMinutes"], json!(null));
    for field in ["platform", "buildType", "ueVersion", "trigger", "branch"] {
        assert_eq!(server.patch(&admin, &path, json!({field: null})).await.expect(400).details(), [format!("{field}:required")]);
    }
    // One bad field and nothing of the body is stored.
    server.patch(&admin, &path, json!({"name": "Half", "buildType": "Fast"})).await.expect(400);
    assert_eq!(server.get(&admin, &path).await.json()["name"], "");

    let tag = server.get(&admin, &path).await.header("etag").expect("a tag").to_owned();
    let ask = |tag: &str| server.ask("PATCH", &path).bearer(&admin.token).header("If-Match", tag).json(&json!({"name": "Now"}));
    ask(&tag).send().await.expect(200);
    assert_eq!(ask(&tag).send().await.expect(412).code(), "precondition_failed");
    let merge =
        server.ask("PATCH", &path).bearer(&admin.token).header("Content-Type", "application/merge-patch+json").body("{\"name\": \"x\"}");
    merge.send().await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_exists_exactly_on_scheduled_settings() {
    let (server, admin, project) = studio().await;
    let list = format!("{project}/build-settings");
    let missing = server.post(&admin, &list, with(setting(), json!({"trigger": "scheduled"}))).await.expect(400);
    assert_eq!(missing.details(), ["schedule:required"]);
    let stray = server.post(&admin, &list, with(setting(), json!({"schedule": {"cron": "@daily"}}))).await.expect(400);
    assert_eq!(stray.details(), ["schedule:not_allowed"]);
    let path = build_setting(&server, &admin, &project).await;
    let change = |body| server.patch(&admin, &path, body);
    assert_eq!(change(json!({"trigger": "scheduled"})).await.expect(400).details(), ["schedule:required"]);
    assert_eq!(change(json!({"trigger": "scheduled", "schedule": {}})).await.expect(400).details(), ["schedule.cron:required"]);
    let mut set = change(json!({"trigger": "scheduled", "schedule": {"cron": "@daily"}})).await.expect(200).json();
    let next = set["schedule"]["nextRunAt"].take();
    assert!(
        next.as_str().is_some_and(|next| next.ends_with("T00:00:00.000Z") && *next > *set["updatedAt"].to_string().trim_matches('"')),
        "{next}"
    );
    assert_eq!(
        set["schedule"],
        json!({
            "cron": "@daily", "timezone": "UTC", "enabled": true, "onlyIfChanged": false, "catchUp": true, "nextRunAt": null, "lastRunAt": null, "lastError": null
        })
    );
    let part = change(json!({"schedule": {"enabled": false}})).await.expect(200).json();
    assert_eq!((&part["schedule"]["cron"], &part["schedule"]["enabled"]), (&json!("@daily"), &json!(false)));
    assert_eq!(part["schedule"]["nextRunAt"], json!(null), "it will not run");
    let on = json!({"schedule": {"enabled": true, "timezone": "Asia/Kolkata", "cron": "30 18 31 12 *"}});
    let next = change(on).await.expect(200).json()["schedule"]["nextRunAt"].to_string();
    assert!(next.contains("-12-31T13:00:00.000Z"), "{next}");
    assert_eq!(change(json!({"schedule": null})).await.expect(400).details(), ["schedule:required"]);
    let manual = change(json!({"trigger": "manual"})).await.expect(200).json();
    assert_eq!((&manual["trigger"], &manual["schedule"]), (&json!("manual"), &json!(null)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upload_header_is_sealed_never_shown_and_bound_to_its_origin() {
    let (server, admin, project) = studio().await;
    let body = with(setting(), json!({"uploadBuildUrl": "https://a.example/one", "uploadBuildAuthHeader": "Bearer very-secret-value"}));
    let path =
        server.post(&admin, &format!("{project}/build-settings"), body).await.expect(201).header("location").expect("one").to_owned();
    let change = |body| server.patch(&admin, &path, body);
    // Another path at the same place keeps it.
    assert_eq!(change(json!({"uploadBuildUrl": "https://A.example:443/two"})).await.expect(200).json()["uploadBuildAuthHeaderSet"], true);
    // Another scheme, host or port does not.
    for url in ["https://b.example/one", "https://a.example:444/one", "http://127.0.0.1/one", "https://a.example.evil.example/one"] {
        change(json!({"uploadBuildUrl": "https://a.example/", "uploadBuildAuthHeader": "Bearer very-secret-value"})).await.expect(200);
        let reply = change(json!({"uploadBuildUrl": url})).await.expect(200);
        assert_eq!(
            (&reply.json()["uploadBuildAuthHeaderSet"], stored(&server, &admin, &path).upload_build_auth_header),
            (&json!(false), None),
            "{url}"
        );
    }
    let both =
        change(json!({"uploadBuildUrl": "https://c.example/", "uploadBuildAuthHeader": "Bearer very-secret-value"})).await.expect(200);
    assert_eq!(both.json()["uploadBuildAuthHeaderSet"], true);
    assert_eq!(change(json!({"uploadBuildAuthHeader": null})).await.expect(200).json()["uploadBuildAuthHeaderSet"], false);
    change(json!({"uploadBuildAuthHeader": "Bearer very-secret-value"})).await.expect(200);
    let sealed = stored(&server, &admin, &path).upload_build_auth_header.expect("sealed");
    assert!(!sealed.0.contains("secret"));
    let gone = change(json!({"uploadBuildUrl": null})).await.expect(200).json();
    assert_eq!((&gone["uploadBuildUrl"], &gone["uploadBuildAuthHeaderSet"]), (&json!(null), &json!(false)));
    assert_eq!(change(json!({"uploadBuildAuthHeader": "x"})).await.expect(400).details(), ["uploadBuildAuthHeader:not_allowed"]);
    assert_eq!(change(json!({"autoDeploy": true})).await.expect(400).details(), ["uploadBuildUrl:required"]);
    let directory = server.stop().await;
    let bytes = std::fs::read(directory.path().join("store.redb")).expect("the store");
    assert!(!bytes.windows(17).any(|window| window == b"very-secret-value"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_setting_ends_what_waits_and_keeps_its_builds() {
    let (server, admin, project) = studio().await;
    let path = build_setting(&server, &admin, &project).await;
    let build = triggered(&server, &admin, &path).await;
    server.delete(&admin, &path).await.expect(204);
    assert_eq!(server.delete(&admin, &path).await.code(), "not_found");
    assert_eq!(server.post(&admin, &format!("{path}/trigger"), json!({})).await.code(), "not_found");
    let shown = server.get(&admin, &format!("/builds/{build}")).await.expect(200).json();
    assert_eq!((&shown["status"], &shown["failure"]["code"]), (&json!("failed"), &json!("cancelled")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_makes_a_pending_build_that_survives() {
    let (server, admin, project) = studio().await;
    let path = build_setting(&server, &admin, &project).await;
    // No body and no content type.
    let reply = server.ask("POST", &format!("{path}/trigger")).bearer(&admin.token).send().await.expect(201);
    let started = reply.json();
    let id = started["buildId"].as_str().expect("an id").to_owned();
    assert_eq!(reply.header("location"), Some(format!("/v1/builds/{id}").as_str()));
    assert_eq!(started.as_object().map(|object| object.len()), Some(4));
    assert_eq!((&started["status"], path.ends_with(started["buildSettingId"].as_str().expect("an id"))), (&json!("pending"), true));
    let server = TestServer::start_in(server.stop().await, |_| {}).await;
    let shown = server.get(&admin, &format!("/builds/{id}")).await.expect(200).json();
    assert!(shown["triggeredBy"].as_str().is_some_and(|cause| cause.starts_with("api_token:")));
    assert_eq!((&shown["branch"], &shown["commit"], &shown["durationMs"]), (&json!("main"), &json!(""), &json!(null)));

    let session = server.app.people.begin_session(admin.user.clone()).await.expect("a session");
    let by_hand = server
        .ask("POST", &format!("{path}/trigger"))
        .bearer(session.access_token.reveal())
        .json(&json!({"branch": "dev", "commit": "ABCDEF1"}));
    let id = by_hand.send().await.expect(201).json()["buildId"].as_str().expect("an id").to_owned();
    let shown = server.get(&admin, &format!("/builds/{id}")).await.json();
    assert_eq!((&shown["triggeredBy"], &shown["branch"]), (&json!(format!("user:{}", admin.user.id)), &json!("dev")));
}

#[tokio::test(flavor = "multi_thread")]
async fn overrides_are_checked() {
    let (server, admin, project) = studio().await;
    let path = format!("{}/trigger", build_setting(&server, &admin, &project).await);
    for (body, details) in [
        (json!({"branch": "--upload-pack=x"}), vec!["branch:invalid_value"]),
        (json!({"branch": "refs/heads/-x", "commit": "xyz"}), vec!["branch:invalid_value", "commit:invalid_value"]),
        (json!({"commit": "abc"}), vec!["commit:invalid_value"]),
        (json!({"commit": "HEAD~1"}), vec!["commit:invalid_value"]),
        (json!({"changelist": "123"}), vec!["changelist:not_allowed"]),
        (json!({"branch": 5, "commit": ["a"]}), vec!["branch:invalid_type", "commit:invalid_type"]),
    ] {
        assert_eq!(server.post(&admin, &path, body).await.expect(400).details(), details);
    }
    for body in ["[]", "{", "null"] {
        let reply = server.ask("POST", &path).bearer(&admin.token).header("Content-Type", "application/json").body(body).send().await;
        assert_eq!(reply.expect(400).code(), "invalid_json");
    }
    assert_eq!(server.ask("POST", &path).bearer(&admin.token).body("branch=main").send().await.status, 415);
    assert_eq!(server.get(&admin, "/builds").await.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_trigger_with_its_key_makes_one_build() {
    let (server, admin, project) = studio().await;
    let path = format!("{}/trigger", build_setting(&server, &admin, &project).await);
    let ask = |server: &TestServer, body: Value| {
        server.ask("POST", &path).bearer(&admin.token).header("Idempotency-Key", "submit-42").json(&body)
    };
    let first = ask(&server, json!({})).send().await.expect(201).json();
    assert_eq!(ask(&server, json!({})).send().await.expect(201).json(), first);
    assert_eq!(ask(&server, json!({"branch": "dev"})).send().await.expect(422).code(), "idempotency_key_reused");
    let server = TestServer::start_in(server.stop().await, |_| {}).await;
    assert_eq!(ask(&server, json!({})).send().await.expect(201).json(), first);
    assert_eq!(server.get(&admin, "/builds").await.json()["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_token_starts_its_setting_reads_its_build_and_nothing_else() {
    let (server, admin, project) = studio().await;
    let own = build_setting(&server, &admin, &project).await;
    let other = build_setting(&server, &admin, &project).await;
    let someone_elses = triggered(&server, &admin, &own).await;
    let limit = Some(vec![own.rsplit('/').next().expect("an id").parse().expect("an id")]);
    let new =
        NewToken { name: "server".into(), scopes: vec![Scope::Trigger], project_ids: None, build_setting_ids: limit, expires_at: None };
    let (_, secret) = server.app.people.create_token(&Reach { user: admin.user.clone(), token: None }, new).await.expect("a token");
    let script = Person { user: admin.user.clone(), token: secret.reveal().clone() };
    let build = triggered(&server, &script, &own).await;
    for path in ["", "/log", "/log/lines", "/diagnostics"] {
        server.get(&script, &format!("/builds/{build}{path}")).await.expect(200);
        assert_eq!(server.get(&script, &format!("/builds/{someone_elses}{path}")).await.code(), "not_found", "{path}");
    }
    assert_eq!(server.post(&script, &format!("{other}/trigger"), json!({})).await.code(), "not_found");
    for path in ["/builds", "/projects", project.as_str(), own.as_str()] {
        assert_eq!(server.get(&script, path).await.code(), "insufficient_scope", "{path}");
    }
    assert_eq!(server.patch(&script, &own, json!({"name": "x"})).await.code(), "insufficient_scope");
    assert_eq!(server.post(&script, "/auth/tokens", json!({"name": "x", "scopes": ["trigger"]})).await.code(), "insufficient_scope");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_token_sees_nothing_beside_its_limit() {
    let (server, admin, project) = studio().await;
    let (own, other) = (build_setting(&server, &admin, &project).await, build_setting(&server, &admin, &project).await);
    let (own_build, other_build) = (triggered(&server, &admin, &own).await, triggered(&server, &admin, &other).await);
    let body = json!({"name": "x", "scopes": ["admin"], "buildSettingIds": [own.rsplit('/').next()]});
    let token = server.post(&admin, "/auth/tokens", body).await.expect(201).json()["token"].as_str().expect("a token").to_owned();
    let limited = Person { user: admin.user.clone(), token };
    server.get(&limited, &own).await.expect(200);
    let listed = server.get(&limited, &format!("{project}/build-settings")).await.expect(200).json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.get(&limited, &project).await.json()["buildSettings"].as_array().map(Vec::len), Some(1));
    let builds = server.get(&limited, "/builds").await.expect(200).json();
    assert_eq!((builds["items"].as_array().map(Vec::len), &builds["items"][0]["id"]), (Some(1), &json!(own_build)));
    for path in [&other, &format!("/builds/{other_build}")] {
        assert_eq!(server.get(&limited, path).await.code(), "not_found");
    }
    assert_eq!(server.post(&limited, &format!("/builds/{other_build}/cancel"), json!({})).await.code(), "not_found");
    for (path, body) in [(format!("{project}/build-settings"), setting()), ("/projects/add-repo".into(), super::repository())] {
        assert_eq!(server.post(&limited, &path, body).await.code(), "insufficient_scope", "{path}");
    }
    // Nor does a token that it makes.
    for limit in [json!(null), json!([other.rsplit('/').next()])] {
        let reply = server.post(&limited, "/auth/tokens", json!({"name": "x", "scopes": ["read"], "buildSettingIds": limit})).await;
        assert_eq!(reply.expect(400).details(), ["buildSettingIds:invalid_value"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_reads_and_changes_nothing() {
    let (server, admin, project) = studio().await;
    let viewer = server.person(admin.user.organization_id, Role::Viewer).await;
    let path = build_setting(&server, &admin, &project).await;
    server.get(&viewer, &path).await.expect(200);
    assert_eq!(server.post(&viewer, &format!("{path}/trigger"), json!({})).await.expect(403).code(), "forbidden");
    assert_eq!(server.patch(&viewer, &path, json!({"name": "x"})).await.expect(403).code(), "forbidden");
    assert_eq!(server.delete(&viewer, &path).await.expect(403).code(), "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_due_times_of_a_schedule_are_listed_newest_first() {
    let (server, admin) = connected().await;
    let project = project(&server, &admin).await;
    let setting = build_setting(&server, &admin, &project).await;
    let id = setting.rsplit('/').next().expect("an id").parse().expect("an id");
    let path = format!("{setting}/schedule-slots");
    assert_eq!(server.get(&admin, &path).await.expect(200).json(), json!({"items": [], "nextCursor": null}));
    let (organization, build) = (admin.user.organization_id, server.app.clock.new_id());
    let outcomes = [
        (Some(Timestamp(2 * 3_600_000)), SlotOutcome::Skipped { reason: SkipReason::Missed }),
        (None, SlotOutcome::Coalesced { into: Timestamp(3 * 3_600_000) }),
        (None, SlotOutcome::Built { build_id: build }),
    ];
    let slots: Vec<ScheduleSlot> = (1..=3)
        .zip(outcomes)
        .map(|(hour, (until, outcome))| ScheduleSlot {
            id: ScheduleSlot::id_of(id, Timestamp(hour * 3_600_000)),
            organization_id: organization,
            project_id: project.rsplit('/').next().expect("an id").parse().expect("an id"),
            build_setting_id: id,
            due_at: Timestamp(hour * 3_600_000),
            until,
            outcome,
            decided_at: Timestamp(4 * 3_600_000),
        })
        .collect();
    server.app.store.write::<(), StoreError>(move |tx| slots.iter().try_for_each(|slot| tx.put(slot))).await.expect("stored");
    let first = server.get(&admin, &format!("{path}?limit=2")).await.expect(200).json();
    let built = json!({
        "dueAt": "1970-01-01T03:00:00.000Z", "until": null, "outcome": "built", "buildId": build, "coalescedInto": null,
        "reason": null, "decidedAt": "1970-01-01T04:00:00.000Z"
    });
    assert_eq!(first["items"][0], built);
    assert_eq!((&first["items"][1]["outcome"], &first["items"][1]["coalescedInto"]), (&json!("coalesced"), &built["dueAt"]));
    let cursor = first["nextCursor"].as_str().expect("more");
    let last = server.get(&admin, &format!("{path}?limit=2&cursor={cursor}")).await.expect(200).json();
    assert_eq!((&last["items"][0]["reason"], &last["items"][0]["until"]), (&json!("missed"), &json!("1970-01-01T02:00:00.000Z")));
    assert_eq!((last["items"].as_array().map(Vec::len), &last["nextCursor"]), (Some(1), &json!(null)));
    let viewer = server.person(organization, Role::Viewer).await;
    server.get(&viewer, &path).await.expect(200);
}
