//! Endpoints as admins manage them.

use cookhouse::model::permission::Role;
use cookhouse::model::webhook::MOST_WEBHOOKS;
use cookhouse::model::webhook::delivery::WebhookDelivery;
use cookhouse::model::webhook::message::WebhookMessage;
use cookhouse::store::{Read, StoreError, webhook_queue};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_made_shown_changed_and_removed() {
    let (server, admin) = start(hasty(1)).await;
    let body = json!({"url": "https://hooks.studio.example/x", "events": ["build.failed", "build.completed"], "description": "calendar"});
    let created = server.post(&admin, "/webhooks", body).await.expect(201);
    let (location, tag) = (created.header("location").unwrap().to_owned(), created.header("etag").unwrap().to_owned());
    let created = created.json();
    let secret = text(&created["secret"]);
    assert!(secret.starts_with("whsec_") && secret.len() == 6 + 44, "{secret}");
    let expected = json!({"url": "https://hooks.studio.example/x", "events": ["build.completed", "build.failed"], "projectIds": null,
        "description": "calendar", "enabled": true, "disabled": null, "waiting": 0, "nextAttemptAt": null, "formerSecretUntil": null});
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&created[key], value, "{key}");
    }
    let shown = server.get(&admin, &location).await.expect(200).json();
    assert!(shown.get("secret").is_none() && shown["id"] == created["id"], "{shown}");
    let listed = server.get(&admin, "/webhooks").await.expect(200).json();
    assert_eq!((&listed["items"][0], &listed["nextCursor"]), (&shown, &Value::Null));

    let change = json!({"enabled": false, "description": null, "events": ["ping"]});
    let patch = |tag: &str| server.ask("PATCH", &location).bearer(&admin.token).header("If-Match", tag).json(&change).send();
    let changed = patch(&tag).await.expect(200).json();
    assert_eq!((&changed["enabled"], &changed["description"], &changed["events"]), (&false.into(), &"".into(), &json!(["ping"])));
    assert_eq!(patch(&tag).await.expect(412).code(), "precondition_failed");
    for (body, detail) in [
        (json!({"url": "ftp://x"}), "url:invalid_value"),
        (json!({"url": "http://hooks.example/"}), "url:invalid_value"),
        (json!({"url": null}), "url:invalid_type"),
        (json!({"events": []}), "events:invalid_value"),
        (json!({"events": ["build.exploded"]}), "events:invalid_value"),
        (json!({"projectIds": ["0000000000000000000000zz"]}), "projectIds:invalid_value"),
        (json!({"enabled": "yes"}), "enabled:invalid_type"),
    ] {
        let reply = server.ask("PATCH", &location).bearer(&admin.token).json(&body).send().await;
        assert_eq!((reply.status, reply.details()), (400, vec![detail.to_owned()]), "{body}");
    }
    let reply = server.post(&admin, "/webhooks", json!({})).await;
    assert_eq!((reply.status, reply.details()), (400, vec!["events:required".to_owned(), "url:required".to_owned()]));
    server.delete(&admin, &location).await.expect(204);
    assert_eq!(server.delete(&admin, &location).await.expect(404).code(), "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_secret_signs_beside_the_former_for_a_while() {
    let (server, admin) = start(hasty(1)).await;
    let endpoint = Endpoint::taking().await;
    let (id, first) = webhook(&server, &admin, &endpoint.url(), json!({})).await;
    let place = format!("/webhooks/{id}/rotate-secret");
    let rotate = |body: Value| server.post(&admin, &place, body);
    let rotated = rotate(json!({})).await.expect(201).json();
    let second = text(&rotated["secret"]);
    assert!(first != second && rotated["formerSecretUntil"].is_string());
    server.post(&admin, &format!("/webhooks/{id}/ping"), json!({})).await.expect(202);
    let got = endpoint.until(1).await.remove(0);
    assert_eq!((verify(&got, &first), verify(&got, &second), got.header("webhook-signature").matches("v1,").count()), (1, 1, 2));
    // Without an overlap the former ends at once, and those before it go on until their time.
    let third = text(&rotate(json!({"overlapHours": 0})).await.expect(201).json()["secret"]);
    server.post(&admin, &format!("/webhooks/{id}/ping"), json!({})).await.expect(202);
    let got = endpoint.until(2).await.remove(1);
    assert_eq!((verify(&got, &first), verify(&got, &second), verify(&got, &third)), (1, 0, 1));
    assert_eq!(rotate(json!({"overlapHours": 200})).await.expect(400).details(), ["overlapHours:invalid_value"]);
    // The same request again is the same answer.
    let again = || server.ask("POST", &place).bearer(&admin.token).header("Idempotency-Key", "k").send();
    let (one, other) = (again().await.expect(201), again().await.expect(201));
    assert_eq!((one.json()["secret"].clone(), other.header("idempotent-replayed")), (other.json()["secret"].clone(), Some("true")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ping_reaches_an_endpoint_that_is_off_and_is_tried_once() {
    let (server, admin) = start(hasty(9)).await;
    let endpoint = Endpoint::answering(|number, _| Some(endpoint::status(if number == 0 { 204 } else { 500 }))).await;
    let (id, _) = webhook(&server, &admin, &endpoint.url(), json!({"enabled": false})).await;
    for expected in ["delivered", "failed"] {
        server.post(&admin, &format!("/webhooks/{id}/ping"), json!({})).await.expect(202);
        let (_, entries) = until(&server, &admin, &id, |_, entries| is_over(entries)).await;
        assert_eq!(entries.last().unwrap()["status"], expected);
    }
    assert_eq!(endpoint.got().len(), 2);
    let failed = server.get(&admin, &format!("/webhooks/{id}/deliveries?status=failed")).await.expect(200).json();
    assert_eq!(failed["items"].as_array().unwrap().len(), 1);
    assert_eq!(server.get(&admin, &format!("/webhooks/{id}/deliveries?status=x")).await.expect(400).details(), ["status:invalid_value"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_sees_it_and_only_admins_do() {
    let (server, admin) = start(hasty(1)).await;
    let endpoint = Endpoint::taking().await;
    let (id, _) = webhook(&server, &admin, &endpoint.url(), json!({})).await;
    let (own, _) = webhook(&server, &admin, &endpoint.url(), json!({})).await;
    waiting(&server, &admin).await;
    let (_, entries) = until(&server, &admin, &id, |_, entries| entries.len() == 1 && is_over(entries)).await;
    let delivery = text(&entries[0]["id"]);
    let stranger = server.admin().await;
    let member = server.person(admin.user.organization_id, Role::Member).await;
    let paths = [
        ("GET", format!("/webhooks/{id}")),
        ("PATCH", format!("/webhooks/{id}")),
        ("DELETE", format!("/webhooks/{id}")),
        ("POST", format!("/webhooks/{id}/rotate-secret")),
        ("POST", format!("/webhooks/{id}/ping")),
        ("GET", format!("/webhooks/{id}/deliveries")),
        ("GET", format!("/webhooks/{id}/deliveries/{delivery}")),
        ("POST", format!("/webhooks/{id}/deliveries/{delivery}/redeliver")),
    ];
    for (method, path) in &paths {
        for (person, status) in [(&stranger, 404), (&member, 403)] {
            let reply = server.ask(method, path).bearer(&person.token).json(&json!({})).send().await;
            assert_eq!(reply.status, status, "{method} {path}");
        }
    }
    // An entry of another endpoint's ledger.
    for (method, path) in &paths[6..] {
        server.ask(method, &path.replace(&id, &own)).bearer(&admin.token).json(&json!({})).send().await.expect(404);
    }
    assert_eq!(server.get(&stranger, "/webhooks").await.expect(200).json()["items"], json!([]));
    for _ in 0..48 {
        webhook(&server, &admin, &endpoint.url(), json!({})).await;
    }
    let reply = server.post(&admin, "/webhooks", json!({"url": endpoint.url(), "events": ["ping"]})).await;
    assert_eq!((reply.status, reply.code().as_str()), (400, "validation_failed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waited_for_an_endpoint_goes_with_it_and_ledgers_end_by_age() {
    let (server, admin) = start(hasty(9)).await;
    let endpoint = Endpoint::answering(|_, _| Some("HTTP/1.1 503 x\r\nretry-after: 100\r\ncontent-length: 0\r\n\r\n".into())).await;
    let (id, _) = webhook(&server, &admin, &endpoint.url(), json!({})).await;
    let (kept, _) = webhook(&server, &admin, &endpoint.url(), json!({})).await;
    for _ in 0..300 {
        waiting(&server, &admin).await;
    }
    until(&server, &admin, &kept, |webhook, _| webhook["nextAttemptAt"].is_string()).await;
    assert_eq!(server.get(&admin, &format!("/webhooks/{id}")).await.json()["waiting"], 300);
    server.delete(&admin, &format!("/webhooks/{id}")).await.expect(204);
    let count = |server: &TestServer| {
        server.read(|snapshot| {
            let mut count = (0, 0);
            snapshot.every::<WebhookDelivery>(|_| {
                Ok({
                    count.0 += 1;
                    true
                })
            })?;
            snapshot.every::<WebhookMessage>(|_| {
                Ok({
                    count.1 += 1;
                    true
                })
            })?;
            Ok::<_, StoreError>(count)
        })
    };
    while count(&server).0 > 300 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(count(&server), (300, 300));
    let later = server.app.clock.now();
    let none =
        server.app.store.write(move |change| webhook_queue::prune(change, cookhouse::model::Timestamp(later.0 - 3_600_000), 64)).await;
    assert_eq!(none.unwrap(), 0);
    let later = cookhouse::model::Timestamp(later.0 + 1000);
    while server.app.store.write(move |change| webhook_queue::prune(change, later, 64)).await.unwrap() > 0 {}
    assert_eq!(count(&server), (0, 0));
    assert!(server.app.store.check().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_has_so_many_endpoints_and_no_more() {
    let (server, admin) = start(hasty(1)).await;
    let body = json!({"url": "https://hooks.studio.example/x", "events": ["ping"]});
    let mut last = String::new();
    for _ in 0..MOST_WEBHOOKS {
        last = server.post(&admin, "/webhooks", body.clone()).await.expect(201).header("location").unwrap().to_owned();
    }
    let refused = server.post(&admin, "/webhooks", body.clone()).await.expect(400);
    assert_eq!((refused.code(), refused.details()), ("validation_failed".to_owned(), vec!["url:not_allowed".to_owned()]));
    server.delete(&admin, &last).await.expect(204);
    server.post(&admin, "/webhooks", body).await.expect(201);
}
