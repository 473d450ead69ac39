//! git as a tool, against repositories that were made to run something.

use std::convert::Infallible;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Host;

/// git as whoever prepares the trap would call it.
fn prepare(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(directory).env("HOME", directory).env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "A").env(format!("GIT_{role}_EMAIL"), "a@example.com");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A repository with one commit whose every file asks for the filter `evil`.
fn repository(workspace: &Path) {
    prepare(workspace, &["init", "--quiet", "--initial-branch=main"]);
    std::fs::write(workspace.join("file.txt"), "content\n").unwrap();
    std::fs::write(workspace.join(".gitattributes"), "* filter=evil diff=evil\n").unwrap();
    prepare(workspace, &["add", "."]);
    prepare(workspace, &["commit", "--quiet", "--message=first"]);
}

async fn git(host: &Host, workspace: &Path, lines: Value) -> String {
    host.misbehave_in(workspace, json!({"do": "git", "lines": lines})).await.unwrap()
}

#[tokio::test]
async fn nothing_in_a_repository_is_run() {
    let host = Host::abuse();
    let workspace = host.workspace();
    repository(&workspace);
    let traces = host.directory.path().join("traces");
    std::fs::create_dir(&traces).unwrap();
    let touch = |name: &str| format!("touch '{}'", traces.join(name).display());
    let hook = |name: &str| format!("#!/bin/sh\n{}\n", touch(name));
    std::fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
    for name in ["post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman"] {
        let path = workspace.join(".git/hooks").join(name);
        std::fs::write(&path, hook(name)).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let included = host.directory.path().join("included");
    std::fs::write(&included, format!("[core]\n\tfsmonitor = {}\n", touch("included"))).unwrap();
    let hostile = format!(
        "[core]\n\tfsmonitor = {}\n\tsshCommand = {}\n\tworktree = {}\n\tpager = {}\n\teditor = {}\n\taskPass = {}\n[include]\n\tpath = {}\n\
         [filter \"evil\"]\n\tsmudge = {}; cat\n\tclean = {}; cat\n\tprocess = {}\n\trequired = true\n[filter \"lfs\"]\n\tprocess = {}\n\
         [diff \"evil\"]\n\ttextconv = {}\n\tcommand = {}\n[credential]\n\thelper = !{}\n[credential \"https://x.example\"]\n\thelper = !{}\n\
         [alias]\n\tlfs = !{}\n[gpg]\n\tprogram = {}\n[log]\n\tshowSignature = true\n[remote \"origin\"]\n\turl = ext::{}\n\tuploadpack = {}\n\
         [extensions]\n\tworktreeConfig = true\n",
        touch("fsmonitor"),
        touch("ssh"),
        traces.display(),
        touch("pager"),
        touch("editor"),
        touch("askpass"),
        included.display(),
        touch("smudge"),
        touch("clean"),
        touch("process"),
        touch("lfs-process"),
        touch("textconv"),
        touch("diff"),
        touch("helper"),
        touch("url-helper"),
        touch("alias"),
        touch("gpg"),
        touch("ext"),
        touch("uploadpack")
    );
    let lines = json!([
        ["status", "--porcelain"],
        ["checkout", "--force", "--detach", "HEAD"],
        ["reset", "--hard", "HEAD"],
        ["clean", "-ffdx"],
        ["log", "-1", "--format=%G? %s"],
        ["fetch", "origin"],
        ["ls-remote", "origin"],
        ["lfs", "ls-files"],
        ["gc", "--quiet"],
        ["lfs", "version"]
    ]);
    for round in 0..2 {
        // Between two builds, the build wrote it again.
        std::fs::write(workspace.join(".git/config"), &hostile).unwrap();
        std::fs::write(workspace.join(".git/config.worktree"), &hostile).unwrap();
        std::fs::write(workspace.join("file.txt"), format!("changed {round}\n")).unwrap();
        let said = git(&host, &workspace, lines.clone()).await;
        assert!(said.starts_with("Some(0)"), "{said}");
        let left: Vec<_> = std::fs::read_dir(&traces).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(left.is_empty(), "ran or wrote: {left:?}\n{said}");
    }
    assert_eq!(std::fs::read_to_string(workspace.join("file.txt")).unwrap(), "content\n");
}

#[tokio::test]
async fn command_lines_that_run_something_or_leave_are_refused() {
    let host = Host::abuse();
    let workspace = host.workspace();
    repository(&workspace);
    let lines = [
        ["fetch", "--upload-pack=touch x", "origin"],
        ["fetch", "origin", "--upload-pack=touch x"],
        ["-c", "core.fsmonitor=touch x", "status"],
        ["fetch", "ext::sh -c touch% x", "main"],
        ["fetch", "file:///etc", "main"],
        ["fetch", "../other", "main"],
        ["fetch", "https://elsewhere.example/a.git", "main"],
        ["fetch", "origin", "refs/heads/-x"],
        ["--exec-path=/x", "status", "--porcelain"],
        ["config", "core.hooksPath", "/x"],
        ["submodule", "update", "--init"],
        ["checkout", "--", "../../x"],
        ["log", "--output=/x", "HEAD"],
        ["push", "origin", "main"],
    ];
    for line in lines {
        let said = git(&host, &workspace, json!([line])).await;
        assert!(said.contains("command-denied") || said.contains("may not be called"), "{line:?}: {said}");
    }
    let environment = json!({"do": "git", "lines": [["version"]], "environment": {"GIT_SSH_COMMAND": "touch x"}});
    let said = host.misbehave_in(&workspace, environment).await.unwrap();
    assert!(said.contains("command-denied"), "{said}");
    let elsewhere =
        json!({"do": "git", "lines": [["fetch", "origin"]], "environment": {"COOKHOUSE_GIT_REMOTE": "https://elsewhere.example/a.git"}});
    let said = host.misbehave_in(&workspace, elsewhere).await.unwrap();
    assert!(said.contains("origin-not-granted"), "{said}");
    // Granted, but never called: the cloud's metadata.
    let metadata = json!({"do": "git", "granted": "http://169.254.169.254", "lines": [["fetch", "http://169.254.169.254/a.git", "main"]]});
    let said = host.misbehave_in(&workspace, metadata).await.unwrap();
    assert!(said.contains("command-denied"), "{said}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_repository_that_points_elsewhere_is_not_followed() {
    let host = Host::abuse();
    let workspace = host.workspace();
    let other = host.directory.path().join("other");
    std::fs::create_dir(&other).unwrap();
    repository(&other);
    // A link, then a file that names another directory.
    std::os::unix::fs::symlink(other.join(".git"), workspace.join(".git")).unwrap();
    let said = git(&host, &workspace, json!([["rev-parse", "--verify", "HEAD"]])).await;
    assert!(!said.starts_with("Some(0)"), "{said}");
    assert!(!workspace.join(".git").exists() && other.join(".git/HEAD").exists());
    std::fs::write(workspace.join(".git"), format!("gitdir: {}\n", other.join(".git").display())).unwrap();
    let said = git(&host, &workspace, json!([["rev-parse", "--verify", "HEAD"]])).await;
    assert!(!said.starts_with("Some(0)"), "{said}");
    // Nor is a repository above the workspace.
    repository(host.directory.path());
    let said = git(&host, &workspace, json!([["rev-parse", "--verify", "HEAD"]])).await;
    assert!(!said.starts_with("Some(0)"), "{said}");
}

/// Answers 401 to whoever does not sign in, and keeps what they signed in with.
async fn guarded(answer: String) -> (String, Arc<Mutex<Vec<Option<String>>>>, DropGuard) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let seen: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let (kept, stop) = (seen.clone(), CancellationToken::new());
    let guard = stop.clone().drop_guard();
    tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (kept, answer) = (kept.clone(), answer.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let (kept, answer) = (kept.clone(), answer.clone());
                async move {
                    let authorization = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
                    let _ = request.into_body().collect().await;
                    kept.lock().unwrap().push(authorization.clone());
                    let response = match authorization {
                        Some(_) => {
                            Response::builder().header("content-type", "application/vnd.git-lfs+json").body(Full::<Bytes>::from(answer))
                        }
                        None => Response::builder().status(401).header("www-authenticate", "Basic realm=\"x\"").body(Full::default()),
                    };
                    Ok::<_, Infallible>(response.unwrap())
                }
            });
            tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            }));
        }
    }));
    (base, seen, guard)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_files_at_another_address_get_no_token() {
    let host = Host::abuse();
    let workspace = host.workspace();
    prepare(&workspace, &["init", "--quiet", "--initial-branch=main"]);
    let oid = "a".repeat(64);
    std::fs::write(workspace.join(".gitattributes"), "*.uasset filter=lfs diff=lfs merge=lfs -text\n").unwrap();
    std::fs::write(workspace.join("Hero.uasset"), format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 5\n"))
        .unwrap();
    prepare(&workspace, &["-c", "filter.lfs.clean=cat", "add", "."]);
    prepare(&workspace, &["commit", "--quiet", "--message=first"]);
    let (elsewhere, strangers, _one) = guarded("what the stranger has".to_owned()).await;
    let objects = json!({"transfer": "basic", "objects": [{"oid": oid, "size": 5, "actions": {"download": {"href": format!("{elsewhere}/object")}}}]});
    let (base, ours, _two) = guarded(objects.to_string()).await;
    let ask = json!({"do": "git", "granted": base, "authorize": true, "lines": [["lfs", "fetch", "origin", "HEAD"]],
        "environment": {"COOKHOUSE_GIT_REMOTE": format!("{base}/a/b.git")}});
    let said = host.misbehave_in(&workspace, ask).await.unwrap();
    assert!(!said.starts_with("Some(0)"), "{said}");
    let (ours, strangers) = (ours.lock().unwrap(), strangers.lock().unwrap());
    assert!(ours.iter().flatten().any(|value| value.starts_with("Basic ")), "{ours:?}");
    assert!(!strangers.is_empty() && strangers.iter().all(Option::is_none), "{strangers:?}\n{said}");
    assert!(!said.contains(super::TOKEN));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_tool_ends_with_its_time_its_call_and_its_wall() {
    use std::time::Duration;
    let mut host = Host::abuse();
    let workspace = host.workspace();
    repository(&workspace);
    // A server that takes connections and never says anything.
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", server.local_addr().unwrap());
    let waiting = json!({"do": "git", "granted": base, "environment": {"COOKHOUSE_GIT_REMOTE": format!("{base}/a/b.git")}, "lines": [["fetch", "origin", "main"]]});
    let mut timed = waiting.clone();
    timed["timeout"] = json!(500);
    let said = host.misbehave_in(&workspace, timed).await.unwrap();
    assert!(said.contains("true"), "{said}");
    host.until_quiet().await;

    host.wall = Duration::from_millis(700);
    let error = host.misbehave_in(&workspace, waiting.clone()).await.unwrap_err();
    assert_eq!(error.problem, cookhouse::seams::SourceProblem::TimedOut);
    host.until_quiet().await;

    host.wall = Duration::from_secs(60);
    let cancel = host.cancel.clone();
    let stop = async {
        while host.processes() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        cancel.cancel();
    };
    let (said, ()) = tokio::join!(host.misbehave_in(&workspace, waiting.clone()), stop);
    assert!(said.as_ref().is_ok_and(|said| said.contains("Cancelled")), "{said:?}");
    host.until_quiet().await;

    // The caller loses interest.
    host.cancel = Default::default();
    let _ = tokio::time::timeout(Duration::from_millis(700), host.misbehave_in(&workspace, waiting.clone())).await;
    host.until_quiet().await;

    let mut many = waiting;
    many["follow"] = json!(6);
    let said = host.misbehave_in(&workspace, many).await.unwrap();
    assert!(said.contains("too many processes"), "{said}");
    host.until_quiet().await;
}
