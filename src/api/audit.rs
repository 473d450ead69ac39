//! The audit log (decisions 4).

use serde::Serialize;

use super::cursor::Cursors;
use super::endpoint::{Call, Ok200};
use super::error::Result;
use super::query::{FromQuery, Pairs, Query};
use crate::model::audit::{Actor, Touched};
use crate::model::page::Page;
use crate::model::validation::InvalidCode;
use crate::model::{ApiToken, AuditEntry, Id, Timestamp, User};
use crate::store::key::Key;
use crate::store::{Order, Read, StoreError, tables};

/// Entries that one request looks at: with several filters a page may be short, or empty, and still have a next one.
const LOOKED_AT: usize = 2000;
const LONGEST_FILTER: usize = 64;

/// One entry.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EntryView {
    id: Id<AuditEntry>,
    at: Timestamp,
    actor: ActorView,
    /// Null on the host itself.
    address: Option<String>,
    operation_id: String,
    request_id: String,
    /// `done` or `refused`.
    outcome: &'static str,
    /// Why it was refused.
    code: Option<String>,
    resources: Vec<Touched>,
    resources_omitted: u64,
    refusals_omitted: u64,
    sequence: u64,
    previous_hash: String,
    hash: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ActorView {
    /// `user`, `token`, `host` or `stranger`.
    kind: &'static str,
    user_id: Option<Id<User>>,
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
    fn from_query(pairs: Pairs) -> Result<Self> {
        let mut query = Query::new(pairs);
        let list = ListAudit {
            actor: short(&mut query, "actor"),
            operation_id: short(&mut query, "operationId"),
            resource_id: short(&mut query, "resourceId"),
            outcome: query.one_of("outcome", &["done", "refused"]),
            from: time(&mut query, "from"),
            to: time(&mut query, "to"),
            limit: query.limit()?,
            cursor: query.text("cursor"),
        };
        query.finish()?;
        Ok(list)
    }
}

fn short(query: &mut Query, name: &str) -> Option<String> {
    let text = query.text(name)?;
    if text.len() > LONGEST_FILTER {
        query.refuse(name, InvalidCode::TooLong, format!("must have at most {LONGEST_FILTER} characters"));
        return None;
    }
    Some(text)
}

fn time(query: &mut Query, name: &str) -> Option<Timestamp> {
    let text = query.text(name)?;
    let time = Timestamp::parse(&text);
    if time.is_none() {
        query.refuse(name, InvalidCode::InvalidValue, "must be an ISO 8601 time with a zone");
    }
    time
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
