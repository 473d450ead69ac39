//! The audit log (decisions 4).

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::check::{Check, Fault};
use super::cursor::Cursors;
use super::endpoint::{Call, Ok200};
use super::error::Result;
use super::query::{FromQuery, Query};
use super::tokens::time;
use crate::model::audit::{Actor, Touched};
use crate::model::page::Page;
use crate::model::{ApiToken, AuditEntry, Id, Timestamp, User};
use crate::store::key::Key;
use crate::store::{Order, Read, StoreError, tables};

/// Entries that one request looks at: with several filters a page may be short, or empty, and still have a next one.
const LOOKED_AT: usize = 2000;
const LONGEST_FILTER: usize = 64;
const OUTCOMES: [&str; 2] = ["done", "refused"];

/// Something that was changed, or that somebody was refused to change.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuditEntry")]
pub(super) struct EntryView {
    /// Its id.
    id: Id<AuditEntry>,
    /// When it happened.
    at: Timestamp,
    /// Who it was.
    actor: ActorView,
    /// From where; null on the host itself.
    #[schemars(example = &"192.0.2.7")]
    address: Option<String>,
    /// What was asked for, by its name in this document; or a command on the host.
    #[schemars(example = &"deleteProject")]
    operation_id: String,
    /// The request's id in the service's log.
    #[schemars(example = &"01k7f9zq4v6m2x8c3b5n0t7h")]
    request_id: String,
    /// Whether it was done.
    #[schemars(extend("enum" = OUTCOMES))]
    outcome: &'static str,
    /// Why it was refused.
    code: Option<String>,
    /// What it was about.
    resources: Vec<Touched>,
    /// How many more resources there were.
    resources_omitted: u64,
    /// How many refusals of the same kind were left out before this one.
    refusals_omitted: u64,
    /// Counts the organization's entries.
    sequence: u64,
    /// The hash of the entry before: nothing can be taken out unnoticed.
    previous_hash: String,
    /// The hash of this entry and of the one before.
    hash: String,
}

/// Who did something.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Actor")]
struct ActorView {
    /// A person in a session, a token, a command on the host, or somebody unknown.
    #[schemars(extend("enum" = ["user", "token", "host", "stranger"]))]
    kind: &'static str,
    /// Who it was, or whose token.
    user_id: Option<Id<User>>,
    /// Which token.
    token_id: Option<Id<ApiToken>>,
}

impl From<Actor> for ActorView {
    fn from(actor: Actor) -> Self {
        let (kind, user_id, token_id) = match actor {
            Actor::User { user_id } => ("user", Some(user_id), None),
            Actor::Token { user_id, token_id } => ("token", Some(user_id), Some(token_id)),
            Actor::Host => ("host", None, None),
            Actor::Stranger => ("stranger", None, None),
        };
        ActorView { kind, user_id, token_id }
    }
}

impl From<AuditEntry> for EntryView {
    fn from(entry: AuditEntry) -> Self {
        EntryView {
            id: entry.id,
            at: entry.at,
            actor: entry.actor.into(),
            address: entry.address,
            operation_id: entry.operation_id,
            request_id: entry.request_id,
            outcome: if entry.refused.is_some() { "refused" } else { "done" },
            code: entry.refused,
            resources: entry.resources,
            resources_omitted: entry.resources_omitted,
            refusals_omitted: entry.refusals_omitted,
            sequence: entry.sequence,
            previous_hash: entry.previous_hash,
            hash: entry.hash,
        }
    }
}

/// GET `/audit`
pub(super) struct ListAudit {
    actor: Option<String>,
    operation_id: Option<String>,
    resource_id: Option<String>,
    outcome: Option<String>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    limit: usize,
    cursor: Option<String>,
}

impl FromQuery for ListAudit {
    fn read(query: &mut Query) -> Result<Option<Self>> {
        let actor = short("Only of this user or token, by id; or `host`, or `stranger`.");
        let operation = short("Only of this operation, by its name in this document.").example("deleteProject");
        Ok(Some(ListAudit {
            actor: query.checked("actor", actor),
            operation_id: query.checked("operationId", operation),
            resource_id: query.checked("resourceId", short("Only what this resource was touched by.")),
            outcome: query.one_of("outcome", OUTCOMES, "Only what was done, or only what was refused."),
            from: query.checked("from", time().about("Only from this time on.")),
            to: query.checked("to", time().about("Only up to this time.")),
            limit: query.limit()?,
            cursor: query.cursor(),
        }))
    }
}

