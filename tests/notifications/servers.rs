//! Mail servers that reject, hang, hang up, lie about encryption or never stop talking. Each try ends in time, has a code,
//! is on record, and keeps no other mail back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cookhouse::model::Notification;
use cookhouse::model::notification::{Channel, NotificationState, NotificationStatus};
use cookhouse::model::organization::SmtpSecurity;
use tokio::io::AsyncWriteExt;

use super::mails::trusting;
use super::{Furniture, Room, plan};
use crate::outbound::receiver::{Certificate, Receiver};
use crate::support::mail::{Answer, Behaviour, Letter, MailServer, Security};

fn code(told: &Notification) -> String {
    serde_json::to_value(told.error.as_ref().unwrap_or_else(|| panic!("no error: {told:?}")).code).unwrap().as_str().unwrap().to_owned()
}

fn at(command: &'static str, answer: Answer) -> Behaviour {
    Arc::new(move |asked, _| (asked == command || asked.starts_with(&format!("{command} "))).then(|| answer.clone()))
}

fn say(words: &str) -> Answer {
    Answer::Say(format!("{words}\r\n"))
}

#[tokio::test]
async fn one_refused_recipient_keeps_nobody_else_from_being_told() {
    let behaviour: Behaviour = Arc::new(|command, _| (command == "RCPT gone@studio.test").then(|| say("550 5.1.1 no such person")));
    let server = MailServer::misbehaving(Security::None, behaviour).await;
    let mut room = Room::open(Furniture::default()).await;
    room.mail_by("127.0.0.1", server.port, SmtpSecurity::None, None).await;
    room.settle(|settings| settings.notification_emails = vec!["gone@studio.test".into(), "team@studio.test".into()]).await;
    let build = room.failed().await;
    let told = room.told(&build).await;
    let states: Vec<_> = told.iter().map(|one| (one.destination.address().unwrap(), one.state, one.attempts)).collect();
    assert_eq!(
        states,
        [
            ("ada@studio.test", NotificationState::Sent, 1),
            ("gone@studio.test", NotificationState::Failed, 1),
            ("team@studio.test", NotificationState::Sent, 1)
        ]
    );
    let error = told[1].error.as_ref().unwrap();
    assert_eq!((code(&told[1]).as_str(), error.status), ("rejected", Some(550)));
    assert!(error.message.contains("no such person"), "{error:?}");
    assert_eq!(room.status(&build).await, Some(NotificationStatus::PartlySent));
}

