//! From a request's credentials to a [`Caller`], and whether the caller may use a row.

use std::sync::Arc;

use hyper::Method;
use hyper::header::{self, HeaderMap};

use super::endpoint::{Access, Head};
use super::error::{ApiError, Problem, Result};
use crate::app::App;
use crate::model::audit::Actor;
use crate::model::permission::{Permission, Scope};
use crate::model::{ApiToken, Build, BuildSetting, Id, Organization, Project, TriggeredBy, User};
use crate::people::{Bearer, PeopleError, Principal, Reach};

/// The cookie of a signed-in browser.
pub(super) const SESSION_COOKIE: &str = "session";

/// Who asks. Everything read or written goes through its organization.
#[derive(Debug, Clone)]
pub struct Caller {
    principal: Arc<Principal>,
}

impl Caller {
    /// Whose resources this caller sees.
    pub fn organization(&self) -> Id<Organization> {
        self.principal.user.organization_id
    }

    /// The person, or the owner of the token.
    pub fn user(&self) -> &User {
        &self.principal.user
    }

    /// The principal as it was identified.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// How far a token made by this caller may reach.
    pub fn reach(&self) -> Reach {
        Reach::from(&*self.principal)
    }

    /// The same caller as of now; an error when what they showed does not hold any more.
    pub fn again(&self, app: &App) -> Result<Caller> {
        let principal = app.people.identify_again(&self.principal).map_err(refusal)?;
        Ok(Caller { principal: Arc::new(principal) })
    }

    fn token(&self) -> Option<&ApiToken> {
        match &self.principal.bearer {
            Bearer::Session(_) => None,
            Bearer::Token(token) => Some(token),
        }
    }

    /// What a build records as its cause.
    pub fn cause(&self) -> TriggeredBy {
        match self.token() {
            None => TriggeredBy::User(self.principal.user.id),
            Some(token) => TriggeredBy::ApiToken(token.id),
        }
    }

    /// Who the audit log says it was.
    pub fn actor(&self) -> Actor {
        let user_id = self.principal.user.id;
        match self.token() {
            None => Actor::User { user_id },
            Some(token) => Actor::Token { user_id, token_id: token.id },
        }
    }

    /// A name for the log and for keys: kind and id, no secret.
    pub fn label(&self) -> String {
        self.cause().to_string()
    }

    /// Whether the caller has a permission: role first, then scope.
    pub fn check(&self, permission: Permission) -> Result<()> {
        let (role, scope) = permission.needs();
        if self.principal.user.role < role {
            let message = format!("This needs the role {}; yours is {}.", role.as_str(), self.principal.user.role.as_str());
            return Err(ApiError::new(Problem::Forbidden, message));
        }
        match (self.token(), scope) {
            (Some(token), Some(scope))
                if !(has_scope(token, scope) || permission == Permission::ReadBuild && has_scope(token, Scope::Trigger)) =>
            {
                let message = format!("This needs a token with the scope {}.", scope.as_str());
                Err(ApiError::new(Problem::InsufficientScope, message))
            }
            _ => Ok(()),
        }
    }

    /// Whether the caller may make tokens: a signed-in session, or the scope `admin`.
    pub fn check_makes_tokens(&self) -> Result<()> {
        match self.token() {
            Some(token) if !has_scope(token, Scope::Admin) => {
                Err(ApiError::new(Problem::InsufficientScope, "Tokens are made in a signed-in session or by a token with the scope admin."))
            }
            _ => Ok(()),
        }
    }

    /// The projects that a token is limited to.
    pub fn project_limit(&self) -> Option<&[Id<Project>]> {
        self.token()?.project_ids.as_deref()
    }

    /// The build settings that a token is limited to.
    pub fn setting_limit(&self) -> Option<&[Id<BuildSetting>]> {
        self.token()?.build_setting_ids.as_deref()
    }

    /// Whether the token's limits let a project through. A token of single settings still sees their project.
    pub fn reaches_project(&self, project: Id<Project>) -> bool {
        self.project_limit().is_none_or(|limit| limit.contains(&project))
    }

    /// Whether the token's limits let a setting through.
    pub fn reaches_setting(&self, project: Id<Project>, setting: Id<BuildSetting>) -> bool {
        self.reaches_project(project) && self.setting_limit().is_none_or(|limit| limit.contains(&setting))
    }

    /// A token limited to build settings changes nothing above them.
    pub fn is_limited(&self) -> bool {
        self.project_limit().is_some() || self.setting_limit().is_some()
    }

    /// Refuses a token that is limited to projects or settings: it administers nothing above them.
    pub fn check_unlimited(&self) -> Result<()> {
        match self.is_limited() {
            true => Err(ApiError::new(Problem::InsufficientScope, "A token that is limited to projects or settings does not reach this.")),
            false => Ok(()),
        }
    }

    /// Refuses a token that does no more than start one build setting, as the trigger of a version-control server has it: what
    /// it started it may read, and nothing else (decisions 4).
    pub fn check_acts_on(&self, build: &Build) -> Result<()> {
        let only_starts = |token: &ApiToken| {
            token.build_setting_ids.as_ref().is_some_and(|settings| settings.len() == 1) && token.scopes == [Scope::Trigger]
        };
        match self.token().is_some_and(only_starts) {
            false => Ok(()),
            true if self.may_see(build) => Err(ApiError::new(
                Problem::InsufficientScope,
                "This token starts one build setting and reads what it started, nothing else.",
            )),
            true => Err(Problem::NotFound.into()),
        }
    }

