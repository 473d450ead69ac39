//! The queue from outside: pausing, resuming, and what a waiting build says.

use cookhouse::model::permission::Role;
use serde_json::json;

use super::{build_setting, connected, project, triggered};

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_pauses_and_resumes_and_a_viewer_sees_it() {
    let (server, admin) = connected().await;
    let project = project(&server, &admin).await;
    let setting = build_setting(&server, &admin, &project).await;
    let viewer = server.person(admin.user.organization_id, Role::Viewer).await;
    let fresh = server.get(&viewer, "/queue").await.expect(200).json();
    let expected = json!({
        "paused": false, "pausedAt": null, "pausedBy": null, "draining": false, "slots": 1, "runningBuilds": 0, "pendingBuilds": 0,
        "isolation": {"landlock": null, "user": null, "remark": null}
    });
    assert_eq!(fresh, expected);
    let path = format!("/builds/{}", triggered(&server, &admin, &setting).await);
    let paused = server.post(&admin, "/queue/pause", json!({})).await.expect(200).json();
    assert_eq!((&paused["paused"], &paused["pendingBuilds"]), (&json!(true), &json!(1)));
    assert!(paused["pausedAt"].is_string() && paused["pausedBy"].as_str().is_some_and(|by| by.starts_with("api_token:")), "{paused}");
    let again = server.post(&admin, "/queue/pause", json!({})).await.expect(200).json();
    assert_eq!(again, paused, "the first pause stays");
    let waiting = server.get(&viewer, &path).await.expect(200).json();
    assert_eq!((&waiting["pendingReason"], &waiting["queuePosition"]), (&json!("queue_paused"), &json!(1)));
    assert_eq!(waiting["expectedStartAt"], json!(null));

    // Another organization's queue is another one.
    let stranger = server.organization("Other").await;
    let stranger = server.person(stranger.id, Role::Admin).await;
    assert_eq!(server.get(&stranger, "/queue").await.expect(200).json(), expected);
    server.post(&stranger, "/queue/resume", json!({})).await.expect(200);
    assert_eq!(server.get(&viewer, "/queue").await.expect(200).json()["paused"], json!(true));

    for person in [&viewer, &server.person(admin.user.organization_id, Role::Member).await] {
        assert_eq!(server.post(person, "/queue/pause", json!({})).await.code(), "forbidden");
        assert_eq!(server.post(person, "/queue/resume", json!({})).await.code(), "forbidden");
    }
    let resumed = server.post(&admin, "/queue/resume", json!({})).await.expect(200).json();
    assert_eq!((&resumed["paused"], &resumed["pausedBy"]), (&json!(false), &json!(null)));
    let waiting = server.get(&viewer, &path).await.expect(200).json();
    assert_eq!(waiting["pendingReason"], json!(null));
}
