//! The same in a real browser: Chromium's own EventSource and WebSocket follow builds through cuts and kills, and end with
//! exactly their logs. Runs only when asked for: `COOKHOUSE_CHROMIUM=chromium cargo nextest run --run-ignored all -E 'test(chromium)'`,
//! in full with `COOKHOUSE_LIVE_CUTS=1000 COOKHOUSE_LIVE_LINES=100000`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::site::{Caller, Site};
use super::{Chance, number};

/// Follows the chain of builds with both readers, then says what it has.
const PAGE: &str = r#"<!doctype html><meta charset="utf-8"><script>
const first = 'FIRST', say = (name, seen) => fetch('/__result?' + name, {method: 'POST', body: JSON.stringify(seen)});
const sleep = ms => new Promise(done => setTimeout(done, ms));
async function successor(id) {
  for (;;) {
    try {
      const page = await (await fetch('/v1/builds?limit=100')).json();
      const next = page.items.find(build => build.retryOf === id);
      if (next) return next.id;
    } catch (error) {}
    await sleep(100);
  }
}
const take = (lines, data) => { for (const line of data.lines) { if (line.seq !== lines.length + 1) throw say('fault', line); lines.push(line.text); } };
function byEventSource(id, lines) {
  return new Promise(done => {
    const source = new EventSource('/v1/builds/' + id + '/events');
    source.addEventListener('log', event => take(lines, JSON.parse(event.data)));
    source.addEventListener('gap', event => say('fault', event.data));
    source.addEventListener('end', event => { source.close(); done(JSON.parse(event.data).status); });
    source.onerror = () => { if (source.readyState === 2) say('fault', 'the EventSource gave up'); };
  });
}
async function byWebSocket(id, lines) {
  let position;
  for (;;) {
    const status = await new Promise(done => {
      const socket = new WebSocket('ws://' + location.host + '/v1/live');
      socket.onopen = () => socket.send(JSON.stringify({subscribe: 'build:' + id, after: position}));
      socket.onmessage = event => {
        const said = JSON.parse(event.data);
        if (said.event === 'error' || said.event === 'gap') say('fault', said);
        if (said.event === 'log') take(lines, said.data);
        position = said.id;
        if (said.event === 'end') { socket.onclose = null; socket.close(); done(said.data.status); }
      };
      socket.onclose = () => done(null);
    });
    if (status) return status;
    await sleep(5);
  }
}
async function all(name, reader) {
  const seen = {};
  for (let id = first;;) {
    seen[id] = [];
    if (await reader(id, seen[id]) === 'complete') break;
    id = await successor(id);
  }
  await say(name, seen);
}
(async () => {
  const body = JSON.stringify({email: 'EMAIL', password: 'PASSWORD'});
  await fetch('/v1/auth/login', {method: 'POST', headers: {'content-type': 'application/json'}, body});
  all('EventSource', byEventSource);
  all('WebSocket', byWebSocket);
})();
</script>"#;

/// What stands between the browser and the server: serves the page, takes its results, and cuts streams at any byte.
struct Front {
    page: String,
    server: Mutex<Option<Caller>>,
    results: Mutex<BTreeMap<String, Value>>,
    /// Bytes between cuts of EventSource, which waits two seconds after each, and of WebSocket.
    between: [usize; 2],
    cuts: [AtomicUsize; 2],
    chance: Mutex<Chance>,
}

