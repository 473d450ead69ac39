//! A version-control server and its command line, for tests: the stand-in `p4` beside a depot on disk.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

#[path = "../../fixtures/p4/depot.rs"]
#[allow(dead_code, reason = "the program uses the rest")]
mod storage;

pub(crate) use storage::{Changelist, Depot, Edit, Server, User};

/// Where the server is said to listen. Nothing does: only the stand-in looks there.
pub(crate) const ADDRESS: &str = "127.0.0.1:1666";
pub(crate) const USER: &str = "builder";
pub(crate) const TICKET: &str = "5F2A9C0E7B4D41D8A6C3E1F0B9D8C7A6";
pub(crate) const FINGERPRINT: &str = "50:A3:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22";
pub(crate) const STREAM: &str = "//Games/main";

/// A machine with a `p4` and servers that it can reach.
pub(crate) struct StreamServer {
    home: TempDir,
    depot: Depot,
}

impl StreamServer {
    /// A server with the stream `//Games/main`, empty, and a user with a ticket.
    pub(crate) fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// The same, told otherwise.
    pub(crate) fn start_with(change: impl FnOnce(&mut Server)) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let name = format!("p4{}", std::env::consts::EXE_SUFFIX);
        std::fs::copy(env!("CARGO_BIN_EXE_p4-standin"), home.path().join(name)).expect("a copy of the stand-in");
        std::fs::write(home.path().join("calls"), "").expect("a file");
        let depot = Depot::at(home.path(), ADDRESS);
        let mut server = Server::default();
        server.users.insert(USER.into(), User { ticket: TICKET.into(), seconds: 43_000, forbidden: false });
        server.depots.insert("Games".into(), "stream".into());
        server.depots.insert("Libs".into(), "stream".into());
        server.depots.insert("Old".into(), "local".into());
        server.streams.insert(STREAM.into(), Vec::new());
        change(&mut server);
        depot.set_server(&server).expect("a server");
        StreamServer { home, depot }
    }

    /// The program.
    pub(crate) fn program(&self) -> PathBuf {
        self.home.path().join(format!("p4{}", std::env::consts::EXE_SUFFIX))
    }

    /// Where the program and its files lie.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn change_server(&self, change: impl FnOnce(&mut Server)) {
        let mut server = self.depot.server().expect("a server");
        change(&mut server);
        self.depot.set_server(&server).expect("stored");
    }

    /// How the program misbehaves; `""`: not at all.
    pub(crate) fn behave(&self, how: &str) {
        std::fs::write(self.home.path().join("behaviour"), how).expect("a file");
    }

    /// Submits files of the stream as text; their paths are relative to it.
    pub(crate) fn submit(&self, description: &str, files: &[(&str, Option<&[u8]>)]) -> u64 {
        let paths: Vec<String> = files.iter().map(|(path, _)| format!("{STREAM}/{path}")).collect();
        let edits: Vec<Edit<'_>> = paths.iter().zip(files).map(|(path, (_, content))| (path.as_str(), "text", *content)).collect();
        self.submit_all(description, &edits)
    }

    /// Submits anything anywhere.
    pub(crate) fn submit_all(&self, description: &str, edits: &[Edit<'_>]) -> u64 {
        self.depot.submit("ada", description, edits).expect("submitted")
    }

    pub(crate) fn put(&self, change: Changelist) {
        self.depot.put(change).expect("stored");
    }

    /// What the program was called with so far, newest last.
    pub(crate) fn calls(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.home.path().join("calls")).expect("the calls");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Their sub-commands and what follows them.
    pub(crate) fn commands(&self) -> Vec<String> {
        let words = |call: &Value| {
            let words = call["arguments"].as_array().expect("words").iter().filter_map(Value::as_str);
            words.skip_while(|word| word.starts_with('-') && *word != "-V").collect::<Vec<_>>().join(" ")
        };
        self.calls().iter().map(words).collect()
    }

    /// Forgets the calls.
    pub(crate) fn forget(&self) {
        std::fs::write(self.home.path().join("calls"), "").expect("a file");
    }

    /// It speaks TLS.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.depot.server().expect("a server").fingerprint.is_some()
    }
}
