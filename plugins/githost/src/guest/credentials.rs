//! What requests and git are signed in with: the token that was entered, or one of the app's installation.

use guest_support::{Code, Problem};

use super::bindings::cookhouse::plugin::http::{self, Body, Request};
use super::bindings::cookhouse::plugin::secrets::{self, Secret, SignatureAlgorithm};
use super::bindings::cookhouse::plugin::types::{Error, ErrorCode};
use super::bindings::cookhouse::plugin::{cache, clock};
use super::source::missing;
use super::web::{self, JSON, is_status};
use crate::app;
use crate::names::RepositoryName;
use crate::settings::{Mode, Settings};

/// While one call asks for a token, others wait for it this long, in milliseconds.
const TURN_MS: u64 = 10_000;
const LOOK_AGAIN_MS: u32 = 50;

/// The secret to sign in with; `None`: nobody entered one, as for public repositories.
pub(super) fn of(settings: &Settings, repository: Option<&RepositoryName>) -> Result<Option<Secret>, Error> {
    match settings.mode() {
        Mode::Token => match secrets::get("token") {
            Ok(token) => Ok(Some(token)),
            Err(Error { code: ErrorCode::NotFound, .. }) => Ok(None),
            Err(error) => Err(error),
        },
        Mode::App { installation_id: Some(installation), .. } => installation_token(settings, installation, repository).map(Some),
        Mode::App { installation_id: None, .. } => of_app(settings).map(Some),
    }
}

/// The git host refused what [`of`] gave: it is not given again. False: there is nothing else to try.
pub(super) fn forget(settings: &Settings, repository: Option<&RepositoryName>) -> bool {
    let is_app = matches!(settings.mode(), Mode::App { installation_id: Some(_), .. });
    if is_app {
        cache::remove(&key(repository));
    }
    is_app
}

/// The app's own token: it lists installations and buys their tokens, nothing else.
pub(super) fn of_app(settings: &Settings) -> Result<Secret, Error> {
    let Mode::App { app_id, .. } = settings.mode() else {
        return Err(Problem::new(Code::InvalidConfig, "the connection is not an app's").into());
    };
    let unsigned = app::unsigned(app_id, clock::now_ms());
    let signature = secrets::get("privateKey")?.sign(SignatureAlgorithm::Rs256, unsigned.as_bytes())?;
    Ok(secrets::register("app token", app::signed(&unsigned, &signature).as_bytes()))
}

fn key(repository: Option<&RepositoryName>) -> String {
    repository.map_or_else(|| "token".to_owned(), |repository| format!("token {repository}"))
}

fn kept(key: &str) -> Option<Secret> {
    cache::get(key).map(|token| secrets::register("installation token", &token))
}

fn installation_token(settings: &Settings, installation: &str, repository: Option<&RepositoryName>) -> Result<Secret, Error> {
    let key = key(repository);
    let turn = format!("asking for {key}");
    let started = clock::monotonic_ms();
    loop {
        if let Some(token) = kept(&key) {
            return Ok(token);
        }
        if cache::get(&turn).is_none() || clock::monotonic_ms().saturating_sub(started) > TURN_MS {
            break;
        }
        clock::sleep_ms(LOOK_AGAIN_MS)?;
    }
    cache::put(&turn, b"1", TURN_MS);
    let bought = buy(settings, installation, repository);
    let outcome = bought.and_then(|token| {
        let text = token.checked()?;
        let life = token.life_ms(clock::now_ms());
        if life > 0 {
            cache::put(&key, text.as_bytes(), life);
        }
        Ok(secrets::register("installation token", text.as_bytes()))
    });
    cache::remove(&turn);
    outcome
}

fn buy(settings: &Settings, installation: &str, repository: Option<&RepositoryName>) -> Result<app::Token, Error> {
    let request = Request::new("POST", &format!("{}/app/installations/{installation}/access_tokens", settings.api()));
    request.set_header("accept", JSON)?;
    request.set_header("content-type", "application/json")?;
    request.set_header("x-github-api-version", "2022-11-28")?;
    request.set_header("user-agent", "Cookhouse")?;
    request.set_secret_header("authorization", "Bearer ", &of_app(settings)?)?;
    let body = Body::new();
    body.append_bytes(app::wish(repository).as_bytes())?;
    request.set_body(body)?;
    match web::accepted(http::send(request)?) {
        Ok(answer) => web::read("installation token", &answer),
        // The repository is none of those that the installation reaches.
        Err(error) if is_status(&error, 422) => match repository {
            Some(repository) => Err(missing(format!("the installation does not reach {repository}"), "repository")),
            None => Err(error),
        },
        Err(error) if is_status(&error, 404) => {
            Err(Problem::new(Code::Forbidden, format!("the git host knows no installation {installation} of the app"))
                .because("installation")
                .into())
        }
        Err(error) => Err(error),
    }
}
