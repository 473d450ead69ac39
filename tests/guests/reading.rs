//! Repositories, branches, commits and files without a checkout, in both shapes of the API.

use cookhouse::demo::git_server::{Commit, Settings};
use cookhouse::seams::{SourceControl, SourceProblem};

use super::{REPOSITORY, Studio, kind};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_repository_and_branch_is_found_page_by_page() {
    let studio = Studio::start().await;
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("a"), "x").unwrap();
    for name in ["studio/a", "studio/b", "other/c", "other/d", REPOSITORY] {
        studio.server.repositories().publish(name, files.path(), Commit { branch: "main", message: "m", author: "Ada" }).await.unwrap();
    }
    let mut expected = vec!["main".to_owned()];
    for name in ["Feature/one", "feature/TWO", "fix/three%20x", "fix/#4", "release-5.4", "🚀/ü"] {
        studio.publish(name, name, files.path()).await;
        expected.push(name.to_owned());
    }
    expected.sort();

    let host = &studio.host;
    for binding in studio.bindings() {
        let (mut names, mut cursor) = (Vec::new(), None);
        loop {
            let page = host.plugins.list_repositories(&binding, cursor, 2, host.call()).await.unwrap();
            assert!(page.items.len() <= 2);
            names.extend(page.items.into_iter().map(|repository| repository.full_name));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(names, ["other/c", "other/d", "studio/a", "studio/b", REPOSITORY]);

        for (query, limit, wanted) in [
            (None, 4, expected.iter().map(String::as_str).collect::<Vec<_>>()),
            (Some("FEATURE/"), 1, vec!["Feature/one", "feature/TWO"]),
            (Some("t"), 100, vec!["Feature/one", "feature/TWO", "fix/three%20x"]),
            (Some("%20"), 100, vec!["fix/three%20x"]),
            (Some("nothing"), 100, vec![]),
        ] {
            let (mut found, mut cursor) = (Vec::new(), None);
            loop {
                let page =
                    host.plugins.list_branches(&binding, REPOSITORY, query.map(str::to_owned), cursor, limit, host.call()).await.unwrap();
                assert!(page.items.len() <= limit as usize);
                found.extend(page.items);
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
            found.sort_by(|one, other| one.name.cmp(&other.name));
            assert_eq!(found.iter().map(|branch| branch.name.as_str()).collect::<Vec<_>>(), wanted, "{query:?}");
            for branch in found {
                assert_eq!(branch.is_default, branch.name == "main");
                assert_eq!((branch.head.id.len(), branch.head.author.as_str()), (40, "Ada"));
                assert_eq!(branch.head.message, if branch.name == "main" { "m" } else { &branch.name });
            }
        }
        for cursor in ["x", "0.1.0", "../x"] {
            let error = host.plugins.list_branches(&binding, REPOSITORY, None, Some(cursor.into()), 5, host.call()).await.unwrap_err();
            assert_eq!(error.problem, SourceProblem::Invalid, "{cursor}");
        }
        for name in ["fix/#4", "fix/three%20x"] {
            assert_eq!(host.plugins.resolve_head(&binding, REPOSITORY, name, host.call()).await.unwrap().message, name);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn project_files_are_found_to_the_depth_whether_the_tree_comes_whole_or_not() {
    for tree_limit in [100_000, 2] {
        let studio = Studio::with(|settings| Settings { tree_limit, ..settings }).await;
        let mut files: Vec<(String, &[u8])> =
            ["Top.uproject", "a/b/c/Three.UProject", "a/b/c/d/Four.uproject", "a/x.txt", "a/Game.uproject.bak"]
                .iter()
                .map(|path| ((*path).to_owned(), &b"{}"[..]))
                .collect();
        // More than one page of the second shape.
        files.extend((0..1100).map(|number| (format!("Content/{number}.txt"), &b"x"[..])));
        let files: Vec<(&str, &[u8])> = files.iter().map(|(path, bytes)| (path.as_str(), *bytes)).collect();
        studio.commit("main", "m", &files).await;
        // A link and a submodule with tempting names.
        studio.git(&["symbolic-ref", "HEAD", "refs/heads/main"]).await;
        let tree = studio.git(&["rev-parse", "main^{tree}"]).await;
        let head = studio.git(&["rev-parse", "main"]).await;
        let blob = studio.git(&["rev-parse", "main:a/x.txt"]).await;
        studio.git(&["read-tree", &tree]).await;
        studio.git(&["update-index", "--add", "--cacheinfo", &format!("120000,{blob},Link.uproject")]).await;
        studio.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},Module.uproject")]).await;
        let tree = studio.git(&["write-tree"]).await;
        let hash = studio.git(&["commit-tree", &tree, "-p", &head, "-m", "links"]).await;
        studio.git(&["update-ref", "refs/heads/main", &hash]).await;

        let host = &studio.host;
        for binding in studio.bindings() {
            let find = |depth, limit| host.plugins.find_files(&binding, REPOSITORY, &hash, "**/*.uproject", depth, limit, host.call());
            assert_eq!(find(3, 10).await.unwrap(), (vec!["Top.uproject".to_owned(), "a/b/c/Three.UProject".to_owned()], false));
            assert_eq!(find(0, 10).await.unwrap().0, ["Top.uproject"]);
            assert_eq!(find(9, 10).await.unwrap().0.len(), 3);
            let (paths, truncated) = find(9, 2).await.unwrap();
            assert_eq!((paths.len(), truncated), (2, true));
            let (paths, _) = host.plugins.find_files(&binding, REPOSITORY, &hash, "Content/1099.txt", 3, 10, host.call()).await.unwrap();
            assert_eq!(paths, ["Content/1099.txt"], "on a later page, and in a folder that is looked into last");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_and_files_are_read_and_their_absence_is_named() {
    let studio = Studio::start().await;
    let large = vec![b'x'; 3 << 20];
    let files = [("My Game/Größe #1.uproject", &b"\xef\xbb\xbf{}"[..]), ("large.bin", &large), ("data.json", br#"{"type":"file"}"#)];
    let hash = studio.commit("main", "Title\n\nBody", &files).await;
    let host = &studio.host;
    for binding in studio.bindings() {
        let found = host.plugins.describe_revision(&binding, REPOSITORY, &hash[..9].to_uppercase(), host.call()).await.unwrap();
        assert_eq!((found.id.as_str(), found.message.as_str(), found.author.as_str()), (hash.as_str(), "Title\n\nBody", "Ada"));

        for (path, bytes) in files {
            let read = host.plugins.read_file(&binding, REPOSITORY, &hash, path, 4 << 20, host.call()).await.unwrap();
            assert!(read == bytes, "{path}");
        }
        let error = host.plugins.read_file(&binding, REPOSITORY, &hash, "large.bin", 1 << 20, host.call()).await.unwrap_err();
        assert_eq!(error.problem, SourceProblem::TooLarge);
        for path in ["none.uproject", "My Game", "My Game/none"] {
            let error = host.plugins.read_file(&binding, REPOSITORY, &hash, path, 100, host.call()).await.unwrap_err();
            assert_eq!(kind(&error), (SourceProblem::NotFound, Some("file")), "{path}: {error}");
        }
        let none = "f".repeat(40);
        for error in [
            host.plugins.describe_revision(&binding, REPOSITORY, "fffffff", host.call()).await.unwrap_err(),
            host.plugins.describe_revision(&binding, REPOSITORY, &none, host.call()).await.unwrap_err(),
            host.plugins.find_files(&binding, REPOSITORY, &none, "**", 3, 3, host.call()).await.unwrap_err(),
            host.plugins.read_file(&binding, REPOSITORY, &none, "data.json", 100, host.call()).await.unwrap_err(),
        ] {
            assert_eq!(kind(&error), (SourceProblem::NotFound, Some("revision")), "{error}");
        }
        for error in [
            host.plugins.list_branches(&binding, "studio/none", None, None, 5, host.call()).await.unwrap_err(),
            host.plugins.resolve_head(&binding, "studio/none", "main", host.call()).await.unwrap_err(),
            host.plugins.describe_revision(&binding, "studio/none", &hash, host.call()).await.unwrap_err(),
            host.plugins.find_files(&binding, "studio/none", &hash, "**", 3, 3, host.call()).await.unwrap_err(),
            host.plugins.read_file(&binding, "studio/none", &hash, "data.json", 100, host.call()).await.unwrap_err(),
        ] {
            assert_eq!(kind(&error), (SourceProblem::NotFound, Some("repository")), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_made_to_mean_something_else_never_reach_the_server() {
    let studio = Studio::start().await;
    let hash = studio.commit("main", "m", &[("a", b"x")]).await;
    let (host, binding) = (&studio.host, studio.binding());
    let before = studio.server.requests().len();
    for branch in ["--upload-pack=touch x", "refs/heads/-x", "-x", "a..b", "a b", "", "main\n", "a?x=1", &"a".repeat(300)] {
        let error = host.plugins.resolve_head(&binding, REPOSITORY, branch, host.call()).await.unwrap_err();
        assert_eq!(kind(&error), (SourceProblem::Invalid, Some("branch")), "{branch:?}");
        let error = host.plugins.materialise(&binding, REPOSITORY, branch, &hash, host.workspace(), false, host.call()).await.unwrap_err();
        assert_eq!(kind(&error), (SourceProblem::Invalid, Some("branch")), "{branch:?}");
    }
    for repository in ["", "game", "studio/../../user", "studio/game?x", "https://evil/a/b", "-x/y", "studio/game.git", "a/b/c"] {
        let error = host.plugins.resolve_head(&binding, repository, "main", host.call()).await.unwrap_err();
        assert_eq!(kind(&error), (SourceProblem::Invalid, Some("repository")), "{repository:?}");
    }
    for revision in ["", "HEAD", "--help", "main", "0123456789abcdef0123456789abcdef01234567^"] {
        let error = host.plugins.describe_revision(&binding, REPOSITORY, revision, host.call()).await.unwrap_err();
        assert_eq!(kind(&error), (SourceProblem::Invalid, Some("revision")), "{revision:?}");
    }
    for path in ["", "/etc/passwd", "../x", "a/../../b", "a\\b"] {
        let error = host.plugins.read_file(&binding, REPOSITORY, &hash, path, 100, host.call()).await.unwrap_err();
        assert_eq!(kind(&error), (SourceProblem::Invalid, Some("file")), "{path:?}");
    }
    assert_eq!(studio.server.requests().len(), before);
}