impl Front {
    async fn serve(self: Arc<Self>, mut browser: TcpStream) -> Option<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(browser.read_u8().await.ok()?);
        }
        let words = String::from_utf8_lossy(&head).into_owned();
        let target = words.split(' ').nth(1)?.to_owned();
        if target == "/__page" {
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{}", self.page.len(), self.page);
            return browser.write_all(answer.as_bytes()).await.ok();
        }
        if let Some(name) = target.strip_prefix("/__result?") {
            let length =
                words.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok())?;
            let mut body = vec![0; length];
            browser.read_exact(&mut body).await.ok()?;
            self.results.lock().expect("not poisoned").insert(name.to_owned(), serde_json::from_slice(&body).unwrap_or_default());
            return browser.write_all(b"HTTP/1.1 204 x\r\n\r\n").await.ok();
        }
        let address = self.server.lock().expect("not poisoned").as_ref()?.address();
        let mut server = TcpStream::connect(address).await.ok()?;
        // One request for each connection: the next one may be for this front.
        let head = words.replace("Connection: keep-alive\r\n", "Connection: close\r\n");
        server.write_all(head.as_bytes()).await.ok()?;
        let stream = if target.ends_with("/events") { Some(0) } else { target.ends_with("/live").then_some(1) };
        let Some(stream) = stream else {
            let _ = tokio::io::copy_bidirectional(&mut browser, &mut server).await;
            return None;
        };
        let mut left = 1 + self.chance.lock().expect("not poisoned").below(2 * self.between[stream]);
        let (mut up, mut down) = (vec![0; 4096], vec![0; 16 * 1024]);
        while left > 0 {
            let wanted = left.min(down.len());
            tokio::select! {
                count = browser.read(&mut up) => match count.ok()? {
                    0 => return None,
                    count => server.write_all(&up[..count]).await.ok()?,
                },
                count = server.read(&mut down[..wanted]) => match count.ok()? {
                    0 => return None,
                    count => { browser.write_all(&down[..count]).await.ok()?; left -= count; }
                },
            }
        }
        self.cuts[stream].fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium; see the head of this file"]
async fn chromiums_own_readers_have_exactly_the_logs() {
    let chromium = std::env::var("COOKHOUSE_CHROMIUM").expect("COOKHOUSE_CHROMIUM says where chromium is");
    let lines = number("COOKHOUSE_LIVE_LINES").unwrap_or(5000) as usize;
    let cuts = number("COOKHOUSE_LIVE_CUTS").unwrap_or(60) as usize;
    let began = Instant::now();
    let mischief: String = (0..50).map(|_| format!("Lines={}\nSleep=0.08\n", lines / 50)).collect();
    let mut site = Site::open(&format!("[Cook]\n{mischief}")).await;
    let first = site.caller().trigger(&site.settings[1]).await.expect("accepted");
    let page = PAGE.replace("FIRST", &first).replace("EMAIL", super::site::ADMIN).replace("PASSWORD", super::site::PASSWORD);
    let bytes = lines * 2 * 150;
    let front = Arc::new(Front {
        page,
        server: Mutex::new(Some(site.caller())),
        results: Mutex::default(),
        between: [bytes / (cuts / 10).max(10), bytes / cuts],
        cuts: Default::default(),
        chance: Mutex::new(Chance(5)),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let serving = front.clone();
    tokio::spawn(async move {
        while let Ok((browser, _)) = listener.accept().await {
            tokio::spawn(serving.clone().serve(browser));
        }
    });
    let profile = tempfile::tempdir().expect("a directory");
    let mut browser = Command::new(chromium)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{address}/__page"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromium starts");
    let mut killed: Vec<String> = Vec::new();
    let patience = Instant::now() + Duration::from_secs(120) + Duration::from_secs(4) * cuts as u32;
    while front.results.lock().expect("not poisoned").len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(Instant::now() < patience, "it takes too long: {:?}", front.cuts);
        assert!(!front.results.lock().expect("not poisoned").contains_key("fault"), "{:?}", front.results);
        if killed.len() == 2 {
            continue;
        }
        let Some(build) = site.to_be_killed(&killed, lines).await else { continue };
        killed.push(build);
        *front.server.lock().expect("not poisoned") = None;
        site.kill();
        site.start();
        *front.server.lock().expect("not poisoned") = Some(site.caller());
    }
    let _ = browser.kill();
    let _ = browser.wait();
    let results = front.results.lock().expect("not poisoned").clone();
    for name in ["EventSource", "WebSocket"] {
        let seen = results[name].as_object().expect("builds");
        assert_eq!(seen.len(), 3, "two that were killed and the last one");
        let mut told = 0;
        for (build, lines) in seen {
            let lines: Vec<&str> = lines.as_array().expect("lines").iter().map(|line| line.as_str().expect("text")).collect();
            let log = site.caller().send("GET", &format!("/builds/{build}/log"), None).await.expect("an answer").expect(200);
            assert!(log.text() == lines.iter().map(|line| format!("{line}\n")).collect::<String>(), "{name}: {build}");
            told += lines.len();
        }
        println!("{name}: {told} lines of {} logs", seen.len());
    }
    println!("2 kills, {:?} cuts of EventSource and of WebSocket, {:?}", front.cuts, began.elapsed());
}
