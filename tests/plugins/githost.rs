//! The bundled githost plugin against a git server over smart HTTP, with real git and git-lfs.

use cookhouse::demo::git_server::{Commit, GitServer, Settings};
use cookhouse::seams::{SourceControl, SourceProblem};
use serde_json::json;

use super::{Host, TOKEN};

const LARGE: &[u8] = &[7; 300_000];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_found_and_checked_out_twice() {
    let host = Host::bundled();
    let files = host.directory.path().join("files");
    for (path, bytes) in [
        ("Game/Game.uproject", &br#"{"FileVersion":3}"#[..]),
        ("Game/Content/Hero.uasset", LARGE),
        (".gitattributes", b"*.uasset filter=lfs diff=lfs merge=lfs -text\n"),
    ] {
        let path = files.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let server = GitServer::start(Settings::new(host.directory.path().join("served"), TOKEN)).await.unwrap();
    let first = Commit { branch: "main", message: "First\n\nbody", author: "Ada" };
    let hash = server.repositories().publish("studio/game", &files, first).await.unwrap();
    let config = json!({"mode": "token", "apiBaseUrl": server.api_base_url(), "gitBaseUrl": server.git_base_url()});
    let mut binding = host.binding("githost", config);

    let found = host.plugins.check(&binding, host.call()).await.unwrap();
    assert_eq!(found.account.as_deref(), Some("studio"));
    let page = host.plugins.list_repositories(&binding, None, 25, host.call()).await.unwrap();
    assert_eq!(page.items[0].full_name, "studio/game");
    let branches = host.plugins.list_branches(&binding, "studio/game", Some("MAI".into()), None, 25, host.call()).await.unwrap();
    assert_eq!(branches.items[0].head.id, hash);
    let head = host.plugins.resolve_head(&binding, "studio/game", "main", host.call()).await.unwrap();
    assert_eq!((head.id.as_str(), head.author.as_str()), (hash.as_str(), "Ada"));
    let (paths, _) = host.plugins.find_files(&binding, "studio/game", &hash, "**/*.uproject", 3, 2, host.call()).await.unwrap();
    assert_eq!(paths, ["Game/Game.uproject"]);
    let file = host.plugins.read_file(&binding, "studio/game", &hash, "Game/Game.uproject", 1000, host.call()).await.unwrap();
    assert_eq!(file, br#"{"FileVersion":3}"#);

    let workspace = host.workspace();
    let done = host.plugins.materialise(&binding, "studio/game", "main", &hash, workspace.clone(), false, host.call()).await.unwrap();
    assert_eq!((done.revision.id.as_str(), done.files), (hash.as_str(), 3));
    assert_eq!(std::fs::read(workspace.join("Game/Content/Hero.uasset")).unwrap(), LARGE);

    // The second checkout brings what changed, keeps what the build made, and heals what it spoiled.
    std::fs::write(files.join("Game/Game.uproject"), r#"{"FileVersion":3,"x":1}"#).unwrap();
    let second =
        server.repositories().publish("studio/game", &files, Commit { branch: "main", message: "Second", author: "Ada" }).await.unwrap();
    std::fs::create_dir_all(workspace.join("Game/Intermediate")).unwrap();
    std::fs::write(workspace.join("Game/Intermediate/kept.obj"), "x").unwrap();
    std::fs::write(workspace.join("Game/stray.txt"), "x").unwrap();
    std::fs::write(workspace.join(".git/config"), "[core]\n\tfsmonitor = false\n\tbroken").unwrap();
    std::fs::write(workspace.join(".git/index.lock"), "").unwrap();
    let before = server.bytes_sent();
    let done = host.plugins.materialise(&binding, "studio/game", "main", &second, workspace.clone(), true, host.call()).await.unwrap();
    assert_eq!(done.revision.message.trim(), "Second");
    assert!(server.bytes_sent() - before < 100_000, "the large file came again");
    assert!(workspace.join("Game/Intermediate/kept.obj").exists() && !workspace.join("Game/stray.txt").exists());

    // The token is nowhere: not in the log, not in a file of the workspace or of the host.
    assert!(!host.log.text().contains(TOKEN));
    for directory in [workspace.clone(), host.directory.path().join("plugins")] {
        assert!(!contains(&directory, TOKEN.as_bytes()), "the token is below {}", directory.display());
    }

    let error = host.plugins.resolve_head(&binding, "studio/game", "nowhere", host.call()).await.unwrap_err();
    assert_eq!((error.problem, error.reason.as_deref()), (SourceProblem::NotFound, Some("branch")));
    let wrong = "a-wrong-token-0123456789";
    binding.secrets.insert("token".into(), cookhouse::model::Secret::new(wrong.to_owned()));
    let error = host.plugins.check(&binding, host.call()).await.unwrap_err();
    assert_eq!(error.problem, SourceProblem::Unauthenticated);
    let third = host.directory.path().join("third");
    std::fs::create_dir(&third).unwrap();
    let error = host.plugins.materialise(&binding, "studio/game", "main", &hash, third, false, host.call()).await.unwrap_err();
    assert_eq!(error.problem, SourceProblem::Unauthenticated, "{error}");
    #[cfg(target_os = "linux")]
    host.until_quiet().await;
}

fn contains(directory: &std::path::Path, wanted: &[u8]) -> bool {
    std::fs::read_dir(directory).unwrap().flatten().any(|entry| match entry.file_type().unwrap() {
        kind if kind.is_dir() => contains(&entry.path(), wanted),
        kind if kind.is_file() => std::fs::read(entry.path()).unwrap().windows(wanted.len()).any(|window| window == wanted),
        _ => false,
    })
}
