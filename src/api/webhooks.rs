//! Endpoints that are told what happens (decisions 13).

use schemars::JsonSchema;
use serde::Serialize;

use super::body::{self, Change, Check, Fault, Fields, ReadFields};
use super::conditional::check_match;
use super::cursor::Cursors;
use super::endpoint::{Accepted, Call, Created, NoContent, Ok200, Resource};
use super::error::{ApiError, Problem, Result};
use super::tokens::{Paging, id};
use super::urls;
use super::webhook_deliveries::DeliveryView;
use crate::app::App;
use crate::model::page::Page;
use crate::model::validation::InvalidCode;
use crate::model::webhook::{Disabled, FormerSecret, MOST_WEBHOOKS, WebhookKind};
use crate::model::{Id, Organization, Project, Timestamp, Webhook};
use crate::store::key::Key;
use crate::store::{Order, Read, StoreError, tables, webhook_queue};

const LONGEST_DESCRIPTION: usize = 1000;
/// Projects that one endpoint may be limited to.
const LIMITED_TO: usize = 100;
/// Waiting messages are counted up to this.
const COUNTED: usize = 1000;
/// Hours that a former secret still signs: by default, and at the most.
const OVERLAP: u32 = 24;
const LONGEST_OVERLAP: u32 = 168;
/// Secrets that sign besides the newest.
const FORMER_SECRETS: usize = 3;

/// An endpoint that is told what happens.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Webhook")]
pub(super) struct WebhookView {
    /// Its id.
    id: Id<Webhook>,
    /// Where messages are sent.
    #[schemars(example = &"https://hooks.studio.example/builds")]
    url: String,
    /// Of what it is told. A `ping` comes whether or not it is named.
    events: Vec<WebhookKind>,
    /// The only projects that it is told of; null: all.
    project_ids: Option<Vec<Id<Project>>>,
    /// What people say of it; `""` when nothing.
    #[schemars(example = &"The release calendar")]
    description: String,
    /// Whether what happens is queued for it and sent. Switched off, what is queued already waits.
    enabled: bool,
    /// Why the service switched it off; null: it did not, or somebody switched it on again.
    disabled: Option<Disabled>,
    /// Messages that wait to be taken, counted up to 1000.
    waiting: usize,
    /// When the next one is tried; null: nothing waits, it is on its way, or the endpoint is switched off.
    next_attempt_at: Option<Timestamp>,
    /// How long messages are signed with a former secret, too; null: with the newest alone.
    former_secret_until: Option<Timestamp>,
    /// When it was made.
    created_at: Timestamp,
    /// When somebody last changed it.
    updated_at: Timestamp,
    /// What its messages are signed with, `whsec_` and base64. Only in the answer that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl WebhookView {
    fn new(rows: &impl Read, webhook: &Webhook, now: Timestamp, secret: Option<String>) -> std::result::Result<Self, StoreError> {
        let Webhook { id, url, events, project_ids, description, enabled, disabled, created_at, updated_at, .. } = webhook.clone();
        let key = Key::of_id(id);
        let waiting = rows.count(webhook.organization_id, &tables::WEBHOOK_QUEUE, &key, COUNTED)?;
        let head = rows.find_on_host(&tables::WEBHOOK_QUEUE, &key, 1)?.pop().filter(|_| enabled);
        let former_secret_until = webhook.former_secrets.iter().map(|former| former.until).filter(|until| *until > now).max();
        let next_attempt_at = head.and_then(|head| head.next_attempt_at);
        Ok(WebhookView {
            id,
            url,
            events,
            project_ids,
            description,
            enabled,
            disabled,
            waiting,
            next_attempt_at,
            former_secret_until,
            created_at,
            updated_at,
            secret,
        })
    }
}

/// An endpoint of the organization.
pub(super) fn find(rows: &impl Read, organization: Id<Organization>, id: Id<Webhook>) -> Result<Webhook> {
    rows.get(organization, id)?.ok_or_else(|| Problem::NotFound.into())
}

/// Endpoints, oldest first.
pub(super) async fn list(call: Call<(), Paging>) -> Result<Ok200<Page<WebhookView>>> {
    let (organization, limit, now) = (call.caller.organization(), call.query.limit, call.app.clock.now());
    let cursors = Cursors::new(&call.app.vault, organization, "listWebhooks", &[])?;
    let after = call.query.cursor.as_deref().map(|cursor| cursors.read::<Webhook>(cursor)).transpose()?;
    call.app.store.read(|snapshot| {
        let page = snapshot.page::<Webhook>(organization, None, after, Order::OldestFirst, limit)?;
        let items =
            page.items.iter().map(|webhook| WebhookView::new(snapshot, webhook, now, None)).collect::<std::result::Result<_, _>>()?;
        Ok(Ok200(Page { items, next_cursor: page.next.map(|last| cursors.write(last)) }))
    })
}

/// One endpoint.
pub(super) async fn show(call: Call<Id<Webhook>>) -> Result<Resource<WebhookView>> {
    call.app.store.read(|snapshot| {
        let webhook = find(snapshot, call.caller.organization(), call.path)?;
        let value = WebhookView::new(snapshot, &webhook, call.app.clock.now(), None)?;
        Ok(Resource { value, version: webhook.version })
    })
}

