//! The promise, tried: a server that is killed at any instant loses nothing that it accepted, leaves no process and no
//! half artifact behind, and the next start needs nobody.
//!
//! The suite kills a hundred times. `COOKHOUSE_KILLS=1000` kills that often, `COOKHOUSE_KILL_SEED` repeats a run.

mod chromium;
mod following;
pub(crate) mod site;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::time::{Duration, Instant};

use cookhouse::model::build_setting::{Schedule, Trigger};
use cookhouse::model::schedule_slot::SlotOutcome;
use cookhouse::model::{BuildSetting, ScheduleSlot, Timestamp};
use cookhouse::store::{Read, Store, StoreError};
use md5::Md5;
use serde_json::Value;
use sha2::{Digest, Sha256};

use site::{Process, Site, processes};

/// How often, where the environment does not say.
const KILLS: usize = 100;
/// Enough for a machine that does a lot else.
const PATIENCE: Duration = Duration::from_secs(240);

/// Slow enough in each stage to be met there, with a daemon that outlives its build.
const PROJECT: &str = "[Build]\nDaemons=1\nSleep=0.1\n[Cook]\nPrint=cooking\nSleep=0.2\n[Stage]\nRandomBytes=6000000\n";

/// A small generator (splitmix64): a run can be repeated from its seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn md5(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// What the driver knows.
struct Driver {
    site: Site,
    chance: Chance,
    /// Answered with 201.
    accepted: BTreeSet<String>,
    /// Complete builds whose artifact was fetched and compared.
    verified: BTreeSet<String>,
    /// How often a kill met which step.
    met: BTreeMap<String, usize>,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing_and_leaves_nothing() {
    let kills = number("COOKHOUSE_KILLS").map_or(KILLS, |count| count as usize);
    let seed = number("COOKHOUSE_KILL_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        u64::from(now.subsec_nanos()) ^ now.as_secs()
    });
    println!("{kills} kills, COOKHOUSE_KILL_SEED={seed}");
    let began = Instant::now();
    let mut driver = Driver {
        site: Site::open(PROJECT).await,
        chance: Chance(seed),
        accepted: BTreeSet::new(),
        verified: BTreeSet::new(),
        met: BTreeMap::new(),
    };
    for _ in 0..kills {
        driver.trigger().await;
        let left = driver.kill_somewhere().await;
        driver.site.start();
        driver.check_start(&left).await;
    }
    driver.finish().await;
    let Driver { accepted, verified, met, .. } = &driver;
    println!("{} accepted, {} artifacts verified, met in the middle of {met:?}, {:?}", accepted.len(), verified.len(), began.elapsed());
    if kills >= 100 {
        for step in ["sync", "build", "package", "deploy"] {
            assert!(met.contains_key(step), "no kill met {step}: {met:?}");
        }
    }
}

impl Driver {
    /// Keeps something to do: running builds, and some that wait.
    async fn trigger(&mut self) {
        let unfinished = self.site.builds().await.iter().filter(|build| matches!(text(build, "status"), "pending" | "running")).count();
        for _ in unfinished..4 {
            let setting = self.site.settings[self.chance.below(2)].clone();
            self.accepted.extend(self.site.caller().trigger(&setting).await);
        }
    }

