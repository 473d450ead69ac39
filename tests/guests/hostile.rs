//! Repositories and git servers that mean harm, through the real guest and the real git.

#[cfg(target_os = "linux")]
use std::time::Duration;

use cookhouse::demo::git_server::Settings;
use cookhouse::seams::{SourceControl, SourceProblem};
use serde_json::json;

use super::{REPOSITORY, Studio, kind};
use crate::plugins::Host;
use crate::support::scripted::Scripted;

/// Words that leave a file where the test looks, if anybody runs them.
struct Traces(tempfile::TempDir);

impl Traces {
    fn new() -> Traces {
        Traces(tempfile::tempdir().unwrap())
    }

    fn touch(&self, name: &str) -> String {
        format!("touch '{}'", self.0.path().join(name).display())
    }

    fn assert_none(&self) {
        let left: Vec<_> = std::fs::read_dir(self.0.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(left.is_empty(), "this was run: {left:?}");
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_build_plants_between_two_checkouts_is_not_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let (studio, traces) = (Studio::start().await, Traces::new());
    let attributes = (".gitattributes", &b"*.uasset filter=lfs diff=lfs merge=lfs -text\n"[..]);
    let (host, binding) = (&studio.host, studio.binding());
    let workspace = host.workspace();
    let hash = studio.commit("main", "first", &[attributes, ("a.uasset", &[1; 5000]), ("b.txt", b"one")]).await;
    host.plugins.materialise(&binding, REPOSITORY, "main", &hash, workspace.clone(), false, host.call()).await.unwrap();

    let git = workspace.join(".git");
    std::fs::create_dir_all(git.join("hooks")).unwrap();
    std::fs::create_dir_all(git.join("info")).unwrap();
    for name in ["post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-merge", "fsmonitor-watchman"] {
        let path = git.join("hooks").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{}\n", traces.touch(name))).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let included = host.directory.path().join("included");
    std::fs::write(&included, format!("[core]\n\tfsmonitor = {}\n", traces.touch("included"))).unwrap();
    let touch = |name: &str| traces.touch(name);
    let settings = format!(
        "[core]\n\tfsmonitor = {}\n\tsshCommand = {}\n\thooksPath = .git/hooks\n\taskPass = {}\n\tgitProxy = {}\n[include]\n\tpath = {}\n\
         [filter \"evil\"]\n\tsmudge = {}; cat\n\tclean = {}; cat\n\tprocess = {}\n\trequired = true\n[filter \"lfs\"]\n\tsmudge = {}\n\tprocess = {}\n\
         [credential]\n\thelper = !{}\n[alias]\n\tlfs = !{}\n\tcheckout = !{}\n[url \"ext::{}\"]\n\tinsteadOf = http://\n\
         [remote \"origin\"]\n\tuploadpack = {}\n\tproxy = http://127.0.0.1:9\n[http]\n\tproxy = http://127.0.0.1:9\n\
         [lfs]\n\turl = http://127.0.0.1:9/evil\n[lfs \"customtransfer.evil\"]\n\tpath = {}\n[lfs \"extension.evil\"]\n\tsmudge = {}\n\tpriority = 0\n",
        touch("fsmonitor"),
        touch("ssh"),
        touch("askpass"),
        touch("proxy"),
        included.display(),
        touch("smudge"),
        touch("clean"),
        touch("process"),
        touch("lfs-smudge"),
        touch("lfs-process"),
        touch("helper"),
        touch("alias-lfs"),
        touch("alias-checkout"),
        touch("ext"),
        touch("uploadpack"),
        touch("transfer"),
        touch("extension"),
    );
    for name in ["config", "config.worktree"] {
        std::fs::write(git.join(name), &settings).unwrap();
    }
    std::fs::write(git.join("info/attributes"), "* filter=evil\n").unwrap();
    std::fs::write(workspace.join(".gitattributes"), "* filter=evil\n").unwrap();
    std::fs::write(workspace.join("b.txt"), "changed").unwrap();

    let hash = studio.commit("main", "second", &[attributes, ("a.uasset", &[2; 5000]), ("b.txt", b"two")]).await;
    let done = host.plugins.materialise(&binding, REPOSITORY, "main", &hash, workspace.clone(), true, host.call()).await.unwrap();
    assert_eq!((done.revision.id.as_str(), done.files), (hash.as_str(), 3));
    assert_eq!(std::fs::read(workspace.join("a.uasset")).unwrap(), [2; 5000]);
    assert_eq!(std::fs::read(workspace.join("b.txt")).unwrap(), b"two");
    traces.assert_none();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_names_commands_runs_none() {
    let (studio, traces) = (Studio::start().await, Traces::new());
    let attributes = "* filter=evil diff=evil merge=evil\n*.uasset filter=lfs diff=lfs merge=lfs -text\n*.dat filter=lfs;touch\n";
    let tracked = format!(
        "[filter \"evil\"]\n\tsmudge = {0}\n\tprocess = {0}\n\trequired = true\n[filter \"lfs\"]\n\tprocess = {0}\n[core]\n\thooksPath = .\n\tfsmonitor = {0}\n\
         [lfs \"customtransfer.evil\"]\n\tpath = {0}\n[lfs]\n\tstandalonetransferagent = evil\n[lfs \"extension.evil\"]\n\tsmudge = {0}\n",
        traces.touch("tracked")
    );
    let hook = format!("#!/bin/sh\n{}\n", traces.touch("hook"));
    // Its name is given to git-lfs by way of a shell.
    let crooked = format!("a';{};'$({}).uasset", traces.touch("quoted").replace('/', "_"), "touch crooked");
    let files = [
        (".gitattributes", attributes.as_bytes()),
        (".gitconfig", tracked.as_bytes()),
        (".lfsconfig", tracked.as_bytes()),
        ("post-checkout", hook.as_bytes()),
        (crooked.as_str(), &[3; 5000]),
        ("a.dat", b"x"),
        ("b.txt", b"x"),
    ];
    let hash = studio.commit("main", "m", &files).await;
    let (host, binding) = (&studio.host, studio.binding());
    let workspace = host.workspace();
    host.plugins.materialise(&binding, REPOSITORY, "main", &hash, workspace.clone(), false, host.call()).await.unwrap();
    assert_eq!(std::fs::read(workspace.join(&crooked)).unwrap(), [3; 5000]);
    assert!(!workspace.join("crooked").exists() && !workspace.join("x").exists());
    traces.assert_none();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submodules_are_named_and_left_alone() {
    let (studio, traces) = (Studio::start().await, Traces::new());
    let head = studio.commit("main", "m", &[("a.txt", b"x")]).await;
    let with_modules = async |text: String| {
        let blob = studio.git_reading(&["hash-object", "-w", "--stdin"], &text).await;
        studio.git(&["read-tree", &head]).await;
        studio.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},.gitmodules")]).await;
        studio.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},Plugins/module")]).await;
        let tree = studio.git(&["write-tree"]).await;
        let hash = studio.git(&["commit-tree", &tree, "-m", "modules"]).await;
        studio.git(&["update-ref", "refs/heads/main", &hash]).await;
        hash
    };
    let (host, binding) = (&studio.host, studio.binding());
    let workspace = host.workspace();
    let outside = with_modules("[submodule \"m\"]\n\tpath = Plugins/module\n\turl = ../../../../etc\n".to_owned()).await;
    let done = host.plugins.materialise(&binding, REPOSITORY, "main", &outside, workspace.clone(), false, host.call()).await.unwrap();
    assert_eq!(done.files, 2);
    let log = host.log.text();
    assert!(log.contains("The submodule Plugins/module is not checked out: its address is not on this git host"), "{log}");
    let inside = std::fs::read_dir(workspace.join("Plugins/module")).map_or(0, Iterator::count);
    assert_eq!((inside, workspace.join(".git/modules").exists()), (0, false));

    let command = format!("[submodule \"m\"]\n\tpath = Plugins/module\n\turl = ext::x\n\tupdate = !{}\n", traces.touch("update"));
    let hash = with_modules(command).await;
    let error = host.plugins.materialise(&binding, REPOSITORY, "main", &hash, workspace.clone(), true, host.call()).await.unwrap_err();
    assert_eq!(error.problem, SourceProblem::Broken, "{error}");
    assert!(error.message.contains("gitmodules"), "{error}");
    traces.assert_none();
    // The repository in the workspace is none the worse for it.
    host.plugins.materialise(&binding, REPOSITORY, "main", &outside, workspace, true, host.call()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trees_with_impossible_names_are_refused() {
    let studio = Studio::start().await;
    studio.commit("main", "m", &[("a.txt", b"x")]).await;
    let blob = studio.git(&["rev-parse", "main:a.txt"]).await;
    let hooks = studio.git_reading(&["mktree"], &format!("100755 blob {blob}\tpost-checkout\n")).await;
    let inner = studio.git_reading(&["mktree"], &format!("040000 tree {hooks}\thooks\n100644 blob {blob}\tconfig\n")).await;
    let (host, binding) = (&studio.host, studio.binding());
    for name in [".git", ".GIT", "git~1", "..", ".g\u{200c}it"] {
        let tree = studio.git_reading(&["mktree"], &format!("040000 tree {inner}\t{name}\n")).await;
        let hash = studio.git(&["commit-tree", &tree, "-m", "m"]).await;
        studio.git(&["update-ref", "refs/heads/main", &hash]).await;
        let workspace = host.workspace();
        let error = host.plugins.materialise(&binding, REPOSITORY, "main", &hash, workspace.clone(), true, host.call()).await.unwrap_err();
        assert_eq!(error.problem, SourceProblem::Broken, "{name}: {error}");
        assert!(!workspace.join(".git/hooks/post-checkout").exists() && !host.directory.path().join("hooks").exists(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_tree_and_paths_that_differ_in_case_arrive_whole() {
    let studio = Studio::start().await;
    studio.commit("main", "m", &[("a.txt", b"x")]).await;
    let blob = studio.git(&["rev-parse", "main:a.txt"]).await;
    let mut index: String = (0..10_000).map(|n| format!("100644 {blob}\tGame/Content/{}/{n}.uasset.txt\n", n % 100)).collect();
    if cfg!(target_os = "linux") {
        index.push_str(&format!("100644 {blob}\tgame/Readme.txt\n100644 {blob}\tgame/README.txt\n"));
    }
    let many = index.lines().count() as u64;
    studio.git(&["read-tree", "--empty"]).await;
    studio.git_reading(&["update-index", "--add", "--index-info"], &index).await;
    let tree = studio.git(&["write-tree"]).await;
    let hash = studio.git(&["commit-tree", &tree, "-m", "large"]).await;
    studio.git(&["update-ref", "refs/heads/main", &hash]).await;
    let (host, binding) = (&studio.host, studio.binding());
    let workspace = host.workspace();
    let done = host.plugins.materialise(&binding, REPOSITORY, "main", &hash, workspace.clone(), false, host.call()).await.unwrap();
    assert_eq!(done.files, many);
    assert_eq!(std::fs::read_dir(workspace.join("Game/Content/42")).unwrap().count(), 100);
    assert!(!cfg!(target_os = "linux") || std::fs::read_dir(workspace.join("game")).unwrap().count() == 2);
    let (paths, truncated) = host.plugins.find_files(&binding, REPOSITORY, &hash, "**/*.txt", 9, 50, host.call()).await.unwrap();
    assert_eq!((paths.len(), truncated), (50, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branches_with_crooked_names_are_listed_and_never_used() {
    let studio = Studio::start().await;
    let hash = studio.commit("main", "m", &[("a.txt", b"x")]).await;
    let crooked = ["--upload-pack=x", "-x", "refs/heads/-x", "$(touch)", "a;b", "a'b"];
    for name in crooked {
        studio.git(&["update-ref", &format!("refs/heads/{name}"), &hash]).await;
    }
    let (host, binding) = (&studio.host, studio.binding());
    let page = host.plugins.list_branches(&binding, REPOSITORY, None, None, 25, host.call()).await.unwrap();
    assert_eq!(page.items.len(), crooked.len() + 1);
    for name in crooked {
        let used = host.plugins.materialise(&binding, REPOSITORY, name, &hash, host.workspace(), true, host.call()).await;
        match used {
            Err(error) => assert_eq!(kind(&error), (SourceProblem::Invalid, Some("branch")), "{name}: {error}"),
            // Odd, but one name like any other.
            Ok(done) => assert!(done.revision.id == hash && !name.contains('-') && !name.contains(' '), "{name}"),
        }
    }
    let log = studio.server.requests().join("\n");
    assert!(!log.contains("upload-pack=x"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_that_goes_and_a_repository_that_is_emptied_are_named() {
    for is_old in [false, true] {
        let studio = Studio::with(|settings| Settings { is_old, ..settings }).await;
        studio.commit("main", "m", &[("a.txt", b"x")]).await;
        studio.commit("gone", "m", &[("b.txt", b"x")]).await;
        let (host, binding) = (&studio.host, studio.binding());
        let hash = host.plugins.resolve_head(&binding, REPOSITORY, "gone", host.call()).await.unwrap().id;
        studio.git(&["update-ref", "-d", "refs/heads/gone"]).await;
        studio.git(&["gc", "--quiet", "--prune=now"]).await;
        let checkout = || host.plugins.materialise(&binding, REPOSITORY, "gone", &hash, host.workspace(), true, host.call());
        let error = checkout().await.unwrap_err();
        assert_eq!(error.problem, SourceProblem::NotFound, "{error}");
        assert!(matches!(error.reason.as_deref(), Some("branch" | "revision")), "{error}");

        studio.git(&["update-ref", "-d", "refs/heads/main"]).await;
        studio.git(&["gc", "--quiet", "--prune=now"]).await;
        let page = host.plugins.list_branches(&binding, REPOSITORY, None, None, 25, host.call()).await.unwrap();
        assert!(page.items.is_empty());
        let error = host.plugins.resolve_head(&binding, REPOSITORY, "main", host.call()).await.unwrap_err();
        assert_eq!(kind(&error), (SourceProblem::NotFound, Some("branch")), "{error}");
        let error = checkout().await.unwrap_err();
        assert_eq!(kind(&error), (SourceProblem::NotFound, Some("branch")), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_git_server_can_answer_anything() {
    let host = Host::bundled();
    let elsewhere =
        Scripted::start(|_| b"HTTP/1.1 401 X\r\nwww-authenticate: Basic realm=\"x\"\r\ncontent-length: 0\r\n\r\n".to_vec()).await;
    let kind_of = "content-type: application/x-git-upload-pack-advertisement\r\n";
    let answer = |status: &str, headers: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    };
    let location = format!("location: {}/a/b.git/info/refs\r\n", elsewhere.base());
    let huge = format!("{:04x}{}", 0xfff0, "x".repeat(100));
    for (reply, problem, reason) in [
        (answer("200 OK", "content-type: text/html\r\n", "<html>Sign in</html>"), SourceProblem::Broken, None),
        (answer("200 OK", kind_of, "<html>Sign in</html>"), SourceProblem::Broken, None),
        (answer("200 OK", kind_of, ""), SourceProblem::Unavailable, Some("connect")),
        (answer("200 OK", kind_of, &huge), SourceProblem::Unavailable, Some("connect")),
        (answer("302 Found", &location, ""), SourceProblem::Broken, Some("http-status-301")),
        (answer("307 Found", &location, ""), SourceProblem::Broken, Some("http-status-301")),
        (answer("401 No", "www-authenticate: Basic realm=\"x\"\r\n", ""), SourceProblem::Unauthenticated, Some("http-status-401")),
        (answer("403 No", "", ""), SourceProblem::Forbidden, Some("http-status-403")),
        (answer("404 No", "", ""), SourceProblem::NotFound, Some("repository")),
        (answer("429 Slow", "retry-after: 100\r\n", ""), SourceProblem::RateLimited, Some("http-status-429")),
        (answer("500 Oh", "", "<html>\u{1b}[31m"), SourceProblem::Unavailable, Some("http-status-500")),
        (String::new(), SourceProblem::Unavailable, Some("connect")),
        (format!("HTTP/1.1 200 OK\r\n{kind_of}content-length: 5000\r\n\r\n001e"), SourceProblem::Unavailable, Some("connect")),
    ] {
        let bytes = reply.clone().into_bytes();
        let server = Scripted::start(move |_| bytes.clone()).await;
        let binding = host.binding("githost", json!({ "mode": "token", "apiBaseUrl": server.base(), "gitBaseUrl": server.base() }));
        let workspace = tempfile::tempdir().unwrap();
        let place = workspace.path().to_owned();
        let error = host.plugins.materialise(&binding, "a/b", "main", &"a".repeat(40), place, false, host.call()).await.unwrap_err();
        assert_eq!((error.problem, error.reason.as_deref()), (problem, reason), "{reply:?}: {error}");
        assert!(!error.message.contains('\u{1b}') && error.message.len() < 2000, "{error}");
        assert!(elsewhere.requests().is_empty(), "{reply:?}: {:?}", elsewhere.requests());
    }
    #[cfg(target_os = "linux")]
    host.until_quiet().await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_git_server_that_says_nothing_ends_with_the_wall() {
    let mut host = Host::bundled();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", silent.local_addr().unwrap());
    let binding = host.binding("githost", json!({ "mode": "token", "apiBaseUrl": base, "gitBaseUrl": base }));
    // Compiled before the time counts.
    let _ = host.plugins.check(&host.binding("githost", json!({})), host.call()).await;
    host.wall = Duration::from_secs(2);
    let error = host.plugins.materialise(&binding, "a/b", "main", &"a".repeat(40), host.workspace(), false, host.call()).await.unwrap_err();
    assert_eq!(error.problem, SourceProblem::TimedOut, "{error}");
    host.until_quiet().await;
}
