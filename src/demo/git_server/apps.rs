//! Apps: whoever signs with the app's key buys tokens of its installations, which reach one account's repositories, or one
//! repository, for a while.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::DateTime;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, DATE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use ring::signature;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::answer::{Answer, bytes, document, internal, message};
use super::{Shared, rest, rest_shapes};
use crate::model::Timestamp;

/// The most of a request for a token that is read.
const REQUEST_LIMIT: usize = 64 << 10;

/// An app that the server knows.
#[derive(Debug, Clone)]
pub struct App {
    /// `iss` of its tokens.
    pub id: String,
    /// Where it is installed: number and account.
    pub installations: Vec<(u64, String)>,
    /// How long an installation's token is good for.
    pub token_life: Duration,
    /// Tokens of some 500 characters, as github.com gives them out since 2026.
    pub long_tokens: bool,
    /// How far the git host's clock is ahead of this machine's, in seconds.
    pub clock_ahead: i64,
    public_key: Vec<u8>,
}

impl App {
    /// An app with this private RSA key (PEM), of which only the public half is kept.
    pub fn new(id: &str, private_key: &str, installations: &[(u64, &str)]) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "this is no private RSA key");
        let pair = match PrivateKeyDer::from_pem_slice(private_key.as_bytes()).map_err(|_| wrong())? {
            PrivateKeyDer::Pkcs1(der) => signature::RsaKeyPair::from_der(der.secret_pkcs1_der()),
            PrivateKeyDer::Pkcs8(der) => signature::RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
            _ => return Err(wrong()),
        };
        let public_key = pair.map_err(|_| wrong())?.public().as_ref().to_vec();
        let installations = installations.iter().map(|(number, account)| (*number, (*account).to_owned())).collect();
        Ok(App { id: id.to_owned(), installations, token_life: Duration::from_secs(3600), long_tokens: false, clock_ahead: 0, public_key })
    }

    /// What time it is at the git host, in whole seconds since 1970.
    fn now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().saturating_add_signed(self.clock_ahead)
    }

    /// Whether this is the app's own token, now; else what is wrong with it.
    fn check(&self, token: &str) -> Result<(), &'static str> {
        const NONE: &str = "A JSON web token could not be decoded";
        let (signed, mac) = token.rsplit_once('.').ok_or(NONE)?;
        let (header, claims) = signed.split_once('.').ok_or(NONE)?;
        let part = |text: &str| URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        let (header, claims) = (part(header).ok_or(NONE)?, part(claims).ok_or(NONE)?);
        let mac = URL_SAFE_NO_PAD.decode(mac).map_err(|_| NONE)?;
        let key = signature::UnparsedPublicKey::new(&signature::RSA_PKCS1_2048_8192_SHA256, &self.public_key);
        if header["alg"] != "RS256" || claims["iss"] != self.id.as_str() || key.verify(signed.as_bytes(), &mac).is_err() {
            return Err(NONE);
        }
        let now = self.now();
        let (issued, expires) = (claims["iat"].as_u64().unwrap_or(u64::MAX), claims["exp"].as_u64().unwrap_or(0));
        match () {
            () if issued > now => Err("'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"),
            () if expires <= now => {
                Err("'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires")
            }
            () if expires > now + 600 => Err("'Expiration time' claim ('exp') is too far in the future"),
            () => Ok(()),
        }
    }
}

/// A token that was bought.
#[derive(Debug, Clone)]
struct Issued {
    installation: u64,
    account: String,
    /// The only repository that it opens.
    repository: Option<u64>,
    until: Instant,
}

/// Tokens that were bought, and installations that are suspended.
#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    issued: HashMap<String, Issued>,
    ever_issued: Vec<String>,
    suspended: HashSet<u64>,
}

impl Tokens {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, token: String, issued: Issued) {
        let mut state = self.lock();
        state.ever_issued.push(token.clone());
        state.issued.insert(token, issued);
    }

    pub(super) fn ever_issued(&self) -> Vec<String> {
        self.lock().ever_issued.clone()
    }

    /// Takes every token back.
    pub(super) fn revoke(&self) {
        self.lock().issued.clear();
    }

    pub(super) fn suspend(&self, installation: u64, is_suspended: bool) {
        let suspended = &mut self.lock().suspended;
        if is_suspended {
            suspended.insert(installation)
        } else {
            suspended.remove(&installation)
        };
    }

    fn is_suspended(&self, installation: u64) -> bool {
        self.lock().suspended.contains(&installation)
    }

    fn find(&self, token: &str) -> Option<Issued> {
        let state = self.lock();
        state.issued.get(token).filter(|issued| Instant::now() < issued.until && !state.suspended.contains(&issued.installation)).cloned()
    }

    /// Whether a token is good for anything.
    pub(super) fn knows(&self, token: &str) -> bool {
        self.find(token).is_some()
    }

    /// Whether a token opens this path, which is about a repository (name and number) or about none.
    pub(super) fn opens(&self, token: &str, repository: Option<(&str, u64)>, path: &str) -> bool {
        let Some(issued) = self.find(token) else { return false };
        match repository {
            Some((name, number)) => {
                let is_account = name.split('/').next().is_some_and(|owner| owner.eq_ignore_ascii_case(&issued.account));
                is_account && issued.repository.is_none_or(|only| only == number)
            }
            None => path == "/api/v3/installation/repositories" && issued.repository.is_none(),
        }
    }
}

