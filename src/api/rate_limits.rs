//! How often somebody may ask (decisions 4): each caller and each address has buckets that fill steadily and empty with
//! every request. Memory only, and bounded: a restart forgives.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use super::auth::Caller;
use super::error::{ApiError, Problem, Result};
use crate::app::RateLimits;
use crate::model::network::Network;
use crate::people::Bearer;

/// Buckets kept in each half of a ledger.
const HALF: usize = 10_000;
const MINUTE: u64 = 60_000_000_000;

/// What a row's requests are counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counted {
    /// As a request of its caller, or of an address that has no caller.
    Requests,
    /// As a request that starts a build, too.
    Triggers,
    /// As an attempt to sign in, too.
    LogIns,
    /// Not at all once the caller is known: downloads and streams, and what monitors ask every second.
    Not,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Class {
    Requests,
    Triggers,
    Anonymous,
    LogIns,
}

/// Whose bucket: the bytes of an id or of an address, which no id can be.
type Key = (Class, [u8; 24]);

/// Where somebody stands with one limit, for the headers of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    policy: &'static str,
    quota: u32,
    remaining: u64,
    /// Seconds until there is more.
    reset: u64,
    is_refused: bool,
}

/// The limits and who has used how much of them.
pub(super) struct RateLimiter {
    limits: Option<RateLimits>,
    start: Instant,
    callers: Mutex<Ledger>,
    addresses: Mutex<Ledger>,
}

impl RateLimiter {
    /// `None`: everybody may ask as often as they like.
    pub(super) fn new(limits: Option<RateLimits>) -> Self {
        RateLimiter { limits, start: Instant::now(), callers: Mutex::default(), addresses: Mutex::default() }
    }

    /// Counts a request of somebody known.
    pub(super) fn caller(&self, caller: &Caller, counted: Counted) -> Vec<Standing> {
        let Some(limits) = &self.limits else { return Vec::new() };
        let id = match &caller.principal().bearer {
            Bearer::Session(_) => *caller.user().id.as_bytes(),
            Bearer::Token(token) => *token.id.as_bytes(),
        };
        let requests = Bucket::new("default", limits.requests_per_minute, limits.burst);
        let triggers = Bucket::new("trigger", limits.trigger_per_minute, limits.trigger_per_minute);
        self.take(
            &self.callers,
            id,
            match counted {
                Counted::Requests | Counted::LogIns => vec![(Class::Requests, requests)],
                Counted::Triggers => vec![(Class::Requests, requests), (Class::Triggers, triggers)],
                Counted::Not => Vec::new(),
            },
        )
    }

