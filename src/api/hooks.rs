//! Deliveries of the git host: taken from outside, shown to admins, dealt with once more (decisions 14).

use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::body::{self, BodyDigest, DescribedBody, FromBody};
use super::cursor::Cursors;
use super::endpoint::{Accepted, Anybody, Call, Head, Ok200};
use super::error::{ApiError, Problem, Result};
use super::query::{FromQuery, Query};
use super::tokens::Paging;
use crate::app;
use crate::builds::inbound::signature::Signature;
use crate::builds::inbound::{Arrival, MAXIMUM_BODY, ReceiveError};
use crate::model::delivery::{Facts, Outcome};
use crate::model::page::Page;
use crate::model::validation::{Invalid, InvalidCode};
use crate::model::{Build, Delivery, Id, Organization, Timestamp};
use crate::store::{Order, Read};

/// Bodies up to this many bytes are read whatever else is going on.
const SMALL: u64 = 256 << 10;
/// Larger ones that are in memory at once: nobody has proven anything while a body is being read.
static LARGE_BODIES: Semaphore = Semaphore::const_new(4);
/// How long a large body waits for its turn; git hosts give up after ten seconds.
const TURN: Duration = Duration::from_secs(8);

/// The spellings of one header, of GitHub and of the servers that speak like it.
const EVENT: [&str; 4] = ["x-github-event", "x-forgejo-event", "x-gitea-event", "x-gogs-event"];
const DELIVERY: [&str; 4] = ["x-github-delivery", "x-forgejo-delivery", "x-gitea-delivery", "x-gogs-delivery"];
/// `sha256=` before the digits.
const SIGNATURE: &str = "x-hub-signature-256";
/// The digits alone.
const BARE_SIGNATURE: [&str; 3] = ["x-forgejo-signature", "x-gitea-signature", "x-gogs-signature"];

/// A body with what its headers say of it.
pub(super) struct Signed {
    event: String,
    delivery_id: String,
    signature: Signature,
    body: Bytes,
    /// A large body's turn, held until it is on disk.
    _turn: Option<SemaphorePermit<'static>>,
}

impl FromBody for Signed {
    async fn from_body(body: Incoming, head: &Head) -> Result<(Self, BodyDigest)> {
        // Nothing is read for somebody who has not even signed.
        let signature = signature(&head.headers).ok_or_else(not_signed)?;
        let mut invalid = Vec::new();
        let mut word = |names: &[&str], allowed: fn(u8) -> bool| {
            let value = text(&head.headers, names).filter(|value| (1..=100).contains(&value.len()) && value.bytes().all(allowed));
            if value.is_none() {
                invalid.push(Invalid::new(names[0], InvalidCode::Required, "must be sent once, with at most 100 visible characters"));
            }
            value.unwrap_or_default().to_owned()
        };
        let event = word(&EVENT, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let delivery_id = word(&DELIVERY, |byte| byte.is_ascii_graphic());
        if !invalid.is_empty() {
            return Err(ApiError::validation(invalid));
        }
        let kind = head.text(CONTENT_TYPE).and_then(|value| value.split(';').next()).unwrap_or_default();
        if !kind.trim().eq_ignore_ascii_case("application/json") {
            return Err(ApiError::new(Problem::UnsupportedMediaType, "Set the webhook's content type to application/json."));
        }
        let too_large = || ApiError::new(Problem::PayloadTooLarge, "The body is larger than 25 MiB.");
        let size = body.size_hint();
        if size.lower() > MAXIMUM_BODY as u64 {
            return Err(too_large());
        }
        let turn = match size.upper() {
            Some(..=SMALL) => None,
            _ => match tokio::time::timeout(TURN, LARGE_BODIES.acquire()).await {
                Ok(Ok(turn)) => Some(turn),
                _ => return Err(ApiError::from(Problem::Draining).retry_after(5)),
            },
        };
        let body = body::read_up_to(body, MAXIMUM_BODY, head).await.map_err(|error| match error.problem {
            Problem::PayloadTooLarge => too_large(),
            _ => error,
        })?;
        // Rows with an `Idempotency-Key` alone need the digest; this has its own way to know what came before.
        Ok((Signed { event, delivery_id, signature, body, _turn: turn }, Sha256::digest(b"").into()))
    }

    fn describe(_: &app::Settings) -> Option<DescribedBody> {
        let schema = json!({"type": "object", "description": "As the git host sends it, up to 25 MiB."});
        Some(DescribedBody { is_required: true, media_type: "application/json", schema: schema.as_object().cloned().unwrap_or_default() })
    }

    fn headers() -> &'static [&'static str] {
        &["HookEvent", "HookDelivery", "HookSignature"]
    }
}

fn not_signed() -> ApiError {
    ApiError::new(Problem::SignatureInvalid, "This was not signed with the webhook secret of a connected organization.")
}

