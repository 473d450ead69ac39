//! Slack, Discord and Teams: each in its own format and within its limits, and what their endpoints may do instead of
//! taking a message.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cookhouse::model::notification::{Channel, NotificationState, NotificationStatus};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{BASE, Furniture, Room, error, plan};
use crate::outbound::receiver::{Connection, Receiver, head};

/// What came to a chat.
pub(crate) type Posts = Arc<Mutex<Vec<Value>>>;

/// A chat that keeps what it is sent, and answers as it is told by the number of the post.
pub(crate) async fn chat(answer: impl Fn(usize) -> String + Send + Sync + 'static) -> (Receiver, Posts) {
    let posts: Posts = Arc::default();
    let (kept, answer) = (posts.clone(), Arc::new(answer));
    let receiver = Receiver::plain(move |mut connection| {
        let (kept, answer) = (kept.clone(), answer.clone());
        async move {
            let body = read(&mut connection).await;
            let count = {
                let mut kept = kept.lock().unwrap();
                kept.push(body);
                kept.len()
            };
            let _ = connection.write_all(answer(count).as_bytes()).await;
        }
    })
    .await;
    (receiver, posts)
}

async fn read(connection: &mut Connection) -> Value {
    let head = head(connection).await.to_ascii_lowercase();
    assert!(head.starts_with("post /") && head.contains("content-type: application/json"), "{head}");
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

pub(crate) const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

pub(crate) fn name(channel: Channel) -> &'static str {
    match channel {
        Channel::Slack => "slackWebhookUrl",
        Channel::Discord => "discordWebhookUrl",
        Channel::Teams => "teamsWebhookUrl",
        Channel::Email => "",
    }
}

/// The organization writes to this chat, and only there.
pub(super) async fn point(room: &mut Room, channel: Channel, address: &str) {
    let sealed = room.sealed(name(channel), address);
    room.settle(|settings| match channel {
        Channel::Slack => settings.slack_webhook_url = sealed,
        Channel::Discord => settings.discord_webhook_url = sealed,
        Channel::Teams => settings.teams_webhook_url = sealed,
        Channel::Email => {}
    })
    .await;
}

#[tokio::test]
async fn each_chat_gets_its_own_format_with_colour_title_fields_and_links() {
    let mut room = Room::open(Furniture::default()).await;
    let mut chats = Vec::new();
    for channel in [Channel::Slack, Channel::Discord, Channel::Teams] {
        let (receiver, posts) = chat(|_| FINE.to_owned()).await;
        point(&mut room, channel, &receiver.http("/secret/path")).await;
        chats.push((receiver, posts));
    }
    let build = room.running(|build| build.commit_message = "Salt the soup".into()).await;
    room.print(build.id, &["cooking", "it burns"], &[]).await;
    let build = room.fail(&build, "Cooking the content failed.", vec![error("A.umap", 3, "LogCook", "missing pan")]).await;
    // Nobody can be told by mail, and everybody could be told otherwise.
    assert_eq!(room.status(&build).await, Some(NotificationStatus::Sent));
    let post = |place: usize| chats[place].1.lock().unwrap()[0].clone();
    let page = format!("{BASE}/v1/builds/{}", build.id);
    for place in 0..3 {
        let text = post(place).to_string();
        for wanted in
            ["Build failed", "Kitchen", "Linux", "main", "Cooking the content failed", "Salt the soup", "missing pan", "it burns", "Ada"]
        {
            assert!(text.contains(wanted), "{wanted} is missing: {text}");
        }
        assert!(text.contains(&page) && text.contains(&format!("{page}/log")), "{text}");
    }
    let slack = post(0);
    assert_eq!(slack["text"], format!("*<{page}|Build failed: Kitchen, Linux, main>*"));
    assert_eq!(slack["attachments"][0]["color"], "#cf222e");
    assert_eq!(slack["attachments"][0]["blocks"][1]["fields"][0]["text"], "*Project*\nKitchen");
    let discord = post(1);
    let embed = &discord["embeds"][0];
    assert_eq!((&embed["title"], &embed["color"]), (&"Build failed\\: Kitchen, Linux, main".into(), &0x00cf_222e.into()));
    assert_eq!(
        (&embed["url"], &embed["fields"][0]["name"], &embed["fields"][0]["value"]),
        (&page.clone().into(), &"Project".into(), &"Kitchen".into())
    );
    assert_eq!(discord["allowed_mentions"], serde_json::json!({"parse": []}));
    let teams = post(2);
    let card = &teams["attachments"][0]["content"];
    assert_eq!((&teams["type"], &card["type"], &card["version"]), (&"message".into(), &"AdaptiveCard".into(), &"1.4".into()));
    assert_eq!((&card["body"][0]["style"], &card["actions"][0]["url"]), (&"attention".into(), &page.into()));
}

