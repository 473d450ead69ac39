//! Who has to be told that a build has ended, noted in the transaction that ends it: told once, whatever happens to the
//! service then. `notifications` sends.

use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::model::notification::{Destination, Notification, NotificationState, NotificationStatus};
use crate::model::{Build, BuildSetting, Id, Organization, Project, Status, Timestamp, TriggeredBy, User};
use crate::store::key::Key;
use crate::store::tables::NOTIFICATIONS_OF_FAILURES;
use crate::store::{Change, Order, Read, StoreError};

/// So many failures in [`WINDOW`] are told one by one; what comes after them is told together.
pub const BURST: usize = 5;
/// See [`BURST`].
pub const WINDOW: Duration = Duration::from_secs(10 * 60);
/// What is told together waits at least so long for more.
const SHORTEST_WAIT: Duration = Duration::from_secs(60);

/// Notes who has to be told of `build`, which has just ended, and what its `notificationStatus` is from here on.
pub(super) fn note(tx: &Change, build: &mut Build, now: Timestamp) -> Result<(), StoreError> {
    if !matches!(build.status, Status::Complete | Status::Failed) {
        return Ok(());
    }
    let organization = build.organization_id;
    let setting: Option<BuildSetting> = tx.get(organization, build.build_setting_id)?;
    let Some(owner) = tx.get::<Organization>(organization, organization)? else { return Ok(()) };
    if !setting.is_some_and(|setting| setting.notify_on_complete) {
        return Ok(());
    }
    let project: Option<Project> = tx.get(organization, build.project_id)?;
    let destinations = destinations(tx, &owner, build)?;
    let mut states = Vec::with_capacity(destinations.len());
    for destination in destinations {
        let is_failure = build.status == Status::Failed;
        let due_at = if is_failure { held_until(tx, organization, &destination, now)? } else { None };
        let notification = Notification {
            id: id(build.id, &destination, now),
            organization_id: organization,
            build_id: build.id,
            project_id: build.project_id,
            project_name: project.as_ref().map(|project| project.name.clone()).unwrap_or_default(),
            destination,
            is_failure,
            is_held: due_at.is_some(),
            state: NotificationState::Pending,
            created_at: now,
            due_at: due_at.unwrap_or(now),
            attempts: 0,
            finished_at: None,
            error: None,
        };
        tx.put(&notification)?;
        states.push(notification.state);
    }
    build.notification_status = Some(NotificationStatus::of(states));
    Ok(())
}

/// The person who started it and the organization's addresses, each once, and the chats that it has.
fn destinations(rows: &impl Read, organization: &Organization, build: &Build) -> Result<Vec<Destination>, StoreError> {
    let settings = &organization.integration_settings;
    let starter = match build.triggered_by {
        TriggeredBy::User(id) => rows.get::<User>(organization.id, id)?.filter(|user| user.invitation.is_none()),
        // A script is not the person who made its token.
        TriggeredBy::ApiToken(_) | TriggeredBy::Push(_) | TriggeredBy::Cron => None,
    };
    let mut addresses: Vec<String> = starter.map(|user| user.email).into_iter().chain(settings.notification_emails.clone()).collect();
    let mut known = std::collections::BTreeSet::new();
    addresses.retain(|address| known.insert(address.to_lowercase()));
    let mails = addresses.into_iter().map(|to| Destination::Email { to });
    let chats = [
        (Destination::Slack, &settings.slack_webhook_url),
        (Destination::Discord, &settings.discord_webhook_url),
        (Destination::Teams, &settings.teams_webhook_url),
    ];
    Ok(mails.chain(chats.into_iter().filter(|(_, address)| address.is_some()).map(|(chat, _)| chat)).collect())
}

/// The same for the same build and destination. Its time is that of the build's end.
fn id(build: Id<Build>, destination: &Destination, now: Timestamp) -> Id<Notification> {
    let digest = Sha256::digest(format!("{build} {}", destination.key()));
    let chance = digest.iter().take(9).fold(0u128, |chance, byte| chance << 8 | u128::from(*byte));
    Id::from_parts(u64::try_from(now.0).unwrap_or_default(), chance)
}

/// When a further failure is told: `None` at once, else together with what else fails until then.
fn held_until(
    rows: &impl Read,
    organization: Id<Organization>,
    destination: &Destination,
    now: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    let key = Key::of_text(&destination.key());
    let newest: Vec<Notification> = rows.find_all(organization, &NOTIFICATIONS_OF_FAILURES, &key, Order::NewestFirst, BURST)?;
    let Some(first_of_burst) = newest.get(BURST - 1).filter(|first| first.created_at.plus(WINDOW) > now) else { return Ok(None) };
    // Whoever waits already takes the newcomer along.
    let waiting = newest.iter().find(|one| one.is_held && one.state == NotificationState::Pending).map(|one| one.due_at);
    let due = waiting.unwrap_or_else(|| first_of_burst.created_at.plus(WINDOW).max(now.plus(SHORTEST_WAIT)));
    Ok(Some(due.clamp(now, now.plus(WINDOW))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_tells_each_destination_once() {
        let (one, other): (Id<Build>, Id<Build>) = (Id::from_parts(1, 1), Id::from_parts(1, 2));
        let mail = |to: &str| Destination::Email { to: to.into() };
        assert_eq!(id(one, &Destination::Slack, Timestamp(5)), id(one, &Destination::Slack, Timestamp(5)));
        let ids = [
            id(one, &Destination::Slack, Timestamp(5)),
            id(one, &Destination::Teams, Timestamp(5)),
            id(one, &mail("a@studio.test"), Timestamp(5)),
            id(one, &mail("b@studio.test"), Timestamp(5)),
            id(other, &Destination::Slack, Timestamp(5)),
        ];
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
    }
}
