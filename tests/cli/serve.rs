//! `cookhouse serve`: what it says, how it ends, and how it refuses to start.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};

use super::{Ended, cookhouse, run, run_with, text};

/// A server as a child process; killed when dropped.
struct Serving {
    child: Child,
    lines: mpsc::Receiver<String>,
    said: Vec<String>,
}

impl Serving {
    fn start(data: &Path, more: &[&str]) -> Serving {
        let mut arguments = vec!["serve", "--data", text(data), "--listen", "127.0.0.1:0"];
        arguments.extend(more);
        // The disk of whoever runs the tests may be fuller than a build machine's should be.
        let mut command = cookhouse(&arguments);
        command
            .env("COOKHOUSE_DISK__FLOOR_PERCENT", "0")
            .env("COOKHOUSE_DISK__FLOOR_BYTES", "1")
            .env("COOKHOUSE_DISK__FIRST_BUILD_BYTES", "1");
        Serving::spawn(&mut command)
    }

    fn spawn(command: &mut Command) -> Serving {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
        let errors = BufReader::new(child.stderr.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Serving { child, lines, said: Vec::new() }
    }

    /// The first line that holds this word.
    #[track_caller]
    fn line(&mut self, word: &str) -> String {
        while let Ok(line) = self.lines.recv() {
            self.said.push(line.clone());
            if line.contains(word) {
                return line;
            }
        }
        panic!("it ended without saying {word:?}: {:#?}", self.said)
    }

    fn url(&mut self) -> String {
        let line = self.line("ready on ");
        line.split("ready on ").nth(1).expect("an address").trim().to_owned()
    }

    /// Asks it to stop as a service manager does, and waits.
    fn terminate(mut self) -> i32 {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill starts");
        assert!(status.success());
        self.child.wait().expect("it ends").code().unwrap_or(-1)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body.
fn curl(arguments: &[&str]) -> (String, Value) {
    let output = Command::new("curl").args(["--silent", "--write-out", "\n%{http_code}"]).args(arguments).output().expect("curl starts");
    let output = String::from_utf8(output.stdout).expect("UTF-8");
    let (body, status) = output.rsplit_once('\n').expect("a status");
    (status.to_owned(), serde_json::from_str(body).unwrap_or(Value::Null))
}

#[test]
fn from_the_first_start_to_a_graceful_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut server = Serving::start(&data, &[]);
    let url = server.url();
    let setup = server.line("setup token");
    let token = setup.split_whitespace().find(|word| word.starts_with("setup_")).expect("a token");
    let (status, ready) = curl(&[&format!("{url}/readyz")]);
    assert_eq!((status.as_str(), &ready["status"]), ("200", &json!("ready")), "{ready}");

    // Another server on the same directory is told so.
    let second = run(&["serve", "--data", text(&data), "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, 75, "{}", second.err);
    assert!(second.err.contains("is in use by another Cookhouse"), "{}", second.err);

    let body = json!({ "setupToken": token, "email": "ada@studio.example", "name": "Ada", "password": "correct horse battery", "organizationName": "Studio" });
    let (status, _) = curl(&["--header", "content-type: application/json", "--data", &body.to_string(), &format!("{url}/v1/setup")]);
    assert_eq!(status, "201");
    // Through the server that runs.
    let made = run(&["token", "create", "--data", text(&data), "--email", "ada@studio.example", "--name", "script", "--scopes", "read"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let authorization = format!("Authorization: Bearer {}", made.out.trim());
    let (status, me) = curl(&["--header", &authorization, &format!("{url}/auth/me")]);
    assert_eq!((status.as_str(), me["user"]["email"].as_str()), ("200", Some("ada@studio.example")));

    let drained = run(&["drain", "--data", text(&data)]);
    assert_eq!((drained.code, drained.err.as_str()), (0, ""));
    assert!(drained.out.contains("no build runs, and none is started"), "{}", drained.out);
    assert_eq!(curl(&["--header", &authorization, &format!("{url}/queue")]).1["draining"], json!(true));
    assert_eq!(run(&["drain", "--data", text(&data), "--undo"]).code, 0);
    assert_eq!(curl(&["--header", &authorization, &format!("{url}/queue")]).1["draining"], json!(false));

    assert_eq!(server.terminate(), 0);
    assert!(!data.join("control").exists());
    let nobody = run(&["drain", "--data", text(&data)]);
    assert!(nobody.code == 69 && nobody.err.contains("no server runs"), "{}", nobody.err);
    // The next start needs no setup, and what was made is there.
    let mut server = Serving::start(&data, &["--log-format", "json"]);
    let ready: Value = serde_json::from_str(&server.line("ready on ")).expect("a line of JSON");
    let url = ready["message"].as_str().and_then(|message| message.strip_prefix("ready on ")).expect("an address");
    assert_eq!(curl(&["--header", &authorization, &format!("{url}/auth/me")]).0, "200");
    assert!(!server.said.iter().any(|line| line.contains("setup token")));
    assert_eq!(server.terminate(), 0);
}

#[test]
fn a_disk_below_its_floor_is_not_ready() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("studio.toml");
    std::fs::write(&config, "[disk]\nfloor_bytes = \"9000000 TB\"\n").expect("written");
    let mut arguments =
        cookhouse(&["serve", "--data", text(&directory.path().join("data")), "--listen", "127.0.0.1:0", "--config", text(&config)]);
    let mut server = Serving::spawn(&mut arguments);
    let (status, ready) = curl(&[&format!("{}/readyz", server.url())]);
    assert_eq!((status.as_str(), &ready["checks"][2]["ok"]), ("503", &json!(false)), "{ready}");
    assert_eq!(server.terminate(), 0);
}

#[test]
fn it_is_ready_again_after_it_was_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut server = Serving::start(&data, &[]);
    server.url();
    drop(server);
    let admin = ["admin", "create", "--data", text(&data), "--email", "a@b.example", "--password-file", "-"];
    assert_eq!(run_with(&admin, "correct horse battery").code, 0, "a control file that was left behind is no server");
    let mut server = Serving::start(&data, &[]);
    assert_eq!(curl(&[&format!("{}/healthz", server.url())]).0, "200");
    assert_eq!(server.terminate(), 0);
}

#[test]
fn what_prevents_a_start_is_one_sentence_and_a_code() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let start = |arguments: &[&str]| -> Ended {
        let all: Vec<&str> = ["serve", "--data", text(&data)].iter().chain(arguments).copied().collect();
        run(&all)
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let refused = start(&["--listen", &address]);
    assert_eq!(refused.code, 69, "{}", refused.err);
    assert!(refused.err.contains(&format!("cannot listen on {address}")) && refused.err.contains("--listen"), "{}", refused.err);

    let no_address = start(&["--listen", "8080"]);
    assert!(no_address.code == 2 && no_address.err.contains("--listen: listen must be an address with a port"), "{}", no_address.err);
    let no_file = start(&["--listen", "127.0.0.1:0", "--tls-certificate", "none.pem", "--tls-key", "none.pem"]);
    assert!(no_file.code == 2 && no_file.err.contains("none.pem"), "{}", no_file.err);
    let no_config = start(&["--config", "none.toml"]);
    assert!(no_config.code == 2 && no_config.err.contains("none.toml: cannot be read"), "{}", no_config.err);

    let no_key: Ended =
        cookhouse(&["serve", "--data", text(&data)]).env("COOKHOUSE_SECRET_KEY", "short").output().expect("it starts").into();
    assert!(no_key.code == 2 && no_key.err.contains("the secret key from COOKHOUSE_SECRET_KEY"), "{}", no_key.err);

    std::fs::write(data.join("store.redb"), "this is no store").expect("written");
    let no_store = start(&["--listen", "127.0.0.1:0"]);
    assert!(no_store.code == 1 && no_store.err.contains("the store cannot be opened"), "{}", no_store.err);
    for ended in [refused, no_address, no_file, no_config, no_key, no_store] {
        assert!(!ended.err.contains("panicked") && !ended.err.contains("RUST_BACKTRACE"), "{}", ended.err);
    }
}
