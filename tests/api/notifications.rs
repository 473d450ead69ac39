//! The API: where notifications go, a way to try it, and whom a build has told.

use std::time::Duration;

use cookhouse::model::notification::Channel;
use cookhouse::model::permission::Role;
use serde_json::{Value, json};

use super::{connected, project, setting, with};
use crate::notifications::chats::{FINE, chat, name};
use crate::support::mail::{Letter, MailServer, Security};
use crate::support::server::TestServer;

fn by_channel(reply: &Value) -> Vec<(String, String, Value)> {
    let results = reply["results"].as_array().expect("results").iter();
    results
        .map(|one| (one["channel"].as_str().unwrap().into(), one["status"].as_str().unwrap().into(), one["error"]["code"].clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_tries_every_way_out_and_is_told_what_came_of_it() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let path = format!("/organizations/{}", admin.user.organization_id);
    let test = format!("{path}/notifications/test");
    let nothing = server.post(&admin, &test, json!({})).await.expect(200).json();
    let skipped = |channel: &str| (channel.to_owned(), "skipped".to_owned(), Value::Null);
    assert_eq!(by_channel(&nothing), ["email", "slack", "discord", "teams"].map(skipped));

    let mail = MailServer::start(Security::None).await;
    let (slack, posts) = chat(|_| FINE.to_owned()).await;
    let (teams, _) = chat(|_| "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned()).await;
    let settings = json!({
        "smtp": {"host": "127.0.0.1", "port": mail.port, "security": "none", "from": "builds@studio.test"},
        name(Channel::Slack): slack.http("/services/sesame"), name(Channel::Teams): teams.http("/workflows/sesame"),
    });
    server.patch(&admin, &path, json!({ "integrationSettings": settings })).await.expect(200);
    let reply = server.post(&admin, &test, json!({})).await.expect(200);
    assert!(!reply.text().contains("sesame"), "{}", reply.text());
    let wanted = [
        ("email".to_owned(), "sent".to_owned(), Value::Null),
        ("slack".to_owned(), "sent".to_owned(), Value::Null),
        skipped("discord"),
        ("teams".to_owned(), "failed".to_owned(), json!("rejected")),
    ];
    assert_eq!(by_channel(&reply.json()), wanted);
    assert_eq!(reply.json()["results"][0]["to"], json!(admin.user.email));
    let letter = Letter::read(&mail.taken()[0].bytes);
    assert!(letter.header("Subject").starts_with("Test: notifications of "), "{:?}", letter.headers);
    assert_eq!((mail.taken()[0].to.clone(), posts.lock().unwrap().len()), (vec![admin.user.email.clone()], 1));

    // Administrators only, with a token that reaches as far, of this organization.
    let member = server.person(admin.user.organization_id, Role::Member).await;
    server.post(&member, &test, json!({})).await.expect(403);
    server.ask("POST", &test).send().await.expect(401);
    let elsewhere = server.organization("Elsewhere").await;
    let stranger = server.person(elsewhere.id, Role::Admin).await;
    server.post(&stranger, &test, json!({})).await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_says_whom_it_has_told() {
    let (server, admin) = connected().await;
    let project = project(&server, &admin).await;
    let settings = format!("{project}/build-settings");
    let made = server.post(&admin, &settings, with(setting(), json!({"notifyOnComplete": true}))).await.expect(201).json();
    let path = format!("/organizations/{}", admin.user.organization_id);
    let emails = json!({"integrationSettings": {"notificationEmails": ["team@studio.test"]}});
    server.patch(&admin, &path, emails).await.expect(200);
    let trigger = format!("{settings}/{}/trigger", made["id"].as_str().unwrap());
    let build = server.post(&admin, &trigger, json!({})).await.expect(201).json()["buildId"].as_str().unwrap().to_owned();
    let page = format!("/builds/{build}");
    assert_eq!(server.get(&admin, &page).await.json()["notificationStatus"], Value::Null);
    server.post(&admin, &format!("{page}/cancel"), json!({})).await.expect(202);
    assert_eq!(server.get(&admin, &page).await.json()["notificationStatus"], json!("pending"));
    let list = format!("{page}/notifications");
    let told = server.get(&admin, &list).await.expect(200).json();
    assert_eq!((&told["nextCursor"], told["items"].as_array().map(Vec::len)), (&Value::Null, Some(1)), "{told}");
    let one = &told["items"][0];
    assert_eq!(
        (&one["channel"], &one["to"], &one["status"], &one["attempts"]),
        (&json!("email"), &json!("team@studio.test"), &json!("pending"), &json!(0))
    );
    assert!(one["nextAttemptAt"].is_string() && one["finishedAt"].is_null() && one["error"].is_null(), "{one}");
    let elsewhere = server.organization("Elsewhere").await;
    let stranger = server.person(elsewhere.id, Role::Admin).await;
    server.get(&stranger, &list).await.expect(404);

    // There is no mail server: nobody can be told, and nothing waits for ever.
    let (notifications, stop) = (server.app.notifications.clone(), tokio_util::sync::CancellationToken::new());
    let work = tokio::spawn({
        let stop = stop.clone();
        async move { notifications.run(stop).await }
    });
    let patience = std::time::Instant::now() + Duration::from_secs(30);
    while server.get(&admin, &page).await.json()["notificationStatus"] != json!("skipped") {
        assert!(std::time::Instant::now() < patience);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.cancel();
    work.await.unwrap();
}
