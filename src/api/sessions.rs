//! The first start, signing in and out, and who one is.

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::auth::{Caller, SESSION_COOKIE};
use super::body::{self, Fields, FromBody};
use super::endpoint::{self, Anybody, Body, Call, Head, Ok200};
use super::error::{ApiError, Problem, Result};
use super::people::Identity;
use crate::model::{Organization, Secret, Timestamp};
use crate::people::{Bearer, MAXIMUM_PASSWORD, NewAccount, SignedIn};
use crate::store::Read;

/// Body of POST `/setup`
struct SetUp {
    setup_token: Secret,
    account: NewAccount,
    organization_name: String,
}

impl SetUp {
    fn read(mut fields: Fields) -> Result<Self> {
        let setup_token = fields.required("setupToken", body::secret(256));
        let email = fields.required("email", body::name(254));
        let name = fields.required("name", body::name(80));
        let password = fields.required("password", body::secret(MAXIMUM_PASSWORD));
        let organization_name = fields.required("organizationName", body::name(80));
        fields.finish()?;
        let all = (|| {
            let account = NewAccount { email: email?, name: name?, password: password? };
            Some(SetUp { setup_token: setup_token?, account, organization_name: organization_name? })
        })();
        all.ok_or_else(|| ApiError::validation(Vec::new()))
    }
}

/// Body of POST `/auth/login`
pub(super) struct Login {
    email: String,
    password: Secret,
}

impl FromBody for Login {
    async fn from_body(body: hyper::body::Incoming, head: &Head) -> Result<(Self, super::body::BodyDigest)> {
        let (mut fields, digest) = Fields::from_body(body, head).await?;
        let email = fields.required("email", body::text(254));
        let password = fields.required("password", body::secret(MAXIMUM_PASSWORD));
        fields.finish()?;
        let all = email.zip(password).map(|(email, password)| Login { email, password });
        Ok((all.ok_or_else(|| ApiError::validation(Vec::new()))?, digest))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionView {
    access_token: String,
    expires_at: Timestamp,
    #[serde(flatten)]
    identity: Identity,
}

/// Makes the first organization and its admin, and signs them in.
pub(super) async fn set_up(call: Call<(), (), Fields, Anybody>) -> Result<Response<Body>> {
    let people = &call.app.people;
    // Before anything is looked at: a service that is set up has no such path.
    if !people.is_empty()? {
        return Err(Problem::NotFound.into());
    }
    let SetUp { setup_token, account, organization_name } = SetUp::read(call.body)?;
    if !call.app.setup_token.matches(&setup_token) {
        let message = "This is not the setup token, or it is older than 24 hours: the service prints a new one when it is started again.";
        return Err(ApiError::new(Problem::Unauthenticated, message));
    }
    let (_, user) = people.create_first(account, &organization_name).await?;
    call.app.setup_token.forget();
    session(people.begin_session(user).await?, &call.head, StatusCode::CREATED)
}

/// Begins a session.
pub(super) async fn log_in(call: Call<(), (), Login, Anybody>) -> Result<Response<Body>> {
    let signed_in = call.app.people.sign_in(&call.body.email, &call.body.password, call.head.peer).await?;
    session(signed_in, &call.head, StatusCode::OK)
}

/// What whoever signed in gets: bearer, cookie, and who they are.
pub(super) fn session(signed_in: SignedIn, head: &Head, status: StatusCode) -> Result<Response<Body>> {
    let SignedIn { access_token, expires_at, user, organization } = signed_in;
    let identity = Identity::new(&user, &organization);
    let view = SessionView { access_token: access_token.reveal().clone(), expires_at, identity };
    let mut response = endpoint::json(status, &view)?;
    set_cookie(&mut response, head, access_token.reveal(), "Max-Age=86400")?;
    Ok(response)
}

fn set_cookie(response: &mut Response<Body>, head: &Head, value: &str, age: &str) -> Result<()> {
    let secure = if head.is_secure { "; Secure" } else { "" };
    let cookie = format!("{SESSION_COOKIE}={value}; Path=/; HttpOnly; SameSite=Lax; {age}{secure}");
    let mut cookie = HeaderValue::from_str(&cookie).map_err(ApiError::internal)?;
    cookie.set_sensitive(true);
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(())
}

/// Ends this session.
pub(super) async fn log_out(call: Call) -> Result<Response<Body>> {
    let Bearer::Session(session) = call.caller.principal().bearer else {
        return Err(ApiError::new(Problem::Forbidden, "This is a token, not a session; DELETE /auth/tokens/:id revokes it."));
    };
    call.app.people.sign_out(call.caller.organization(), session).await?;
    let mut response = Response::new(endpoint::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    set_cookie(&mut response, &call.head, "", "Max-Age=0")?;
    Ok(response)
}

/// Who the caller is.
pub(super) async fn me(call: Call<(), (), (), Caller>) -> Result<Ok200<Identity>> {
    let id = call.caller.organization();
    let organization: Option<Organization> = call.app.store.read(|snapshot| snapshot.get(id, id))?;
    let organization = organization.ok_or(Problem::Unauthenticated)?;
    Ok(Ok200(Identity::new(call.caller.user(), &organization)))
}
