//! The studio that keeps its project in a stream: a stand-in for Perforce's command line, and what an administrator does once on
//! the server.
//!
//! The service drives the stand-in as it would drive the real `p4`. It is a program of its own, built beside this one, and knows a
//! server by a directory.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::DemoError;
use super::account::random;
use super::client::{Client, text};
use super::screen::{Screen, faint};
use crate::platform::files::{create_private_directory, write_private_file_atomically};

/// Where the server is said to listen; nothing does, the stand-in alone looks there.
const PLACE: &str = "127.0.0.1:1666";
const USER: &str = "builder";
const DEPOT: &str = "Kitchen";
pub(super) const STREAM: &str = "//Kitchen/main";
/// How long the server's script may take to tell of a submit.
const TOLD_WITHIN: Duration = Duration::from_secs(60);

/// What an administrator installs on the server.
const SCRIPT: (&str, &str) = if cfg!(windows) {
    ("streamvc-trigger.ps1", include_str!("../../packaging/streamvc-trigger.ps1"))
} else {
    ("streamvc-trigger.sh", include_str!("../../packaging/streamvc-trigger.sh"))
};

/// The stand-in beside this program, where it was built.
pub(super) fn stand_in() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let name = format!("p4-standin{}", std::env::consts::EXE_SUFFIX);
    // A test's own program lies one directory deeper.
    own.ancestors().skip(1).take(2).map(|directory| directory.join(&name)).find(|program| program.is_file())
}

/// The server, and the machine that it is on.
pub(super) struct StreamServer {
    home: PathBuf,
    project: PathBuf,
    ticket: String,
}