    /// Whether the caller may see a build: a token with nothing but `trigger` sees only those that it started.
    pub fn may_see(&self, build: &Build) -> bool {
        let started_it = build.triggered_by == self.cause();
        let may_read = self.token().is_none_or(|token| has_scope(token, Scope::Read));
        self.reaches_setting(build.project_id, build.build_setting_id) && (may_read || started_it)
    }
}

fn has_scope(token: &ApiToken, wanted: Scope) -> bool {
    token.scopes.iter().any(|scope| scope.includes(wanted))
}

/// Identifies the caller of a row that needs one. What the caller may do is another question: see [`permit`].
pub(super) fn identify(app: &App, access: Access, head: &Head) -> Result<Option<Caller>> {
    if access == Access::Public {
        return Ok(None);
    }
    let (Shown::Header(bearer) | Shown::Cookie(bearer)) = shown(head)?;
    let principal = app.people.identify(bearer).map_err(refusal)?;
    Ok(Some(Caller { principal: Arc::new(principal) }))
}

/// Refuses a caller who may not use a row. Fails closed where there is none.
pub(super) fn permit(caller: Option<&Caller>, access: Access, head: &Head) -> Result<()> {
    let Access::Needs(permission) = access else { return Ok(()) };
    let caller = caller.ok_or(Problem::Unauthenticated)?;
    if !is_safe(&head.method) && matches!(shown(head)?, Shown::Cookie(_)) {
        check_same_origin(head)?;
    }
    caller.check(permission)
}

/// Identifies the caller of a row that streams. Browsers open those with a ticket in the query, or with their cookie if the
/// page is this server's own.
pub(super) fn identify_stream(app: &App, access: Access, head: &Head, query: &str) -> Result<Option<Caller>> {
    let uses_header = head.headers.contains_key(header::AUTHORIZATION);
    let is_foreign = match (head.headers.get("sec-fetch-site"), head.text(header::ORIGIN)) {
        (_, Some(origin)) => !origin.eq_ignore_ascii_case(&head.base_url),
        // Programs send neither. A page of another origin never reads a stream without sending its `Origin`.
        (site, None) => !uses_header && site.is_some_and(|site| site != "same-origin"),
    };
    if is_foreign {
        let message = "A stream is opened by this server's own pages, or by a program that sends no Origin.";
        return Err(ApiError::new(Problem::Forbidden, message));
    }
    let mut tickets = serde_urlencoded::from_str::<Vec<(String, String)>>(query).unwrap_or_default();
    tickets.retain(|(name, _)| name == "ticket");
    match tickets.as_slice() {
        [(_, ticket)] if !uses_header && access != Access::Public => {
            let message = "This ticket is unknown, used, or older than a minute; get a new one with POST /auth/stream-ticket.";
            let shown = app.live.redeem_ticket(ticket).ok_or_else(|| ApiError::new(Problem::Unauthenticated, message))?;
            let principal = app.people.identify_again(&shown).map_err(refusal)?;
            Ok(Some(Caller { principal: Arc::new(principal) }))
        }
        [_, _, ..] => Err(ApiError::new(Problem::Unauthenticated, "Send one ticket.")),
        _ => identify(app, access, head),
    }
}

/// What a request shows of its sender.
enum Shown<'a> {
    Header(&'a str),
    Cookie(&'a str),
}

fn shown(head: &Head) -> Result<Shown<'_>> {
    let mut headers = head.headers.get_all(header::AUTHORIZATION).iter();
    match (headers.next(), headers.next()) {
        (Some(_), Some(_)) => Err(ApiError::new(Problem::Unauthenticated, "Send one Authorization header.")),
        (Some(value), None) => Ok(Shown::Header(value.to_str().ok().and_then(bearer_of).ok_or(Problem::Unauthenticated)?)),
        (None, _) => Ok(Shown::Cookie(session_cookie(&head.headers).ok_or(Problem::Unauthenticated)?)),
    }
}

/// The text behind `Bearer `, in any case.
fn bearer_of(value: &str) -> Option<&str> {
    let (scheme, bearer) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(bearer.trim())
}

fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
    cookies.filter_map(|cookie| cookie.trim().split_once('=')).find(|(name, _)| *name == SESSION_COOKIE).map(|(_, value)| value)
}

pub(super) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// A browser sends its cookie along whoever asks it to: a change needs proof that our own page asked.
fn check_same_origin(head: &Head) -> Result<()> {
    let is_own = match (head.headers.get("sec-fetch-site"), head.text(header::ORIGIN)) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => origin.eq_ignore_ascii_case(&head.base_url),
        (None, None) => false,
    };
    match is_own {
        true => Ok(()),
        false => Err(ApiError::new(
            Problem::Forbidden,
            "A change by cookie must come from this server's own pages; scripts send a bearer token.",
        )),
    }
}

/// A refusal of a bearer.
fn refusal(error: PeopleError) -> ApiError {
    match error {
        PeopleError::Expired => Problem::TokenExpired.into(),
        PeopleError::Revoked => Problem::TokenRevoked.into(),
        PeopleError::Store(error) => error.into(),
        PeopleError::Unknown
        | PeopleError::TooManyAttempts(_)
        | PeopleError::Busy
        | PeopleError::EmailTaken
        | PeopleError::NoSuchUser(_)
        | PeopleError::Organization(_)
        | PeopleError::AlreadySetUp
        | PeopleError::Invalid { .. }
        | PeopleError::NoSuchMember
        | PeopleError::LastAdmin
        | PeopleError::NoSuchToken
        | PeopleError::Hash(_)
        | PeopleError::File(_) => Problem::Unauthenticated.into(),
    }
}
