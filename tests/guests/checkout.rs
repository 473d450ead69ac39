//! Checkouts that are harder than a fresh one.

use cookhouse::seams::{SourceControl, SourceProblem};

use super::{REPOSITORY, Studio, kind};
use crate::support::scripted::Scripted;

const ATTRIBUTES: (&str, &[u8]) = (".gitattributes", b"*.uasset filter=lfs diff=lfs merge=lfs -text\n");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_gives_commits_by_branch_only_is_asked_for_more_of_the_branch() {
    let studio = Studio::with(|mut settings| {
        settings.is_old = true;
        settings
    })
    .await;
    let wanted = studio.commit("main", "wanted", &[("a", b"wanted")]).await;
    // Behind more commits than the first steps fetch.
    let tree = studio.git(&["rev-parse", "main^{tree}"]).await;
    let mut tip = wanted.clone();
    for number in 0..60 {
        tip = studio.git(&["commit-tree", &tree, "-p", &tip, "-m", &number.to_string()]).await;
    }
    studio.git(&["update-ref", "refs/heads/main", &tip]).await;
    let elsewhere = studio.git(&["commit-tree", &tree, "-m", "on no branch"]).await;

    let (host, binding) = (&studio.host, studio.binding());
    let done = host.plugins.materialise(&binding, REPOSITORY, "main", &wanted, host.workspace(), false, host.call()).await.unwrap();
    assert_eq!((done.revision.id.as_str(), done.revision.message.as_str()), (wanted.as_str(), "wanted"));
    let error = host.plugins.materialise(&binding, REPOSITORY, "main", &elsewhere, host.workspace(), true, host.call()).await.unwrap_err();
    assert_eq!(kind(&error), (SourceProblem::NotFound, Some("revision")), "{error}");
    let error = host.plugins.materialise(&binding, REPOSITORY, "none", &elsewhere, host.workspace(), true, host.call()).await.unwrap_err();
    assert_eq!(kind(&error), (SourceProblem::NotFound, Some("branch")), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_there_is_not_fetched_again_and_a_broken_repository_is_made_anew() {
    let studio = Studio::start().await;
    let hash = studio.commit("main", "m", &[("Game/a.txt", b"right"), ("Game/b.txt", b"too")]).await;
    let (host, binding) = (&studio.host, studio.binding());
    let workspace = host.workspace();
    let checkout = || host.plugins.materialise(&binding, REPOSITORY, "main", &hash, workspace.clone(), true, host.call());
    checkout().await.unwrap();

    let before = studio.server.requests().len();
    std::fs::write(workspace.join("Game/a.txt"), "spoiled by a build").unwrap();
    std::fs::remove_file(workspace.join("Game/b.txt")).unwrap();
    checkout().await.unwrap();
    assert_eq!(studio.server.requests().len(), before);
    assert_eq!(std::fs::read(workspace.join("Game/a.txt")).unwrap(), b"right");
    assert_eq!(std::fs::read(workspace.join("Game/b.txt")).unwrap(), b"too");

    for spoiled in ["objects", "index", "HEAD", "refs", ""] {
        let path = workspace.join(".git").join(spoiled);
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
        }
        std::fs::write(if spoiled.is_empty() { workspace.join(".git") } else { path }, "nonsense").unwrap();
        std::fs::write(workspace.join("Game/a.txt"), "spoiled again").unwrap();
        let done = checkout().await.unwrap_or_else(|error| panic!("{spoiled}: {error}"));
        assert_eq!((done.revision.id.as_str(), done.files), (hash.as_str(), 2), "{spoiled}");
        assert_eq!(std::fs::read(workspace.join("Game/a.txt")).unwrap(), b"right", "{spoiled}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_files_come_from_the_git_host_whatever_the_repository_says() {
    let studio = Studio::start().await;
    let elsewhere = Scripted::start(|_| "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".into()).await;
    let trap = format!("[lfs]\n\turl = {0}/evil\n\tpushurl = {0}/evil\n[remote \"origin\"]\n\tlfsurl = {0}/evil\n", elsewhere.base());
    let large = vec![7; 100_000];
    let files = [ATTRIBUTES, (".lfsconfig", trap.as_bytes()), ("Content/Hero.uasset", &large)];
    let hash = studio.commit("main", "m", &files).await;
    let (host, binding) = (&studio.host, studio.binding());
    host.plugins.materialise(&binding, REPOSITORY, "main", &hash, host.workspace(), false, host.call()).await.unwrap();
    assert!(std::fs::read(host.workspace().join("Content/Hero.uasset")).unwrap() == large);
    assert_eq!(elsewhere.requests(), Vec::<String>::new());

    // An object that the server lost.
    let next = [ATTRIBUTES, ("Content/Hero.uasset", &large), ("Content/Lost.uasset", &[8; 5000][..])];
    let hash = studio.commit("main", "m", &next).await;
    let objects = studio.server.repositories().directory_of(REPOSITORY).unwrap().join("lfs");
    std::fs::remove_dir_all(objects).unwrap();
    let error = host.plugins.materialise(&binding, REPOSITORY, "main", &hash, host.workspace(), true, host.call()).await.unwrap_err();
    assert_eq!(kind(&error), (SourceProblem::NotFound, Some("file")), "{error}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_lead_out_are_named_and_not_followed() {
    let studio = Studio::start().await;
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "*.uasset filter=lfs\n").unwrap();
    let files = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), files.path().join("out")).unwrap();
    std::os::unix::fs::symlink("../../..", files.path().join("up")).unwrap();
    std::os::unix::fs::symlink("Game.txt", files.path().join("within")).unwrap();
    // A list of attributes that is a link must not be read.
    std::os::unix::fs::symlink(&secret, files.path().join(".gitattributes")).unwrap();
    std::fs::write(files.path().join("Game.txt"), "x").unwrap();
    let hash = studio.publish("main", "m", files.path()).await;
    let (host, binding) = (&studio.host, studio.binding());
    let done = host.plugins.materialise(&binding, REPOSITORY, "main", &hash, host.workspace(), false, host.call()).await.unwrap();
    assert_eq!(done.files, 5);
    let log = host.log.text();
    assert!(log.contains("link out leads out") && log.contains("link up leads out") && !log.contains("link within"), "{log}");

    // The next commit has a folder where the link was: git replaces the link and writes nothing behind it.
    let hash = studio.commit("main", "m", &[("out/secret", b"new"), ("out/b", b"new")]).await;
    host.plugins.materialise(&binding, REPOSITORY, "main", &hash, host.workspace(), true, host.call()).await.unwrap();
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "*.uasset filter=lfs\n");
    assert!(!outside.path().join("b").exists());
    assert_eq!(std::fs::read(host.workspace().join("out/secret")).unwrap(), b"new");
}
