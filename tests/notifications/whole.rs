//! The whole service: real builds of a stand-in engine, and a real server that is killed while it tells people.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cookhouse::model::Status;
use cookhouse::model::notification::NotificationStatus;
use cookhouse::model::organization::{Smtp, SmtpSecurity};
use cookhouse::notifications::{self, Notifications};
use cookhouse::outbound::{self, Outbound};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{BASE, plan};
use crate::kill::site::Site;
use crate::support::farm::{Farm, TOKEN};
use crate::support::mail::{Letter, MailServer, Security};

#[tokio::test]
async fn a_real_build_that_fails_is_told_with_its_errors_and_no_secret() {
    let server = MailServer::start(Security::None).await;
    let mut farm = Farm::start().await;
    let smtp = Smtp {
        host: "127.0.0.1".into(),
        port: server.port,
        security: SmtpSecurity::None,
        username: String::new(),
        password: None,
        from: "builds@studio.test".into(),
    };
    farm.records.organization.integration_settings.smtp = Some(smtp);
    farm.records.organization.integration_settings.notification_emails = vec!["team@studio.test".into()];
    let organization = farm.records.organization.clone();
    farm.store.write::<(), cookhouse::store::StoreError>(move |tx| tx.put(&organization)).await.unwrap();
    farm.change_setting(|setting| setting.notify_on_complete = true).await;
    let outbound = Outbound::new(&outbound::Settings { allow_loopback: true, ..Default::default() }).unwrap();
    let parts = notifications::Parts {
        store: farm.store.clone(),
        vault: farm.vault.clone(),
        clock: farm.clock.clone(),
        logs: farm.builds.logs().clone(),
        outbound,
    };
    let notifications = Notifications::new(notifications::Settings { base_url: BASE.into(), mail: None, plan: plan() }, parts);
    let stop = CancellationToken::new();
    let work = tokio::spawn({
        let stop = stop.clone();
        async move { notifications.run(stop).await }
    });
    farm.write("Source/Kitchen.Target.cs", "public class KitchenTarget : TargetRules { Type = TargetType.Game; }");
    farm.write("Source/KitchenEditor.Target.cs", "public class KitchenEditorTarget : TargetRules { Type = TargetType.Editor; }");
    farm.write("Source/Kitchen/Kitchen.Build.cs", "public class Kitchen : ModuleRules {}");
    // The compiler repeats a secret of the connection in its error.
    let source = format!("#error the token is {TOKEN}\nint soup() {{ return salt; }}\n");
    farm.write("Source/Kitchen/Private/Soup.cpp", source);
    let build = farm.build().await;
    assert_eq!(build.status, Status::Failed);
    let shown = serde_json::to_string(&build).unwrap();
    assert!(shown.contains("the token is ***") && !shown.contains(TOKEN), "diagnostics and failures are masked as the log is: {shown}");
    let letter = Letter::read(&server.until(1).await[0].bytes);
    for text in [&letter.plain, &letter.html] {
        assert!(text.contains("Soup.cpp") && text.contains("the token is ***") && text.contains("Last 20 lines"), "{text}");
        assert!(!text.contains(TOKEN), "a secret: {text}");
    }
    farm.until(build.id, |build| build.notification_status == Some(NotificationStatus::Sent)).await;
    stop.cancel();
    work.await.unwrap();
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Kills while people are being told: every build is told of, each of its mails carries the same id however often it was sent,
/// and no record waits for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_tells_of_every_build() {
    const KILLS: usize = 8;
    // A slow server: most kills come in the middle of a mail.
    let behaviour = Arc::new(|command: &str, _: usize| {
        if command != "END?" {
            std::thread::sleep(Duration::from_millis(15));
        }
        None
    });
    let server = MailServer::misbehaving(Security::None, behaviour).await;
    let mut site = Site::open("").await;
    let smtp = json!({"host": "127.0.0.1", "port": server.port, "security": "none", "from": "builds@studio.test"});
    site.tell(&json!({"smtp": smtp, "notificationEmails": ["team@studio.test", "lead@studio.test"]})).await;
    let (mut accepted, mut chance) = (Vec::new(), 7u64);
    for round in 0..KILLS {
        let setting = site.settings[round % 2].clone();
        accepted.extend(site.caller().trigger(&setting).await);
        if round < 3 {
            // Cancelled ones end at once, and are told as well.
            let path = format!("/builds/{}/cancel", accepted.last().expect("one was accepted"));
            let _ = site.caller().send("POST", &path, Some(&json!({}))).await;
        }
        let patience = Instant::now() + Duration::from_secs(120);
        while site.builds().await.iter().any(|build| ["pending", "running"].contains(&text(build, "status"))) {
            assert!(Instant::now() < patience, "the builds do not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        chance = chance * 31 % 997;
        tokio::time::sleep(Duration::from_millis(chance % 250)).await;
        site.kill();
        site.start();
    }
    let patience = Instant::now() + Duration::from_secs(240);
    let builds = loop {
        let builds = site.builds().await;
        let is_over =
            |build: &Value| !["pending", "running"].contains(&text(build, "status")) && text(build, "notificationStatus") != "pending";
        if builds.iter().all(is_over) {
            break builds;
        }
        assert!(Instant::now() < patience, "not everything was told: {builds:#?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let mut sent: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let mut digests = String::new();
    for taken in server.taken() {
        let letter = Letter::read(&taken.bytes);
        if letter.header("X-Cookhouse-Status") == "digest" {
            digests.push_str(&letter.plain);
            continue;
        }
        let build = letter.plain.split("/v1/builds/").nth(1).expect("a link").chars().take(24).collect();
        sent.entry((build, taken.to[0].clone())).or_default().insert(letter.header("Message-ID").to_owned());
    }
    assert!(accepted.len() >= KILLS && builds.len() >= accepted.len());
    for build in &builds {
        let id = text(build, "id");
        let is_told = site.settings[..2].iter().any(|setting| setting == text(build, "buildSettingId"));
        match text(build, "status") {
            _ if !is_told => {}
            "superseded" => assert_eq!(build["notificationStatus"], Value::Null),
            _ => {
                assert_eq!(text(build, "notificationStatus"), "sent", "{build}");
                for to in ["team@studio.test", "lead@studio.test"] {
                    let ids = sent.get(&(id.to_owned(), to.to_owned())).map_or(0, BTreeSet::len);
                    assert!(ids == 1 || (ids == 0 && digests.contains(id)), "{to} was told of {id} with {ids} ids");
                }
            }
        }
    }
}
