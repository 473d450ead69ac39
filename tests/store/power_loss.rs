//! Power loss under the product's own schema and writer: a disk that may lose, keep or tear whatever was not synced.
//!
//! `COOKHOUSE_POWER_LOSS_IMAGES` says how many crash images to look at (800 by default, so that the suite stays
//! quick); `COOKHOUSE_SEED` repeats a run.

use std::collections::{BTreeMap, HashMap};
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
    synced: Arc<Vec<u8>>,
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
    synced: Arc<Vec<u8>>,
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
            disk.synced = Arc::new(disk.seen.clone());
        }
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk().change(Unsynced::Write(offset as usize, data.to_vec()));
        Ok(())
    }
}

/// Bytes that are looked at and changed together.
const PAGE: usize = 4096;

/// What lies on a disk after a crash: what was synced, shared by all images of that crash, and pages that differ.
#[derive(Debug, Clone, Default)]
struct Platter {
    synced: Arc<Vec<u8>>,
    length: usize,
    changed: HashMap<usize, Box<[u8; PAGE]>>,
    /// What was written since the last sync, for a second crash; with how many of these writes the power goes.
    unsynced: Vec<Unsynced>,
    power: Option<usize>,
}

impl Platter {
    fn of(synced: Arc<Vec<u8>>) -> Platter {
        Platter { length: synced.len(), synced, ..Platter::default() }
    }

    fn page(&self, number: usize) -> [u8; PAGE] {
        if let Some(page) = self.changed.get(&number) {
            return **page;
        }
        let mut page = [0; PAGE];
        let start = (number * PAGE).min(self.synced.len());
        let end = (start + PAGE).min(self.synced.len());
        page[..end - start].copy_from_slice(&self.synced[start..end]);
        page
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        // A lost change of the length leaves later writes beyond the end: a file system extends the file.
        self.length = self.length.max(offset + data.len());
        let mut done = 0;
        while done < data.len() {
            let (number, place) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let count = (PAGE - place).min(data.len() - done);
            let mut page = self.page(number);
            page[place..place + count].copy_from_slice(&data[done..done + count]);
            self.changed.insert(number, Box::new(page));
            done += count;
        }
    }

    fn resize(&mut self, length: usize) {
        if length < self.length {
            // What is cut off is zero if the file grows again.
            for number in length / PAGE..self.length.div_ceil(PAGE) {
                let mut page = self.page(number);
                let kept = length.saturating_sub(number * PAGE).min(PAGE);
                page[kept..].fill(0);
                self.changed.insert(number, Box::new(page));
            }
        }
        self.length = length;
    }

    fn apply(&mut self, change: &Unsynced) {
        match change {
            Unsynced::Length(length) => self.resize(*length),
            Unsynced::Write(offset, data) => self.write(*offset, data),
        }
    }

    /// What is left of this when the power goes: of the unsynced changes nothing, all, or some of them, some torn.
    fn after(mut self, unsynced: &[Unsynced], kind: u64, random: &mut Random) -> Platter {
        for change in unsynced {
            match (kind, change) {
                (0, _) => {}
                (1, _) => self.apply(change),
                (_, Unsynced::Write(offset, data)) if kind % 2 == 1 => {
                    for (place, sector) in data.chunks(512).enumerate() {
                        if random.below(2) == 0 {
                            self.write(offset + place * 512, sector);
                        }
                    }
                }
                _ if random.below(2) == 0 => self.apply(change),
                _ => {}
            }
        }
        self
    }
}

/// A disk on which somebody looks at what a crash left.
#[derive(Debug, Clone)]
struct Image(Arc<Mutex<(Platter, Platter)>>);

impl Image {
    fn new(platter: Platter, power: Option<usize>) -> Image {
        let now = Platter { power, ..platter.clone() };
        Image(Arc::new(Mutex::new((now, platter))))
    }

    fn change(&self, change: Unsynced) -> io::Result<()> {
        let (now, _) = &mut *self.0.lock().expect("not poisoned");
        if let Some(power) = &mut now.power {
            *power = power.checked_sub(1).ok_or_else(|| io::Error::other("the power is gone"))?;
            now.unsynced.push(change.clone());
        }
        now.apply(&change);
        Ok(())
    }
}

impl StorageBackend for Image {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().expect("not poisoned").0.length as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (now, _) = &*self.0.lock().expect("not poisoned");
        let offset = offset as usize;
        if offset + out.len() > now.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut done = 0;
        while done < out.len() {
            let (number, place) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let count = (PAGE - place).min(out.len() - done);
            let start = number * PAGE + place;
            match now.changed.get(&number) {
                Some(page) => out[done..done + count].copy_from_slice(&page[place..place + count]),
                None if start + count <= now.synced.len() => out[done..done + count].copy_from_slice(&now.synced[start..start + count]),
                None => out[done..done + count].copy_from_slice(&now.page(number)[place..place + count]),
            }
            done += count;
        }
        Ok(())
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.change(Unsynced::Length(length as usize))
    }
    fn sync_data(&self) -> io::Result<()> {
        let (now, synced) = &mut *self.0.lock().expect("not poisoned");
        if now.power == Some(0) {
            return Err(io::Error::other("the power is gone"));
        }
        if now.power.is_some() {
            now.unsynced.clear();
            *synced = Platter { power: None, ..now.clone() };
        }
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Unsynced::Write(offset as usize, data.to_vec()))
    }
}

