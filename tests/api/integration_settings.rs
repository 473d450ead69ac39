//! Where notifications go.

use cookhouse::model::Organization;
use cookhouse::model::permission::Role;
use cookhouse::store::Read;
use serde_json::json;

use crate::support::server::TestServer;

const SLACK: &str = "https://hooks.slack.example/services/T0/B0/secret-part";

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_written_sealed_and_never_shown() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let id = admin.user.organization_id;
    let path = format!("/organizations/{id}");
    let empty = json!({"notificationEmails": [], "slackWebhookUrlSet": false, "discordWebhookUrlSet": false, "teamsWebhookUrlSet": false, "smtp": null});
    assert_eq!(server.get(&admin, &path).await.json()["integrationSettings"], empty);
    let settings = json!({
        "notificationEmails": ["Ada@Example.com", "ada@example.com", "b@example.com"], "slackWebhookUrl": SLACK,
        "smtp": {"host": "mail.example", "username": "robot", "password": "pass word", "from": "builds@example.com"},
    });
    let reply = server.patch(&admin, &path, json!({ "integrationSettings": settings })).await.expect(200);
    assert!(!reply.text().contains("secret-part") && !reply.text().contains("pass word"));
    let shown = reply.json()["integrationSettings"].clone();
    let smtp = json!({"host": "mail.example", "port": 587, "security": "starttls", "username": "robot", "passwordSet": true, "from": "builds@example.com"});
    assert_eq!(shown["notificationEmails"], json!(["ada@example.com", "b@example.com"]));
    assert_eq!((&shown["slackWebhookUrlSet"], &shown["teamsWebhookUrlSet"], &shown["smtp"]), (&json!(true), &json!(false), &smtp));
    let stored: Organization = server.read(|snapshot| snapshot.get(id, id)).expect("stored");
    let sealed = stored.integration_settings.slack_webhook_url.expect("sealed");
    let place = cookhouse::model::places::integration_setting(id, "slackWebhookUrl");
    assert_eq!(server.app.vault.open_sealed(&place, &sealed).expect("opens").reveal(), SLACK);
    let wrong = cookhouse::model::places::integration_setting(id, "teamsWebhookUrl");
    assert!(server.app.vault.open_sealed(&wrong, &sealed).is_err(), "bound to its field");

    // What is shown can be sent back, also strictly.
    let back = server.ask("PATCH", &path).bearer(&admin.token).header("Prefer", "handling=strict");
    let same = back.json(&json!({ "integrationSettings": shown })).send().await.expect(200).json();
    assert_eq!(same["integrationSettings"], shown);
    let cleared =
        server.patch(&admin, &path, json!({"integrationSettings": {"slackWebhookUrl": null, "smtp": null}})).await.expect(200).json();
    assert_eq!(
        (&cleared["integrationSettings"]["slackWebhookUrlSet"], &cleared["integrationSettings"]["smtp"]),
        (&json!(false), &json!(null))
    );
    assert_eq!(server.patch(&admin, &path, json!({"integrationSettings": null})).await.expect(200).json()["integrationSettings"], empty);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_stays_with_the_server_it_was_given_for() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let path = format!("/organizations/{}", admin.user.organization_id);
    let smtp = |change| json!({"integrationSettings": {"smtp": change}});
    let set = |reply: crate::support::client::Reply| reply.expect(200).json()["integrationSettings"]["smtp"]["passwordSet"] == json!(true);
    let first = json!({"host": "mail.example", "from": "a@example.com", "password": "secret"});
    assert!(set(server.patch(&admin, &path, smtp(first)).await));
    for harmless in [json!({"username": "robot"}), json!({"from": "b@example.com"}), json!({"host": "MAIL.example"}), json!({"port": 587})]
    {
        assert!(set(server.patch(&admin, &path, smtp(harmless.clone())).await), "{harmless}");
    }
    for elsewhere in [json!({"host": "evil.example"}), json!({"port": 25}), json!({"security": "tls"})] {
        assert!(!set(server.patch(&admin, &path, smtp(elsewhere.clone())).await), "{elsewhere}");
        assert!(set(server.patch(&admin, &path, smtp(json!({"password": "secret"}))).await));
    }
    assert!(set(server.patch(&admin, &path, smtp(json!({"host": "third.example", "password": "another"}))).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_wrong_is_told_at_once_and_nothing_is_stored() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let path = format!("/organizations/{}", admin.user.organization_id);
    let before = server.get(&admin, &path).await.text();
    let body = json!({"name": "", "defaultProjectSettings": {"platform": "PS9"}, "integrationSettings": {
        "notificationEmails": ["nobody"], "slackWebhookUrl": "http://hooks.slack.example/x", "discordWebhookUrl": 5,
        "teamsWebhookUrl": "https://user:word@teams.example/", "smtp": {"port": 0, "security": "ssl", "from": "x", "password": "a\nb"},
    }});
    let details = server.patch(&admin, &path, body).await.expect(400).details();
    assert_eq!(
        details,
        [
            "defaultProjectSettings.platform:invalid_value",
            "integrationSettings.discordWebhookUrl:invalid_type",
            "integrationSettings.notificationEmails:invalid_value",
            "integrationSettings.slackWebhookUrl:invalid_value",
            "integrationSettings.smtp.from:invalid_value",
            "integrationSettings.smtp.host:required",
            "integrationSettings.smtp.password:invalid_value",
            "integrationSettings.smtp.port:invalid_value",
            "integrationSettings.smtp.security:invalid_value",
            "integrationSettings.teamsWebhookUrl:invalid_value",
            "name:invalid_value",
        ]
    );
    let plain = |host: &str| json!({"integrationSettings": {"smtp": {"host": host, "from": "a@example.com", "security": "none"}}});
    for far in ["mail.example", "8.8.8.8", "169.254.169.254", "2606:4700::1111"] {
        assert_eq!(
            server.patch(&admin, &path, plain(far)).await.expect(400).details(),
            ["integrationSettings.smtp.security:not_allowed"],
            "{far}"
        );
    }
    assert_eq!(server.get(&admin, &path).await.text(), before);
    for near in ["10.0.0.25", "127.0.0.1", "::1", "localhost", "fd00::25"] {
        server.patch(&admin, &path, plain(near)).await.expect(200);
    }
    let member = server.person(admin.user.organization_id, Role::Member).await;
    assert_eq!(server.patch(&member, &path, json!({"name": "Mine"})).await.code(), "forbidden");
}
