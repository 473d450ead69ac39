//! Builds that do all they can to stay, to hide and to flood: each ends, is recorded as it was, and leaves no process.
//!
//! The suite tries a few kinds. `COOKHOUSE_HOSTILE_BUILDS=200` tries that many mixtures, `COOKHOUSE_HOSTILE_SEED` repeats them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cookhouse::model::build::FailureCode;
use cookhouse::model::{Build, Id, Status};

use crate::support::farm::Farm;

/// What a build does, and what has to come of it.
#[derive(Debug, Clone, Default)]
struct Mischief {
    stage: &'static str,
    acts: Vec<String>,
    end: End,
    /// Its output is closed: nobody hears that it ended well.
    is_mute: bool,
    /// It prints at least so many lines.
    lines: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum End {
    #[default]
    ByItself,
    Fails,
    Crashes(&'static str),
    /// Cancelled while it hangs.
    Hangs(&'static str),
}

impl Mischief {
    fn new(stage: &'static str, acts: &[&str], end: End) -> Mischief {
        let mut mischief = Mischief { stage, end, ..Mischief::default() };
        acts.iter().for_each(|act| mischief.act(act));
        mischief
    }

    fn act(&mut self, act: &str) {
        self.is_mute |= act.starts_with("CloseOutput");
        if let (Some(count), false) = (act.strip_prefix("Lines="), self.is_mute) {
            self.lines += count.parse::<u64>().expect("a number");
        }
        if let (Some(length), false) = (act.strip_prefix("LongLine="), self.is_mute) {
            // A line is cut at 16 KiB into several.
            self.lines += length.parse::<u64>().expect("a number") / (16 << 10);
        }
        self.acts.push(act.to_owned());
    }

    fn text(&self) -> String {
        let mut text = format!("[{}]\n{}\n", self.stage, self.acts.join("\n"));
        text += &match self.end {
            End::ByItself => String::new(),
            End::Fails => "Fail=25\n".to_owned(),
            End::Crashes(signal) => format!("Crash={signal}\n"),
            End::Hangs(how) => format!("Touch=Saved/hanging\nHang={how}\n"),
        };
        text
    }
}

/// The kinds, each once.
fn kinds() -> Vec<Mischief> {
    vec![
        Mischief::new("Cook", &["Daemons=40"], End::ByItself),
        Mischief::new("Stage", &["Daemons=3", "DaemonEnvironment=clean", "DaemonOutput=held"], End::ByItself),
        Mischief::new("Build", &["IgnoreTerm=1", "Daemons=2", "DaemonEnvironment=clean"], End::Hangs("silent")),
        Mischief::new("Cook", &["Lines=100", "CloseOutput=1"], End::ByItself),
        Mischief::new("Cook", &["CloseOutput=1", "Daemons=2", "DaemonOutput=held"], End::Hangs("silent")),
        Mischief::new("Archive", &["LongLine=104857600"], End::ByItself),
        Mischief::new("Cook", &["Lines=200000"], End::Hangs("noisy")),
        Mischief::new("Start", &["Bytes=invalid", "Bytes=nul", "Bytes=utf16", "Bytes=ansi", "Bytes=cr", "Bytes=bom"], End::ByItself),
        Mischief::new("End", &["Bytes=unterminated"], End::Crashes("KILL")),
        Mischief::new("Archive", &["Daemons=5", "DaemonOutput=held"], End::Crashes("SEGV")),
        Mischief::new("Cook", &["Daemons=1", "Bytes=unterminated"], End::Fails),
        Mischief::new("Start", &["Lines=1000", "Daemons=1"], End::Crashes("ABRT")),
    ]
}

/// A mixture of them (splitmix64 decides).
fn mixture(seed: &mut u64) -> Mischief {
    let mut below = |limit: usize| {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    };
    let stage = ["Start", "Build", "Cook", "Stage", "Archive", "End"][below(6)];
    let end =
        [End::ByItself, End::ByItself, End::Fails, End::Crashes("SEGV"), End::Crashes("KILL"), End::Hangs("silent"), End::Hangs("noisy")]
            [below(7)];
    let mut mischief = Mischief::new(stage, &[], end);
    for _ in 0..=below(4) {
        match below(9) {
            0 | 1 => mischief.act(&format!("Daemons={}", 1 + below(30))),
            2 => mischief.act("DaemonEnvironment=clean"),
            3 => mischief.act("DaemonOutput=held"),
            4 => mischief.act(&format!("Lines={}", [1, 1000, 50_000, 1_000_000][below(4)])),
            5 => mischief.act(&format!("LongLine={}", [20_000, 1 << 20, 100 << 20][below(3)])),
            6 | 7 => mischief.act(["Bytes=invalid", "Bytes=nul", "Bytes=utf16", "Bytes=ansi", "Bytes=cr", "Bytes=unterminated"][below(6)]),
            _ => mischief.act(["IgnoreTerm=1", "CloseOutput=1"][below(2)]),
        }
    }
    mischief
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_build_does_it_ends_is_recorded_and_leaves_nothing() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let mut seed = number("COOKHOUSE_HOSTILE_SEED").unwrap_or(1);
    let mut builds = kinds();
    while (builds.len() as u64) < number("COOKHOUSE_HOSTILE_BUILDS").unwrap_or(0) {
        builds.push(mixture(&mut seed));
    }
    let farm = Farm::start_with(|settings| settings.timeout = Duration::from_secs(600)).await;
    let mut ends = std::collections::BTreeMap::<String, usize>::new();
    for mischief in &builds {
        let build = run(&farm, mischief).await;
        check(&farm, mischief, &build).await;
        *ends.entry(build.failure.map_or("Complete".to_owned(), |failure| format!("{:?}", failure.code))).or_default() += 1;
    }
    println!("{} hostile builds: {ends:?}", builds.len());
    farm.mischief("");
    assert_eq!(farm.build().await.status, Status::Complete, "and the next one finds everything in order");
}

fn saved(farm: &Farm) -> PathBuf {
    farm.home.path().join("workspaces").join(farm.records.setting.id.as_str()).join("source/Game/Saved")
}

async fn run(farm: &Farm, mischief: &Mischief) -> Build {
    farm.mischief(&mischief.text());
    let hanging = saved(farm).join("hanging");
    let _ = std::fs::remove_file(&hanging);
    let build = farm.trigger().await;
    if let End::Hangs(_) = mischief.end {
        let patience = Instant::now() + Duration::from_secs(200);
        while !hanging.exists() {
            assert!(Instant::now() < patience, "it never hung: {mischief:?}\n{}", farm.text(build.id).await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        farm.builds.cancel(build.organization_id, build.id).await.expect("accepted");
    }
    finished(farm, build.id).await
}

/// As [`Farm::finished`], with patience for floods.
async fn finished(farm: &Farm, id: Id<Build>) -> Build {
    let patience = Instant::now() + Duration::from_secs(600);
    loop {
        let build = farm.read(id);
        if !build.status.is_unfinished() {
            return build;
        }
        assert!(Instant::now() < patience, "it never ends: {build:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn check(farm: &Farm, mischief: &Mischief, build: &Build) {
    let code = build.failure.as_ref().map(|failure| failure.code);
    match mischief.end {
        End::ByItself if !mischief.is_mute => assert_eq!(build.status, Status::Complete, "{mischief:?} {build:#?}"),
        End::Hangs(_) => assert_eq!(code, Some(FailureCode::Cancelled), "{mischief:?}"),
        _ => assert!(
            matches!(code, Some(FailureCode::BuildStepFailed | FailureCode::StagingFailed)) && build.artifact.is_none(),
            "{mischief:?} {build:#?}"
        ),
    }
    assert_eq!(farm.processes(), Vec::<String>::new(), "{mischief:?}");
    for entry in std::fs::read_dir(saved(farm).join("StandIn")).into_iter().flatten().flatten() {
        // A number may have been given to somebody else since; the daemons sleep under their own name.
        let pid = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let command = std::fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
        assert_ne!(String::from_utf8_lossy(&command), "sleep\u{0}86400\u{0}", "{mischief:?} left {pid}");
        let _ = std::fs::remove_file(entry.path());
    }
    let reader = farm.builds.logs().reader(build.id).await.expect("a log");
    assert_eq!(reader.line_count(), build.log_lines, "{mischief:?}");
    assert!(build.log_lines > mischief.lines, "{mischief:?} has {} lines", build.log_lines);
    let tail = reader.tail(200).await.expect("lines");
    assert!(tail.iter().all(|line| line.text.len() <= 16 * 1024 + 16), "{mischief:?}");
    assert_eq!(tail.last().map(|line| line.seq), Some(build.log_lines));
}