#[tokio::test]
async fn not_now_is_tried_again_with_the_same_message_id() {
    // Greylisting: the first two tries are too early; then the connection breaks behind the message, which was taken.
    let behaviour: Behaviour = Arc::new(|command, count| match (command, count) {
        ("RCPT ada@studio.test", 0 | 1) => Some(say("451 4.7.1 come back later")),
        ("END", 0) => Some(Answer::Close),
        _ => None,
    });
    let server = MailServer::misbehaving(Security::None, behaviour).await;
    let mut room = Room::open(Furniture::default()).await;
    room.mail_by("127.0.0.1", server.port, SmtpSecurity::None, None).await;
    let build = room.failed().await;
    let told = room.told(&build).await;
    assert_eq!((told[0].state, told[0].attempts), (NotificationState::Sent, 4), "{told:?}");
    assert!(told[0].error.is_none());
    let ids: Vec<String> = server.taken().iter().map(|taken| Letter::read(&taken.bytes).header("Message-ID").to_owned()).collect();
    assert_eq!(ids.len(), 2, "taken twice, because nobody could know that it was");
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn five_retries_and_then_it_is_given_up() {
    let server = MailServer::misbehaving(Security::None, at("DATA", say("452 4.3.1 the disk is full"))).await;
    let mut room = Room::open(Furniture::default()).await;
    room.mail_by("127.0.0.1", server.port, SmtpSecurity::None, None).await;
    let build = room.failed().await;
    let told = room.told(&build).await;
    assert_eq!((told[0].state, told[0].attempts, code(&told[0]).as_str()), (NotificationState::Failed, 6, "deferred"));
    assert_eq!(server.commands().iter().filter(|command| *command == "DATA").count(), 6);
    assert_eq!(room.status(&build).await, Some(NotificationStatus::Failed));
    let figures = room.notifications.figures().expect("figures");
    assert_eq!((figures.waiting, figures.overdue_ms, figures.tries[0]), (0, 0, (Channel::Email, 0, 6)));
}

#[tokio::test]
async fn every_kind_of_bad_server_has_its_code_and_its_time() {
    let cases: Vec<(&str, Behaviour, &str, u32)> = vec![
        ("rejects at the greeting", at("CONNECT", say("554 go away")), "rejected", 1),
        ("busy at the greeting", at("CONNECT", say("421 too many connections")), "deferred", 6),
        ("does not sign us in", at("AUTH", say("535 5.7.8 wrong")), "auth_failed", 1),
        ("hangs at the greeting", at("CONNECT", Answer::Hang), "timeout", 6),
        ("hangs behind the message", at("END", Answer::Hang), "timeout", 6),
        ("hangs up at once", at("CONNECT", Answer::Close), "connect_failed", 6),
        ("hangs up in the middle", at("MAIL", Answer::Close), "connect_failed", 6),
        ("an endless line", at("CONNECT", Answer::Flood("A")), "protocol_error", 6),
        ("endless lines", at("CONNECT", Answer::Flood("220-welcome\r\n")), "protocol_error", 6),
        ("endless garbage", at("EHLO", Answer::Flood("\u{fffd}\u{0}")), "protocol_error", 6),
        ("speaks HTTP", at("CONNECT", say("HTTP/1.1 400 Bad Request")), "protocol_error", 6),
        ("refuses the sender", at("MAIL", say("553 5.7.1 not yours")), "rejected", 1),
        ("refuses the message", at("END", say("554 5.6.0 spam")), "rejected", 1),
    ];
    let mut plan = plan();
    (plan.greeting, plan.mail) = (Duration::from_millis(400), Duration::from_millis(400));
    for (what, behaviour, wanted, attempts) in cases {
        let began = Instant::now();
        let server = MailServer::misbehaving(Security::None, behaviour).await;
        let mut room = Room::open(Furniture { plan: plan.clone(), ..Furniture::default() }).await;
        room.mail_by("127.0.0.1", server.port, SmtpSecurity::None, Some(("builds", "word"))).await;
        let build = room.failed().await;
        let told = room.told(&build).await;
        assert_eq!((told[0].state, told[0].attempts), (NotificationState::Failed, attempts), "{what}: {told:?}");
        assert_eq!(code(&told[0]), wanted, "{what}: {told:?}");
        assert!(told[0].error.as_ref().unwrap().message.chars().count() <= 300, "{what}");
        assert!(began.elapsed() < Duration::from_secs(30), "{what} took {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_hanging_server_keeps_the_chats_waiting_for_nothing() {
    let server = MailServer::misbehaving(Security::None, at("CONNECT", Answer::Hang)).await;
    let chat = Receiver::saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    let mut plan = plan();
    plan.greeting = Duration::from_secs(3600);
    let mut room = Room::open(Furniture { plan, ..Furniture::default() }).await;
    room.mail_by("127.0.0.1", server.port, SmtpSecurity::None, None).await;
    let address = room.sealed("slackWebhookUrl", &chat.http("/services/x"));
    room.settle(|settings| settings.slack_webhook_url = address).await;
    for _ in 0..3 {
        room.failed().await;
    }
    let patience = Instant::now() + Duration::from_secs(60);
    while chat.connections() < 3 {
        assert!(Instant::now() < patience, "the chat waits for the mail server");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn without_encryption_nothing_is_said() {
    // Does not offer it.
    let server = MailServer::start(Security::None).await;
    let (mut room, authority) = trusting().await;
    room.mail_by("localhost", server.port, SmtpSecurity::Starttls, Some(("builds", "word"))).await;
    let build = room.failed().await;
    let told = room.told(&build).await;
    assert_eq!((told[0].state, code(&told[0]).as_str()), (NotificationState::Failed, "tls_failed"));
    assert!(told[0].error.as_ref().unwrap().message.contains("does not offer STARTTLS"), "{told:?}");
    let said: std::collections::BTreeSet<String> = server.commands().into_iter().collect();
    assert_eq!(said.into_iter().collect::<Vec<_>>(), ["EHLO builds.studio.test"], "no password, no address, no message");

    // Offers it, and does not want it then.
    let behaviour = at("STARTTLS", say("454 4.7.0 not available"));
    let server = MailServer::misbehaving(Security::Starttls(authority.acceptor.clone()), behaviour).await;
    room.mail_by("localhost", server.port, SmtpSecurity::Starttls, None).await;
    let build = room.failed().await;
    assert_eq!(code(&room.told(&build).await[0]), "deferred");

    // Somebody on the way says what comes behind encryption before there is any.
    let words = "220 go ahead\r\n250-mail.studio.test\r\n250 AUTH PLAIN\r\n";
    let behaviour = at("STARTTLS", Answer::Say(words.into()));
    let server = MailServer::misbehaving(Security::Starttls(authority.acceptor.clone()), behaviour).await;
    room.mail_by("localhost", server.port, SmtpSecurity::Starttls, Some(("builds", "word"))).await;
    let build = room.failed().await;
    assert_eq!(code(&room.told(&build).await[0]), "tls_failed");
    assert!(server.taken().is_empty() && !server.commands().iter().any(|command| command.starts_with("AUTH")));

    // TLS is expected and plain text comes, and the other way round.
    let server = MailServer::start(Security::None).await;
    room.mail_by("localhost", server.port, SmtpSecurity::Tls, None).await;
    let build = room.failed().await;
    assert_eq!(code(&room.told(&build).await[0]), "tls_failed");
    let server = MailServer::start(Security::Tls(authority.acceptor)).await;
    room.mail_by("localhost", server.port, SmtpSecurity::Starttls, None).await;
    let build = room.failed().await;
    assert!(["timeout", "connect_failed", "protocol_error"].contains(&code(&room.told(&build).await[0]).as_str()));
}

#[tokio::test]
async fn a_certificate_has_to_be_trusted_and_to_be_for_the_server() {
    let trusted = Certificate::of_authority("localhost");
    let elsewhere = Certificate::of_authority("mail.elsewhere.test");
    let unknown = Certificate::self_signed("localhost");
    let furniture = || Furniture { trusted: vec![trusted.authority(), elsewhere.authority()], ..Furniture::default() };
    for (certificate, words) in [(&elsewhere, "another name"), (&unknown, "outbound.ca_certificates")] {
        for security in [SmtpSecurity::Starttls, SmtpSecurity::Tls] {
            let acceptor = certificate.acceptor();
            let offered = if security == SmtpSecurity::Tls { Security::Tls(acceptor) } else { Security::Starttls(acceptor) };
            let server = MailServer::start(offered).await;
            let mut room = Room::open(furniture()).await;
            room.mail_by("localhost", server.port, security, Some(("builds", "word"))).await;
            let build = room.failed().await;
            let told = room.told(&build).await;
            assert_eq!(code(&told[0]), "tls_failed", "{told:?}");
            assert!(told[0].error.as_ref().unwrap().message.contains(words), "{told:?}");
            assert!(server.taken().is_empty() && !server.commands().iter().any(|command| command.starts_with("AUTH")));
        }
    }
    let server = MailServer::start(Security::Starttls(trusted.acceptor())).await;
    let mut room = Room::open(furniture()).await;
    room.mail_by("localhost", server.port, SmtpSecurity::Starttls, None).await;
    let build = room.failed().await;
    assert_eq!(room.status(&build).await, Some(NotificationStatus::Sent));
}

#[tokio::test]
async fn a_server_that_drips_is_left_in_time() {
    let drip = Receiver::plain(|mut connection| async move {
        for byte in "220 a very slow welcome to everybody who comes here".bytes() {
            if connection.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    let mut plan = plan();
    (plan.greeting, plan.retries) = (Duration::from_millis(500), vec![Duration::from_millis(10)]);
    let mut room = Room::open(Furniture { plan, ..Furniture::default() }).await;
    room.mail_by("127.0.0.1", drip.port, SmtpSecurity::None, None).await;
    let build = room.failed().await;
    let told = room.told(&build).await;
    assert_eq!((code(&told[0]).as_str(), told[0].attempts, drip.connections()), ("timeout", 2, 2));
}
