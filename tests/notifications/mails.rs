//! Mail, over every kind of connection, as its reader has it.

use cookhouse::demo::certificate::Authority;
use cookhouse::model::Secret;
use cookhouse::model::notification::{Destination, NotificationState, NotificationStatus};
use cookhouse::model::organization::SmtpSecurity;
use cookhouse::model::permission::Role;
use cookhouse::model::{Notice, User};
use cookhouse::notifications;
use cookhouse::store::{Change, Read, StoreError};

use super::{BASE, Furniture, Room, error};
use crate::support::mail::{Letter, MailServer, Security};

/// A room that trusts an authority, and the authority.
pub(super) async fn trusting() -> (Room, Authority) {
    let authority = Authority::new().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &authority.pem).unwrap();
    let room = Room::open(Furniture { trusted: vec![file.path().to_owned()], ..Furniture::default() }).await;
    (room, authority)
}

#[tokio::test]
async fn a_failed_build_is_told_by_mail_over_starttls_with_a_password() {
    let (mut room, authority) = trusting().await;
    let server = MailServer::start(Security::Starttls(authority.acceptor)).await;
    room.mail_by("localhost", server.port, SmtpSecurity::Starttls, Some(("builds", "pass word"))).await;
    room.settle(|settings| settings.notification_emails = vec!["team@studio.test".into(), "ADA@studio.test".into()]).await;
    let build = room
        .running(|build| {
            build.commit = "1234567890abcdef1234567890abcdef12345678".into();
            build.commit_message = "Salt the soup".into();
        })
        .await;
    let lines: Vec<String> = (1..=30).map(|number| format!("line {number} with hunter2secret")).collect();
    room.print(build.id, &lines.iter().map(String::as_str).collect::<Vec<_>>(), &["hunter2secret"]).await;
    let errors = (1..=7).map(|number| error("Source/Soup.cpp", number, "C2065", "'salt': undeclared identifier")).collect();
    let build = room.fail(&build, "Compiling the code failed (exit code 6), in the stage BUILD.", errors).await;
    assert_eq!(build.notification_status, Some(NotificationStatus::Pending), "noted in the transaction that ends the build");

    let mut taken = server.until(2).await;
    taken.sort_by(|one, other| one.to.cmp(&other.to));
    assert_eq!(room.status(&build).await, Some(NotificationStatus::Sent));
    assert_eq!(taken.iter().flat_map(|taken| taken.to.clone()).collect::<Vec<_>>(), ["ada@studio.test", "team@studio.test"], "each once");
    for taken in &taken {
        assert!(taken.is_encrypted && taken.from == "builds@studio.test" && taken.hello == "builds.studio.test", "{taken:?}");
        assert_eq!(taken.user, Some(("builds".into(), "pass word".into())));
    }
    assert_eq!(server.connections(), 1, "one connection for both");
    let before_encryption = server.commands().into_iter().take_while(|command| command != "STARTTLS").count();
    assert_eq!(before_encryption, 1, "only EHLO was said without encryption: {:?}", server.commands());

    let letter = Letter::read(&taken[0].bytes);
    let first = "Build failed: Kitchen, Linux, main. Compiling the code failed (exit code 6), in the stage BUILD.";
    assert_eq!(letter.header("Subject"), first);
    assert_eq!(letter.plain.replace("\r\n", " ").get(..first.len()), Some(first), "{}", letter.plain);
    assert_eq!((letter.header("From"), letter.header("To")), ("Cookhouse <builds@studio.test>", "ada@studio.test"));
    assert!(letter.header("Message-ID").ends_with("@builds.studio.test>"));
    for (name, value) in [("Auto-Submitted", "auto-generated"), ("X-Cookhouse-Status", "failed"), ("MIME-Version", "1.0")] {
        assert_eq!(letter.header(name), value);
    }
    assert!(letter.header("List-Id").starts_with("\"Builds of Kitchen\" <"), "{:?}", letter.headers);
    for text in [&letter.plain, &letter.html] {
        for wanted in ["Kitchen", "Linux Development, engine 5.4", "main @ 1234567890", "Salt the soup", "Ada", "First errors (5 of 7)"] {
            assert!(text.contains(wanted), "{wanted} is missing: {text}");
        }
        let page = format!("{BASE}/v1/builds/{}", build.id);
        assert!(text.contains(&page) && text.contains(&format!("{page}/log")) && !text.contains("/download"), "{text}");
        assert!(text.contains("line 11 with ***") && text.contains("line 30 with ***") && !text.contains("line 10 with"), "{text}");
        assert!(!text.contains("hunter2secret"), "a secret");
    }
    assert!(letter.plain.contains("Soup.cpp:5") && !letter.plain.contains("Soup.cpp:6"), "{}", letter.plain);
    assert!(letter.html.contains("&#39;salt&#39;: undeclared identifier"), "{}", letter.html);
    let is_readable = |line: &str| line.len() <= 76 || line.contains("https://");
    assert!(letter.plain.lines().all(is_readable), "{}", letter.plain);
}