/// A filter; anything may be looked for, and nothing be found.
fn short(about: &str) -> Check<'static, String> {
    Check::new(json!({"type": "string", "maxLength": LONGEST_FILTER}), |value| match value {
        Value::String(text) if text.len() <= LONGEST_FILTER => Ok(text),
        Value::String(_) => Err(Fault::too_long(LONGEST_FILTER)),
        _ => Err(Fault::wrong_type("a string")),
    })
    .about(about)
}

impl ListAudit {
    fn takes(&self, entry: &AuditEntry) -> bool {
        let is_actor = |wanted: &str| match &entry.actor {
            Actor::User { user_id } => wanted == user_id.as_str(),
            Actor::Token { user_id, token_id } => wanted == user_id.as_str() || wanted == token_id.as_str(),
            Actor::Host => wanted == "host",
            Actor::Stranger => wanted == "stranger",
        };
        self.actor.as_deref().is_none_or(is_actor)
            && self.operation_id.as_deref().is_none_or(|wanted| wanted == entry.operation_id)
            && self.resource_id.as_deref().is_none_or(|wanted| entry.resources.iter().any(|resource| resource.id == wanted))
            && self.outcome.as_deref().is_none_or(|wanted| (wanted == "refused") == entry.refused.is_some())
            && self.from.is_none_or(|from| entry.at >= from)
            && self.to.is_none_or(|to| entry.at <= to)
    }

    /// The narrowest index that a filter names.
    fn walk(&self) -> Option<(&'static crate::store::Index<AuditEntry>, Key)> {
        let by_resource = self.resource_id.as_deref().map(|id| (&tables::AUDIT_BY_RESOURCE, Key::of_text(id)));
        let by_actor = self.actor.as_deref().map(|actor| (&tables::AUDIT_BY_ACTOR, Key::of_text(actor)));
        let by_operation = self.operation_id.as_deref().map(|name| (&tables::AUDIT_BY_OPERATION, Key::of_text(name)));
        by_resource.or(by_actor).or(by_operation)
    }
}

/// What was changed and what was refused, oldest first.
pub(super) async fn list(call: Call<(), ListAudit>) -> Result<Ok200<Page<EntryView>>> {
    call.caller.check_unlimited()?;
    let (organization, list) = (call.caller.organization(), call.query);
    let (from, to) = (list.from.map(|time| time.to_string()), list.to.map(|time| time.to_string()));
    let filters = [&list.actor, &list.operation_id, &list.resource_id, &list.outcome, &from, &to].map(Option::as_deref);
    let cursors = Cursors::new(&call.app.vault, organization, "listAudit", &filters)?;
    // Ids begin with their time: a list from a time on begins there.
    let beginning = list.from.and_then(|from| u64::try_from(from.0).ok()).filter(|from| *from > 0).map(|from| Id::from_parts(from, 0));
    let mut after = match list.cursor.as_deref() {
        Some(cursor) => Some(cursors.read::<AuditEntry>(cursor)?),
        None => beginning,
    };
    let page = call.app.store.read(|snapshot| {
        let (mut items, mut looked_at) = (Vec::new(), 0);
        loop {
            let step = (list.limit + 1).max(100);
            let page = snapshot.page::<AuditEntry>(organization, list.walk(), after, Order::OldestFirst, step)?;
            for entry in page.items {
                if list.to.is_some_and(|to| entry.id.milliseconds() > u64::try_from(to.0).unwrap_or(0)) {
                    return Ok::<_, StoreError>((items, None));
                }
                looked_at += 1;
                let id = entry.id;
                if list.takes(&entry) {
                    if items.len() == list.limit {
                        return Ok((items, after));
                    }
                    items.push(EntryView::from(entry));
                }
                after = Some(id);
            }
            match page.next {
                None => return Ok((items, None)),
                Some(_) if looked_at >= LOOKED_AT => return Ok((items, after)),
                Some(_) => {}
            }
        }
    })?;
    Ok(Ok200(Page { items: page.0, next_cursor: page.1.map(|last| cursors.write(last)) }))
}