    /// Waits for a step or a while, and kills, sometimes in the middle of a request. The processes that were there.
    async fn kill_somewhere(&mut self) -> Vec<Process> {
        let wanted = ["sync", "prepare", "build", "package", "deploy", "anywhere", "anywhere"][self.chance.below(7)];
        let until = Instant::now() + Duration::from_millis(if wanted == "anywhere" { self.chance.below(1500) as u64 } else { 4000 });
        while Instant::now() < until && !self.is_in(wanted).await {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        let pause = [0, 3, 30, 100][self.chance.below(4)];
        tokio::time::sleep(Duration::from_millis(self.chance.below(pause + 1) as u64)).await;
        let late = (self.chance.below(3) == 0).then(|| {
            let (caller, setting) = (self.site.caller(), self.site.settings[self.chance.below(2)].clone());
            tokio::spawn(async move { caller.trigger(&setting).await })
        });
        if late.is_some() {
            tokio::time::sleep(Duration::from_millis(self.chance.below(12) as u64)).await;
        }
        let left = processes(&self.site.data);
        self.site.kill();
        if let Some(late) = late {
            self.accepted.extend(late.await.expect("it answers or fails"));
        }
        left
    }

    async fn is_in(&self, step: &str) -> bool {
        let page = self.site.get("/builds?limit=10").await;
        page["items"].as_array().into_iter().flatten().any(|build| match step {
            "deploy" => text(build, "autoDeployStatus") == "in_progress",
            step => {
                build["steps"].as_array().into_iter().flatten().any(|one| text(one, "name") == step && text(one, "status") == "running")
            }
        })
    }

    /// What must hold as soon as the server is ready again.
    async fn check_start(&mut self, left: &[Process]) {
        let survivors: Vec<_> = processes(&self.site.data).into_iter().filter(|process| left.contains(process)).collect();
        assert_eq!(survivors, [], "processes of the killed run are still there");
        let builds = self.site.builds().await;
        let ids: BTreeSet<&str> = builds.iter().map(|build| text(build, "id")).collect();
        let lost: Vec<_> = self.accepted.iter().filter(|id| !ids.contains(id.as_str())).collect();
        assert!(lost.is_empty(), "accepted and lost: {lost:?}");
        assert!(builds.iter().filter(|build| text(build, "status") == "running").count() <= 2, "more run than there are slots");
        self.check_successors(&builds);
        self.verify(&builds).await;
    }

    /// Exactly one for each interrupted build, with the same cause; none for any other.
    fn check_successors(&self, builds: &[Value]) {
        for build in builds {
            let successors: Vec<_> = builds.iter().filter(|other| other["retryOf"] == build["id"]).collect();
            let is_interrupted = build["failure"]["code"] == "interrupted";
            assert_eq!(successors.len(), usize::from(is_interrupted), "{build:#} has {successors:#?}");
            assert!(successors.iter().all(|successor| successor["triggeredBy"] == build["triggeredBy"]));
        }
    }

    /// Every complete build's artifact is whole, through its signed link.
    async fn verify(&mut self, builds: &[Value]) {
        let caller = self.site.caller();
        for build in builds {
            let id = text(build, "id");
            let is_complete = text(build, "status") == "complete";
            if !is_complete || self.verified.contains(id) {
                assert!(is_complete || build["artifact"].is_null(), "an artifact of a build that is not complete: {build:#}");
                continue;
            }
            let record = self.site.get(&format!("/builds/{id}/download")).await;
            let reply = caller.follow(text(&record, "url")).await.expect("an answer").expect(200);
            assert_eq!(Some(reply.body.len() as u64), record["sizeBytes"].as_u64());
            assert_eq!(
                (md5(&reply.body).as_str(), sha256(&reply.body).as_str()),
                (text(&record, "checksumMd5"), text(&build["artifact"], "checksumSha256"))
            );
            let mut unpacked = Vec::new();
            flate2::read::MultiGzDecoder::new(reply.body.as_slice()).read_to_end(&mut unpacked).expect("a whole gzip file");
            assert!(unpacked.len() > 6_000_000);
            self.verified.insert(id.to_owned());
        }
    }

    /// Lets everything end, and looks at what is left.
    async fn finish(&mut self) {
        let patience = Instant::now() + PATIENCE;
        let is_over = |build: &Value| {
            !matches!(text(build, "status"), "pending" | "running") && !matches!(text(build, "autoDeployStatus"), "pending" | "in_progress")
        };
        let builds = loop {
            let builds = self.site.builds().await;
            if builds.iter().all(is_over) {
                break builds;
            }
            assert!(Instant::now() < patience, "these never end: {:#?}", builds.iter().filter(|build| !is_over(build)).collect::<Vec<_>>());
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        self.check_successors(&builds);
        self.verify(&builds).await;
        for build in &builds {
            let is_interrupted = build["failure"]["code"] == "interrupted";
            // The clock's own build may still wait when it is due again.
            let is_superseded = text(build, "status") == "superseded" && text(build, "triggeredBy") == "cron";
            assert!(text(build, "status") == "complete" || is_interrupted || is_superseded, "it ended in a way of its own: {build:#}");
            if is_interrupted {
                *self.met.entry(text(&build["failure"], "step").to_owned()).or_default() += 1;
            }
            self.check_deploy(build);
            let detail = self.site.get(&format!("/builds/{}", text(build, "id"))).await;
            let last = detail["recentLogs"].as_array().and_then(|lines| lines.last()).map(|line| line["seq"].clone());
            assert_eq!(last.unwrap_or(Value::from(0)), detail["logLines"], "the log has a hole at its end");
        }
        self.site.terminate();
        assert_eq!(processes(&self.site.data), [], "processes outlive the server");
        self.check_disk(&builds);
    }

    /// Sent at the most once, whatever happened.
    fn check_deploy(&mut self, build: &Value) {
        let deliveries = self.site.receiver().deliveries.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let count = deliveries.get(text(build, "id")).copied().unwrap_or(0);
        match text(build, "autoDeployStatus") {
            "succeeded" => assert_eq!(count, 1, "{build:#}"),
            "failed" => {
                assert!(count <= 1 && build["autoDeployError"]["code"] == "interrupted", "{build:#}");
                *self.met.entry("deploy".to_owned()).or_default() += 1;
            }
            _ => assert_eq!(count, 0, "{build:#}"),
        }
    }

    /// No temporary file, no artifact that nobody knows, no index that disagrees.
    fn check_disk(&self, builds: &[Value]) {
        let names = |directory: &str| -> Vec<String> {
            let entries = std::fs::read_dir(self.site.data.join(directory)).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names("temporary"), Vec::<String>::new());
        assert!(names("").iter().all(|name| !name.ends_with(".new") && !name.ends_with(".part")), "{:?}", names(""));
        assert!(names("workspaces").iter().all(|name| self.site.settings.contains(name)), "{:?}", names("workspaces"));
        let complete: BTreeSet<String> = builds
            .iter()
            .filter(|build| text(build, "status") == "complete")
            .map(|build| format!("{}.tar.gz", text(build, "id")))
            .collect();
        let stored: BTreeSet<String> =
            names("artifacts").iter().filter(|name| name.len() == 2).flat_map(|name| names(&format!("artifacts/{name}"))).collect();
        assert_eq!(stored, complete);
        let settings = cookhouse::store::Settings { path: self.site.data.join("store.redb"), cache_bytes: 1 << 22 };
        let store = Store::open(&settings).expect("it opens");
        assert_eq!(store.check().expect("checked"), Vec::<String>::new());
        self.check_schedules(&store, builds);
    }

    /// Every due time left one record, and every build of the clock's belongs to one of them.
    fn check_schedules(&self, store: &Store, builds: &[Value]) {
        let (mut slots, mut settings) = (Vec::<ScheduleSlot>::new(), Vec::<BuildSetting>::new());
        let read: Result<(), StoreError> = store.read(|snapshot| {
            snapshot.every(|slot| {
                slots.push(slot);
                Ok(true)
            })?;
            snapshot.every(|setting| {
                settings.push(setting);
                Ok(true)
            })
        });
        read.expect("read");
        for (id, first) in &self.site.scheduled {
            let setting = settings.iter().find(|setting| setting.id.as_str() == id).expect("it is there");
            let Trigger::Scheduled(Schedule { next_run_at: Some(next), .. }) = &setting.trigger else { panic!("{setting:?}") };
            let mut due = BTreeSet::new();
            let mut time = Timestamp::parse(first).expect("a time");
            while time < *next {
                due.insert(time);
                time = Timestamp(time.0 + 5 * 60 * 1000);
            }
            let recorded: Vec<Timestamp> =
                slots.iter().filter(|slot| slot.build_setting_id.as_str() == id).map(|slot| slot.due_at).collect();
            assert_eq!(recorded.iter().copied().collect::<BTreeSet<_>>(), due, "due times and their records");
            assert_eq!(recorded.len(), due.len(), "a due time with two records");
        }
        let built: Vec<String> = slots
            .iter()
            .filter_map(|slot| match slot.outcome {
                SlotOutcome::Built { build_id } => Some(build_id.as_str().to_owned()),
                SlotOutcome::Coalesced { .. } | SlotOutcome::Skipped { .. } => None,
            })
            .collect();
        let mut by_clock: Vec<String> = builds
            .iter()
            .filter(|build| text(build, "triggeredBy") == "cron" && build["retryOf"].is_null())
            .map(|build| text(build, "id").to_owned())
            .collect();
        by_clock.sort();
        assert_eq!(by_clock, built.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(), "builds of the clock");
        assert_eq!(built.len(), by_clock.len(), "a build of two due times");
        println!("{} due times, {} builds of the clock", slots.len(), by_clock.len());
    }
}
