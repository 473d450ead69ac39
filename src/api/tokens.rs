//! API tokens.

use serde::Serialize;
use serde_json::Value;

use super::body::{self, Change, Fault, Fields, FromBody};
use super::cursor::Cursors;
use super::endpoint::{Call, Created, Head, NoContent, Ok200};
use super::error::{ApiError, Problem, Result};
use super::query::{FromQuery, Pairs, Query};
use crate::model::page::Page;
use crate::model::permission::{Role, Scope};
use crate::model::{ApiToken, BuildSetting, Id, Project, Timestamp, User};
use crate::people::bearer::{self, Kind};
use crate::people::{NewToken, People};
use crate::store::key::Key;
use crate::store::{Order, Read, StoreError, tables};

/// Projects or settings that one token may be limited to.
const LIMITED_TO: usize = 100;

impl FromBody for NewToken {
    async fn from_body(body: hyper::body::Incoming, head: &Head) -> Result<(Self, super::body::BodyDigest)> {
        let (mut fields, digest) = Fields::from_body(body, head).await?;
        let scope_names = Scope::ALL.map(Scope::as_str);
        let scope =
            |value: Value| body::one_of(&scope_names)(value).and_then(|text| text.parse().map_err(|()| Fault::invalid("is no scope")));
        let name = fields.required("name", body::name(80));
        let scopes = fields.required("scopes", body::list(Scope::ALL.len(), scope));
        let project_ids = fields.change("projectIds", body::list(LIMITED_TO, id::<Project>)).value();
        let build_setting_ids = fields.change("buildSettingIds", body::list(LIMITED_TO, id::<BuildSetting>)).value();
        let expires_at = match fields.change("expiresAt", time) {
            Change::Value(time) => Some(time),
            Change::Absent | Change::Null => None,
        };
        fields.read_only(&["id", "createdAt", "lastUsedAt", "userId"]);
        fields.finish()?;
        let all = name.zip(scopes).map(|(name, scopes)| NewToken { name, scopes, project_ids, build_setting_ids, expires_at });
        Ok((all.ok_or_else(|| ApiError::validation(Vec::new()))?, digest))
    }
}

fn id<R>(value: Value) -> std::result::Result<Id<R>, Fault> {
    let text = value.as_str().ok_or_else(|| Fault::wrong_type("an id"))?;
    text.parse().map_err(|_| Fault::invalid("is no id"))
}

fn time(value: Value) -> std::result::Result<Timestamp, Fault> {
    let text = value.as_str().ok_or_else(|| Fault::wrong_type("an ISO 8601 time"))?;
    Timestamp::parse(text).ok_or_else(|| Fault::invalid("must be an ISO 8601 time with a zone"))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenView {
    id: Id<ApiToken>,
    user_id: Id<User>,
    name: String,
    scopes: Vec<Scope>,
    project_ids: Option<Vec<Id<Project>>>,
    build_setting_ids: Option<Vec<Id<BuildSetting>>>,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
    /// Only in the answer that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl TokenView {
    fn new(token: &ApiToken, secret: Option<String>) -> Self {
        let token = token.clone();
        TokenView {
            id: token.id,
            user_id: token.user_id,
            name: token.name,
            scopes: token.scopes,
            project_ids: token.project_ids,
            build_setting_ids: token.build_setting_ids,
            created_at: token.created_at,
            expires_at: token.expires_at,
            last_used_at: token.last_used_at,
            token: secret,
        }
    }
}

/// Limit and cursor of a list without filters.
pub(super) struct Paging {
    pub(super) limit: usize,
    pub(super) cursor: Option<String>,
}

impl FromQuery for Paging {
    fn from_query(pairs: Pairs) -> Result<Self> {
        let mut query = Query::new(pairs);
        let paging = Paging { limit: query.limit()?, cursor: query.text("cursor") };
        query.finish()?;
        Ok(paging)
    }
}

/// One's own tokens; an admin sees all of the organization. Revoked ones are gone.
pub(super) async fn list(call: Call<(), Paging>) -> Result<Ok200<Page<TokenView>>> {
    call.caller.check_makes_tokens()?;
    let (organization, reach) = (call.caller.organization(), call.caller.reach());
    let own = (reach.user.role != Role::Admin).then_some(reach.user.id);
    let cursors = Cursors::new(&call.app.vault, organization, "listTokens", &[own.as_ref().map(Id::as_str)])?;
    let mut after = call.query.cursor.as_deref().map(|cursor| cursors.read::<ApiToken>(cursor)).transpose()?;
    let limit = call.query.limit;
    let mut items: Vec<ApiToken> = call.app.store.read(|snapshot| {
        let mut items = Vec::new();
        loop {
            let walk = own.map(|user| (&tables::API_TOKENS_BY_USER, Key::of_id(user)));
            let page = snapshot.page::<ApiToken>(organization, walk, after, Order::OldestFirst, 100)?;
            items.extend(page.items.into_iter().filter(|token| People::may_see_token(&reach, token)));
            after = page.next;
            if items.len() > limit || after.is_none() {
                return Ok::<_, StoreError>(items);
            }
        }
    })?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next_cursor = items.last().filter(|_| more).map(|last| cursors.write(last.id));
    Ok(Ok200(Page { items: items.iter().map(|token| TokenView::new(token, None)).collect(), next_cursor }))
}

/// Makes a token.
pub(super) async fn create(call: Call<(), (), NewToken>) -> Result<Created> {
    call.caller.check_makes_tokens()?;
    let (token, secret) = call.app.people.new_token(&call.caller.reach(), call.body)?;
    let created = Created::new(&format!("/auth/tokens/{}", token.id), &TokenView::new(&token, Some(secret.reveal().clone())), None)?;
    let (answer, idempotency) = (created.clone(), call.idempotency);
    call.app
        .store
        .write(move |change| {
            People::put_token(change, &token)?;
            idempotency.remember(change, &answer)
        })
        .await?;
    Ok(created)
}

/// Revokes a token.
pub(super) async fn revoke(call: Call<Id<ApiToken>>) -> Result<NoContent> {
    call.caller.check_makes_tokens()?;
    call.app.people.revoke_token(&call.caller.reach(), call.path).await?;
    Ok(NoContent)
}

/// Gives a token a new secret; the old one ends at once.
pub(super) async fn rotate(call: Call<Id<ApiToken>>) -> Result<Created> {
    call.caller.check_makes_tokens()?;
    let secret = bearer::new(Kind::Token).map_err(ApiError::internal)?;
    let (people, reach, id, idempotency) = (call.app.people.clone(), call.caller.reach(), call.path, call.idempotency);
    call.app
        .store
        .write(move |change| {
            let token = people.renew_token(change, &reach, id, &secret)?;
            if token.expires_at.is_some_and(|end| end <= people.now()) {
                return Err(ApiError::from(Problem::TokenExpired));
            }
            let created = Created::new(&format!("/auth/tokens/{id}"), &TokenView::new(&token, Some(secret.reveal().clone())), None)?;
            idempotency.remember(change, &created)?;
            Ok(created)
        })
        .await
}
