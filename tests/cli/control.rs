//! `admin` and `token` through a server that runs, and strangers at its door.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use cookhouse::clock::Clock;
use cookhouse::control::FILE;
use cookhouse::control::server::ControlServer;
use cookhouse::people::{People, SetupToken};
use cookhouse::platform::lock::{Lock, lock};
use cookhouse::store::{self, Store};
use tempfile::TempDir;

use super::{Ended, run_with, text};

/// What a server holds that takes orders.
struct Running {
    directory: TempDir,
    people: People,
    _lock: Lock,
    _control: ControlServer,
}

impl Running {
    async fn start() -> Running {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let lock = lock(path).expect("the lock");
        let store = Store::open(&store::Settings { path: path.join("store.redb"), cache_bytes: 1 << 20 }).expect("a store");
        let people = People::new(store, Arc::new(Clock::default()));
        let control = ControlServer::start(path, people.clone(), SetupToken::new(path), None).await.expect("a control server");
        Running { directory, people, _lock: lock, _control: control }
    }

    async fn create_admin(&self) -> Ended {
        let data = text(self.directory.path()).to_owned();
        let create = move || {
            run_with(&["admin", "create", "--data", &data, "--email", "a@b.example", "--password-file", "-"], "correct horse battery")
        };
        tokio::task::spawn_blocking(create).await.expect("it ends")
    }

    async fn say(&self, line: Vec<u8>) -> String {
        let door = door(self.directory.path());
        tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(door["address"].as_str().expect("an address")).expect("connected");
            // The server stops reading where its limit is.
            let _ = stream.write_all(&line);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            answer
        })
        .await
        .expect("it ends")
    }
}

fn door(data: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(data.join(FILE)).expect("the file")).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_reach_the_server_that_holds_the_directory() {
    let server = Running::start().await;
    let made = server.create_admin().await;
    assert_eq!((made.code, made.out.as_str()), (0, "Done: a@b.example is an admin of Studio.\n"), "{}", made.err);
    assert_eq!(server.people.find_user("a@b.example").expect("they exist").name, "a");
    let again = server.create_admin().await;
    assert!(again.code == 1 && again.err.contains("exists already"), "{}", again.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_refused_and_learn_nothing() {
    let server = Running::start().await;
    let order = r#"{"order":"createAdmin","email":"x@y.example","name":"x","password":"correct horse battery","organization":null}"#;
    let letters = [
        format!(r#"{{"secret":"{}","order":{order}}}"#, "0".repeat(64)),
        format!(r#"{{"secret":"","order":{order}}}"#),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        String::new(),
        "x".repeat(1 << 20),
    ];
    for letter in letters {
        let answer = server.say(format!("{letter}\n").into_bytes()).await;
        // A line that is too long may break the connection before the answer is read.
        assert!(answer == "{\"Err\":{\"message\":\"refused\"}}\n" || (answer.is_empty() && letter.len() > 65536), "{answer}");
    }
    assert!(server.people.is_empty().expect("readable"));
    assert_eq!(server.create_admin().await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_listen_yet_is_code_69() {
    let server = Running::start().await;
    std::fs::remove_file(server.directory.path().join(FILE)).expect("removed");
    let refused = server.create_admin().await;
    assert_eq!(refused.code, 69, "{}", refused.err);
    assert!(refused.err.contains("it has not finished starting"), "{}", refused.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_is_private_and_goes_with_the_server() {
    let server = Running::start().await;
    let path = server.directory.path().join(FILE);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    }
    let Running { directory, _control, .. } = server;
    drop(_control);
    assert!(!path.exists());
    drop(directory);
}