#[tokio::test]
async fn not_now_is_tried_again_when_they_say_and_no_is_no() {
    for (answer, attempts, state) in [
        ("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n", 2, NotificationState::Sent),
        ("HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n", 2, NotificationState::Sent),
        ("", 2, NotificationState::Sent),
        ("what?", 2, NotificationState::Sent),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\nno_service", 1, NotificationState::Failed),
        ("HTTP/1.1 400 Bad Request\r\nContent-Length: 15\r\n\r\ninvalid_payload", 1, NotificationState::Failed),
        ("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", 1, NotificationState::Failed),
    ] {
        let began = std::time::Instant::now();
        let (receiver, posts) = chat(move |count| if count == 1 { answer.to_owned() } else { FINE.to_owned() }).await;
        let mut room = Room::open(Furniture::default()).await;
        point(&mut room, Channel::Slack, &receiver.http("/services/T0/B0/sesamesesame")).await;
        let build = room.complete(|_| {}).await;
        let told = room.told(&build).await;
        let slack = told.iter().find(|one| one.destination.channel() == Channel::Slack).unwrap();
        assert_eq!((slack.state, slack.attempts, posts.lock().unwrap().len()), (state, attempts, attempts as usize), "{answer}: {slack:?}");
        assert!(!serde_json::to_string(slack).unwrap().contains("sesame"), "the address is a secret: {slack:?}");
        if answer.contains("Retry-After") {
            assert!(began.elapsed() >= Duration::from_secs(1), "asked to wait for a second, waited {:?}", began.elapsed());
        }
    }
}

#[tokio::test]
async fn a_connector_that_calls_a_refusal_a_success_is_seen_through() {
    let words = "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429 with ContextId x";
    let (receiver, posts) = chat(move |count| match count {
        1 => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{words}", words.len()),
        _ => FINE.to_owned(),
    })
    .await;
    let mut room = Room::open(Furniture::default()).await;
    point(&mut room, Channel::Teams, &receiver.http("/workflows/x")).await;
    let build = room.complete(|_| {}).await;
    assert_eq!((room.status(&build).await, posts.lock().unwrap().len()), (Some(NotificationStatus::Sent), 2));
}

#[tokio::test]
async fn endless_and_dripping_answers_end_in_time_and_in_little_memory() {
    // 200 with a gigabyte: taken, and not read to its end. 500 with a gigabyte: its beginning is enough.
    let sent = Arc::new(AtomicUsize::new(0));
    for status in ["200 OK", "500 Oh"] {
        let counter = sent.clone();
        counter.store(0, Ordering::SeqCst);
        let giant = Receiver::plain(move |mut connection| {
            let counter = counter.clone();
            async move {
                read(&mut connection).await;
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: 1073741824\r\n\r\n");
                let _ = connection.write_all(head.as_bytes()).await;
                let piece = vec![b'x'; 64 * 1024];
                while connection.write_all(&piece).await.is_ok() {
                    counter.fetch_add(piece.len(), Ordering::SeqCst);
                }
            }
        })
        .await;
        let mut plan = plan();
        plan.retries = Vec::new();
        let mut room = Room::open(Furniture { plan, ..Furniture::default() }).await;
        for channel in [Channel::Slack, Channel::Discord, Channel::Teams] {
            point(&mut room, channel, &giant.http("/x")).await;
        }
        let build = room.complete(|_| {}).await;
        let wanted = if status == "200 OK" { NotificationStatus::Sent } else { NotificationStatus::Failed };
        assert_eq!(room.status(&build).await, Some(wanted));
        assert!(sent.load(Ordering::SeqCst) < 64 << 20, "{} bytes were taken", sent.load(Ordering::SeqCst));
    }
    // A byte now and then: the head never ends, or the words of a refusal never do.
    for begin in ["", "HTTP/1.1 400 Bad\r\nContent-Length: 1000\r\n\r\n"] {
        let drip = Receiver::plain(move |mut connection| async move {
            read(&mut connection).await;
            let _ = connection.write_all(begin.as_bytes()).await;
            while connection.write_all(b"H").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
        .await;
        let mut plan = plan();
        (plan.chat, plan.retries) = (Duration::from_millis(800), Vec::new());
        let began = std::time::Instant::now();
        let mut room = Room::open(Furniture { plan, ..Furniture::default() }).await;
        point(&mut room, Channel::Slack, &drip.http("/x")).await;
        let build = room.complete(|_| {}).await;
        assert_eq!(room.status(&build).await, Some(NotificationStatus::Failed));
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
