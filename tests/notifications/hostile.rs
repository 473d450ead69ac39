//! Branch names, commit messages, names and lines of logs that want to be more than text.

use cookhouse::model::notification::{Channel, NotificationState};
use cookhouse::model::organization::SmtpSecurity;
use cookhouse::store::StoreError;
use serde_json::Value;

use super::chats::{FINE, Posts, chat, point};
use super::{Furniture, Room, error};
use crate::outbound::receiver::Receiver;
use crate::support::mail::{Letter, MailServer, Security};

/// What each text from outside is, with a mark of its own in it.
pub(super) const NASTY: [&str; 14] = [
    "x\r\nBcc: victim@elsewhere.test\r\n\r\n<b>body</b>",
    "x\n.\r\nMAIL FROM:<evil@elsewhere.test>\r\n",
    "=?utf-8?Q?=0D=0ABcc:_victim@elsewhere.test?=",
    "@everyone @here @channel <!channel> <!here> <@U123> <#C1> <!subteam^S1>",
    "<@&123456> <@!1> <#99> </command:1> <t:0> <id:customize>",
    "<at>Everyone</at> **bold** _it_ ~~no~~ `code` ```fence``` > quote # head - list",
    "[click](http://evil.test) <http://evil.test|bank> http://evil.test",
    "<script>alert(1)</script><img src=x onerror=alert(1)><a href=\"javascript:alert(1)\">x</a>",
    "\"><style>*{display:none}</style></td></table><form action=//evil.test>",
    "\u{202e}txt.exe\u{202c} \u{2066}isolated\u{2069} a\u{200b}d\u{feff}min",
    "\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}[31mred\u{0}\u{8}\u{7f}\u{9b}1m",
    "{\"type\":\"Action.Submit\"}\",\"actions\":[{}]",
    "&lt;b&gt; &amp; %0d%0a {{7*7}} ${7*7}",
    "\u{fffe}\u{ffff}\u{e000}\u{e0041} \u{1f373}\u{200d}\u{1f373} z\u{301}\u{301}\u{301}",
];

/// Everything from outside is `text`.
pub(super) async fn nasty_build(room: &mut Room, text: &str) -> cookhouse::model::Build {
    room.records.project.name = text.into();
    room.ada.name = text.into();
    let (project, ada) = (room.records.project.clone(), room.ada.clone());
    let put = move |tx: &cookhouse::store::Change| {
        tx.put(&project)?;
        tx.put(&ada)
    };
    room.store.write::<(), StoreError>(put).await.unwrap();
    let build = room
        .running(|build| {
            build.branch = text.into();
            build.commit = text.into();
            build.commit_message = text.into();
            build.platform = text.into();
            build.build_type = text.into();
            build.target_type = text.into();
            build.ue_version = text.into();
        })
        .await;
    room.print(build.id, &[text, "", "   ", text], &[]).await;
    room.fail(&build, text, vec![error(text, 7, text, text), error("", 1, "", text)]).await
}

/// Visits every text of a message, with the object that it stands in.
fn texts<'a>(value: &'a Value, parent: &'a Value, visit: &mut dyn FnMut(&'a str, &'a Value)) {
    match value {
        Value::String(text) => visit(text, parent),
        Value::Array(items) => items.iter().for_each(|item| texts(item, parent, visit)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, value, visit)),
        _ => {}
    }
}

fn is_shown_as_it_is(text: &str) -> bool {
    !text.chars().any(|character| {
        (character.is_control() && character != '\n')
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{feff}' | '\u{fffe}')
    })
}

fn calls_nobody(text: &str) -> bool {
    ["@everyone", "@here", "@channel"].iter().all(|call| !text.contains(call))
}

fn check_slack(message: &Value) {
    texts(message, message, &mut |text, parent| {
        assert!(is_shown_as_it_is(text), "{text:?}");
        if parent["type"] == "text" || parent["type"] == "link" {
            return;
        }
        assert!(calls_nobody(text), "{text:?}");
        // What begins something special is an address of ours, and nothing else.
        for special in text.split('<').skip(1) {
            assert!(special.starts_with("https://builds.studio.test/v1/builds/"), "{text:?}");
            let label = special.split_once('|').unwrap().1;
            assert!(label.contains('>') && !label.split('>').next().unwrap().contains('|'), "{text:?}");
        }
        if parent["type"] == "mrkdwn" {
            assert_eq!(parent["verbatim"], true);
        }
    });
}

fn check_discord(message: &Value) {
    assert_eq!(message["allowed_mentions"], serde_json::json!({"parse": []}));
    texts(message, message, &mut |text, _| {
        assert!(is_shown_as_it_is(text) && calls_nobody(text), "{text:?}");
        let outside_of_code = text.split("```").step_by(2).collect::<String>();
        assert_eq!(text.matches("```").count() % 2, 0, "{text:?}");
        let plain = outside_of_code.replace("\\\\", "").replace("\\<", "").replace("\\[", "").replace("\\(", "");
        assert!(!plain.contains('<'), "{text:?}");
        for link in plain.split("](").skip(1) {
            assert!(link.starts_with("https://builds.studio.test/v1/builds/"), "{text:?}");
        }
    });
}

