//! Stream-based version control: the real plugin in the real host, and a `p4` that keeps its depots on disk.

mod checkout;
mod figures;
#[cfg(unix)]
mod flow;
mod hostile;
#[cfg(unix)]
mod keeping;
mod reading;

use std::path::PathBuf;

use cookhouse::clock::Clock;
use cookhouse::model::Secret;
use cookhouse::plugins::{Plugins, Settings};
use cookhouse::seams::{Materialised, PluginBinding, SourceControl, SourceError, SourceProblem};
use serde_json::{Value, json};

use crate::plugins::{Host, KEY, outbound, settings};
use crate::support::depot::{ADDRESS, STREAM, StreamServer, TICKET, USER};

/// A plugin host on a machine whose `p4` is the stand-in.
struct Studio {
    host: Host,
    server: StreamServer,
}

impl Studio {
    fn start() -> Self {
        Studio::on(StreamServer::start())
    }

    fn on(server: StreamServer) -> Self {
        let program = server.program();
        Studio { host: Host::with(|directory| open(directory, Some(program))), server }
    }

    fn binding(&self) -> PluginBinding {
        self.binding_to(json!({"serverUrl": ADDRESS, "userName": USER}), TICKET)
    }

    fn binding_to(&self, config: Value, ticket: &str) -> PluginBinding {
        PluginBinding {
            plugin: "streamvc".to_owned(),
            organization: Clock::default().new_id(),
            config,
            secrets: [("ticket".to_owned(), Secret::new(ticket.to_owned()))].into(),
        }
    }

    async fn head(&self) -> Result<String, SourceError> {
        self.host.plugins.resolve_head(&self.binding(), STREAM, STREAM, self.host.call()).await.map(|revision| revision.id)
    }

    /// A directory as builds have it.
    fn workspace(&self, name: &str) -> PathBuf {
        let path = self.host.directory.path().join("workspaces").join(name).join("source");
        std::fs::create_dir_all(&path).expect("a directory");
        path
    }

    async fn sync(&self, workspace: &std::path::Path, change: u64, incremental: bool) -> Result<Materialised, SourceError> {
        let (binding, change) = (self.binding(), change.to_string());
        self.host.plugins.materialise(&binding, STREAM, STREAM, &change, workspace.to_owned(), incremental, self.host.call()).await
    }
}

fn open(directory: &std::path::Path, p4: Option<PathBuf>) -> Plugins {
    Plugins::open(Settings { p4, ..settings(directory) }, outbound(), KEY).expect("a host")
}

/// What a caller branches on.
fn kind(error: &SourceError) -> (SourceProblem, Option<&str>) {
    (error.problem, error.reason.as_deref())
}
