//! Each abuse ends its own call with a typed error; the host and the next call are fine.

use std::time::Duration;

use cookhouse::plugins::PluginState;
use cookhouse::seams::{SourceControl, SourceProblem};
use serde_json::json;

use super::{Host, TOKEN};

async fn is_fine(host: &Host) {
    assert_eq!(host.misbehave(json!({"do": "nothing"})).await.unwrap(), "nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_end_the_call_and_only_the_call() {
    let host = Host::abuse();
    for (misdeed, said) in [
        ("spin", "processor time"),
        ("allocate", "64 MiB"),
        // The guest's own stack lies in its memory: it runs out of that, or of the runtime's.
        ("recurse", "ended abnormally"),
        ("panic", "panicked"),
        ("handles", "ended abnormally"),
        ("string", "ended abnormally"),
        ("random", "64 KiB"),
    ] {
        let error = host.misbehave(json!({"do": misdeed})).await.unwrap_err();
        assert_eq!(error.problem, SourceProblem::Broken, "{misdeed}: {error}");
        assert!(error.message.contains(said), "{misdeed}: {error}");
        is_fine(&host).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spinning_guest_leaves_the_thread_to_others() {
    let host = Host::abuse();
    let spinning = host.misbehave(json!({"do": "spin"}));
    let beside = async {
        is_fine(&host).await;
        is_fine(&host).await;
        "beside"
    };
    // Both on this one task: the second gets on only because the first gives way.
    let first = futures_util::future::select(Box::pin(spinning), Box::pin(beside)).await;
    assert!(matches!(first, futures_util::future::Either::Right(("beside", _))));
}

#[tokio::test]
async fn a_sleeper_ends_at_the_wall() {
    let mut host = Host::abuse();
    is_fine(&host).await;
    host.wall = Duration::from_millis(200);
    let error = host.misbehave(json!({"do": "sleep"})).await.unwrap_err();
    assert_eq!(error.problem, SourceProblem::TimedOut, "{error}");
    host.wall = Duration::from_secs(60);
    is_fine(&host).await;
}

#[tokio::test]
async fn being_asked_to_stop_is_heard_or_enforced() {
    let host = Host::abuse();
    is_fine(&host).await;
    for misdeed in ["sleep", "endure", "spin"] {
        let stopped = Host {
            cancel: Default::default(),
            plugins: host.plugins.clone(),
            log: host.log.clone(),
            directory: tempfile::tempdir().unwrap(),
            wall: host.wall,
        };
        let cancel = stopped.cancel.clone();
        let stop = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            cancel.cancel();
        };
        let (done, ()) = tokio::join!(stopped.misbehave(json!({"do": misdeed})), stop);
        let problem = done.unwrap_err().problem;
        // A guest that goes on may use up its second of processor time before its grace ends.
        assert!(problem == SourceProblem::Cancelled || misdeed != "sleep" && problem == SourceProblem::Broken, "{misdeed}: {problem:?}");
    }
    is_fine(&host).await;
}

#[tokio::test]
async fn a_flood_of_lines_is_cut_and_cleaned() {
    let host = Host::abuse();
    assert_eq!(host.misbehave(json!({"do": "flood"})).await.unwrap(), "flooded");
    let lines = host.log.lines.lock().unwrap();
    assert!(lines.len() < 5_000, "{} lines", lines.len());
    assert_eq!(lines[0], "line 0");
    assert!(lines.iter().any(|line| line.contains("logs too much")));
}

#[tokio::test]
async fn what_the_host_holds_for_a_guest_is_bounded() {
    let host = Host::abuse();
    let held = host.misbehave(json!({"do": "hold"})).await.unwrap();
    assert!(held.starts_with("17: ") && held.contains("64 MiB"), "{held}");
    let parts = host.misbehave(json!({"do": "parts"})).await.unwrap();
    assert!(parts.starts_with("10000: "), "{parts}");
    let headers = host.misbehave(json!({"do": "headers", "url": "https://x.example"})).await.unwrap();
    assert!(headers.starts_with("100: "), "{headers}");
}

#[tokio::test]
async fn a_cache_belongs_to_one_binding() {
    let host = Host::abuse();
    let binding = host.binding("abuse", json!({"do": "cache"}));
    let first = host.plugins.check(&binding, host.call()).await.unwrap().product;
    let second = host.plugins.check(&binding, host.call()).await.unwrap().product;
    assert_eq!((first.as_str(), second.as_str()), ("None None", "Some(10) None"));
    let mut other = binding.clone();
    other.organization = cookhouse::clock::Clock::default().new_id();
    assert_eq!(host.plugins.check(&other, host.call()).await.unwrap().product, "None None");
}

#[tokio::test]
async fn secrets_are_masked_in_everything_a_guest_says() {
    use base64::Engine as _;
    let host = Host::abuse();
    let encoded = base64::prelude::BASE64_STANDARD.encode(TOKEN);
    for text in [TOKEN, &encoded] {
        let error = host.misbehave(json!({"do": "tell", "text": format!("<{text}>")})).await.unwrap_err();
        assert_eq!(error.message, "failed with <***>");
    }
    let own = "own-secret-that-the-guest-found";
    host.misbehave(json!({"do": "register", "text": own})).await.unwrap();
    let said = host.log.text();
    assert!(said.contains("<***>") && said.contains("got ***"));
    for secret in [TOKEN, &encoded, own] {
        assert!(!said.contains(secret), "{secret}");
    }
    let masked = host.log.masked.lock().unwrap();
    assert!(masked.iter().any(|secret| secret == TOKEN) && masked.iter().any(|secret| secret == own));
}

#[tokio::test]
async fn what_was_not_granted_is_denied() {
    let host = Host::abuse();
    let said = host.misbehave(json!({"do": "reveal"})).await.unwrap();
    assert_eq!(said.matches("secret-not-granted").count(), 2, "{said}");
    for url in [
        "https://elsewhere.example/",
        "http://127.0.0.1:9/",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "https://granted.example@elsewhere.example/",
    ] {
        let error = host.misbehave(json!({"do": "request", "granted": "https://granted.example", "url": url})).await.unwrap_err();
        assert_eq!(error.reason.as_deref(), Some("origin-not-granted"), "{url}: {error}");
    }
    for header in ["host", "content-length", "proxy-authorization", "Transfer-Encoding"] {
        let error = host
            .misbehave(json!({"do": "request", "granted": "https://x.example", "url": "https://x.example", "header": header}))
            .await
            .unwrap_err();
        assert_eq!(error.reason.as_deref(), Some("header-forbidden"), "{header}: {error}");
    }
    let tool = host.misbehave(json!({"do": "git", "tool": "sh", "lines": [["-c", "true"]]})).await.unwrap();
    assert!(tool.contains("tool-not-granted"), "{tool}");
}

#[tokio::test]
async fn no_path_leads_out_of_the_workspace() {
    let host = Host::abuse();
    let workspace = host.workspace();
    let outside = host.directory.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret.txt"), "secret").unwrap();
    std::fs::write(workspace.join("inside.txt"), "inside").unwrap();
    let mut paths = vec![
        "..",
        "../outside/secret.txt",
        "a/../../outside/secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "inside.txt/",
        "a\\..\\b",
        "C:\\x",
        "a\u{0}b",
        "a\nb",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect::<Vec<_>>();
    paths.push(outside.join("secret.txt").to_string_lossy().into_owned());
    paths.push("n".repeat(4096));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&outside, workspace.join("out")).unwrap();
        std::os::unix::fs::symlink("../outside/secret.txt", workspace.join("link.txt")).unwrap();
        paths.push("out/secret.txt".to_owned());
        paths.push("out/new.txt".to_owned());
    }
    let report = host.misbehave_in(&workspace, json!({"do": "paths", "paths": paths})).await.unwrap();
    assert_eq!(report, "", "something succeeded");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(outside.join("secret.txt")).unwrap(), "secret");
    assert!(workspace.join("inside.txt").exists());
    // The link itself may be replaced and removed; what it names may not be touched.
    host.misbehave_in(&workspace, json!({"do": "paths", "paths": ["link.txt"]})).await.unwrap();
    assert_eq!(std::fs::read_to_string(outside.join("secret.txt")).unwrap(), "secret");
}

#[tokio::test]
async fn a_guest_that_gives_more_than_it_was_asked_for_is_not_believed() {
    let host = Host::abuse();
    let binding = host.binding("abuse", json!({}));
    let error = host.plugins.read_file(&binding, "a/b", "main", "x", 1000, host.call()).await.unwrap_err();
    assert_eq!(error.problem, SourceProblem::Broken);
}

#[tokio::test]
async fn plugins_are_listed_with_what_they_ask_for() {
    let host = Host::bundled();
    let list = host.plugins.list();
    let names: Vec<&str> = list.iter().map(|plugin| plugin.id.as_str()).collect();
    assert_eq!(names, ["custom-deploy", "githost", "streamvc"]);
    assert_eq!(list[1].permissions.commands[0].tool, "git");
    // A call of the wrong kind waits until it is loaded, and says which kind it is.
    let error = host.plugins.check(&host.binding("custom-deploy", json!({})), host.call()).await.unwrap_err();
    assert!(error.message.contains("no source-control plugin"), "{error}");
    assert_eq!(host.plugins.list()[0].state, PluginState::Ready);
    let error = host.plugins.check(&host.binding("nobody", json!({})), host.call()).await.unwrap_err();
    assert!(error.message.contains("not installed"), "{error}");
}
