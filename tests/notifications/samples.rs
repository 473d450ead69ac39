//! Messages of every kind against the documented limits of each chat. With `COOKHOUSE_SAMPLES=<directory>` they are written
//! there too, for whoever wants to look at them or to try them against schemas (`proof/` beside this file does).

use std::path::PathBuf;

use cookhouse::builds::lifecycle;
use cookhouse::model::Build;
use cookhouse::model::build::{Failure, FailureCode};
use cookhouse::model::notification::{Channel, NotificationErrorCode, NotificationStatus};
use cookhouse::model::organization::SmtpSecurity;
use serde_json::Value;

use super::bursts::earlier;
use super::chats::{FINE, chat, point};
use super::hostile::{NASTY, nasty_build};
use super::{Furniture, Room, error};
use crate::support::mail::{Letter, MailServer, Security};

fn characters(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.encode_utf16().count())
}

/// What the documentation of each allows.
pub(super) fn check_limits(slack: &Value, discord: &Value, teams: &Value) {
    assert!((1..=4000).contains(&characters(&slack["text"])), "{slack}");
    let blocks = slack["attachments"][0]["blocks"].as_array().expect("blocks");
    assert!(blocks.len() <= 50);
    for block in blocks {
        match block["type"].as_str() {
            Some("section") => {
                let fields = block["fields"].as_array().cloned().unwrap_or_default();
                assert!(fields.len() <= 10 && fields.iter().all(|field| (1..=2000).contains(&characters(&field["text"]))), "{block}");
                assert!(block["text"].is_null() != fields.is_empty() && characters(&block["text"]["text"]) <= 3000, "{block}");
                if fields.is_empty() {
                    assert!(characters(&block["text"]["text"]) >= 1, "{block}");
                }
            }
            Some("context") => assert!(block["elements"].as_array().is_some_and(|elements| (1..=10).contains(&elements.len())), "{block}"),
            Some("rich_text") => {
                for part in block["elements"].as_array().expect("elements") {
                    assert!(["rich_text_section", "rich_text_preformatted"].contains(&part["type"].as_str().unwrap()), "{part}");
                    let elements = part["elements"].as_array().expect("elements");
                    assert!(
                        !elements.is_empty() && elements.iter().all(|text| text["type"] == "text" && characters(&text["text"]) >= 1),
                        "{part}"
                    );
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(slack.to_string().len() < 40_000);

    let embed = &discord["embeds"][0];
    assert_eq!(discord["embeds"].as_array().map(Vec::len), Some(1));
    let fields = embed["fields"].as_array().expect("fields");
    assert!((1..=256).contains(&characters(&embed["title"])) && characters(&embed["description"]) <= 4096 && fields.len() <= 25);
    let mut together = characters(&embed["title"]) + characters(&embed["description"]);
    for field in fields {
        let (name, value) = (characters(&field["name"]), characters(&field["value"]));
        assert!((1..=256).contains(&name) && (1..=1024).contains(&value), "{field}");
        together += name + value;
    }
    assert!(together <= 6000, "{together}");
    assert!(embed["color"].as_u64().is_some_and(|colour| colour <= 0xff_ffff));

    assert!(teams.to_string().len() <= 28 * 1024, "{} bytes", teams.to_string().len());
    assert_eq!(teams["attachments"][0]["contentType"], "application/vnd.microsoft.card.adaptive");
}

async fn cancelled(room: &Room) -> Build {
    let build = room.running(|build| build.commit_message = "Try more salt".into()).await;
    let (organization, id, now) = (build.organization_id, build.id, room.clock.now());
    let failure = Failure { code: FailureCode::Cancelled, message: "It was cancelled.".into(), step: None };
    let fail = move |tx: &cookhouse::store::Change| lifecycle::fail(tx, organization, id, failure, lifecycle::Closing::default(), now);
    room.store.write(fail).await.unwrap()
}

const LOG: [&str; 24] = [
    "LogInit: Display: Running engine for game: Kitchen",
    "[1/412] Compile [x64] Module.Kitchen.cpp",
    "[2/412] Compile [x64] Soup.cpp",
    "/srv/cookhouse/workspaces/kitchen/Source/Kitchen/Private/Soup.cpp:12:20: error: use of undeclared identifier 'salt'",
    "    return Pot->Season(salt, FMath::Clamp(Amount, 0.f, MaxPinch), /*bStir=*/ true);",
    "                       ^",
    "/srv/cookhouse/workspaces/kitchen/Source/Kitchen/Private/Soup.cpp:31:9: error: no matching member function for call to 'Simmer'",
    "        Pot->Simmer(TEXT(\"slowly\"), ESimmer::Low);",
    "        ~~~~~^~~~~~",
    "/srv/cookhouse/workspaces/kitchen/Source/Kitchen/Public/Pot.h:88:7: note: candidate function not viable: requires 3 arguments, but 2 were provided",
    "2 errors generated.",
    "[3/412] Compile [x64] Onion.cpp",
    "[4/412] Compile [x64] Garlic.cpp",
    "",
    "Total execution time: 214.42 seconds",
    "Took 214.7s to run dotnet, ExitCode=6",
    "UnrealBuildTool failed. See log for more details. (/home/builds/Library/Logs/Unreal Engine/LocalBuildLogs/UBT-KitchenEditor-Linux-Development.txt)",
    "AutomationTool executed for 0h 3m 41s",
    "AutomationTool exiting with ExitCode=6 (6)",
    "RunUAT ERROR: AutomationTool was unable to run successfully. Exited with code: 6",
    "BUILD FAILED",
    "authorization: Bearer hunter2secret",
    "Removing the temporary files of the build",
    "The build command failed with exit code 6",
];

/// Ends one build of each kind.
async fn one_of_each(room: &mut Room) -> Vec<(&'static str, Build)> {
    let mut kinds = Vec::new();
    let before = cookhouse::model::Timestamp(room.clock.now().0 - 223_400);
    let build = room
        .running(|build| {
            build.commit = "1f2e3d4c5b6a79880716253443526170fedcba98".into();
            build.commit_message = "Season the soup by hand instead of by table".into();
            build.platform = "Win64".into();
            build.created_at = before;
        })
        .await;
    room.print(build.id, &LOG, &["hunter2secret"]).await;
    let errors = vec![
        error("Source/Kitchen/Private/Soup.cpp", 12, "C2065", "use of undeclared identifier 'salt'"),
        error("Source/Kitchen/Private/Soup.cpp", 31, "C2664", "no matching member function for call to 'Simmer'"),
    ];
    let message = "Compiling the code failed (exit code 6), in the stage BUILD. First error: Source/Kitchen/Private/Soup.cpp(12): use of undeclared identifier 'salt'";
    kinds.push(("failed", room.fail(&build, message, errors).await));
    room.told(&kinds[0].1).await;
    let complete = |build: &mut Build| {
        build.commit = "1f2e3d4c5b6a79880716253443526170fedcba98".into();
        build.commit_message = "Season the soup by hand instead of by table".into();
        build.created_at = before;
    };
    kinds.push(("complete", room.complete(complete).await));
    kinds.push(("cancelled", cancelled(room).await));
    // People are called by the names that they have when they are written of.
    for (_, build) in &kinds {
        room.told(build).await;
    }
    kinds.push(("hostile", nasty_build(room, &NASTY.join(" ")).await));
    kinds
}

#[tokio::test]
#[ignore = "needs a mail server that is not ours: tests/notifications/proof/run.sh starts one"]
async fn a_mail_server_that_is_not_ours_takes_them() {
    let port = std::env::var("COOKHOUSE_SMTP_PORT").expect("COOKHOUSE_SMTP_PORT").parse().expect("a port");
    let authority = std::env::var_os("COOKHOUSE_SMTP_CA").map(PathBuf::from).expect("COOKHOUSE_SMTP_CA");
    let mut room = Room::open(Furniture { trusted: vec![authority], ..Furniture::default() }).await;
    room.mail_by("localhost", port, SmtpSecurity::Starttls, Some(("builds", "wrong"))).await;
    let build = room.failed().await;
    let told = room.told(&build).await;
    let error = told[0].error.as_ref().expect("a wrong password is not taken");
    assert_eq!((error.code, error.status), (NotificationErrorCode::AuthFailed, Some(535)), "{told:?}");
    room.mail_by("localhost", port, SmtpSecurity::Starttls, Some(("builds", "correct horse"))).await;
    for (kind, build) in one_of_each(&mut room).await {
        assert_eq!(room.status(&build).await, Some(NotificationStatus::Sent), "{kind}: {:#?}", room.told(&build).await);
    }
}

#[tokio::test]
async fn messages_of_every_kind_keep_to_the_limits() {
    let directory = std::env::var_os("COOKHOUSE_SAMPLES").map(PathBuf::from);
    let mut furniture = Furniture::default();
    furniture.plan.pause = std::time::Duration::ZERO;
    let mut room = Room::open(furniture).await;
    let server = MailServer::start(Security::None).await;
    room.mail_by("127.0.0.1", server.port, SmtpSecurity::None, None).await;
    let mut chats = Vec::new();
    for channel in [Channel::Slack, Channel::Discord, Channel::Teams] {
        let (receiver, posts) = chat(|_| FINE.to_owned()).await;
        point(&mut room, channel, &receiver.http("/x")).await;
        chats.push((receiver, posts));
    }
    let mut kinds = one_of_each(&mut room).await;
    // A burst, whose end is told together; and what an administrator sends to try the settings.
    let burst = [room.failed().await, room.failed().await, room.failed().await, room.failed().await, room.failed().await];
    for build in &burst[..2] {
        room.told(build).await;
    }
    room.pause().await;
    earlier(&room).await;
    room.begin();
    for build in burst {
        room.told(&build).await;
        kinds.push(("", build));
    }
    kinds.truncate(6);
    kinds.push(("digest", kinds[5].1.clone()));
    assert_eq!(server.taken().len(), 7, "four, two of the burst, and one for the others");
    let organization = room.records.organization.clone();
    room.notifications.try_out(&organization, "Ada", "ada@studio.test").await;
    kinds.push(("test", kinds[5].1.clone()));
    for (place, (kind, _)) in kinds.iter().enumerate() {
        let post = |chat: usize| chats[chat].1.lock().unwrap()[place].clone();
        check_limits(&post(0), &post(1), &post(2));
        let letter = Letter::read(&server.taken()[place].bytes);
        for text in [letter.plain.clone(), letter.html.clone(), post(0).to_string(), post(1).to_string(), post(2).to_string()] {
            assert!(!text.contains("hunter2secret"), "a secret in {kind}");
        }
        let Some(directory) = directory.as_ref().filter(|_| !kind.is_empty()) else { continue };
        let write = |ending: &str, bytes: &[u8]| std::fs::write(directory.join(format!("{kind}.{ending}")), bytes).unwrap();
        write("eml", &server.taken()[place].bytes);
        write("txt", letter.plain.as_bytes());
        write("html", letter.html.as_bytes());
        for (chat, name) in ["slack", "discord", "teams"].into_iter().enumerate() {
            write(&format!("{name}.json"), serde_json::to_string_pretty(&post(chat)).unwrap().as_bytes());
        }
    }
}
