//! `Idempotency-Key`: the same request again gets the same answer again, also after a restart (decisions 2).

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::auth::Caller;
use super::body::BodyDigest;
use super::endpoint::{Answer, Body, Created, Head};
use super::error::{ApiError, Problem, Result};
use crate::app::App;
use crate::model::idempotency::RememberedAnswer;
use crate::model::places::remembered_answer;
use crate::model::validation::InvalidCode;
use crate::model::{Id, Organization, Timestamp};
use crate::store::key::Key;
use crate::store::{Change, Read, tables};

/// How long an answer is remembered.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// How many outdated answers one new answer sweeps away: more than one, so that the table shrinks.
const SWEPT: usize = 16;
const LONGEST_KEY: usize = 255;

/// A row's request with its key, or without one. The key is held until the last clone is gone: keep one until the
/// transaction is answered.
#[derive(Clone)]
pub struct Idempotency(Option<Arc<First>>);

struct First {
    app: Arc<App>,
    organization: Id<Organization>,
    key_hash: String,
    request_hash: String,
}

/// What a key came to.
pub(super) enum Begun {
    /// Seen for the first time.
    First(Idempotency),
    /// Answered before.
    Replay(Response<Body>),
}

impl Idempotency {
    /// A request without a key.
    pub(super) fn none() -> Self {
        Idempotency(None)
    }

    /// Looks the request's key up.
    pub(super) fn begin(app: &Arc<App>, caller: &Caller, head: &Head, body: BodyDigest) -> Result<Begun> {
        let mut keys = head.headers.get_all("idempotency-key").iter();
        let key = match (keys.next(), keys.next()) {
            (None, _) => return Ok(Begun::First(Idempotency::none())),
            (Some(key), None) if is_key(key) => key,
            _ => {
                let message = "must be sent once, with 1 to 255 visible ASCII characters";
                return Err(ApiError::field("Idempotency-Key", InvalidCode::InvalidValue, message));
            }
        };
        let organization = caller.organization();
        let key_hash = hash(&[caller.label().as_bytes(), key.as_bytes()]);
        let path = super::router::without_version(&head.path);
        let request_hash = hash(&[head.method.as_str().as_bytes(), path.as_bytes(), &body]);
        if !app.keys_in_flight.take(organization, &key_hash) {
            return Err(ApiError::from(Problem::IdempotencyInProgress).retry_after(1));
        }
        // From here on the guard takes the key out again, however this ends.
        let first = First { app: app.clone(), organization, key_hash, request_hash };
        match first.remembered()? {
            None => Ok(Begun::First(Idempotency(Some(Arc::new(first))))),
            Some(answer) if answer.request_hash != first.request_hash => Err(Problem::IdempotencyKeyReused.into()),
            Some(answer) => first.replay(&answer, head).map(Begun::Replay),
        }
    }

    /// Keeps the answer, in the transaction that creates what it shows.
    pub fn remember<T>(&self, change: &Change, answer: &Created<T>) -> Result<()> {
        let Some(first) = &self.0 else { return Ok(()) };
        let now = first.app.clock.now();
        let outdated: Vec<RememberedAnswer> = change.find_on_host(&tables::REMEMBERED_ANSWERS_ALL, &Key::all(), SWEPT)?;
        for answer in outdated.iter().filter(|answer| is_over(answer, now)) {
            change.remove(answer.organization_id, answer.id)?;
        }
        let id = first.app.clock.new_id();
        let kept = Kept {
            location: answer.location.clone(),
            etag: answer.etag.clone(),
            body: String::from_utf8(answer.body.clone()).map_err(ApiError::internal)?,
        };
        let text = serde_json::to_string(&kept).map_err(ApiError::internal)?;
        change.put(&RememberedAnswer {
            id,
            organization_id: first.organization,
            key_hash: first.key_hash.clone(),
            request_hash: first.request_hash.clone(),
            answer: first.app.vault.seal(&remembered_answer(id), &text).map_err(ApiError::internal)?,
            created_at: now,
        })?;
        Ok(())
    }
}

impl First {
    fn remembered(&self) -> Result<Option<RememberedAnswer>> {
        let now = self.app.clock.now();
        let key = Key::of_text(&self.key_hash);
        let found: Vec<RememberedAnswer> = self.app.store.read(|snapshot| {
            snapshot.find_all(self.organization, &tables::REMEMBERED_ANSWERS_BY_KEY, &key, crate::store::Order::NewestFirst, 1)
        })?;
        Ok(found.into_iter().next().filter(|answer| !is_over(answer, now)))
    }

    fn replay(&self, answer: &RememberedAnswer, head: &Head) -> Result<Response<Body>> {
        let text = self.app.vault.open_sealed(&remembered_answer(answer.id), &answer.answer).map_err(ApiError::internal)?;
        let kept: Kept = serde_json::from_str(text.reveal()).map_err(ApiError::internal)?;
        let (location, etag, body) = (kept.location, kept.etag, kept.body.into_bytes());
        let created = Created::<serde_json::Value> { location, etag, body, shows: PhantomData };
        let mut response = created.into_response(head)?;
        debug_assert_eq!(response.status(), StatusCode::CREATED);
        response.headers_mut().insert(HeaderName::from_static("idempotent-replayed"), HeaderValue::from_static("true"));
        Ok(response)
    }
}

impl Drop for First {
    fn drop(&mut self) {
        self.app.keys_in_flight.release(self.organization, std::mem::take(&mut self.key_hash));
    }
}

#[derive(Serialize, Deserialize)]
struct Kept {
    location: String,
    etag: Option<String>,
    body: String,
}

fn is_key(key: &HeaderValue) -> bool {
    (1..=LONGEST_KEY).contains(&key.len()) && key.as_bytes().iter().all(u8::is_ascii_graphic)
}

fn is_over(answer: &RememberedAnswer, now: Timestamp) -> bool {
    answer.created_at.plus(LIFETIME) <= now
}

fn hash(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
