//! Messages to webhooks are queued by the store itself, in the transaction that makes them true: none is ever forgotten,
//! and none speaks of something that did not happen.

use std::sync::LazyLock;

use super::key::Key;
use super::read::{Order, Read};
use super::tables::{ORGANIZATIONS_ALL, WEBHOOK_QUEUE};
use super::{Change, StoreError};
use crate::clock::Clock;
use crate::model::webhook::WebhookKind;
use crate::model::webhook::delivery::{DeliveryStatus, WebhookDelivery};
use crate::model::webhook::message::{WebhookMessage, body};
use crate::model::{Build, Delivery, Event, Id, Organization, Project, Timestamp, Webhook};

/// Ids of what is made here increase, as all ids do.
pub(super) static IDS: LazyLock<Clock> = LazyLock::new(Clock::default);

/// Queues the message about an event for every endpoint that wants it. The build and the project are as the event leaves
/// them.
pub(super) fn queue(change: &Change, event: &Event, build: Option<&Build>, project: Option<&Project>) -> Result<(), StoreError> {
    let Some(kind) = WebhookKind::of(&event.what) else { return Ok(()) };
    let mut wanted_by = Vec::new();
    change.for_each::<Webhook>(event.organization_id, None, |webhook| {
        if webhook.wants(kind, event.project_id) {
            wanted_by.push(webhook.id);
        }
        Ok(true)
    })?;
    if wanted_by.is_empty() {
        return Ok(());
    }
    let Some(organization) = change.get::<Organization>(event.organization_id, event.organization_id)? else { return Ok(()) };
    let found = if project.is_none() { change.get::<Project>(event.organization_id, event.project_id)? } else { None };
    let message = message(&organization, kind, event.at, build, project.or(found.as_ref()));
    change.put(&message)?;
    for webhook in wanted_by {
        let delivery = delivery(&message, webhook, kind);
        change.put(&WebhookDelivery { sequence: event.sequence(), build_id: event.build_id, ..delivery })?;
    }
    Ok(())
}

/// Puts a message of which somebody wants to see that it arrives into the ledger of an endpoint. `None`: the organization is
/// no more.
pub fn ping(change: &Change, webhook: &Webhook, now: Timestamp) -> Result<Option<WebhookDelivery>, StoreError> {
    let Some(organization) = change.get::<Organization>(webhook.organization_id, webhook.organization_id)? else { return Ok(None) };
    let message = message(&organization, WebhookKind::Ping, now, None, None);
    change.put(&message)?;
    let delivery = WebhookDelivery { is_asked_for: true, ..delivery(&message, webhook.id, WebhookKind::Ping) };
    change.put(&delivery)?;
    Ok(Some(delivery))
}

/// Puts an entry of the ledger into it once more: the same message, to be sent at once. `None`: the message is not kept any
/// more.
pub fn redeliver(change: &Change, former: &WebhookDelivery) -> Result<Option<WebhookDelivery>, StoreError> {
    let Some(message) = change.get::<WebhookMessage>(former.organization_id, former.message_id)? else { return Ok(None) };
    let delivery = WebhookDelivery {
        sequence: former.sequence,
        build_id: former.build_id,
        is_asked_for: true,
        redelivery_of: Some(former.redelivery_of.unwrap_or(former.id)),
        created_at: IDS.now(),
        ..delivery(&message, former.webhook_id, former.kind)
    };
    change.put(&delivery)?;
    Ok(Some(delivery))
}

fn message(
    organization: &Organization,
    kind: WebhookKind,
    at: Timestamp,
    build: Option<&Build>,
    project: Option<&Project>,
) -> WebhookMessage {
    let body = body(kind, at, build, project, organization);
    WebhookMessage { id: IDS.new_id(), organization_id: organization.id, created_at: at, body }
}

fn delivery(message: &WebhookMessage, webhook: Id<Webhook>, kind: WebhookKind) -> WebhookDelivery {
    WebhookDelivery {
        id: IDS.new_id(),
        organization_id: message.organization_id,
        webhook_id: webhook,
        message_id: message.id,
        kind,
        sequence: 0,
        build_id: None,
        is_asked_for: false,
        redelivery_of: None,
        created_at: message.created_at,
        url: String::new(),
        status: DeliveryStatus::Pending,
        next_attempt_at: None,
        attempts: Vec::new(),
        response: None,
    }
}

/// Removes up to `limit` messages of an endpoint that is no more from the queue. How many there were.
pub fn drop_queue(change: &Change, webhook: Id<Webhook>, limit: usize) -> Result<usize, StoreError> {
    let orphans: Vec<WebhookDelivery> = change.find_on_host(&WEBHOOK_QUEUE, &Key::of_id(webhook), limit)?;
    orphans.iter().try_for_each(|orphan| change.remove(orphan.organization_id, orphan.id).map(|_: bool| ()))?;
    Ok(orphans.len())
}

/// Removes up to `limit` rows of each ledger of each organization that came into it before `before`, oldest first: what git
/// hosts told us, and what endpoints were told. A delivery of a git host that nobody dealt with stays. How many are gone.
pub fn prune(change: &Change, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
    let organizations: Vec<Id<Organization>> = change.ids_on_host(&ORGANIZATIONS_ALL, &Key::all(), usize::MAX)?;
    let mut removed = 0;
    for organization in organizations {
        let inbound = change.page::<Delivery>(organization, None, None, Order::OldestFirst, limit)?.items;
        for delivery in inbound.into_iter().take_while(|delivery| delivery.received_at < before && delivery.processed_at.is_some()) {
            removed += usize::from(change.remove(organization, delivery.id)?);
        }
        let deliveries = change.page::<WebhookDelivery>(organization, None, None, Order::OldestFirst, limit)?.items;
        for delivery in deliveries.into_iter().take_while(|delivery| delivery.created_at < before) {
            removed += usize::from(change.remove(organization, delivery.id)?);
        }
        let messages = change.page::<WebhookMessage>(organization, None, None, Order::OldestFirst, limit)?.items;
        for message in messages.into_iter().take_while(|message| message.created_at < before) {
            removed += usize::from(change.remove(organization, message.id)?);
        }
    }
    Ok(removed)
}
