//! API tokens.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::body::{self, Check, Fault, Fields, ReadFields};
use super::conditional::check_match;
use super::cursor::Cursors;
use super::endpoint::{Call, Created, NoContent, Ok200, Resource};
use super::error::{ApiError, Problem, Result};
use super::openapi::shape::id_of;
use super::query::{FromQuery, Query};
use crate::model::page::Page;
use crate::model::permission::{Role, Scope};
use crate::model::{ApiToken, BuildSetting, Id, Project, Timestamp, User};
use crate::people::bearer::{self, Kind};
use crate::people::{NewToken, People};
use crate::store::key::Key;
use crate::store::{Order, Read, StoreError, tables};

/// Projects or settings that one token may be limited to.
const LIMITED_TO: usize = 100;
/// Nobody changes what is shown of a token.
const VERSION: u64 = 0;

impl ReadFields for NewToken {
    fn read(fields: &mut Fields) -> Option<Self> {
        let scope = body::one_of(Scope::ALL.map(Scope::as_str)).and(|text| text.parse().map_err(|()| Fault::invalid("is no scope")));
        let name = fields.required("name", body::name(80).about("What people call the token.").example("nightly script"));
        let scopes = body::list(Scope::ALL.len(), scope).about("What the token may be used for; your own role caps it.");
        let scopes = fields.required("scopes", scopes.with("minItems", 1).example(vec!["trigger"]));
        let projects = body::list(LIMITED_TO, id::<Project>()).about("The only projects that it reaches; absent or null: all.");
        let project_ids = fields.change("projectIds", projects).value();
        let settings = body::list(LIMITED_TO, id::<BuildSetting>()).about("The only build settings that it reaches; absent or null: all.");
        let build_setting_ids = fields.change("buildSettingIds", settings).value();
        let expires_at = fields.change("expiresAt", time().about("When it ends, in the future; absent or null: never.")).value();
        fields.read_only(&["id", "createdAt", "lastUsedAt", "userId"]);
        Some(NewToken { name: name?, scopes: scopes?, project_ids, build_setting_ids, expires_at })
    }
}

pub(super) fn id<R: 'static>() -> Check<'static, Id<R>> {
    Check::new(id_of::<R>().into(), |value| {
        let text = value.as_str().ok_or_else(|| Fault::wrong_type("an id"))?;
        text.parse().map_err(|_| Fault::invalid("is no id"))
    })
}

/// A point in time, with a zone.
pub(super) fn time() -> Check<'static, Timestamp> {
    Check::new(json!({"type": "string", "format": "date-time", "examples": ["2027-11-20T00:00:00.000Z"]}), |value| {
        let text = value.as_str().ok_or_else(|| Fault::wrong_type("an ISO 8601 time"))?;
        Timestamp::parse(text).ok_or_else(|| Fault::invalid("must be an ISO 8601 time with a zone"))
    })
}

/// A token for scripts. Its secret is shown once, in the answer that makes it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Token")]
pub(super) struct TokenView {
    /// Names it in paths, logs and `triggeredBy`; no secret.
    id: Id<ApiToken>,
    /// Whose it is; it never reaches further than they do.
    user_id: Id<User>,
    /// What people call it.
    name: String,
    /// What it may be used for.
    scopes: Vec<Scope>,
    /// The only projects that it reaches; null: all.
    project_ids: Option<Vec<Id<Project>>>,
    /// The only build settings that it reaches; null: all.
    build_setting_ids: Option<Vec<Id<BuildSetting>>>,
    /// When it was made.
    created_at: Timestamp,
    /// When it ends; null: never.
    expires_at: Option<Timestamp>,
    /// When it was last used, to a minute or so; null: never.
    last_used_at: Option<Timestamp>,
    /// The secret, `ckh_` and 36 characters. Only in the answer that makes it.
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
    fn read(query: &mut Query) -> Result<Option<Self>> {
        Ok(Some(Paging { limit: query.limit()?, cursor: query.cursor() }))
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

/// One of the tokens of [`list`].
pub(super) async fn show(call: Call<Id<ApiToken>>) -> Result<Resource<TokenView>> {
    call.caller.check_makes_tokens()?;
    let reach = call.caller.reach();
    let found: Option<ApiToken> = call.app.store.read(|snapshot| snapshot.get::<ApiToken>(call.caller.organization(), call.path))?;
    let token = found.filter(|token| People::may_see_token(&reach, token)).ok_or(Problem::NotFound)?;
    Ok(Resource { value: TokenView::new(&token, None), version: VERSION })
}

/// Makes a token.
pub(super) async fn create(call: Call<(), (), NewToken>) -> Result<Created<TokenView>> {
    call.caller.check_makes_tokens()?;
    let (token, secret) = call.app.people.new_token(&call.caller.reach(), call.body)?;
    let created =
        Created::new(&format!("/auth/tokens/{}", token.id), &TokenView::new(&token, Some(secret.reveal().clone())), Some(VERSION))?;
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
    check_match(&call.head, VERSION)?;
    call.app.people.revoke_token(&call.caller.reach(), call.path).await?;
    Ok(NoContent)
}

/// Gives a token a new secret; the old one ends at once.
pub(super) async fn rotate(call: Call<Id<ApiToken>>) -> Result<Created<TokenView>> {
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
            let created =
                Created::new(&format!("/auth/tokens/{id}"), &TokenView::new(&token, Some(secret.reveal().clone())), Some(VERSION))?;
            idempotency.remember(change, &created)?;
            Ok(created)
        })
        .await
}
