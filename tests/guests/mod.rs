//! The bundled plugins in the real host, against servers that are real and servers that misbehave.

mod apps;
mod checkout;
mod figures;
mod hostile;
mod reading;
mod refusals;
mod renewals;
mod submodules;

use std::path::Path;
use std::process::Stdio;

use cookhouse::demo::git_server::{Commit, GitServer, Settings};
use cookhouse::seams::{PluginBinding, SourceError};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::plugins::{Host, TOKEN};

const REPOSITORY: &str = "studio/game";

/// A git server beside a plugin host.
struct Studio {
    host: Host,
    server: GitServer,
}

impl Studio {
    async fn start() -> Self {
        Studio::with(|settings| settings).await
    }

    async fn with(change: impl FnOnce(Settings) -> Settings) -> Self {
        let host = Host::bundled();
        let server = GitServer::start(change(Settings::new(host.directory.path().join("served"), TOKEN))).await.unwrap();
        Studio { host, server }
    }

    /// The connection in the shape of `/api/v3`.
    fn binding(&self) -> PluginBinding {
        self.binding_of(self.server.api_base_url())
    }

    /// The connections in both shapes.
    fn bindings(&self) -> [PluginBinding; 2] {
        [self.server.api_base_url(), self.server.second_api_base_url()].map(|base| self.binding_of(base))
    }

    fn binding_of(&self, api: String) -> PluginBinding {
        self.host.binding("githost", json!({ "mode": "token", "apiBaseUrl": api, "gitBaseUrl": self.server.git_base_url() }))
    }

    /// Commits these files, and only these, on a branch.
    async fn commit(&self, branch: &str, message: &str, files: &[(&str, &[u8])]) -> String {
        let directory = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        self.publish(branch, message, directory.path()).await
    }

    async fn publish(&self, branch: &str, message: &str, files: &Path) -> String {
        self.server.repositories().publish(REPOSITORY, files, Commit { branch, message, author: "Ada" }).await.unwrap()
    }

    /// Runs git in the served repository, for what `publish` cannot make.
    async fn git(&self, arguments: &[&str]) -> String {
        self.git_reading(arguments, "").await
    }

    /// The same with something to read.
    async fn git_reading(&self, arguments: &[&str], input: &str) -> String {
        let directory = self.server.repositories().directory_of(REPOSITORY).unwrap();
        let mut child = Command::new("git")
            .arg("--git-dir")
            .arg(directory)
            .args(arguments)
            .envs([("GIT_AUTHOR_NAME", "Ada"), ("GIT_AUTHOR_EMAIL", "a@example.com")])
            .envs([("GIT_COMMITTER_NAME", "Ada"), ("GIT_COMMITTER_EMAIL", "a@example.com")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// What a caller branches on.
fn kind(error: &SourceError) -> (cookhouse::seams::SourceProblem, Option<&str>) {
    (error.problem, error.reason.as_deref())
}
