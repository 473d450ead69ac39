//! Apps: whoever signs with the app's key buys tokens of its installations, which reach one account's repositories, or one
//! repository, for a while.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::AUTHORIZATION;
use hyper::{Method, Request, StatusCode};
use ring::signature;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::Shared;
use super::answer::{Answer, bytes, document, internal, message};
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
        Ok(App { id: id.to_owned(), installations, token_life: Duration::from_secs(3600), public_key })
    }

    /// Whether this is the app's own token, now.
    fn signed(&self, token: &str) -> bool {
        let Some((signed, mac)) = token.rsplit_once('.') else { return false };
        let Some((header, claims)) = signed.split_once('.') else { return false };
        let part = |text: &str| URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        let (Some(header), Some(claims), Ok(mac)) = (part(header), part(claims), URL_SAFE_NO_PAD.decode(mac)) else { return false };
        let key = signature::UnparsedPublicKey::new(&signature::RSA_PKCS1_2048_8192_SHA256, &self.public_key);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (issued, expires) = (claims["iat"].as_u64().unwrap_or(u64::MAX), claims["exp"].as_u64().unwrap_or(0));
        let is_now = issued <= now && now < expires && expires <= now + 600;
        header["alg"] == "RS256" && claims["iss"] == self.id.as_str() && is_now && key.verify(signed.as_bytes(), &mac).is_ok()
    }
}

/// A token that was bought.
#[derive(Debug, Clone)]
struct Issued {
    account: String,
    /// The only repository that it opens.
    repository: Option<String>,
    until: Instant,
}

/// Tokens that were bought.
#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<HashMap<String, Issued>>);

impl Tokens {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Issued>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes every token back.
    pub(super) fn revoke(&self) {
        self.lock().clear();
    }

    fn find(&self, token: &str) -> Option<Issued> {
        self.lock().get(token).filter(|issued| Instant::now() < issued.until).cloned()
    }

    /// Whether a token opens this path.
    pub(super) fn opens(&self, token: &str, path: &str) -> bool {
        let Some(issued) = self.find(token) else { return false };
        match repository(path) {
            Some(name) => {
                let is_account = name.split('/').next().is_some_and(|owner| owner.eq_ignore_ascii_case(&issued.account));
                is_account && issued.repository.is_none_or(|only| only.eq_ignore_ascii_case(name))
            }
            None => path == "/api/v3/installation/repositories" && issued.repository.is_none(),
        }
    }
}

/// The repository that a path is about.
fn repository(path: &str) -> Option<&str> {
    if let Some(rest) = path.strip_prefix("/api/v3/repos/") {
        let end = rest.match_indices('/').nth(1).map_or(rest.len(), |(end, _)| end);
        return Some(&rest[..end]);
    }
    path.strip_prefix('/')?.split_once(".git/").map(|(name, _)| name)
}

/// Whether a path is one of the app's own.
pub(super) fn is_app_path(path: &str) -> bool {
    path == "/api/v3/app" || path.starts_with("/api/v3/app/")
}

/// Answers the app itself.
pub(super) async fn answer(server: &Shared, request: Request<Incoming>) -> Answer {
    let token = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| value.strip_prefix("Bearer "));
    let app = server.settings.app.as_ref().filter(|app| token.is_some_and(|token| app.signed(token)));
    let Some(app) = app else { return message(StatusCode::UNAUTHORIZED, "A JSON web token could not be decoded") };
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path.trim_start_matches("/api/v3/app").trim_start_matches('/').split('/').collect();
    match (request.method(), parts.as_slice()) {
        (&Method::GET, [""]) => document(&json!({"id": 1, "slug": "cookhouse", "name": "Cookhouse", "owner": {"login": "studio"}})),
        (&Method::GET, ["installations"]) => {
            let one = |(number, account): &(u64, String)| json!({"id": number, "account": {"login": account}, "repository_selection": "all", "suspended_at": null});
            document(&Value::Array(app.installations.iter().map(one).collect()))
        }
        (&Method::POST, ["installations", number, "access_tokens"]) => {
            let found = app.installations.iter().find(|(known, _)| known.to_string() == *number);
            match found {
                Some((_, account)) => issue(server, app, account, request).await,
                None => message(StatusCode::NOT_FOUND, "Not Found"),
            }
        }
        _ => message(StatusCode::NOT_FOUND, "Not Found"),
    }
}

async fn issue(server: &Shared, app: &App, account: &str, request: Request<Incoming>) -> Answer {
    let Ok(body) = Limited::new(request.into_body(), REQUEST_LIMIT).collect().await else {
        return message(StatusCode::PAYLOAD_TOO_LARGE, "The request is too large");
    };
    let wanted: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    let names: Vec<String> =
        wanted["repositories"].as_array().into_iter().flatten().filter_map(|name| Some(format!("{account}/{}", name.as_str()?))).collect();
    if names.len() > 1 || names.iter().any(|name| server.repositories.directory_of(name).is_none_or(|directory| !directory.is_dir())) {
        return message(StatusCode::UNPROCESSABLE_ENTITY, "There is at least one repository that does not exist or is not accessible");
    }
    let mut random = [0; 24];
    if getrandom::fill(&mut random).is_err() {
        return internal(&io::Error::other("no randomness"));
    }
    let token = format!("ghs_{}", URL_SAFE_NO_PAD.encode(random));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let expires = Timestamp(i64::try_from((now + app.token_life).as_millis()).unwrap_or(i64::MAX));
    let issued = Issued { account: account.to_owned(), repository: names.first().cloned(), until: Instant::now() + app.token_life };
    server.tokens.lock().insert(token.clone(), issued);
    let answer = json!({"token": token, "expires_at": expires, "permissions": wanted["permissions"], "repository_selection": "all"});
    bytes(StatusCode::CREATED, "application/json; charset=utf-8", answer.to_string())
}
