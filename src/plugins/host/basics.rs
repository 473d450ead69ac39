//! `clock`, `random`, `config` and `cache`: always granted.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::super::bindings::{cache, clock, config, random};
use super::{CallState, Failure};

const MOST_RANDOM: u32 = 64 * 1024;

impl clock::Host for CallState {
    async fn now_ms(&mut self) -> wasmtime::Result<u64> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    async fn monotonic_ms(&mut self) -> wasmtime::Result<u64> {
        Ok(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    async fn remaining_ms(&mut self) -> wasmtime::Result<u64> {
        Ok(u64::try_from(self.remaining().as_millis()).unwrap_or(u64::MAX))
    }

    async fn sleep_ms(&mut self, duration: u32) -> Result<(), Failure> {
        let until = Instant::now() + Duration::from_millis(duration.into());
        self.unless_cancelled(tokio::time::sleep_until(until)).await
    }
}

impl random::Host for CallState {
    async fn bytes(&mut self, length: u32) -> wasmtime::Result<Vec<u8>> {
        if length > MOST_RANDOM {
            return Err(wasmtime::Error::msg("random.bytes gives at most 64 KiB"));
        }
        let mut bytes = vec![0; length as usize];
        getrandom::fill(&mut bytes).map_err(|_| wasmtime::Error::msg("no randomness on this machine"))?;
        Ok(bytes)
    }
}

impl config::Host for CallState {
    async fn document(&mut self) -> wasmtime::Result<String> {
        Ok(self.config.to_string())
    }

    async fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.config.get(&key).map(ToString::to_string))
    }
}

impl cache::Host for CallState {
    async fn get(&mut self, key: String) -> wasmtime::Result<Option<Vec<u8>>> {
        Ok(self.cache.get(&key))
    }

    async fn put(&mut self, key: String, value: Vec<u8>, ttl_ms: u64) -> wasmtime::Result<()> {
        self.cache.put(key, value, Duration::from_millis(ttl_ms));
        Ok(())
    }

    async fn add(&mut self, key: String, value: Vec<u8>, ttl_ms: u64) -> wasmtime::Result<bool> {
        Ok(self.cache.add(key, value, Duration::from_millis(ttl_ms)))
    }

    async fn remove(&mut self, key: String) -> wasmtime::Result<()> {
        self.cache.remove(&key);
        Ok(())
    }
}
