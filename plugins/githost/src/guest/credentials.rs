//! What requests and git are signed in with: the token that was entered, or one of the app's installation.

use guest_support::{Code, Problem};

use super::bindings::cookhouse::plugin::http::{self, Body, Response};
use super::bindings::cookhouse::plugin::log::{self, Level};
use super::bindings::cookhouse::plugin::secrets::{self, Secret, SignatureAlgorithm};
use super::bindings::cookhouse::plugin::types::{Error, ErrorCode};
use super::bindings::cookhouse::plugin::{cache, clock};
use super::source::missing;
use super::web::{self, JSON, Web, is_status};
use crate::app::{self, Reach};
use crate::names::RepositoryName;
use crate::settings::{Mode, Settings};
use crate::{answers, endpoints};

/// While one call asks for a token, others wait for it this long, in milliseconds.
const TURN_MS: u64 = 10_000;
const LOOK_AGAIN_MS: u32 = 50;

/// In the cache: how far the git host's clock is ahead of ours, in milliseconds.
const CLOCK: &str = "clock ahead";
/// Somebody may set either clock right.
const CLOCK_MS: u64 = 3_600_000;

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

/// The git host refused what [`of`] gave with this answer: it is not given again. False: there is nothing else to try.
pub(super) fn renew(settings: &Settings, repository: Option<&RepositoryName>, refusal: &Response) -> bool {
    match settings.mode() {
        Mode::App { installation_id: None, .. } => learn_clock(refusal),
        _ => forget(settings, repository),
    }
}

/// Whether an app's token was refused because the git host's clock is another than ours. It is remembered what time it is there.
fn learn_clock(refusal: &Response) -> bool {
    let Some(ahead) = app::clock_ahead_ms(refusal.header("date").as_deref(), clock::now_ms(), clock_ahead_ms()) else { return false };
    let text = format!(
        "The git host's clock is {} seconds {} this machine's; signing in by its clock",
        ahead.abs() / 1000,
        if ahead > 0 { "ahead of" } else { "behind" }
    );
    log::log(Level::Warn, &text, &[]);
    cache::put(CLOCK, ahead.to_string().as_bytes(), CLOCK_MS);
    true
}

fn clock_ahead_ms() -> i64 {
    cache::get(CLOCK).and_then(|text| String::from_utf8(text).ok()?.parse().ok()).unwrap_or(0)
}

/// What time it is for the git host, as far as is known.
fn its_now_ms() -> u64 {
    clock::now_ms().saturating_add_signed(clock_ahead_ms())
}

/// The same for an installation's token, of whose end git learns by itself.
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
    let unsigned = app::unsigned(app_id, its_now_ms());
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
        if cache::add(&turn, b"1", TURN_MS) || clock::monotonic_ms().saturating_sub(started) > TURN_MS {
            break;
        }
        clock::sleep_ms(LOOK_AGAIN_MS)?;
    }
    let bought = match repository {
        Some(repository) => of_repository(settings, installation, repository),
        None => buy(settings, installation, Reach::All),
    };
    let outcome = bought.and_then(|token| {
        let text = token.checked()?;
        let life = token.life_ms(its_now_ms());
        if life > 0 {
            cache::put(&key, text.as_bytes(), life);
        }
        Ok(secrets::register("installation token", text.as_bytes()))
    });
    cache::remove(&turn);
    outcome
}

/// By its name; one that was renamed by its number, which whoever may see everything is told.
fn of_repository(settings: &Settings, installation: &str, repository: &RepositoryName) -> Result<app::Token, Error> {
    match buy(settings, installation, Reach::Named(repository)) {
        Err(error) if is_status(&error, 422) => {
            let everything = Web::new(settings.clone(), None);
            let found = everything.get::<answers::Repository>("repository", &endpoints::repository(repository));
            match found {
                Ok(found) => buy(settings, installation, Reach::Numbered(found.id)),
                Err(error) if error.retryable => Err(error),
                Err(_) => Err(missing(format!("the installation does not reach {repository}"), "repository")),
            }
        }
        bought => bought,
    }
}

fn buy(settings: &Settings, installation: &str, reach: Reach<'_>) -> Result<app::Token, Error> {
    let ask = || {
        let request = web::plain("POST", &format!("{}/app/installations/{installation}/access_tokens", settings.api()), JSON)?;
        request.set_header("content-type", "application/json")?;
        request.set_secret_header("authorization", "Bearer ", &of_app(settings)?)?;
        let body = Body::new();
        body.append_bytes(app::wish(reach).as_bytes())?;
        request.set_body(body)?;
        http::send(request)
    };
    let mut answer = ask()?;
    if answer.status() == 401 && learn_clock(&answer) {
        answer = ask()?;
    }
    match web::accepted(answer) {
        Ok(answer) => web::read("installation token", &answer),
        Err(error) if is_status(&error, 404) => {
            Err(Problem::new(Code::Forbidden, format!("the git host knows no installation {installation} of the app"))
                .because("installation")
                .into())
        }
        // What else an app can be forbidden here: its installation is suspended.
        Err(error) if error.code == ErrorCode::Forbidden => Err(Error { reason: Some("installation".to_owned()), ..error }),
        Err(error) => Err(error),
    }
}
