//! Failed logins: five in fifteen minutes for one account from one address, then no more (decisions 4).

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::model::Timestamp;
use crate::model::network::Network;

const FAILURES: usize = 5;
const WINDOW: Duration = Duration::from_secs(15 * 60);
/// Pairs remembered at once; beyond it the longest unseen one is forgotten.
const REMEMBERED: usize = 10_000;

/// Counts failures in memory: a restart forgives.
#[derive(Default)]
pub struct Throttle {
    failures: Mutex<HashMap<(String, IpAddr), VecDeque<Timestamp>>>,
}

impl Throttle {
    /// Counts an attempt as failed before it is made, so that attempts at the same time count too. An error names the
    /// seconds to wait.
    pub fn begin(&self, account: &str, address: IpAddr, now: Timestamp) -> Result<(), u64> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= REMEMBERED {
            failures.retain(|_, times| times.back().is_some_and(|last| is_recent(*last, now)));
        }
        if failures.len() >= REMEMBERED
            && let Some(oldest) = failures.iter().min_by_key(|(_, times)| times.back().copied()).map(|(pair, _)| pair.clone())
        {
            failures.remove(&oldest);
        }
        let times = failures.entry((account.to_owned(), Network::customer(address))).or_default();
        while times.front().is_some_and(|first| !is_recent(*first, now)) {
            times.pop_front();
        }
        match times.front() {
            Some(first) if times.len() >= FAILURES => Err(first.plus(WINDOW).since(now).div_ceil(1000).max(1)),
            _ => {
                times.push_back(now);
                Ok(())
            }
        }
    }

    /// The attempt was the right one: nothing is held against this pair any more.
    pub fn succeeded(&self, account: &str, address: IpAddr) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.remove(&(account.to_owned(), Network::customer(address)));
    }
}

fn is_recent(time: Timestamp, now: Timestamp) -> bool {
    u128::from(now.since(time)) < WINDOW.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixth_attempt_waits_until_the_first_is_forgotten() {
        let throttle = Throttle::default();
        let address: IpAddr = [10, 0, 0, 1].into();
        for second in 0..5 {
            assert_eq!(throttle.begin("a@b", address, Timestamp(second * 1000)), Ok(()));
        }
        assert_eq!(throttle.begin("a@b", address, Timestamp(5000)), Err(895));
        assert_eq!(throttle.begin("a@b", [10, 0, 0, 2].into(), Timestamp(5000)), Ok(()), "another address");
        assert_eq!(throttle.begin("c@d", address, Timestamp(5000)), Ok(()), "another account");
        assert_eq!(throttle.begin("a@b", address, Timestamp(900_000)), Ok(()), "the window moved on");
        throttle.succeeded("a@b", address);
        assert_eq!(throttle.begin("a@b", address, Timestamp(900_001)), Ok(()));
    }
}
