//! Everything that the demo runs: the studio's side, and the service itself.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::appliance::Appliance;
use crate::config::{Config, Engine, Sources};
use crate::outbound::{self, Outbound};

use super::account::random;
use super::certificate::Authority;
use super::git_server::{Commit, GitServer, Settings};
use super::receiver::Receiver;
use super::screen::{Screen, faint, link};
use super::stream::StreamServer;
use super::{DemoError, Options, files};

/// The repository as the git host calls it.
pub(super) const REPOSITORY: &str = "studio/kitchen";
/// The stand-in's version, as build settings call it.
pub(super) const ENGINE: &str = "5.4";

/// Where the project is.
pub(super) enum Source {
    /// In a repository of a git host, which an access token opens.
    Git { server: GitServer, token: String },
    /// In a stream.
    Stream(StreamServer),
}

/// The running demo.
pub(super) struct Studio {
    pub(super) directory: PathBuf,
    pub(super) appliance: Appliance,
    pub(super) source: Source,
    pub(super) receiver: Receiver,
    pub(super) outbound: Outbound,
    temporary: Option<TempDir>,
}

impl Studio {
    /// Unpacks, publishes, starts.
    pub(super) async fn open(screen: &mut Screen, options: &Options) -> Result<Studio, DemoError> {
        let (directory, temporary) = match &options.data {
            Some(path) => (std::path::absolute(path).unwrap_or_else(|_| path.clone()), None),
            None => {
                let made = tempfile::Builder::new().prefix("cookhouse-demo-").tempdir();
                let made = made.map_err(|error| DemoError::failed(format!("no temporary directory could be made: {error}")))?;
                (made.path().to_owned(), Some(made))
            }
        };
        screen.chapter(concat!("Cookhouse ", env!("CARGO_PKG_VERSION"), " demo"));
        let kept = if temporary.is_some() { "removed at the end; keep it with --data DIR" } else { "kept" };
        screen.line(format_args!("  Everything runs on this machine and listens on loopback only."));
        screen.line(format_args!("  Files: {} {}", directory.display(), faint(format_args!("({kept}; $DEMO in the log below)"))));
        screen.shorten(&directory);

        screen.chapter("The studio");
        let place = |name: &str| directory.join(name);
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: std::io::Error| DemoError::failed(format!("{what}: {error}"))
        };
        files::unpack(&place("studio")).map_err(failed("the stand-in engine could not be unpacked"))?;
        screen.done(
            "Engine",
            format_args!("a stand-in for Unreal Engine {ENGINE} {}", faint("compiles, cooks and packs for real; no engine is needed")),
        );

        let project = place("studio/projects/demo");
        let source = match options.is_stream {
            true => Source::Stream(StreamServer::open(screen, place("perforce"), project).await?),
            false => Source::git(screen, place("repositories"), &project).await?,
        };

        let authority = Authority::new().map_err(|error| DemoError::failed(error.to_string()))?;
        let pem = place("receiver-authority.pem");
        std::fs::write(&pem, &authority.pem).map_err(failed("the receiver's authority could not be written"))?;
        let receiver = Receiver::start(authority.acceptor).await.map_err(failed("the receiver did not start"))?;
        screen.done("Receiver", format_args!("{} {}", link(receiver.url()), faint("its authority is in outbound.ca_certificates")));

        let mut config = config(&directory, options, &pem)?;
        if let Source::Stream(server) = &source {
            config.tools.p4 = Some(server.program());
        }
        let outbound = outbound::Settings { allow_loopback: true, ca_certificates: vec![pem], proxy: None };
        let outbound = Outbound::new(&outbound).map_err(|error| DemoError::failed(error.to_string()))?;
        let appliance = Appliance::start(&config).await?;
        screen
            .done("Cookhouse", format_args!("{} {}", link(appliance.url()), faint(format_args!("data in {}", config.data_dir.display()))));
        Ok(Studio { directory, appliance, source, receiver, outbound, temporary })
    }

    /// Ends all of it, the service first.
    pub(super) async fn close(self, screen: &Screen) {
        self.appliance.stop().await;
        drop((self.source, self.receiver));
        if let Some(temporary) = self.temporary
            && let Err(error) = temporary.close()
        {
            screen.line(format_args!("  {} could not be removed: {error}", self.directory.display()));
        }
    }
}

impl Source {
    async fn git(screen: &Screen, repositories: PathBuf, project: &Path) -> Result<Source, DemoError> {
        let failed = |what: &'static str| move |error: std::io::Error| DemoError::failed(format!("{what}: {error}"));
        let token = format!("ght_{}", random(20)?);
        let server = GitServer::start(Settings::new(repositories, &token)).await.map_err(failed("the git server did not start"))?;
        let commit = Commit { branch: "main", message: "Serve the soup hot", author: "Ada Cook" };
        let hash = server.repositories().publish(REPOSITORY, project, commit).await;
        let hash = hash.map_err(failed("the demo project could not be committed"))?;
        screen.done("Git host", format_args!("{} {}", link(server.git_base_url()), faint("smart HTTP and LFS, with an access token")));
        screen.more(format_args!("{REPOSITORY} at {} {}", &hash[..10], faint("project in a sub-folder, textures in LFS")));
        Ok(Source::Git { server, token })
    }
}

/// The defaults, and what the demo needs besides.
fn config(directory: &Path, options: &Options, authority: &Path) -> Result<Config, DemoError> {
    let mut config = Config::load(&Sources::default()).map_err(|problems| DemoError::failed(problems.to_string()))?.config;
    config.data_dir = directory.join("service");
    config.listen = options.listen.to_string();
    config.discover_engines = false;
    config.engines = vec![Engine { label: ENGINE.into(), root: directory.join("studio/engines/UE_5.4"), platforms: Vec::new() }];
    config.outbound.allow_loopback = true;
    config.outbound.ca_certificates = vec![authority.to_owned()];
    config.executor.shutdown_grace_seconds = 1;
    // The demo's few megabytes fit on a disk that is too full for a real engine's builds.
    (config.disk.warn_percent, config.disk.floor_percent) = (0, 0);
    (config.disk.warn_bytes, config.disk.floor_bytes, config.disk.first_build_bytes) = (512 << 20, 256 << 20, 64 << 20);
    Ok(config)
}
