//! Submodules of the same git host, and repositories that do not grow for ever.

use cookhouse::demo::git_server::Commit;
use cookhouse::seams::{SourceControl, SourceProblem};

use super::{REPOSITORY, Studio, kind};

const ATTRIBUTES: &[u8] = b"*.uasset filter=lfs diff=lfs merge=lfs -text\n";

impl Studio {
    /// A commit of another repository of the same host.
    async fn commit_to(&self, repository: &str, files: &[(&str, &[u8])]) -> String {
        let directory = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let commit = Commit { branch: "main", message: "m", author: "Ada" };
        self.server.repositories().publish(repository, directory.path(), commit).await.unwrap()
    }

    /// A commit on the branch main of a repository that has these submodules: path, address, commit.
    async fn with_submodules(&self, repository: &str, head: &str, modules: &[(&str, &str, &str)]) -> String {
        let directory = self.server.repositories().directory_of(repository).unwrap();
        let git = async |arguments: &[&str], input: &str| {
            let whole: Vec<&str> = ["--git-dir", directory.to_str().unwrap()].into_iter().chain(arguments.iter().copied()).collect();
            self.git_reading(&whole, input).await
        };
        let text: String =
            modules.iter().map(|(path, url, _)| format!("[submodule \"{path}\"]\n\tpath = {path}\n\turl = {url}\n")).collect();
        let blob = git(&["hash-object", "-w", "--stdin"], &text).await;
        git(&["read-tree", head], "").await;
        git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},.gitmodules")], "").await;
        for (path, _, commit) in modules {
            git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")], "").await;
        }
        let tree = git(&["write-tree"], "").await;
        let hash = git(&["commit-tree", &tree, "-m", "modules"], "").await;
        git(&["update-ref", "refs/heads/main", &hash], "").await;
        hash
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submodules_of_the_same_host_are_checked_out_with_theirs() {
    let studio = Studio::start().await;
    let head = studio.commit("main", "m", &[("Game.uproject", b"{}")]).await;
    let inner = studio.commit_to("tools/inner", &[("inner.txt", b"inner")]).await;
    let plain =
        studio.commit_to("studio/plugin", &[("Plugin.uplugin", b"{}"), ("a.uasset", &[5; 9000]), (".gitattributes", ATTRIBUTES)]).await;
    let address = format!("{}/tools/inner.git", studio.server.git_base_url());
    let plugin = studio.with_submodules("studio/plugin", &plain, &[("Deep/Inner", &address, &inner)]).await;
    let modules = [("Plugins/Ours", "../plugin.git", plugin.as_str()), ("Plugins/Theirs", "https://elsewhere.example/x.git", &inner)];
    let hash = studio.with_submodules(REPOSITORY, &head, &modules).await;

    let (host, binding) = (&studio.host, studio.binding());
    let workspace = host.workspace();
    let checkout = |hash: String| {
        let workspace = workspace.clone();
        let binding = &binding;
        async move { host.plugins.materialise(binding, REPOSITORY, "main", &hash, workspace, true, host.call()).await }
    };
    let done = checkout(hash.clone()).await.unwrap_or_else(|error| panic!("{error}\n{}", host.log.text()));
    let read = |path: &str| std::fs::read(workspace.join(path)).unwrap_or_default();
    assert_eq!(read("Plugins/Ours/Deep/Inner/inner.txt"), b"inner");
    assert_eq!(read("Plugins/Ours/a.uasset"), [5; 9000], "large files of a submodule are its own repository's");
    assert_eq!(done.files, 2 + 4 + 1);
    let log = host.log.text();
    assert!(log.contains("The submodule Plugins/Theirs is not checked out: its address is not on this git host"), "{log}");
    assert!(!log.contains("elsewhere.example"), "an address may hold a password: {log}");

    // What a build spoiled or planted is put right, and nothing is fetched for it.
    std::fs::write(workspace.join("Plugins/Ours/Plugin.uplugin"), "spoiled").unwrap();
    std::fs::write(workspace.join("Plugins/Ours/left.txt"), "left").unwrap();
    let before = studio.server.requests().len();
    checkout(hash.clone()).await.unwrap();
    assert_eq!((read("Plugins/Ours/Plugin.uplugin"), workspace.join("Plugins/Ours/left.txt").exists()), (b"{}".to_vec(), false));
    assert_eq!(studio.server.requests().len(), before);

    #[cfg(unix)]
    {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("precious"), "x").unwrap();
        std::fs::remove_dir_all(workspace.join("Plugins")).unwrap();
        std::os::unix::fs::symlink(outside.path(), workspace.join("Plugins")).unwrap();
        checkout(hash.clone()).await.unwrap();
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
        assert_eq!(read("Plugins/Ours/Deep/Inner/inner.txt"), b"inner");
    }