/// Body of POST `/webhooks`
pub(super) struct NewWebhook {
    url: String,
    events: Vec<WebhookKind>,
    project_ids: Option<Vec<Id<Project>>>,
    description: String,
    enabled: bool,
}

fn url() -> Check<'static, String> {
    let check = urls::address().and(|address| Ok(address.text));
    check.about("Where messages are sent: https, or http to a private or loopback address.").example("https://hooks.studio.example/builds")
}

fn events() -> Check<'static, Vec<WebhookKind>> {
    let kind = body::one_of(WebhookKind::ALL.iter().map(|kind| kind.as_str()));
    let kind = kind.and(|text| text.parse().map_err(|()| Fault::invalid("is no kind of event")));
    let kinds = body::list(WebhookKind::ALL.len(), kind).and(|mut kinds: Vec<WebhookKind>| {
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.is_empty() { Err(Fault::invalid("must name at least one kind")) } else { Ok(kinds) }
    });
    kinds.with("minItems", 1).about("Of what it is told.").example(vec!["build.completed", "build.failed"])
}

fn projects() -> Check<'static, Vec<Id<Project>>> {
    body::list(LIMITED_TO, id::<Project>()).about("The only projects that it is told of; null or absent: all.")
}

fn description() -> Check<'static, String> {
    body::prose(LONGEST_DESCRIPTION).about("What people say of it.").example("The release calendar")
}

fn enabled() -> Check<'static, bool> {
    body::boolean().about("Whether what happens is queued for it and sent.")
}

/// Cannot be written; the rest of what is shown.
const READ_ONLY: [&str; 9] =
    ["id", "disabled", "waiting", "nextAttemptAt", "formerSecretUntil", "createdAt", "updatedAt", "secret", "organizationId"];

impl ReadFields for NewWebhook {
    fn read(fields: &mut Fields) -> Option<Self> {
        let url = fields.required("url", url());
        let events = fields.required("events", events());
        let project_ids = fields.change("projectIds", projects()).value();
        let description = fields.change("description", description()).value().unwrap_or_default();
        let enabled = fields.optional("enabled", enabled().default_is(true)).unwrap_or(true);
        fields.read_only(&READ_ONLY);
        Some(NewWebhook { url: url?, events: events?, project_ids, description, enabled })
    }
}

fn check_address(app: &App, url: &str) -> Result<()> {
    app.webhooks.check_url(url).map_err(|error| ApiError::field("url", InvalidCode::InvalidValue, error.message))
}

fn check_projects(rows: &impl Read, organization: Id<Organization>, projects: Option<&Vec<Id<Project>>>) -> Result<()> {
    for project in projects.into_iter().flatten() {
        if rows.get::<Project>(organization, *project)?.is_none() {
            return Err(ApiError::field("projectIds", InvalidCode::InvalidValue, "names a project that there is not"));
        }
    }
    Ok(())
}

/// Makes an endpoint.
pub(super) async fn create(call: Call<(), (), NewWebhook>) -> Result<Created<WebhookView>> {
    let (app, organization, idempotency) = (call.app, call.caller.organization(), call.idempotency);
    let NewWebhook { url, events, project_ids, description, enabled } = call.body;
    check_address(&app, &url)?;
    let (id, now) = (app.clock.new_id(), app.clock.now());
    let (secret, sealed) = app.webhooks.new_secret(id).map_err(ApiError::internal)?;
    let webhook = Webhook {
        id,
        organization_id: organization,
        url,
        events,
        project_ids,
        description,
        enabled,
        disabled: None,
        secret: sealed,
        former_secrets: Vec::new(),
        created_at: now,
        updated_at: now,
        version: 1,
    };
    let insert = move |change: &crate::store::Change| {
        check_projects(change, organization, webhook.project_ids.as_ref())?;
        if change.page::<Webhook>(organization, None, None, Order::OldestFirst, MOST_WEBHOOKS)?.items.len() >= MOST_WEBHOOKS {
            let message = format!("An organization has at most {MOST_WEBHOOKS} webhooks; delete one that nobody needs.");
            return Err(ApiError::field("url", InvalidCode::NotAllowed, message));
        }
        change.put(&webhook)?;
        let view = WebhookView::new(change, &webhook, now, Some(secret.reveal().clone()))?;
        let created = Created::new(&format!("/webhooks/{id}"), &view, Some(webhook.version))?;
        idempotency.remember(change, &created)?;
        Ok(created)
    };
    app.store.write(insert).await
}

/// Body of PATCH `/webhooks/:id`
pub(super) struct WebhookChange {
    url: Option<String>,
    events: Option<Vec<WebhookKind>>,
    project_ids: Change<Vec<Id<Project>>>,
    description: Change<String>,
    enabled: Option<bool>,
}