/// The first of these headers that is there, if it is there once.
fn text<'a>(headers: &'a HeaderMap, names: &[&str]) -> Option<&'a str> {
    let name = names.iter().find(|name| headers.contains_key(**name))?;
    let mut values = headers.get_all(*name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn signature(headers: &HeaderMap) -> Option<Signature> {
    match text(headers, &[SIGNATURE]) {
        Some(value) => Signature::parse(value.strip_prefix("sha256=")?),
        None if headers.contains_key(SIGNATURE) => None,
        None => Signature::parse(text(headers, &BARE_SIGNATURE)?),
    }
}

/// `?organization=`: spares trying the secrets of the others on a host of many organizations.
pub(super) struct Meant(Option<Id<Organization>>);

impl FromQuery for Meant {
    fn read(query: &mut Query) -> Result<Option<Self>> {
        let about = "Whose connection it is for: spares the service trying the secrets of the others on a host of many organizations.";
        let organization = query.text("organization", about);
        // One that cannot exist has no secret.
        organization.map(|text| text.parse().map_err(|_| not_signed())).transpose().map(|id| Some(Meant(id)))
    }
}

/// What a git host is answered.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TakenDelivery")]
pub(super) struct Taken {
    /// The git host's own name for the delivery.
    delivery_id: String,
    /// What kind of event it tells of.
    event: String,
    /// It was known already; nothing happens.
    duplicate: bool,
}

/// Takes a delivery; what it comes to is decided after the answer.
pub(super) async fn receive(call: Call<(), Meant, Signed, Anybody>) -> Result<Accepted<Taken>> {
    let Signed { event, delivery_id, signature, body, _turn } = call.body;
    let arrival = Arrival { delivery_id: delivery_id.clone(), event: event.clone(), signature, body, organization: call.query.0 };
    match call.app.builds.receive(arrival).await {
        Ok(is_new) => Ok(Accepted(Taken { delivery_id, event, duplicate: !is_new })),
        Err(ReceiveError::NotSigned) => Err(not_signed()),
        Err(ReceiveError::Store(error)) => Err(error.into()),
    }
}

/// What a git host told, and what came of it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Delivery")]
pub(super) struct DeliveryView {
    /// Its id.
    id: Id<Delivery>,
    /// The git host's own name for it.
    delivery_id: String,
    /// What kind of event it tells of.
    #[schemars(example = &"push")]
    event: String,
    /// When it came.
    received_at: Timestamp,
    /// Bytes of its body.
    size: u64,
    /// `pending` until it was dealt with, then `processed`.
    #[schemars(extend("enum" = ["pending", "processed"]))]
    status: &'static str,
    /// When it was dealt with.
    processed_at: Option<Timestamp>,
    /// What came of it.
    outcome: Option<Outcome>,
    /// The same for people; `""` until it was dealt with.
    message: String,
    /// A push: which repository.
    #[schemars(example = &"studio/kitchen")]
    repository: Option<String>,
    /// A push: which branch or tag.
    #[serde(rename = "ref")]
    #[schemars(example = &"refs/heads/main")]
    reference: Option<String>,
    /// A push: the newest commit.
    commit: Option<String>,
    /// The builds that it started.
    build_ids: Vec<Id<Build>>,
}

impl DeliveryView {
    fn new(delivery: Delivery) -> Self {
        let (repository, reference, commit) = match delivery.facts {
            Some(Facts::Push(push)) => (Some(push.repository), Some(push.reference), Some(push.after).filter(|commit| !commit.is_empty())),
            _ => (None, None, None),
        };
        DeliveryView {
            id: delivery.id,
            delivery_id: delivery.delivery_id,
            event: delivery.event,
            received_at: delivery.received_at,
            size: delivery.size,
            status: if delivery.processed_at.is_some() { "processed" } else { "pending" },
            processed_at: delivery.processed_at,
            outcome: delivery.outcome,
            message: delivery.message,
            repository,
            reference,
            commit,
            build_ids: delivery.build_ids,
        }
    }
}

/// The ledger, newest first.
pub(super) async fn list(call: Call<(), Paging>) -> Result<Ok200<Page<DeliveryView>>> {
    let organization = call.caller.organization();
    let cursors = Cursors::new(&call.app.vault, organization, "listDeliveries", &[])?;
    let after = call.query.cursor.as_deref().map(|cursor| cursors.read::<Delivery>(cursor)).transpose()?;
    let limit = call.query.limit;
    let page = call.app.store.read(|snapshot| snapshot.page::<Delivery>(organization, None, after, Order::NewestFirst, limit))?;
    let next_cursor = page.next.map(|last| cursors.write(last));
    Ok(Ok200(Page { items: page.items.into_iter().map(DeliveryView::new).collect(), next_cursor }))
}

/// Deals with a delivery once more. A commit that was built is not built again by it.
pub(super) async fn replay(call: Call<Id<Delivery>>) -> Result<Accepted<DeliveryView>> {
    let delivery = call.app.builds.replay(call.caller.organization(), call.path).await?;
    delivery.map(|delivery| Accepted(DeliveryView::new(delivery))).ok_or_else(|| Problem::NotFound.into())
}
