//! The ledger of an endpoint: every message, every try, and once more (decisions 13).

use schemars::JsonSchema;
use serde::Serialize;

use super::cursor::Cursors;
use super::endpoint::{Accepted, Call, Ok200, Resource};
use super::error::{ApiError, Problem, Result};
use super::query::{FromQuery, Query};
use super::webhooks::find;
use crate::model::page::Page;
use crate::model::webhook::WebhookKind;
use crate::model::webhook::delivery::{Attempt, DeliveryStatus, Header, Response, WebhookDelivery};
use crate::model::webhook::message::WebhookMessage;
use crate::model::{Build, Id, Organization, Timestamp, Webhook};
use crate::store::key::Key;
use crate::store::{Order, Read, tables, webhook_queue};

/// A message to an endpoint, and what became of it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WebhookDelivery")]
pub(super) struct DeliveryView {
    /// Names this entry of the ledger.
    id: Id<WebhookDelivery>,
    /// `webhook-id` of the message: the same on every try, to every endpoint, and when it is redelivered.
    message_id: Id<WebhookMessage>,
    /// Of which kind the message is.
    #[serde(rename = "type")]
    kind: WebhookKind,
    /// The event's place in the event log, as `GET /events` has it as its `id`; null for a ping.
    event: Option<String>,
    /// The build it is about; null: about none.
    build_id: Option<Id<Build>>,
    /// The entry that it repeats; null: it is the first.
    redelivery_of: Option<Id<WebhookDelivery>>,
    /// When it came into the ledger.
    created_at: Timestamp,
    /// `pending` until the endpoint took it (`delivered`) or it is not tried any more (`failed`).
    status: DeliveryStatus,
    /// When it is tried next; null: now, behind what was queued before it, or never.
    next_attempt_at: Option<Timestamp>,
    /// Every try, oldest first.
    attempts: Vec<Attempt>,
}

impl DeliveryView {
    pub(super) fn new(delivery: WebhookDelivery) -> Self {
        DeliveryView {
            id: delivery.id,
            message_id: delivery.message_id,
            kind: delivery.kind,
            event: (delivery.sequence > 0).then(|| delivery.sequence.to_string()),
            build_id: delivery.build_id,
            redelivery_of: delivery.redelivery_of,
            created_at: delivery.created_at,
            status: delivery.status,
            next_attempt_at: delivery.next_attempt_at,
            attempts: delivery.attempts,
        }
    }
}

/// The same with what was sent and answered.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WebhookDeliveryDetail")]
pub(super) struct DeliveryDetail {
    #[serde(flatten)]
    delivery: DeliveryView,
    /// What was sent the last time, or will be.
    request: Request,
    /// The beginning of the last answer; null: nothing was ever answered.
    response: Option<Response>,
}

/// What is sent to an endpoint.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WebhookRequest")]
struct Request {
    /// Where to; `""` before the first try.
    url: String,
    /// The headers that belong to the message. The signature is made for each try and not kept.
    headers: Vec<Header>,
    /// The message, byte for byte; null: it is not kept any more.
    body: Option<String>,
}

impl DeliveryDetail {
    fn new(rows: &impl Read, delivery: WebhookDelivery) -> Result<Self> {
        let message: Option<WebhookMessage> = rows.get(delivery.organization_id, delivery.message_id)?;
        let mut headers = vec![("content-type", "application/json".to_owned()), ("webhook-id", delivery.message_id.to_string())];
        headers.extend(delivery.attempts.last().map(|attempt| ("webhook-timestamp", attempt.at.seconds().to_string())));
        let headers = headers.into_iter().map(|(name, value)| Header { name: name.to_owned(), value }).collect();
        let request = Request { url: delivery.url.clone(), headers, body: message.map(|message| message.body) };
        Ok(DeliveryDetail { response: delivery.response.clone(), request, delivery: DeliveryView::new(delivery) })
    }
}

/// GET `/webhooks/:id/deliveries`
pub(super) struct ListDeliveries {
    status: Option<String>,
    limit: usize,
    cursor: Option<String>,
}

impl FromQuery for ListDeliveries {
    fn read(query: &mut Query) -> Result<Option<Self>> {
        let status = query.one_of("status", DeliveryStatus::ALL.map(DeliveryStatus::as_str), "Only those that stand there.");
        Ok(Some(ListDeliveries { status, limit: query.limit()?, cursor: query.cursor() }))
    }
}

/// The ledger, newest first.
pub(super) async fn list(call: Call<Id<Webhook>, ListDeliveries>) -> Result<Ok200<Page<DeliveryView>>> {
    let (organization, id) = (call.caller.organization(), call.path);
    let ListDeliveries { status, limit, cursor } = call.query;
    let cursors = Cursors::new(&call.app.vault, organization, "listWebhookDeliveries", &[Some(id.as_str()), status.as_deref()])?;
    let after = cursor.as_deref().map(|cursor| cursors.read::<WebhookDelivery>(cursor)).transpose()?;
    let page = call.app.store.read(|snapshot| {
        find(snapshot, organization, id)?;
        let walk = match &status {
            None => (&tables::WEBHOOK_DELIVERIES_BY_WEBHOOK, Key::of_id(id)),
            Some(status) => (&tables::WEBHOOK_DELIVERIES_BY_STATUS, Key::of_id(id).and_text(status)),
        };
        Ok::<_, ApiError>(snapshot.page::<WebhookDelivery>(organization, Some(walk), after, Order::NewestFirst, limit)?)
    })?;
    let next_cursor = page.next.map(|last| cursors.write(last));
    Ok(Ok200(Page { items: page.items.into_iter().map(DeliveryView::new).collect(), next_cursor }))
}

fn find_delivery(
    rows: &impl Read,
    organization: Id<Organization>,
    (webhook, id): (Id<Webhook>, Id<WebhookDelivery>),
) -> Result<WebhookDelivery> {
    find(rows, organization, webhook)?;
    let delivery: Option<WebhookDelivery> = rows.get(organization, id)?;
    delivery.filter(|delivery| delivery.webhook_id == webhook).ok_or_else(|| Problem::NotFound.into())
}

/// One entry, with what was sent and answered.
pub(super) async fn show(call: Call<(Id<Webhook>, Id<WebhookDelivery>)>) -> Result<Resource<DeliveryDetail>> {
    call.app.store.read(|snapshot| {
        let delivery = find_delivery(snapshot, call.caller.organization(), call.path)?;
        // Only the service changes it.
        Ok(Resource { value: DeliveryDetail::new(snapshot, delivery)?, version: 0 })
    })
}

/// Sends a message once more, at once: a new entry of the ledger with the same `webhook-id`.
pub(super) async fn redeliver(call: Call<(Id<Webhook>, Id<WebhookDelivery>)>) -> Result<Accepted<DeliveryView>> {
    let (organization, path, webhooks) = (call.caller.organization(), call.path, call.app.webhooks.clone());
    let ask = move |change: &crate::store::Change| {
        let former = find_delivery(change, organization, path)?;
        let gone = || ApiError::new(Problem::NotFound, "The message is not kept any more.");
        let delivery = webhook_queue::redeliver(change, &former)?.ok_or_else(gone)?;
        webhooks.wake(change);
        Ok::<_, ApiError>(Accepted(DeliveryView::new(delivery)))
    };
    call.app.store.write(ask).await
}
