//! The first start, signing in and out, and who one is.

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use super::auth::{Caller, SESSION_COOKIE};
use super::body::{self, Check, Fields, Later, ReadFields, ReadLater};
use super::endpoint::{self, Anybody, Body, Call, Custom, CustomAnswer, Head, Resource};
use super::error::{ApiError, Problem, Result};
use super::openapi::shape::Answered;
use super::people::Identity;
use crate::app;
use crate::model::{Organization, Secret, Timestamp};
use crate::people::{Bearer, MAXIMUM_PASSWORD, MINIMUM_PASSWORD, NewAccount, SignedIn};
use crate::store::Read;

/// Examples for the documentation.
const EMAIL: &str = "ada@kitchen.example";
const PASSWORD: &str = "correct horse battery staple";

/// Body of POST `/setup`
pub(super) struct SetUp {
    setup_token: Secret,
    account: NewAccount,
    organization_name: String,
}

impl SetUp {
    fn read(fields: &mut Fields) -> Option<Self> {
        let token = body::secret(256).about("The one-time token that the first start prints; also in `setup-token` in the data directory.");
        let setup_token = fields.required("setupToken", token);
        let email = fields.required("email", email());
        let name = fields.required("name", body::name(80).about("What people call the admin.").example("Ada Cook"));
        let password = fields.required("password", new_password());
        let organization = body::name(80).about("What people call the organization.").example("Kitchen Studio");
        let organization_name = fields.required("organizationName", organization);
        let account = NewAccount { email: email?, name: name?, password: password? };
        Some(SetUp { setup_token: setup_token?, account, organization_name: organization_name? })
    }
}

impl ReadLater for SetUp {
    fn describe(mut fields: Fields, _: &app::Settings) -> Fields {
        SetUp::read(&mut fields);
        fields
    }
}

fn email() -> Check<'static, String> {
    body::name(254).about("An e-mail address: what one signs in with.").example(EMAIL)
}

/// A password that is chosen.
pub(super) fn new_password() -> Check<'static, Secret> {
    let text = format!("At least {MINIMUM_PASSWORD} characters; any of them.");
    body::secret(MAXIMUM_PASSWORD).about(&text).with("minLength", MINIMUM_PASSWORD).example(PASSWORD)
}

/// Body of POST `/auth/login`
pub(super) struct Login {
    email: String,
    password: Secret,
}

impl ReadFields for Login {
    fn read(fields: &mut Fields) -> Option<Self> {
        let email = fields.required("email", body::text(254).about("The account's address.").example(EMAIL));
        let password = fields.required("password", body::secret(MAXIMUM_PASSWORD).about("The account's password.").example(PASSWORD));
        Some(Login { email: email?, password: password? })
    }
}

/// A session, and whose it is.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
struct SessionView {
    /// To be sent as `Authorization: Bearer <accessToken>`. Browsers get it as the cookie `session`, too.
    access_token: String,
    /// When it ends at the latest; eight hours without a request end it earlier.
    expires_at: Timestamp,
    #[serde(flatten)]
    identity: Identity,
}

/// 201 and a session.
pub(super) struct NewSession;

impl CustomAnswer for NewSession {
    fn describe(generator: &mut SchemaGenerator) -> Vec<Answered> {
        vec![Answered::json::<SessionView>(StatusCode::CREATED, generator).with(&["Set-Cookie"])]
    }
}

/// 200 and a session.
pub(super) struct Begun;

impl CustomAnswer for Begun {
    fn describe(generator: &mut SchemaGenerator) -> Vec<Answered> {
        vec![Answered::json::<SessionView>(StatusCode::OK, generator).with(&["Set-Cookie"])]
    }
}

/// 204, and the cookie is taken back.
pub(super) struct Ended;

impl CustomAnswer for Ended {
    fn describe(_: &mut SchemaGenerator) -> Vec<Answered> {
        vec![Answered::empty(StatusCode::NO_CONTENT).with(&["Set-Cookie"])]
    }
}

/// Makes the first organization and its admin, and signs them in.
pub(super) async fn set_up(call: Call<(), (), Later<SetUp>, Anybody>) -> Result<Custom<NewSession>> {
    let people = &call.app.people;
    // Before anything is looked at: a service that is set up has no such path.
    if !people.is_empty()? {
        return Err(Problem::NotFound.into());
    }
    let mut fields = call.body.fields;
    let body = SetUp::read(&mut fields);
    fields.finish()?;
    let SetUp { setup_token, account, organization_name } = body.ok_or_else(|| ApiError::validation(Vec::new()))?;
    if !call.app.setup_token.matches(&setup_token) {
        let message = "This is not the setup token, or it is older than 24 hours: the service prints a new one when it is started again.";
        return Err(ApiError::new(Problem::Unauthenticated, message));
    }
    let (_, user) = people.create_first(account, &organization_name).await?;
    call.app.setup_token.forget();
    session(people.begin_session(user).await?, &call.head, StatusCode::CREATED).map(Custom::from)
}

/// Begins a session.
pub(super) async fn log_in(call: Call<(), (), Login, Anybody>) -> Result<Custom<Begun>> {
    let signed_in = call.app.people.sign_in(&call.body.email, &call.body.password, call.head.peer).await?;
    session(signed_in, &call.head, StatusCode::OK).map(Custom::from)
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
pub(super) async fn log_out(call: Call) -> Result<Custom<Ended>> {
    let Bearer::Session(session) = call.caller.principal().bearer else {
        return Err(ApiError::new(Problem::Forbidden, "This is a token, not a session; DELETE /auth/tokens/:id revokes it."));
    };
    call.app.people.sign_out(call.caller.organization(), session).await?;
    let mut response = Response::new(endpoint::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    set_cookie(&mut response, &call.head, "", "Max-Age=0")?;
    Ok(response.into())
}

/// Who the caller is.
pub(super) async fn me(call: Call<(), (), (), Caller>) -> Result<Resource<Identity>> {
    let id = call.caller.organization();
    let organization: Option<Organization> = call.app.store.read(|snapshot| snapshot.get(id, id))?;
    let organization = organization.ok_or(Problem::Unauthenticated)?;
    // Nothing of it is changed here: the tag is for those who ask again.
    Ok(Resource { value: Identity::new(call.caller.user(), &organization), version: 0 })
}
