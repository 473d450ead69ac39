//! Administrators are told when the service switched off something of theirs: by mail to each of them, and wherever builds
//! are told of. A notice stays on record until everybody took it or the plan is over.

use std::collections::BTreeSet;
use std::time::Duration;

use super::outcome::Again;
use super::sending::Post;
use super::{LOOK_AGAIN, Notifications, report};
use crate::model::notification::Destination;
use crate::model::permission::Role;
use crate::model::{Notice, Organization, Timestamp, User};
use crate::store::key::Key;
use crate::store::tables::NOTICES_ALL;
use crate::store::{Change, Read, StoreError};

/// Notices that are looked at together.
const AT_ONCE: usize = 50;

impl Notifications {
    /// Tells until it is dropped.
    pub(super) async fn tell_administrators(&self) {
        let mut events = self.0.parts.store.events();
        loop {
            events.borrow_and_update();
            let pause = self.tell_due().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "administrators could not be told");
                LOOK_AGAIN
            });
            tokio::select! {
                _ = events.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Tries what is due; how long until the next is.
    async fn tell_due(&self) -> Result<Duration, StoreError> {
        let now = self.0.parts.clock.now();
        let all: Vec<Notice> = self.0.parts.store.read(|rows| rows.find_on_host(&NOTICES_ALL, &Key::all(), AT_ONCE))?;
        let (due, later): (Vec<Notice>, Vec<Notice>) = all.into_iter().partition(|notice| notice.due_at <= now);
        for notice in due {
            self.tell(notice, now).await?;
        }
        let next = later.iter().map(|notice| notice.due_at).min();
        Ok(next.map_or(LOOK_AGAIN, |next| LOOK_AGAIN.min(Duration::from_millis(next.since(now).max(1)))))
    }

    async fn tell(&self, mut notice: Notice, now: Timestamp) -> Result<(), StoreError> {
        let found = self.0.parts.store.read(|rows| {
            let organization: Option<Organization> = rows.get(notice.organization_id, notice.organization_id)?;
            organization.map(|organization| Ok::<_, StoreError>((destinations(rows, &organization)?, organization))).transpose()
        })?;
        let mut is_over = true;
        if let Some((destinations, organization)) = found {
            let report = report::notice(&self.0.links, &notice);
            for destination in destinations.into_iter().filter(|destination| !notice.told.contains(&destination.key())).collect::<Vec<_>>()
            {
                let mut post = Post::default();
                match self.dispatch(&organization, &destination, &report, notice.id.as_str(), &mut post).await {
                    Ok(_) => notice.told.push(destination.key()),
                    Err(trouble) => {
                        is_over &= trouble.again == Again::Never;
                        let channel = destination.channel().as_str();
                        tracing::warn!(channel, error = trouble.message, "an administrator could not be told: {}", notice.subject);
                    }
                }
                post.close().await;
            }
        }
        notice.attempts += 1;
        let wait = if is_over { None } else { self.0.settings.plan.wait(notice.attempts, None) };
        let record = move |tx: &Change| match wait {
            Some(wait) => tx.put(&Notice { due_at: now.plus(wait), ..notice }),
            None => tx.remove(notice.organization_id, notice.id).map(|_: bool| ()),
        };
        self.0.parts.store.write(record).await
    }
}

/// Every administrator, the organization's addresses, and its chats.
fn destinations(rows: &impl Read, organization: &Organization) -> Result<Vec<Destination>, StoreError> {
    let settings = &organization.integration_settings;
    let mut addresses = Vec::new();
    rows.for_each::<User>(organization.id, None, |user| {
        if user.role == Role::Admin && user.invitation.is_none() {
            addresses.push(user.email);
        }
        Ok(true)
    })?;
    let mut known = BTreeSet::new();
    addresses.extend(settings.notification_emails.clone());
    addresses.retain(|address| known.insert(address.to_lowercase()));
    let mut all: Vec<Destination> = addresses.into_iter().map(|to| Destination::Email { to }).collect();
    all.extend(settings.slack_webhook_url.as_ref().map(|_| Destination::Slack));
    all.extend(settings.discord_webhook_url.as_ref().map(|_| Destination::Discord));
    all.extend(settings.teams_webhook_url.as_ref().map(|_| Destination::Teams));
    Ok(all)
}