    /// Counts a request of an address without a caller.
    pub(super) fn address(&self, address: IpAddr, counted: Counted) -> Vec<Standing> {
        let Some(limits) = &self.limits else { return Vec::new() };
        let mut key = [0; 24];
        match Network::customer(address) {
            IpAddr::V4(address) => key[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => key[..16].copy_from_slice(&address.octets()),
        }
        let anonymous = Bucket::new("anonymous", limits.unauthenticated_per_minute, limits.unauthenticated_per_minute);
        let log_ins = Bucket::new("login", limits.login_per_minute, limits.login_per_minute);
        self.take(
            &self.addresses,
            key,
            match counted {
                Counted::LogIns => vec![(Class::Anonymous, anonymous), (Class::LogIns, log_ins)],
                Counted::Requests | Counted::Triggers | Counted::Not => vec![(Class::Anonymous, anonymous)],
            },
        )
    }

    /// Takes one from each bucket until one is empty.
    fn take(&self, ledger: &Mutex<Ledger>, id: [u8; 24], buckets: Vec<(Class, Bucket)>) -> Vec<Standing> {
        let now = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let mut standings: Vec<Standing> = Vec::with_capacity(buckets.len());
        for (class, bucket) in buckets {
            if standings.iter().any(|standing| standing.is_refused) {
                break;
            }
            let (full_again, standing) = bucket.take(ledger.get((class, id)), now);
            ledger.set((class, id), full_again);
            standings.push(standing);
        }
        standings
    }
}

/// Refuses when one of the limits is used up.
pub(super) fn check(standings: &[Standing]) -> Result<()> {
    match standings.iter().find(|standing| standing.is_refused) {
        None => Ok(()),
        Some(refused) => {
            let message = format!(
                "More than {} requests in a minute count against the limit \"{}\"; wait as long as `Retry-After` says.",
                refused.quota, refused.policy
            );
            Err(ApiError::new(Problem::RateLimited, message).retry_after(refused.reset))
        }
    }
}

/// `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers): `t` is when there is more to be had.
pub(super) fn tell(headers: &mut HeaderMap, standings: &[Standing]) {
    if standings.is_empty() {
        return;
    }
    let join = |text: &dyn Fn(&Standing) -> String| standings.iter().map(text).collect::<Vec<_>>().join(", ");
    let policies = join(&|standing| format!("\"{}\";q={};w=60", standing.policy, standing.quota));
    let limits = join(&|standing| format!("\"{}\";r={};t={}", standing.policy, standing.remaining, standing.reset));
    for (name, value) in [("ratelimit-policy", policies), ("ratelimit", limits)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// A bucket of `burst` requests that fills by `quota` a minute. What is stored of it is one number: the time at which it
/// will be full.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    policy: &'static str,
    quota: u32,
    burst: u32,
}

impl Bucket {
    fn new(policy: &'static str, quota: u32, burst: u32) -> Self {
        Bucket { policy, quota: quota.max(1), burst: burst.max(1) }
    }

    /// Takes one out, if there is one.
    fn take(self, full_at: u64, now: u64) -> (u64, Standing) {
        let each = MINUTE / u64::from(self.quota);
        let whole = each * u64::from(self.burst);
        let missing = full_at.saturating_sub(now);
        let is_refused = missing + each > whole;
        let missing = if is_refused { missing } else { missing + each };
        let remaining = (whole - missing) / each;
        // The next one is there when what is missing is a multiple again.
        let until_next = missing - (missing.div_ceil(each) - 1) * each;
        let reset = Duration::from_nanos(until_next).as_millis().div_ceil(1000).max(1);
        let standing =
            Standing { policy: self.policy, quota: self.quota, remaining, reset: u64::try_from(reset).unwrap_or(60), is_refused };
        (now + missing, standing)
    }
}

/// Buckets of two ages. When the young half is full it becomes the old one, and what was not used since then is forgotten.
#[derive(Default)]
struct Ledger {
    young: HashMap<Key, u64>,
    old: HashMap<Key, u64>,
}

impl Ledger {
    fn get(&mut self, key: Key) -> u64 {
        self.young.get(&key).copied().or_else(|| self.old.remove(&key)).unwrap_or(0)
    }

    fn set(&mut self, key: Key, full_at: u64) {
        if self.young.len() >= HALF && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, full_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_bucket_gives_its_burst_and_then_what_flows_in() {
        let bucket = Bucket::new("default", 600, 100);
        let (mut full_at, start) = (0, 7 * SECOND);
        for number in 0..100 {
            let (next, standing) = bucket.take(full_at, start);
            assert_eq!((standing.remaining, standing.is_refused), (99 - number, false));
            full_at = next;
        }
        let (next, standing) = bucket.take(full_at, start);
        assert_eq!((standing.remaining, standing.reset, standing.is_refused), (0, 1, true));
        assert_eq!(next, full_at, "a refused request costs nothing");
        // A tenth of a second later there is one.
        let (next, standing) = bucket.take(full_at, start + SECOND / 10);
        assert!(!standing.is_refused && bucket.take(next, start + SECOND / 10).1.is_refused);
        // And after ten seconds all.
        assert_eq!(bucket.take(full_at, start + 10 * SECOND).1.remaining, 99);
    }

    #[test]
    fn the_time_told_is_when_there_is_more() {
        let bucket = Bucket::new("login", 10, 10);
        let mut full_at = 0;
        for _ in 0..10 {
            full_at = bucket.take(full_at, 0).0;
        }
        let (_, refused) = bucket.take(full_at, 2 * SECOND);
        assert_eq!((refused.remaining, refused.reset, refused.is_refused), (0, 4, true));
        assert!(bucket.take(full_at, 6 * SECOND - 1).1.is_refused && !bucket.take(full_at, 6 * SECOND).1.is_refused);
    }

    #[test]
    fn memory_is_bounded_and_what_is_used_is_not_forgotten() {
        let mut ledger = Ledger::default();
        let key = |number: u32| {
            let mut id = [0; 24];
            id[..4].copy_from_slice(&number.to_be_bytes());
            (Class::Anonymous, id)
        };
        ledger.set(key(0), 99);
        for number in 1..100_000 {
            ledger.set(key(number), 1);
            if number % 5000 == 0 {
                assert_eq!(ledger.get(key(0)), 99);
                ledger.set(key(0), 99);
            }
            assert!(ledger.young.len() + ledger.old.len() <= 2 * HALF);
        }
        assert_eq!(ledger.get(key(1)), 0);
    }
}
