//! Tokens that end while git and git-lfs are at work with them.

use std::time::Duration;

use cookhouse::demo::git_server::{App, Settings};
use cookhouse::model::Secret;
use cookhouse::seams::{PluginBinding, SourceControl, SourceProblem};
use serde_json::json;

use super::{REPOSITORY, Studio};

const KEY: &str = include_str!("../../fixtures/githost/app-key.pem");

/// Large files come from git-lfs in batches of a hundred.
const LARGE_FILES: usize = 250;

async fn studio(long_tokens: bool) -> (Studio, PluginBinding, String) {
    let mut app = App::new("7", KEY, &[(42, "studio")]).expect("an app");
    app.long_tokens = long_tokens;
    let studio = Studio::with(|settings| Settings { app: Some(app), ..settings }).await;
    let large: Vec<(String, Vec<u8>)> =
        (0..LARGE_FILES).map(|number| (format!("Content/{number}.uasset"), vec![number as u8; 200 + number])).collect();
    let mut files: Vec<(&str, &[u8])> = large.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
    files.push((".gitattributes", b"*.uasset filter=lfs diff=lfs merge=lfs -text\n"));
    let commit = studio.commit("main", "large", &files).await;
    let config = json!({"mode": "app", "appId": "7", "installationId": "42", "apiBaseUrl": studio.server.api_base_url(), "gitBaseUrl": studio.server.git_base_url()});
    let mut binding = studio.host.binding("githost", config);
    binding.secrets = [("privateKey".to_owned(), Secret::new(KEY.to_owned()))].into();
    (studio, binding, commit)
}

fn count(studio: &Studio, end: &str) -> usize {
    studio.server.requests().iter().filter(|request| request.ends_with(end)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_lfs_goes_on_with_a_new_token_in_the_middle_of_its_work() {
    for long_tokens in [false, true] {
        let (studio, binding, commit) = studio(long_tokens).await;
        let host = &studio.host;
        studio.server.revoke_tokens_after("/objects/batch");
        let done = host.plugins.materialise(&binding, REPOSITORY, "main", &commit, host.workspace(), false, host.call()).await;
        assert_eq!(done.unwrap_or_else(|error| panic!("{error}\n{}", host.log.text())).files, LARGE_FILES as u64 + 1);
        for number in [0, 99, 100, 249] {
            let bytes = std::fs::read(host.workspace().join(format!("Content/{number}.uasset"))).expect("a file");
            assert_eq!(bytes, vec![number as u8; 200 + number], "{number}");
        }
        // git-lfs itself went on: nobody started it again.
        let log = host.log.text();
        assert!(!log.contains("going on with a new one"), "{log}");
        assert_eq!(log.matches("Fetching large files").count(), 1);
        assert_eq!(count(&studio, "/access_tokens"), 2);
        // What was bought is known to the log's mask, and stands in no line.
        assert!(host.log.masked.lock().expect("the masks").iter().filter(|text| text.starts_with("ghs_")).count() >= 2);
        assert!(!log.contains("ghs_"), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_installation_that_is_suspended_in_the_middle_ends_the_checkout() {
    let (studio, binding, commit) = studio(false).await;
    let host = &studio.host;
    let checkout = host.plugins.materialise(&binding, REPOSITORY, "main", &commit, host.workspace(), false, host.call());
    let suspend = async {
        while count(&studio, "/objects/batch") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        studio.server.suspend(42, true);
    };
    let (done, ()) = tokio::join!(checkout, suspend);
    match done {
        // All batches were answered before.
        Ok(done) => assert_eq!(done.files, LARGE_FILES as u64 + 1),
        Err(error) => assert_eq!((error.problem, error.reason.as_deref()), (SourceProblem::Forbidden, Some("installation")), "{error}"),
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_process_carries_a_token_or_the_key() {
    let (studio, binding, commit) = studio(false).await;
    let host = &studio.host;
    let marker = format!("COOKHOUSE_PROCESS={}", host.marker());
    let (seen, stop) = (std::sync::Mutex::new(Vec::new()), tokio_util::sync::CancellationToken::new());
    let watch = async {
        while !stop.is_cancelled() {
            for entry in std::fs::read_dir("/proc").expect("the processes").flatten() {
                let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
                let environment = String::from_utf8_lossy(&read("environ")).into_owned();
                if environment.contains(&marker) {
                    let mut seen = seen.lock().expect("the list");
                    seen.push(String::from_utf8_lossy(&read("cmdline")).into_owned());
                    seen.push(environment);
                }
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let checkout = async {
        let done = host.plugins.materialise(&binding, REPOSITORY, "main", &commit, host.workspace(), false, host.call()).await;
        stop.cancel();
        done.expect("a checkout");
    };
    tokio::join!(watch, checkout);
    let seen = seen.into_inner().expect("the list");
    assert!(
        seen.iter().any(|text| text.contains("lfs")) && seen.iter().any(|text| text.contains("COOKHOUSE_ASKPASS_KEY")),
        "{}",
        seen.len()
    );
    for text in &seen {
        assert!(!text.contains("ghs_") && !text.contains("PRIVATE KEY") && !text.contains("eyJ"), "{text}");
    }
    // Nor does any file that was written on the way.
    let mut files = vec![host.directory.path().to_owned()];
    let mut looked_at = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            // What the git host serves is its own.
            files.extend(
                std::fs::read_dir(&path).expect("a directory").flatten().map(|entry| entry.path()).filter(|path| !path.ends_with("served")),
            );
        } else {
            looked_at += 1;
            let bytes = std::fs::read(&path).expect("a file");
            assert!(!bytes.windows(4).any(|window| window == b"ghs_"), "{}", path.display());
        }
    }
    assert!(looked_at > LARGE_FILES, "{looked_at}");
}
