//! Streams over a longer time, through a real `cookhouse serve`: built by the clock, and forgotten when nobody builds them any more.

use std::fs;
use std::time::{Duration, Instant};

use cookhouse::model::build_setting::Trigger;
use cookhouse::model::{BuildSetting, Timestamp};
use cookhouse::store::{Change, Read as _, Settings, Store, StoreError};
use serde_json::{Value, json};

use super::flow::{PATIENCE, Studio, project_files};
use crate::support::depot::StreamServer;

/// The service was down when the schedule was due, an hour ago.
fn missed_a_start(studio: &mut Studio, setting: &str) {
    let path = studio.data().join("store.redb");
    let (organization, setting) = (studio.organization.parse().expect("an id"), setting.parse().expect("an id"));
    let change = move |tx: &Change| {
        let mut stored: BuildSetting = tx.get(organization, setting)?.expect("the setting");
        let Trigger::Scheduled(schedule) = &mut stored.trigger else { panic!("it is scheduled") };
        let hour = 3_600_000;
        schedule.next_run_at = schedule.next_run_at.map(|next| Timestamp(next.0.min(cookhouse::clock::Clock::default().now().0) - hour));
        tx.put(&stored)
    };
    studio.restart_after(|| {
        let store = Store::open(&Settings { path, cache_bytes: 1 << 22 }).expect("the store");
        tokio::task::block_in_place(|| store.write_blocking::<(), StoreError>(change)).expect("changed");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_schedule_builds_the_newest_changelist_of_a_stream_where_there_is_one() {
    let server = StreamServer::start();
    project_files(&server);
    let mut studio = Studio::open(server).await;
    let schedule = json!({"cron": "0 3 * * *", "timezone": "Europe/Berlin", "onlyIfChanged": true});
    let (project, setting) = studio.link(json!({"trigger": "scheduled", "schedule": schedule})).await;
    let wanted = studio.server.submit("Salt it", &[("Game/Content/A.umap", Some(b"a salted map"))]);
    studio.server.submit_all("elsewhere", &[("//Libs/zip/zip.h", "text", Some(b"x"))]);
    missed_a_start(&mut studio, &setting);
    let build = studio.newest(1).await;
    assert_eq!((&build["status"], &build["changelist"]), (&json!("complete"), &json!(wanted.to_string())), "{build:#}");
    assert!(build["triggeredBy"].as_str().unwrap().starts_with("cron"), "{build:#}");

    // Nothing is new in the stream, whatever was submitted elsewhere.
    missed_a_start(&mut studio, &setting);
    let path = format!("/projects/{project}/build-settings/{setting}");
    let last_run = async |studio: &Studio| studio.get(&path).await["schedule"]["lastRunAt"].clone();
    let (before, began) = (last_run(&studio).await, Instant::now());
    while last_run(&studio).await == before && began.elapsed() < Duration::from_secs(20) {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(studio.get("/builds").await["items"].as_array().unwrap().len(), 1);
    let pepper = studio.server.submit("Pepper it", &[("Game/Content/A.umap", Some(b"a peppered map"))]);
    missed_a_start(&mut studio, &setting);
    let build = studio.newest(2).await;
    assert_eq!((&build["status"], &build["changelist"]), (&json!("complete"), &json!(pepper.to_string())), "{build:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_server_forgets_the_workspace_of_a_setting_that_is_deleted() {
    let server = StreamServer::start();
    project_files(&server);
    let studio = Studio::open(server).await;
    let (project, setting) = studio.link(json!({"trigger": "manual"})).await;
    let settings = format!("/projects/{project}/build-settings");
    let body = json!({"name": "another", "platform": "Linux", "buildType": "Shipping", "ueVersion": "5.4", "streamPath": "//Games/main", "trigger": "manual"});
    let another = studio.send("POST", &settings, body, 201).await["id"].as_str().expect("an id").to_owned();
    for (count, setting) in [&setting, &another].into_iter().enumerate() {
        studio.send("POST", &format!("{settings}/{setting}/trigger"), json!({}), 201).await;
        assert_eq!(studio.newest(count + 1).await["status"], "complete");
    }
    let clients = || fs::read_dir(studio.server.home().join("servers/127.0.0.1_1666/clients")).expect("clients").count();
    let workspace = |setting: &str| studio.data().join("workspaces").join(setting);
    let gone = async |setting: &str| {
        let began = Instant::now();
        while workspace(setting).exists() {
            assert!(began.elapsed() < PATIENCE, "the workspace is still there");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert_eq!(clients(), 2);
    studio.send("DELETE", &format!("{settings}/{setting}"), Value::Null, 204).await;
    gone(&setting).await;
    assert_eq!(clients(), 1);
    assert!(studio.server.commands().iter().any(|line| line.starts_with(&format!("client -d cookhouse-{setting}-"))));

    // A server that does not let the client go: the workspace goes all the same, and somebody is told.
    studio.server.change_server(|server| {
        server.refusals.insert("client".into(), (6, "You don't have permission for this operation.".into()));
    });
    studio.send("DELETE", &format!("{settings}/{another}"), Value::Null, 204).await;
    gone(&another).await;
    assert_eq!(clients(), 1);
    let said = studio.said.lock().unwrap().join("\n");
    assert!(said.contains(&format!("cookhouse-{another}-")) && said.contains("p4 client -d"), "{said}");
}
