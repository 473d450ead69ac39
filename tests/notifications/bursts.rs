//! When builds fail one after the other, the first ones are told, and the others together.

use cookhouse::builds::notices::{BURST, WINDOW};
use cookhouse::model::notification::{Channel, NotificationState};
use cookhouse::model::{Notification, Timestamp};
use cookhouse::store::{Read, Store, StoreError};

use super::chats::{FINE, chat, point};
use super::{Furniture, Room};

/// All messages of the host.
fn all(store: &Store) -> Vec<Notification> {
    let mut found = Vec::new();
    let every: Result<(), StoreError> = store.read(|rows| {
        rows.every(|one: Notification| {
            found.push(one);
            Ok(true)
        })
    });
    every.unwrap();
    found
}

/// As if everything had happened so much earlier.
pub(super) async fn earlier(room: &Room) {
    let back = i64::try_from(WINDOW.as_millis()).unwrap();
    let rows = all(&room.store);
    let job = move |tx: &cookhouse::store::Change| {
        rows.into_iter().try_for_each(|mut one| {
            one.created_at = Timestamp(one.created_at.0 - back);
            one.due_at = Timestamp(one.due_at.0 - back);
            tx.put(&one)
        })
    };
    room.store.write::<(), StoreError>(job).await.unwrap();
}

#[tokio::test]
async fn a_burst_of_failures_is_five_messages_and_one_digest() {
    let mut room = Room::open(Furniture::default()).await;
    let (receiver, posts) = chat(|_| FINE.to_owned()).await;
    room.settle(|settings| settings.notification_emails = Vec::new()).await;
    point(&mut room, Channel::Slack, &receiver.http("/x")).await;
    let mut builds = Vec::new();
    for _ in 0..40 {
        builds.push(room.failed().await);
    }
    // What goes well is told at once, whatever fails.
    let well = room.complete(|_| {}).await;
    room.told(&well).await;
    let slack = |rows: Vec<Notification>| -> Vec<Notification> {
        rows.into_iter().filter(|one| one.destination.channel() == Channel::Slack).collect()
    };
    for build in &builds[..BURST] {
        room.told(build).await;
    }
    let rows = slack(all(&room.store));
    let held: Vec<&Notification> = rows.iter().filter(|one| one.is_held).collect();
    assert_eq!((held.len(), posts.lock().unwrap().len()), (40 - BURST, BURST + 1));
    let due = held[0].due_at;
    assert!(held.iter().all(|one| one.due_at == due && one.state == NotificationState::Pending), "they wait for the same time");
    assert!(due <= held[0].created_at.plus(WINDOW));

    room.pause().await;
    earlier(&room).await;
    room.begin();
    for build in &builds {
        room.told(build).await;
    }
    let posts = posts.lock().unwrap().clone();
    assert_eq!(posts.len(), BURST + 2, "one message for all the others");
    let digest = posts.last().unwrap().to_string();
    assert!(digest.contains("Builds failed: 35 builds, Kitchen") && digest.contains("and 15 more"), "{digest}");
    for build in &builds[BURST..BURST + 20] {
        assert!(digest.contains(build.id.as_str()), "{} is missing", build.id);
    }
    assert!(slack(all(&room.store)).iter().all(|one| one.state == NotificationState::Sent));
    // The window is over: the next failure is told by itself again.
    let build = room.failed().await;
    assert!(!slack(room.told(&build).await)[0].is_held);
}

#[tokio::test]
async fn a_digest_that_is_not_taken_is_tried_again_as_one_and_takes_newcomers_along() {
    let mut room = Room::open(Furniture::default()).await;
    let (receiver, posts) = chat(|count| {
        let busy = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
        if count == BURST + 1 { busy.to_owned() } else { FINE.to_owned() }
    })
    .await;
    point(&mut room, Channel::Discord, &receiver.http("/x")).await;
    let mut builds = Vec::new();
    for _ in 0..BURST + 3 {
        builds.push(room.failed().await);
    }
    for build in &builds[..BURST] {
        room.told(build).await;
    }
    room.pause().await;
    earlier(&room).await;
    room.begin();
    for build in &builds {
        room.told(build).await;
    }
    assert_eq!(posts.lock().unwrap().len(), BURST + 2, "the digest twice");
    let rows = all(&room.store);
    let held: Vec<_> = rows.iter().filter(|one| one.is_held && one.destination.channel() == Channel::Discord).collect();
    assert!(held.len() == 3 && held.iter().all(|one| one.state == NotificationState::Sent && one.attempts == 2), "{held:#?}");
}

#[tokio::test]
async fn records_are_forgotten_and_what_a_build_says_stays() {
    let mut furniture = Furniture::default();
    furniture.plan.kept = std::time::Duration::ZERO;
    let room = Room::open(furniture).await;
    let build = room.failed().await;
    let status = room.status(&build).await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let removed = room.notifications.forget().await.unwrap();
    assert!(removed > 0 && all(&room.store).is_empty());
    assert_eq!(room.read(build.organization_id, build.id).notification_status, status);
}
