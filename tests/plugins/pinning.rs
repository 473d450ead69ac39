//! Names of git hosts that lead to different places at different times.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use cookhouse::demo::git_server::{Commit, GitServer, Settings};
use cookhouse::outbound::{self, Lookup, Outbound};
use cookhouse::plugins::Plugins;
use cookhouse::seams::{PluginBinding, SourceControl, SourceError, SourceProblem};
use futures_util::FutureExt as _;
use serde_json::json;

use super::{Host, KEY, TOKEN, settings};

const REPOSITORY: &str = "studio/game";
const METADATA: [u8; 4] = [169, 254, 169, 254];
const HERE: [u8; 4] = [127, 0, 0, 1];

/// A host for which every name has the addresses that the test says, and a git server beside it.
struct Names {
    host: Host,
    server: GitServer,
    found: Arc<Mutex<Vec<IpAddr>>>,
    hash: String,
}

impl Names {
    async fn start() -> Names {
        let found: Arc<Mutex<Vec<IpAddr>>> = Arc::new(Mutex::new(vec![HERE.into()]));
        let answers = found.clone();
        let lookup: Lookup = Arc::new(move |_| {
            let found = answers.lock().unwrap().clone();
            async move { Ok(found) }.boxed()
        });
        let host = Host::with(|directory| {
            let outbound = outbound::Settings { allow_loopback: true, ..outbound::Settings::default() };
            Plugins::open(settings(directory), Outbound::with_lookup(&outbound, lookup).unwrap(), KEY).unwrap()
        });
        let server = GitServer::start(Settings::new(host.directory.path().join("served"), TOKEN)).await.unwrap();
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("a.txt"), "x").unwrap();
        let commit = Commit { branch: "main", message: "m", author: "Ada" };
        let hash = server.repositories().publish(REPOSITORY, files.path(), commit).await.unwrap();
        Names { host, server, found, hash }
    }

    /// A name that no machine knows (RFC 2606): only who was told its address gets there.
    fn binding(&self) -> PluginBinding {
        let SocketAddr::V4(address) = self.server.address() else { panic!("not on 127.0.0.1") };
        let base = format!("http://git.studio.invalid:{}", address.port());
        self.host.binding("githost", json!({"apiBaseUrl": format!("{base}/api/v3"), "gitBaseUrl": base}))
    }

    async fn check_out(&self, found: &[[u8; 4]]) -> Result<String, SourceError> {
        *self.found.lock().unwrap() = found.iter().map(|address| IpAddr::from(*address)).collect();
        let workspace = tempfile::tempdir().unwrap();
        let place = workspace.path().to_owned();
        let done = self.host.plugins.materialise(&self.binding(), REPOSITORY, "main", &self.hash, place, false, self.host.call()).await;
        done.map(|done| done.revision.id)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_connects_to_the_address_that_was_checked_and_to_no_other() {
    let names = Names::start().await;
    assert_eq!(names.check_out(&[HERE]).await.unwrap(), names.hash);
    // One of several is forbidden: git hears of the others only.
    assert_eq!(names.check_out(&[METADATA, HERE]).await.unwrap(), names.hash);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_was_led_elsewhere_is_refused_before_git_starts() {
    let names = Names::start().await;
    let head = names.host.plugins.resolve_head(&names.binding(), REPOSITORY, "main", names.host.call()).await.unwrap();
    assert_eq!(head.id, names.hash);
    let before = names.server.requests().len();
    // The name was good a moment ago.
    for (found, word) in [(&[METADATA][..], "metadata"), (&[[0, 0, 0, 0]], "no address of one machine"), (&[[8, 8, 8, 8]], "use https")] {
        let error = names.check_out(found).await.unwrap_err();
        assert_eq!((error.problem, error.reason.as_deref()), (SourceProblem::Unavailable, Some("address-denied")), "{error}");
        assert!(error.message.contains(word), "{error}");
    }
    let error = names.check_out(&[]).await.unwrap_err();
    assert_eq!((error.problem, error.reason.as_deref()), (SourceProblem::Unavailable, Some("dns")), "{error}");
    assert_eq!(names.server.requests().len(), before);
    #[cfg(target_os = "linux")]
    names.host.until_quiet().await;
}