#[tokio::test]
async fn a_complete_build_is_told_with_its_artifact_and_without_its_log() {
    let (mut room, authority) = trusting().await;
    let server = MailServer::start(Security::Tls(authority.acceptor)).await;
    room.mail_by("localhost", server.port, SmtpSecurity::Tls, None).await;
    let build = room.complete(|build| build.commit_message = "Sauté the onions 🧅".into()).await;
    let taken = server.until(1).await;
    assert_eq!(room.status(&build).await, Some(NotificationStatus::Sent));
    assert!(taken[0].is_encrypted && taken[0].user.is_none());
    let letter = Letter::read(&taken[0].bytes);
    assert!(letter.header("Subject").starts_with("Build complete: Kitchen, Linux, main. It took "), "{:?}", letter.headers);
    for text in [&letter.plain, &letter.html] {
        assert!(text.contains("Sauté the onions 🧅") && text.contains("1.2 GB") && text.contains("/download"), "{text}");
        assert!(!text.contains("Last "), "{text}");
    }
}

#[tokio::test]
async fn the_host_s_mail_server_is_for_organizations_without_one_and_plain_stays_near() {
    let server = MailServer::start(Security::None).await;
    let of_the_host = notifications::MailServer {
        host: "127.0.0.1".into(),
        port: server.port,
        security: SmtpSecurity::None,
        username: "host".into(),
        password: Some(Secret::new("password of the host".into())),
        from: "host@studio.test".into(),
    };
    let mut room = Room::open(Furniture { mail: Some(of_the_host), ..Furniture::default() }).await;
    room.failed().await;
    let taken = server.until(1).await;
    assert_eq!((taken[0].from.as_str(), taken[0].is_encrypted), ("host@studio.test", false));
    room.mail_by("127.0.0.1", server.port, SmtpSecurity::None, None).await;
    room.failed().await;
    assert_eq!(server.until(2).await[1].from, "builds@studio.test");

    // Not encrypted to the outside, to a name that leads there, or to the metadata service: nothing is even tried.
    for host in ["8.8.8.8", "169.254.169.254"] {
        room.mail_by(host, 25, SmtpSecurity::None, None).await;
        let build = room.failed().await;
        let told = room.told(&build).await;
        assert_eq!((told[0].state, told[0].attempts), (NotificationState::Failed, 1), "{told:?}");
        assert_eq!(serde_json::to_value(told[0].error.as_ref().unwrap().code).unwrap(), "address_denied");
    }
}

#[tokio::test]
async fn loopback_is_for_the_administrator_to_allow() {
    let server = MailServer::start(Security::None).await;
    let mut room = Room::open(Furniture { allow_loopback: false, ..Furniture::default() }).await;
    room.mail_by("127.0.0.1", server.port, SmtpSecurity::None, None).await;
    let build = room.failed().await;
    let told = room.told(&build).await;
    assert!(told[0].error.as_ref().is_some_and(|error| error.message.contains("outbound.allow_loopback")), "{told:?}");
    assert_eq!((server.connections(), room.status(&build).await), (0, Some(NotificationStatus::Failed)));
}

#[tokio::test]
async fn whoever_is_not_to_be_told_is_not() {
    let mut room = Room::open(Furniture::default()).await;
    // Nobody to tell by: skipped, and said so.
    let build = room.failed().await;
    assert_eq!(room.status(&build).await, Some(NotificationStatus::Skipped));
    assert_eq!(room.told(&build).await[0].destination, Destination::Email { to: "ada@studio.test".into() });
    // A script, a push and a schedule are no person; nobody is on the list.
    for cause in [cookhouse::model::TriggeredBy::Cron, cookhouse::model::TriggeredBy::Push("ab12".into())] {
        let build = room.complete(|build| build.triggered_by = cause).await;
        assert_eq!((build.notification_status, room.told(&build).await.len()), (Some(NotificationStatus::Skipped), 0));
    }
    // Not wanted at all.
    room.records.setting.notify_on_complete = false;
    let setting = room.records.setting.clone();
    room.store.write::<(), cookhouse::store::StoreError>(move |tx| tx.put(&setting)).await.unwrap();
    let build = room.failed().await;
    assert_eq!((build.notification_status, room.told(&build).await.len()), (None, 0));
}

#[tokio::test]
async fn administrators_are_told_of_a_webhook_that_was_switched_off_until_they_were() {
    let mut room = Room::open(Furniture::default()).await;
    let server = MailServer::start(Security::None).await;
    room.settle(|settings| settings.notification_emails = vec!["team@studio.test".into()]).await;
    let (now, organization) = (room.clock.now(), room.records.organization.id);
    let notice = Notice {
        id: room.clock.new_id(),
        organization_id: organization,
        at: now,
        subject: "https://hooks.studio.test".into(),
        reason: "A message was tried 10 times and never taken.".into(),
        told: Vec::new(),
        attempts: 0,
        due_at: now,
    };
    let boss = User { id: room.clock.new_id(), email: "boss@studio.test".into(), role: Role::Admin, ..room.ada.clone() };
    room.mail_by("localhost", server.port, SmtpSecurity::None, None).await;
    let stored = notice.clone();
    let put = move |tx: &Change| tx.put(&boss).and_then(|()| tx.put(&stored));
    room.store.write::<(), StoreError>(put).await.unwrap();
    // What wakes it is anything that happens.
    room.failed().await;
    for _ in 0..1000 {
        let left =
            room.store.read(|rows| rows.get::<Notice>(organization, notice.id)).unwrap_or_else(|error: StoreError| panic!("{error}"));
        if left.is_none() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let mut taken = server.until(2).await;
    taken.retain(|taken| Letter::read(&taken.bytes).header("Subject").starts_with("Webhook switched off: https://hooks.studio.test"));
    let mut to: Vec<String> = taken.iter().flat_map(|taken| taken.to.clone()).collect();
    to.sort();
    assert_eq!(to, ["boss@studio.test", "team@studio.test"], "each once");
}