/// What a second crash leaves, while the store is opened after the first or takes its next write.
fn crashed_again(platter: Platter, organization: Id<Organization>, random: &mut Random) -> Platter {
    let image = Image::new(platter, Some(random.below(40) as usize));
    let medium = image.clone();
    // What a store says that loses its disk in the middle is no news here.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let _ = std::panic::catch_unwind(move || {
        if let Ok(store) = Store::open_on(move || medium.clone()) {
            let late = build(&Clock::default(), organization, "Win64", "late");
            let _ = store.write_blocking::<_, StoreError>(move |change| change.put(&late));
        }
    });
    std::panic::set_hook(hook);
    let (now, synced) = &*image.0.lock().expect("not poisoned");
    let kind = random.below(8);
    synced.clone().after(&now.unsynced, kind, random)
}

/// What is wrong with a store that was opened on this platter.
fn violations(platter: Platter, crash: &Crash) -> Result<(), String> {
    let image = Image::new(platter, None);
    let opened = std::panic::catch_unwind(move || Store::open_on(move || image.clone()));
    let store = opened.map_err(|_| "opening panicked")?.map_err(|error| format!("it does not open: {error}"))?;
    let kept: Versions = store
        .read(|snapshot| {
            let mut kept = Versions::new();
            snapshot.every(|build: Build| {
                kept.insert(build.id, build.log_lines);
                Ok(true)
            })?;
            Ok(kept)
        })
        .map_err(|error: StoreError| error.to_string())?;
    for (id, promised) in &crash.acknowledged {
        let found = *kept.get(id).ok_or(format!("{id} was acknowledged and is gone"))?;
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

/// Every kind of loss, and each with a second crash on top.
const IMAGES_OF_A_CRASH: usize = 16;

#[test]
fn nothing_acknowledged_is_lost_whatever_the_disk_forgets() {
    let wanted: usize = std::env::var("COOKHOUSE_POWER_LOSS_IMAGES").ok().and_then(|count| count.parse().ok()).unwrap_or(800);
    let mut random = Random::default();
    let (mut images, mut workloads, mut points) = (0, 0, 0);
    while images < wanted {
        // Now and then one that makes the file grow a lot.
        let (crashes, organization) = crashes(false, if workloads % 10 == 9 { 60 } else { 6 });
        assert!(!crashes.is_empty(), "the workload wrote nothing");
        workloads += 1;
        let step = (crashes.len() * IMAGES_OF_A_CRASH / wanted).max(1);
        for (number, crash) in crashes.iter().step_by(step).enumerate() {
            points += 1;
            for kind in 0..IMAGES_OF_A_CRASH as u64 {
                let mut platter = Platter::of(crash.synced.clone()).after(&crash.unsynced, kind % 8, &mut random);
                if kind >= 8 {
                    platter = crashed_again(platter, organization, &mut random);
                }
                let outcome = violations(platter, crash);
                assert_eq!(outcome, Ok(()), "crash {number} of workload {workloads}, image kind {kind}, after {images} images");
                images += 1;
            }
            if images >= wanted {
                break;
            }
        }
    }
    eprintln!("{images} images of {points} crashes in {workloads} workloads, half of them crashed twice: 0 violations");
}

#[test]
fn a_disk_that_ignores_syncing_is_caught() {
    let mut random = Random::default();
    let (crashes, _) = crashes(true, 4);
    let image = |crash: &Crash, random: &mut Random| Platter::of(crash.synced.clone()).after(&crash.unsynced, 0, random);
    let caught = crashes.iter().rev().take(20).filter(|crash| violations(image(crash, &mut random), crash).is_err()).count();
    assert!(caught > 0, "the simulation cannot see lost writes");
}

#[test]
fn a_platter_reads_what_was_written() {
    let mut random = Random::default();
    let image = Image::new(Platter::of(Arc::new(vec![7; 3 * PAGE + 100])), None);
    let mut plain = vec![7u8; 3 * PAGE + 100];
    for _ in 0..500 {
        match random.below(5) {
            0 => {
                let length = random.below(6 * PAGE as u64) as usize;
                plain.resize(length, 0);
                image.set_len(length as u64).expect("resized");
            }
            _ => {
                let data = vec![random.below(256) as u8; 1 + random.below(2 * PAGE as u64) as usize];
                let offset = random.below(plain.len() as u64 + 1) as usize;
                plain.resize(plain.len().max(offset + data.len()), 0);
                plain[offset..offset + data.len()].copy_from_slice(&data);
                image.write(offset as u64, &data).expect("written");
            }
        }
        let mut read = vec![0; plain.len()];
        image.read(0, &mut read).expect("read");
        assert!(read == plain);
    }
}
