//! A follower who is cut off at any byte, of builds whose server is killed under them, ends with exactly their logs.
//!
//! In full: `COOKHOUSE_LIVE_CUTS=1000 COOKHOUSE_LIVE_LINES=100000`.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::site::{Caller, Site};
use super::{Chance, number, text};

/// What a follower has of one build.
#[derive(Default)]
struct Seen {
    build: String,
    position: String,
    lines: Vec<String>,
    statuses: Vec<String>,
    is_over: bool,
}

/// Where the server is; nowhere while it is down.
type Where = Arc<Mutex<Option<Caller>>>;

impl Seen {
    fn of(build: &str) -> Seen {
        Seen { build: build.to_owned(), ..Seen::default() }
    }

    /// Follows until it is cut off after about so many bytes, or until the end. False: there was nobody to follow.
    async fn follow(&mut self, place: &Where, mut bytes: usize) -> bool {
        let Some(caller) = place.lock().expect("not poisoned").clone() else { return false };
        let Ok(mut stream) = caller.follow_build(&self.build, &self.position).await else { return false };
        while bytes > 0 && !self.is_over && stream.read_some(bytes.min(4096)).await {
            bytes = bytes.saturating_sub(4096);
            while let Some(event) = stream.take() {
                self.position.clone_from(&event.id);
                match event.event.as_str() {
                    "log" => self.take_lines(&event.data),
                    "status" => self.statuses.push(text(&event.data, "status").to_owned()),
                    "end" => self.is_over = true,
                    "gap" => panic!("a gap: {}", event.data),
                    _ => {}
                }
            }
        }
        true
    }

    fn take_lines(&mut self, data: &Value) {
        for line in data["lines"].as_array().expect("lines") {
            assert_eq!(line["seq"].as_u64(), Some(self.lines.len() as u64 + 1), "a gap or a repetition");
            self.lines.push(text(line, "text").to_owned());
        }
    }

    /// Holds it against the log itself.
    async fn check(&self, caller: &Caller) {
        let log = caller.send("GET", &format!("/builds/{}/log", self.build), None).await.expect("an answer").expect(200);
        let told: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        assert!(told.as_bytes() == log.body, "{} bytes were told, the log has {}", told.len(), log.body.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_of_builds_whose_server_is_killed_has_exactly_their_logs() {
    let lines = number("COOKHOUSE_LIVE_LINES").unwrap_or(5000) as usize;
    let cuts = number("COOKHOUSE_LIVE_CUTS").unwrap_or(60) as usize;
    let began = Instant::now();
    // Not all at once: it is followed while it is written.
    let mischief: String = (0..50).map(|_| format!("Lines={}\nSleep=0.08\n", lines / 50)).collect();
    let mut site = Site::open(&format!("[Cook]\n{mischief}")).await;
    let place: Where = Arc::new(Mutex::new(Some(site.caller())));
    let first = site.caller().trigger(&site.settings[1]).await.expect("accepted");
    let follower = tokio::spawn(follow_all(place.clone(), first, lines, cuts));
    // In the middle of the build, and in the middle of the one that repeats it.
    let mut killed: Vec<String> = Vec::new();
    let patience = Instant::now() + Duration::from_secs(300);
    while killed.len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(Instant::now() < patience, "the build that is to be killed never came");
        let Some(build) = site.to_be_killed(&killed, lines).await else { continue };
        killed.push(build);
        *place.lock().expect("not poisoned") = None;
        site.kill();
        site.start();
        *place.lock().expect("not poisoned") = Some(site.caller());
    }
    let (seen, cut) = follower.await.expect("followed");
    assert!(seen.len() >= 3 && cut >= cuts, "{} builds, {cut} cuts", seen.len());
    let mut told = 0;
    for (number, seen) in seen.iter().enumerate() {
        seen.check(&site.caller()).await;
        told += seen.lines.len();
        let last = if number + 1 == 3 { "complete" } else { "failed" };
        if number < 3 {
            assert_eq!(seen.statuses, ["pending", "running", last]);
        }
    }
    assert!(seen[2].lines.len() > lines, "the last one is whole");
    println!("{told} lines of {} logs, {cut} cuts, 2 kills, {:?}", seen.len(), began.elapsed());
}

/// Follows a build and those that repeat it, and then the last one from its beginning until there were enough cuts.
async fn follow_all(place: Where, first: String, lines: usize, cuts: usize) -> (Vec<Seen>, usize) {
    let mut chance = Chance(3);
    // Events of 64 lines; on the average a cut comes so often that the whole has as many as there should be.
    let average = (lines * 2 * 150 / cuts).max(200);
    let (mut all, mut cut) = (vec![Seen::of(&first)], 0);
    loop {
        let seen = all.last_mut().expect("at least one");
        if !seen.follow(&place, 1 + chance.below(2 * average)).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        if !seen.is_over {
            cut += 1;
            continue;
        }
        let (id, is_interrupted) = (seen.build.clone(), seen.statuses.last().is_some_and(|status| status == "failed"));
        if is_interrupted {
            let successor = successor(&place, &id).await;
            all.push(Seen::of(&successor));
        } else if cut >= cuts {
            return (all, cut);
        } else {
            all.push(Seen::of(&id));
        }
    }
}

async fn successor(place: &Where, id: &str) -> String {
    loop {
        let caller = place.lock().expect("not poisoned").clone();
        if let Some(caller) = caller
            && let Ok(reply) = caller.send("GET", "/builds?limit=100", None).await
            && reply.status == 200
            && let Some(build) =
                reply.json()["items"].as_array().and_then(|builds| builds.iter().find(|build| build["retryOf"] == json!(id)))
        {
            return text(build, "id").to_owned();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