impl ReadFields for WebhookChange {
    fn read(fields: &mut Fields) -> Option<Self> {
        let url = fields.optional("url", url());
        let events = fields.optional("events", events());
        let project_ids = fields.change("projectIds", projects());
        let description = fields.change("description", description());
        let enabled = fields.optional("enabled", enabled());
        fields.read_only(&READ_ONLY);
        Some(WebhookChange { url, events, project_ids, description, enabled })
    }
}

/// Changes an endpoint. What waits for it is tried at once if it is on.
pub(super) async fn change(call: Call<Id<Webhook>, (), WebhookChange>) -> Result<Resource<WebhookView>> {
    let (app, organization, head, id) = (call.app, call.caller.organization(), call.head, call.path);
    let (webhooks, now) = (app.webhooks.clone(), app.clock.now());
    let WebhookChange { url, events, project_ids, description, enabled } = call.body;
    if let Some(url) = &url {
        check_address(&app, url)?;
    }
    let update = move |change: &crate::store::Change| {
        let mut webhook = find(change, organization, id)?;
        check_match(&head, webhook.version)?;
        if let Change::Value(projects) = &project_ids {
            check_projects(change, organization, Some(projects))?;
        }
        let is_mended = url.as_ref().is_some_and(|url| *url != webhook.url) || (enabled == Some(true) && !webhook.enabled);
        webhook.url = url.unwrap_or(webhook.url);
        webhook.events = events.unwrap_or(webhook.events);
        project_ids.apply(&mut webhook.project_ids);
        description.apply_or(&mut webhook.description, String::new());
        if let Some(enabled) = enabled {
            webhook.enabled = enabled;
            webhook.disabled = None;
        }
        webhook.updated_at = now;
        webhook.version += 1;
        change.put(&webhook)?;
        if is_mended && webhook.enabled {
            webhooks.resume(change, id)?;
        }
        let value = WebhookView::new(change, &webhook, now, None)?;
        Ok::<_, ApiError>(Resource { value, version: webhook.version })
    };
    app.store.write(update).await
}

/// Removes an endpoint, and what waits for it. Its ledger goes with time.
pub(super) async fn remove(call: Call<Id<Webhook>>) -> Result<NoContent> {
    let (organization, head, id, webhooks) = (call.caller.organization(), call.head, call.path, call.app.webhooks.clone());
    let delete = move |change: &crate::store::Change| {
        let webhook = find(change, organization, id)?;
        check_match(&head, webhook.version)?;
        change.remove(organization, webhook.id)?;
        webhooks.wake(change);
        Ok::<_, ApiError>(NoContent)
    };
    call.app.store.write(delete).await
}

/// Body of POST `/webhooks/:id/rotate-secret`
pub(super) struct Rotation {
    overlap_hours: u32,
}

impl ReadFields for Rotation {
    const IS_OPTIONAL: bool = true;

    fn read(fields: &mut Fields) -> Option<Self> {
        let hours = body::number(0, LONGEST_OVERLAP).about("How long messages are signed with the former secret, too; 0: not at all.");
        let overlap_hours = fields.optional("overlapHours", hours.default_is(OVERLAP)).unwrap_or(OVERLAP);
        Some(Rotation { overlap_hours })
    }
}

/// Gives an endpoint a new secret; for a while messages are signed with both.
pub(super) async fn rotate(call: Call<Id<Webhook>, (), Rotation>) -> Result<Created<WebhookView>> {
    let (app, organization, id, idempotency) = (call.app, call.caller.organization(), call.path, call.idempotency);
    let (now, overlap) = (app.clock.now(), std::time::Duration::from_secs(u64::from(call.body.overlap_hours) * 3600));
    let (secret, sealed) = app.webhooks.new_secret(id).map_err(ApiError::internal)?;
    let update = move |change: &crate::store::Change| {
        let mut webhook = find(change, organization, id)?;
        let former = std::mem::replace(&mut webhook.secret, sealed);
        webhook.former_secrets.insert(0, FormerSecret { secret: former, until: now.plus(overlap) });
        webhook.former_secrets.retain(|former| former.until > now);
        webhook.former_secrets.truncate(FORMER_SECRETS);
        webhook.updated_at = now;
        webhook.version += 1;
        change.put(&webhook)?;
        let view = WebhookView::new(change, &webhook, now, Some(secret.reveal().clone()))?;
        let created = Created::new(&format!("/webhooks/{id}"), &view, Some(webhook.version))?;
        idempotency.remember(change, &created)?;
        Ok::<_, ApiError>(created)
    };
    app.store.write(update).await
}

/// Sends an endpoint a message of which somebody wants to see that it arrives.
pub(super) async fn ping(call: Call<Id<Webhook>>) -> Result<Accepted<DeliveryView>> {
    let (organization, id, webhooks, now) = (call.caller.organization(), call.path, call.app.webhooks.clone(), call.app.clock.now());
    let ask = move |change: &crate::store::Change| {
        let webhook = find(change, organization, id)?;
        let delivery = webhook_queue::ping(change, &webhook, now)?.ok_or(Problem::NotFound)?;
        webhooks.wake(change);
        Ok::<_, ApiError>(Accepted(DeliveryView::new(delivery)))
    };
    call.app.store.write(ask).await
}