impl StreamServer {
    /// A server whose stream holds the project, or that of an earlier run.
    pub(super) async fn open(screen: &Screen, home: PathBuf, project: PathBuf) -> Result<StreamServer, DemoError> {
        let failed = |what: &str, error: std::io::Error| DemoError::failed(format!("{what}: {error}"));
        create_private_directory(&home).map_err(|error| failed("the stand-in's directory", error))?;
        let program = stand_in().ok_or_else(|| DemoError::failed("the stand-in for p4 is gone"))?;
        let server = StreamServer { home, project, ticket: random(16)?.to_ascii_uppercase() };
        std::fs::copy(program, server.program()).map_err(|error| failed("the stand-in could not be copied", error))?;
        let key: Vec<String> =
            random(20)?.to_ascii_uppercase().as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).into()).collect();
        // A server keeps its key; the service of an earlier run has pinned it.
        let kept = server.home.join("key");
        let key = std::fs::read_to_string(&kept).unwrap_or_else(|_| key.join(":"));
        std::fs::write(&kept, &key).map_err(|error| failed("the server's key", error))?;
        let facts = json!({ "fingerprint": key, "users": { USER: { "ticket": server.ticket, "seconds": 43_000 } },
            "depots": { DEPOT: "stream" }, "streams": { STREAM: [] } });
        server.run(&["server", PLACE], &facts.to_string()).await?;
        let first = server.submit("Serve the soup hot").await?;
        screen
            .done("Perforce", format_args!("ssl:{PLACE} {}", faint("a stand-in for the p4 command line, and a server on disk behind it")));
        screen.more(format_args!("{STREAM} at changelist {first} {}", faint("project in a sub-folder")));
        Ok(server)
    }

    /// What the service is told to run as `p4`.
    pub(super) fn program(&self) -> PathBuf {
        self.home.join(format!("p4{}", std::env::consts::EXE_SUFFIX))
    }

    async fn run(&self, words: &[&str], input: &str) -> Result<String, DemoError> {
        let failed = |said: String| DemoError::failed(format!("the stand-in for p4 failed: {said}"));
        let mut command = Command::new(self.program());
        command.arg("standin").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).await.map_err(|error| failed(error.to_string()))?;
        }
        let output = child.wait_with_output().await.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// The project as it is now; the changelist's number.
    async fn submit(&self, description: &str) -> Result<String, DemoError> {
        let project = self.project.to_string_lossy();
        self.run(&["submit", PLACE, STREAM, &project, "ada", description], "").await
    }

    /// Somebody changes one file.
    async fn change(&self, description: &str) -> Result<String, DemoError> {
        let note = self.project.join("Game/Content/Recipes/Note.txt");
        let text = format!("{description}, {}\n", random(4)?);
        std::fs::write(note, text).map_err(|error| DemoError::failed(format!("the recipe could not be changed: {error}")))?;
        self.submit(description).await
    }

    /// The connection that an administrator enters.
    pub(super) async fn connect(&self, screen: &Screen, client: &Client, organization: &str) -> Result<(), DemoError> {
        let body = json!({ "serverUrl": format!("ssl:{PLACE}"), "userName": USER, "ticket": self.ticket });
        let connected = client.send("PATCH", &format!("/organizations/{organization}/streamvc"), &body).await?;
        screen.done(
            "Perforce connected",
            format_args!("{USER} at {} {}", text(&connected["serverUrl"]), faint("the ticket is sealed at rest")),
        );
        screen.more(format_args!("its key {} {}", text(&connected["fingerprint"]), faint("was seen for the first time, and is pinned")));
        Ok(())
    }

    /// The project of the stream, as the API takes it.
    pub(super) fn project() -> Value {
        json!({ "name": "Kitchen", "depot": DEPOT, "streamPath": STREAM, "uprojectPath": "Game/Kitchen.uproject" })
    }

    /// What is done once on the server, then a submit, of which the server's script tells; the build that comes of it.
    pub(super) async fn submitted(
        &self,
        screen: &Screen,
        client: &Client,
        service: &str,
        project: &str,
        setting: &str,
    ) -> Result<(String, String), DemoError> {
        let body = json!({ "name": "The server's trigger", "scopes": ["trigger"], "buildSettingIds": [setting] });
        let token = client.send("POST", "/auth/tokens", &body).await?;
        let failed = |error: std::io::Error| DemoError::failed(format!("the server's script: {error}"));
        let token_file = self.home.join("cookhouse.token");
        write_private_file_atomically(&token_file, text(&token["token"]).as_bytes()).map_err(failed)?;
        let script = self.home.join(SCRIPT.0);
        std::fs::write(&script, SCRIPT.1).map_err(failed)?;
        screen.done(
            "Trigger installed",
            format_args!("change-commit {STREAM}/... {} {}", SCRIPT.0, faint("its token starts this setting only")),
        );

        let wanted = self.change("Salt it").await?;
        screen.done("Submitted", format_args!("changelist {wanted} {}", faint("Salt it")));
        let url = format!("{service}/v1/projects/{project}/build-settings/{setting}/trigger");
        let status = told(&script, &url, &token_file, &wanted).status().await.map_err(failed)?;
        if !status.success() {
            return Err(DemoError::failed(format!("the server's script ended with {status}")));
        }
        let later = self.change("Burn it").await?;
        screen.more(format_args!("and changelist {later} right behind it {}", faint("which is no part of the build")));
        let build = self.build_of(client, setting, &wanted).await?;
        screen.done("Triggered by the server", format_args!("build {build}"));
        Ok((build, wanted))
    }

    async fn build_of(&self, client: &Client, setting: &str, changelist: &str) -> Result<String, DemoError> {
        let began = Instant::now();
        while began.elapsed() < TOLD_WITHIN {
            let builds = client.get(&format!("/builds?buildSettingId={setting}&limit=5")).await?;
            let mut builds = builds["items"].as_array().into_iter().flatten();
            if let Some(build) = builds.find(|build| text(&build["changelist"]) == changelist) {
                return Ok(text(&build["id"]).to_owned());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let complaint = std::fs::read_to_string(self.home.join("cookhouse.token.log")).unwrap_or_default();
        Err(DemoError::failed(format!("the server's script told the service of nothing {}", complaint.trim())))
    }
}

/// The script as the server runs it.
fn told(script: &Path, url: &str, token_file: &Path, changelist: &str) -> Command {
    let mut command;
    if cfg!(windows) {
        command = Command::new("powershell");
        command.args(["-NoProfile", "-ExecutionPolicy", "Bypass", "-File"]).arg(script);
        command.args(["-Url", url, "-TokenFile"]).arg(token_file).args(["-Changelist", changelist]);
    } else {
        command = Command::new("sh");
        command.arg(script).arg(url).arg(token_file).arg(changelist);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