    // One that is named no more goes.
    checkout(head).await.unwrap();
    assert!(!workspace.join("Plugins/Ours/Plugin.uplugin").exists());

    // A repository or a commit that is not there is the submodule's fault, by name.
    let base = studio.git(&["rev-parse", "main"]).await;
    for (url, commit) in [("../none.git", plugin.clone()), ("../plugin.git", "1".repeat(40))] {
        let hash = studio.with_submodules(REPOSITORY, &base, &[("Plugins/Ours", url, &commit)]).await;
        let error = checkout(hash).await.unwrap_err();
        assert_eq!(kind(&error), (SourceProblem::NotFound, Some("submodule")), "{error}");
        assert!(error.message.contains("Plugins/Ours"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submodules_without_end_are_cut_off() {
    let studio = Studio::start().await;
    let head = studio.commit("main", "m", &[("a.txt", b"x")]).await;
    let mut commit = studio.commit_to("studio/chain", &[("a.txt", b"x")]).await;
    for _ in 0..12 {
        commit = studio.with_submodules("studio/chain", &commit, &[("in", "../chain.git", &commit)]).await;
    }
    let hash = studio.with_submodules(REPOSITORY, &head, &[("in", "../chain.git", &commit)]).await;
    let (host, binding) = (&studio.host, studio.binding());
    let error = host.plugins.materialise(&binding, REPOSITORY, "main", &hash, host.workspace(), false, host.call()).await.unwrap_err();
    assert_eq!(kind(&error), (SourceProblem::TooLarge, Some("submodule")), "{error}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_earlier_commits_needed_does_not_stay_for_ever() {
    let studio = Studio::start().await;
    let (host, binding) = (&studio.host, studio.binding());
    let workspace = host.workspace();
    // Each commit replaces a large file.
    for number in 0..3u8 {
        let large = vec![number; 50_000];
        let hash = studio.commit("main", "m", &[(".gitattributes", ATTRIBUTES), ("Hero.uasset", &large)]).await;
        if number == 2 {
            plant_packs(&workspace).await;
        }
        host.plugins.materialise(&binding, REPOSITORY, "main", &hash, workspace.clone(), true, host.call()).await.unwrap();
        assert_eq!(std::fs::read(workspace.join("Hero.uasset")).unwrap(), large);
    }
    let count = |path: &str| {
        let (mut waiting, mut files) = (vec![workspace.join(path)], 0);
        while let Some(place) = waiting.pop() {
            for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
                if entry.path().is_dir() { waiting.push(entry.path()) } else { files += 1 }
            }
        }
        files
    };
    assert_eq!(count(".git/lfs/objects"), 1, "only the commit's own large file is kept");
    assert!(host.log.text().contains("Removing what earlier commits left in the repository"), "{}", host.log.text());
    assert!(count(".git/objects/pack") < 10, "{} files of packs", count(".git/objects/pack"));
}

/// As many packs as many builds would have left.
#[cfg(unix)]
async fn plant_packs(workspace: &std::path::Path) {
    for number in 0..52 {
        let script = format!("echo {number} | git hash-object -w --stdin | git pack-objects -q .git/objects/pack/pack");
        let done = tokio::process::Command::new("sh").args(["-c", &script]).current_dir(workspace).output().await.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}
