//! Power loss under the product's own schema and writer: a disk that may lose, keep or tear whatever was not synced.
//!
//! `COOKHOUSE_POWER_LOSS_IMAGES` says how many crash images to look at (800 by default, so that the suite stays
//! quick); `COOKHOUSE_SEED` repeats a run.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use cookhouse::clock::Clock;
use cookhouse::model::{Build, Id, Organization, Status, Timestamp};
use cookhouse::store::{Read, StorageBackend, Store, StoreError};

use super::build;

type Versions = BTreeMap<Id<Build>, u64>;

/// The medium, what was written to it since the last sync, and what the clients know.
#[derive(Debug, Default)]
struct Disk {
    synced: Vec<u8>,
    seen: Vec<u8>,
    unsynced: Vec<Unsynced>,
    ignores_sync: bool,
    acknowledged: Versions,
    issued: Versions,
    crashes: Vec<Crash>,
    random: Random,
}

#[derive(Debug, Clone)]
enum Unsynced {
    Write(usize, Vec<u8>),
    Length(usize),
}

/// One instant: what lay on the platter for sure, what may, and what had been promised.
#[derive(Debug, Clone)]
struct Crash {
    synced: Vec<u8>,
    unsynced: Vec<Unsynced>,
    acknowledged: Versions,
    issued: Versions,
}

/// xorshift: small, and the same everywhere.
#[derive(Debug, Clone)]
struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Random(std::env::var("COOKHOUSE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x9e37_79b9_7f4a_7c15))
    }
}

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[derive(Debug, Clone, Default)]
struct Medium(Arc<Mutex<Disk>>);

impl Medium {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().expect("no test panics while it holds the disk")
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Unsynced) {
    match change {
        Unsynced::Length(length) => bytes.resize(*length, 0),
        Unsynced::Write(offset, data) => {
            // A lost change of the length leaves later writes beyond the end: a file system extends the file.
            bytes.resize(bytes.len().max(offset + data.len()), 0);
            bytes[*offset..offset + data.len()].copy_from_slice(data);
        }
    }
}

impl Disk {
    fn change(&mut self, change: Unsynced) {
        apply(&mut self.seen, &change);
        self.unsynced.push(change);
        if !self.issued.is_empty() && self.random.below(8) == 0 {
            self.crashes.push(Crash {
                synced: self.synced.clone(),
                unsynced: self.unsynced.clone(),
                acknowledged: self.acknowledged.clone(),
                issued: self.issued.clone(),
            });
        }
    }
}

impl StorageBackend for Medium {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk().seen.len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let disk = self.disk();
        let range = disk.seen.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(range.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk().change(Unsynced::Length(length as usize));
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.disk();
        if !disk.ignores_sync {
            disk.unsynced.clear();
            disk.synced = disk.seen.clone();
        }
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk().change(Unsynced::Write(offset as usize, data.to_vec()));
        Ok(())
    }
}

/// What the platter holds after the crash: of the unsynced changes nothing, all, or some of them, some torn.
fn platter(crash: &Crash, kind: u64, random: &mut Random) -> Vec<u8> {
    let mut bytes = crash.synced.clone();
    for change in &crash.unsynced {
        match (kind, change) {
            (0, _) => {}
            (1, _) => apply(&mut bytes, change),
            (_, Unsynced::Write(offset, data)) if kind % 2 == 1 => {
                for (place, sector) in data.chunks(512).enumerate() {
                    if random.below(2) == 0 {
                        apply(&mut bytes, &Unsynced::Write(offset + place * 512, sector.to_vec()));
                    }
                }
            }
            _ if random.below(2) == 0 => apply(&mut bytes, change),
            _ => {}
        }
    }
    bytes
}

/// What is wrong with a store that was opened on this platter.
fn violations(platter: Vec<u8>, crash: &Crash, organization: Id<Organization>) -> Result<(), String> {
    let disk = Disk { synced: platter.clone(), seen: platter, ..Disk::default() };
    let medium = Medium(Arc::new(Mutex::new(disk)));
    let opened = std::panic::catch_unwind(move || Store::open_on(move || medium.clone()));
    let store = opened.map_err(|_| "opening panicked")?.map_err(|error| format!("it does not open: {error}"))?;
    for (id, promised) in &crash.acknowledged {
        let found: Option<Build> = store.read(|snapshot| snapshot.get(organization, *id)).map_err(|error: StoreError| error.to_string())?;
        let found = found.ok_or(format!("{id} was acknowledged and is gone"))?.log_lines;
        if found < *promised || found > crash.issued[id] {
            return Err(format!("{id}: version {promised} was acknowledged, {found} found"));
        }
    }
    let complaints = store.check().map_err(|error| error.to_string())?;
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("; ")) }
}

/// Clients that create builds and move them, and note what they were promised.
fn crashes(ignores_sync: bool, rounds: usize) -> (Vec<Crash>, Id<Organization>) {
    let medium = Medium::default();
    let clock = Clock::default();
    let organization = clock.new_id();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let opened = medium.clone();
    let store = Store::open_on(move || opened.clone()).expect("a new store");
    medium.disk().ignores_sync = ignores_sync;
    let client = |client: usize| {
        let (medium, store) = (medium.clone(), store.clone());
        let builds: Vec<Build> = (0..rounds).map(|_| build(&clock, organization, "Win64", &format!("branch-{client}"))).collect();
        async move {
            for mut build in builds {
                for version in 1..=3 {
                    build.log_lines = version;
                    if version == 2 {
                        build = build.moved_to(Status::Running, Timestamp(1)).expect("allowed");
                    }
                    medium.disk().issued.insert(build.id, version);
                    let record = build.clone();
                    store.write(move |change| change.put(&record)).await.expect("written");
                    medium.disk().acknowledged.insert(build.id, version);
                }
            }
        }
    };
    runtime.block_on(async {
        let clients: Vec<_> = (0..6).map(|number| tokio::spawn(client(number))).collect();
        for client in clients {
            client.await.expect("no panic");
        }
    });
    let crashes = std::mem::take(&mut medium.disk().crashes);
    (crashes, organization)
}

#[test]
fn nothing_acknowledged_is_lost_whatever_the_disk_forgets() {
    let wanted: usize = std::env::var("COOKHOUSE_POWER_LOSS_IMAGES").ok().and_then(|count| count.parse().ok()).unwrap_or(800);
    let mut random = Random::default();
    let mut images = 0;
    while images < wanted {
        let (crashes, organization) = crashes(false, 6);
        assert!(!crashes.is_empty(), "the workload wrote nothing");
        let step = (crashes.len() * 8 / wanted).max(1);
        for (number, crash) in crashes.iter().step_by(step).enumerate() {
            for kind in 0..8 {
                let outcome = violations(platter(crash, kind, &mut random), crash, organization);
                assert_eq!(outcome, Ok(()), "crash {number}, image kind {kind}, after {images} images");
                images += 1;
            }
        }
    }
    eprintln!("{images} crash images, 0 violations");
}

#[test]
fn a_disk_that_ignores_syncing_is_caught() {
    let mut random = Random::default();
    let (crashes, organization) = crashes(true, 4);
    let caught =
        crashes.iter().rev().take(20).filter(|crash| violations(platter(crash, 0, &mut random), crash, organization).is_err()).count();
    assert!(caught > 0, "the simulation cannot see lost writes");
}