fn check_teams(message: &Value) {
    let card = &message["attachments"][0]["content"];
    texts(card, card, &mut |text, parent| {
        assert!(is_shown_as_it_is(text), "{text:?}");
        assert_ne!(parent["type"], "TextBlock", "text blocks know markup");
        if parent["type"] == "Action.OpenUrl" && text.contains(':') {
            assert!(text.starts_with("https://builds.studio.test/v1/builds/"), "{text:?}");
        }
    });
    assert!(card["msteams"].get("entities").is_none(), "nobody is mentioned");
    assert!(card["actions"].as_array().unwrap().iter().all(|action| action["type"] == "Action.OpenUrl"));
    assert!(message.to_string().len() <= 28 * 1024);
}

fn check_letter(bytes: &[u8]) {
    let letter = Letter::read(bytes);
    let mut names: Vec<String> = letter.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort();
    let wanted = [
        "auto-submitted",
        "content-type",
        "date",
        "from",
        "list-id",
        "message-id",
        "mime-version",
        "subject",
        "to",
        "x-auto-response-suppress",
        "x-cookhouse-project",
        "x-cookhouse-status",
    ];
    assert_eq!(names, wanted, "no header but ours");
    assert!(letter.headers.iter().all(|(_, value)| is_shown_as_it_is(value)), "{:?}", letter.headers);
    assert!(letter.header("Subject").starts_with("Build failed: ") && letter.header("Subject").chars().count() <= 150);
    assert_eq!((letter.header("To"), letter.header("From")), ("ada@studio.test", "Cookhouse <builds@studio.test>"));
    assert!(is_shown_as_it_is(&letter.plain.replace("\r\n", "\n")), "{:?}", letter.plain);
    let html = letter.html.replace("\r\n", "\n");
    assert!(is_shown_as_it_is(&html));
    let tags: std::collections::BTreeSet<&str> = html
        .split('<')
        .skip(1)
        .map(|tag| tag.trim_start_matches('/').split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '!').next().unwrap())
        .collect();
    let ours = ["!DOCTYPE", "a", "body", "br", "div", "head", "html", "meta", "style", "table", "td", "title", "tr"];
    assert!(tags.iter().all(|tag| ours.contains(tag)), "{tags:?}");
    for link in html.split("href=\"").skip(1) {
        assert!(link.starts_with("https://builds.studio.test/v1/builds/"), "{link}");
    }
    let scripts = html.split('<').skip(1).filter(|tag| tag.split('>').next().unwrap().to_ascii_lowercase().contains(" on"));
    assert_eq!(scripts.count(), 0);
    assert_eq!(html.matches("<style").count(), 1);
}

/// All three chats.
async fn chats(room: &mut Room) -> Vec<(Receiver, Posts)> {
    let mut chats = Vec::new();
    for channel in [Channel::Slack, Channel::Discord, Channel::Teams] {
        let (receiver, posts) = chat(|_| FINE.to_owned()).await;
        point(room, channel, &receiver.http("/x")).await;
        chats.push((receiver, posts));
    }
    chats
}

#[tokio::test]
async fn nothing_in_a_message_is_more_than_text() {
    let long = "W".repeat(100_000);
    let wide = "\u{1f373}@everyone`*_".repeat(3000);
    let everything = NASTY.join(" ");
    for text in NASTY.iter().copied().chain([everything.as_str(), long.as_str(), wide.as_str(), ""]) {
        let mut room = Room::open(Furniture::default()).await;
        let server = MailServer::start(Security::None).await;
        room.mail_by("127.0.0.1", server.port, SmtpSecurity::None, None).await;
        let chats = chats(&mut room).await;
        let build = nasty_build(&mut room, text).await;
        let told = room.told(&build).await;
        assert!(told.len() == 4 && told.iter().all(|one| one.state == NotificationState::Sent), "{told:#?}");
        check_letter(&server.taken()[0].bytes);
        let post = |place: usize| chats[place].1.lock().unwrap()[0].clone();
        check_slack(&post(0));
        check_discord(&post(1));
        check_teams(&post(2));
        super::samples::check_limits(&post(0), &post(1), &post(2));
    }
}

#[tokio::test]
async fn an_address_that_carries_more_is_no_address() {
    let server = MailServer::start(Security::None).await;
    let mut room = Room::open(Furniture::default()).await;
    room.mail_by("127.0.0.1", server.port, SmtpSecurity::None, None).await;
    // They cannot be stored through the API; here they are nevertheless.
    let bad = ["a@b.test\r\nRCPT TO:<victim@elsewhere.test>", "a@b.test>\r\nDATA\r\n", "no address", "a b@c.test", "<a@b.test>, c@d.test"];
    room.settle(|settings| settings.notification_emails = bad.map(str::to_owned).to_vec()).await;
    let build = room.failed().await;
    let told = room.told(&build).await;
    let sent: Vec<_> = told.iter().filter(|one| one.state == NotificationState::Sent).filter_map(|one| one.destination.address()).collect();
    assert_eq!(sent, ["ada@studio.test"], "{told:#?}");
    assert!(server.commands().iter().filter(|command| command.starts_with("RCPT")).all(|command| command.contains("<ada@studio.test>")));
}