/// Whether a path is one of the app's own.
pub(super) fn is_app_path(path: &str) -> bool {
    path == "/api/v3/app" || path.starts_with("/api/v3/app/")
}

/// Answers the app itself, by the clock of the git host.
pub(super) async fn answer(server: &Shared, request: Request<Incoming>) -> Answer {
    let Some(app) = server.settings.app.as_ref() else { return message(StatusCode::UNAUTHORIZED, "Bad credentials") };
    let token = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| value.strip_prefix("Bearer "));
    let mut answer = match app.check(token.unwrap_or_default()) {
        Ok(()) => of(server, app, request).await,
        Err(fault) => message(StatusCode::UNAUTHORIZED, fault),
    };
    let now = DateTime::from_timestamp_secs(app.now().cast_signed()).unwrap_or_default();
    if let Ok(date) = HeaderValue::from_str(&now.format("%a, %d %b %Y %H:%M:%S GMT").to_string()) {
        answer.headers_mut().insert(DATE, date);
    }
    answer
}

async fn of(server: &Shared, app: &App, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path.trim_start_matches("/api/v3/app").trim_start_matches('/').split('/').collect();
    match (request.method(), parts.as_slice()) {
        (&Method::GET, [""]) => document(&rest_shapes::app(&server.base, &app.id)),
        (&Method::GET, ["installations"]) => {
            let one = |(number, account): &(u64, String)| {
                rest_shapes::installation(&server.base, &app.id, *number, account, server.tokens.is_suspended(*number))
            };
            rest::page_of(server, request.uri(), &app.installations, one)
        }
        (&Method::POST, ["installations", number, "access_tokens"]) => {
            let found = app.installations.iter().find(|(known, _)| known.to_string() == *number);
            match found {
                Some((number, _)) if server.tokens.is_suspended(*number) => {
                    message(StatusCode::FORBIDDEN, "This installation has been suspended")
                }
                Some((number, account)) => issue(server, app, *number, account, request).await,
                None => message(StatusCode::NOT_FOUND, "Not Found"),
            }
        }
        _ => message(StatusCode::NOT_FOUND, "Not Found"),
    }
}

async fn issue(server: &Shared, app: &App, installation: u64, account: &str, request: Request<Incoming>) -> Answer {
    let Ok(body) = Limited::new(request.into_body(), REQUEST_LIMIT).collect().await else {
        return message(StatusCode::PAYLOAD_TOO_LARGE, "The request is too large");
    };
    let wanted: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    let mut names: Vec<String> =
        wanted["repositories"].as_array().into_iter().flatten().filter_map(|name| Some(format!("{account}/{}", name.as_str()?))).collect();
    for number in wanted["repository_ids"].as_array().into_iter().flatten().filter_map(Value::as_u64) {
        names.push(server.repositories.numbered(number).await.unwrap_or_default());
    }
    let is_foreign = |name: &String| {
        server.repositories.directory_of(name).is_none() || !name.split('/').next().is_some_and(|owner| owner.eq_ignore_ascii_case(account))
    };
    if names.len() > 1 || names.iter().any(is_foreign) {
        return message(StatusCode::UNPROCESSABLE_ENTITY, "There is at least one repository that does not exist or is not accessible");
    }
    let mut random = [0; 24];
    if getrandom::fill(&mut random).is_err() {
        return internal(&io::Error::other("no randomness"));
    }
    let short = URL_SAFE_NO_PAD.encode(random);
    let token = if app.long_tokens { format!("ghs_1_{short}.{}.{}", "eyJ_".repeat(80), "c2ln".repeat(40)) } else { format!("ghs_{short}") };
    let expires = Duration::from_secs(app.now()) + app.token_life;
    let expires = Timestamp(i64::try_from(expires.as_millis()).unwrap_or(i64::MAX));
    let until = Instant::now() + app.token_life;
    let issued =
        Issued { installation, account: account.to_owned(), repository: names.first().map(|name| server.repositories.number(name)), until };
    server.tokens.add(token.clone(), issued);
    let selection = if names.is_empty() { "all" } else { "selected" };
    let permissions = if wanted["permissions"].is_object() { wanted["permissions"].clone() } else { rest_shapes::permissions() };
    let answer = json!({"token": token, "expires_at": expires, "permissions": permissions, "repository_selection": selection});
    bytes(StatusCode::CREATED, "application/json; charset=utf-8", answer.to_string())
}
