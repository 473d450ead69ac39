//! Workspaces: brought to exactly one changelist, kept, repaired, begun anew.

use std::fs;
use std::path::Path;

use cookhouse::seams::{SourceControl, SourceProblem};
use serde_json::json;

use super::{Studio, kind};
use crate::support::depot::{STREAM, StreamServer, TICKET, USER};

fn read(workspace: &Path, path: &str) -> Option<String> {
    fs::read_to_string(workspace.join(path)).ok()
}

fn overwrite(path: &Path, content: &str) {
    let _ = fs::remove_file(path);
    fs::write(path, content).expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_is_brought_to_exactly_one_changelist_and_kept() {
    let studio = Studio::start();
    let first = studio.server.submit("first", &[("Game/a.txt", Some(b"one")), ("Game/b.txt", Some(b"b")), ("c.txt", Some(b"c"))]);
    let second = studio.server.submit("second", &[("Game/a.txt", Some(b"two")), ("Game/b.txt", None), ("Game/d.txt", Some(b"d"))]);
    studio.server.submit("third", &[("Game/a.txt", Some(b"three"))]);
    let workspace = studio.workspace("s1");
    let done = studio.sync(&workspace, first, false).await.unwrap();
    assert_eq!((done.revision.id, done.files, done.bytes, done.reusable), (first.to_string(), 3, 5, true));
    assert_eq!(read(&workspace, "Game/a.txt").as_deref(), Some("one"));
    // What Unreal builds upon is not in the stream, and stays.
    fs::create_dir_all(workspace.join("Game/Intermediate")).unwrap();
    fs::write(workspace.join("Game/Intermediate/x.obj"), "x").unwrap();
    let done = studio.sync(&workspace, second, true).await.unwrap();
    assert_eq!((done.files, done.bytes), (3, 4));
    assert_eq!(read(&workspace, "Game/a.txt").as_deref(), Some("two"));
    assert!(read(&workspace, "Game/b.txt").is_none() && read(&workspace, "Game/d.txt").is_some());
    assert!(read(&workspace, "Game/Intermediate/x.obj").is_some());
    // Back again, and nothing to do.
    studio.sync(&workspace, first, true).await.unwrap();
    assert_eq!((read(&workspace, "Game/a.txt").as_deref(), read(&workspace, "Game/d.txt")), (Some("one"), None));
    assert_eq!(studio.sync(&workspace, first, true).await.unwrap().bytes, 0);
    let syncs: Vec<String> = studio.server.commands().into_iter().filter(|line| line.starts_with("sync")).collect();
    assert!(syncs[0].starts_with("sync -f --parallel=threads=4 //cookhouse-s1-"), "{syncs:?}");
    assert!(
        syncs[1].starts_with("sync --parallel=threads=4 //cookhouse-s1-") && syncs[1].ends_with(&format!("/...@{second}")),
        "{syncs:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_build_changed_or_deleted_is_brought_back() {
    let studio = Studio::start();
    let number = studio.server.submit("first", &[("a.txt", Some(b"right")), ("b.txt", Some(b"too")), ("c/d.txt", Some(b"d"))]);
    let workspace = studio.workspace("s1");
    studio.sync(&workspace, number, false).await.unwrap();
    overwrite(&workspace.join("a.txt"), "spoiled");
    fs::remove_file(workspace.join("b.txt")).unwrap();
    fs::remove_dir_all(workspace.join("c")).unwrap();
    fs::write(workspace.join("c"), "a file where a folder was").unwrap();
    fs::remove_file(workspace.join("c")).unwrap();
    let done = studio.sync(&workspace, number, true).await.unwrap();
    assert_eq!(done.files, 3);
    for (path, content) in [("a.txt", "right"), ("b.txt", "too"), ("c/d.txt", "d")] {
        assert_eq!(read(&workspace, path).as_deref(), Some(content), "{path}");
    }
    assert!(studio.host.log.text().contains("3 files that builds had changed"), "{}", studio.host.log.text());
    let cleans: Vec<String> = studio.server.commands().into_iter().filter(|line| line.starts_with("clean")).collect();
    assert!(cleans.len() == 1 && cleans[0].starts_with("clean -e -d"), "{cleans:?}");
    // A server that cannot repair: everything anew.
    studio.server.change_server(|server| server.unknown_commands.push("clean".into()));
    overwrite(&workspace.join("a.txt"), "spoiled");
    fs::write(workspace.join("left"), "x").unwrap();
    studio.sync(&workspace, number, true).await.unwrap();
    assert_eq!((read(&workspace, "a.txt").as_deref(), read(&workspace, "left")), (Some("right"), None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_that_nobody_needs_any_more_is_forgotten_by_the_server() {
    let studio = Studio::start();
    let number = studio.server.submit("first", &[("a.txt", Some(b"a"))]);
    let (one, other) = (studio.workspace("s1"), studio.workspace("s2"));
    for workspace in [&one, &other] {
        studio.sync(workspace, number, false).await.unwrap();
    }
    let binding = studio.binding();
    let forget = |workspace: &Path| studio.host.plugins.forget_workspace(&binding, workspace.to_owned(), studio.host.call());
    let clients = || {
        let found = fs::read_dir(studio.server.home().join("servers/127.0.0.1_1666/clients")).unwrap();
        found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    forget(&one).await.unwrap();
    assert!(matches!(clients().as_slice(), [left] if left.starts_with("cookhouse-s2-")), "{:?}", clients());
    // Again, which somebody else may have done; and what no server ever heard of.
    forget(&one).await.unwrap();
    studio.server.forget();
    forget(&studio.workspace("never")).await.unwrap();
    assert_eq!(studio.server.commands(), [""; 0]);
    // A server that does not let go of it says so.
    studio.server.change_server(|server| {
        server.refusals.insert("client".into(), (6, "You don't have permission for this operation.".into()));
    });
    let error = forget(&other).await.unwrap_err();
    assert_eq!(kind(&error), (SourceProblem::Forbidden, Some("permission")), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_or_a_lost_client_begins_anew() {
    let studio = Studio::start();
    let number = studio.server.submit("first", &[("a.txt", Some(b"a"))]);
    let workspace = studio.workspace("s1");
    studio.sync(&workspace, number, false).await.unwrap();
    // Somebody tidied up on the server.
    for folder in ["clients", "have"] {
        for entry in fs::read_dir(studio.server.home().join("servers/127.0.0.1_1666").join(folder)).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    fs::write(workspace.join("stale.txt"), "of a file that is no more").unwrap();
    assert_eq!(studio.sync(&workspace, number, true).await.unwrap().bytes, 1);
    assert_eq!(read(&workspace, "stale.txt"), None);
    // The same name, another server: what lies there is none of its files.
    fs::write(workspace.join("stale.txt"), "x").unwrap();
    let address = "localhost:1667";
    let other = crate::support::depot::Depot::at(studio.server.home(), "127.0.0.1:1667");
    let mut server = crate::support::depot::Depot::at(studio.server.home(), "127.0.0.1:1666").server().unwrap();
    server.depots.insert("Games".into(), "stream".into());
    other.set_server(&server).unwrap();
    other.submit("ada", "other", &[("//Games/main/z.txt", "text", Some(b"z"))]).unwrap();
    let binding = studio.binding_to(json!({"serverUrl": address, "userName": USER}), TICKET);
    let done = studio.host.plugins.materialise(&binding, STREAM, STREAM, "1", workspace.clone(), true, studio.host.call()).await.unwrap();
    assert_eq!(done.files, 1);
    assert!(read(&workspace, "z.txt").is_some() && read(&workspace, "a.txt").is_none() && read(&workspace, "stale.txt").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_file_arrives_as_it_is() {
    let studio = Studio::on(StreamServer::start_with(|server| {
        server.streams.insert(STREAM.into(), vec![("Plugins/Zip".into(), "//Libs/zip".into())]);
    }));
    let binary: Vec<u8> = (0..=255).collect();
    let number = studio.server.submit_all(
        "all kinds",
        &[
            ("//Games/main/Hero.uasset", "binary+l", Some(&binary)),
            ("//Games/main/build.sh", "text+x", Some(b"#!/bin/sh\n")),
            ("//Games/main/Tool.dll", "binary+w", Some(b"MZ")),
            ("//Games/main/Text.txt", "utf16", Some("Käse".as_bytes())),
            ("//Games/main/Link", "symlink", Some(b"Hero.uasset\n")),
            ("//Games/main/a@b#c%d*e.txt", "text", Some(b"special")),
            ("//Games/main/Readme.txt", "text", Some(b"upper")),
            ("//Games/main/readme.txt", "text", Some(b"lower")),
            ("//Libs/zip/zip.h", "text", Some(b"imported")),
        ],
    );
    let workspace = studio.workspace("s1");
    let done = studio.sync(&workspace, number, false).await.unwrap();
    assert_eq!(done.files, 9);
    assert_eq!(fs::read(workspace.join("Hero.uasset")).unwrap(), binary);
    assert_eq!(fs::read(workspace.join("Text.txt")).unwrap()[..4], [0xff, 0xfe, b'K', 0]);
    assert_eq!(read(&workspace, "Plugins/Zip/zip.h").as_deref(), Some("imported"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &str| fs::metadata(workspace.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("build.sh"), mode("Tool.dll"), mode("Hero.uasset")), (0o555, 0o644, 0o444));
        assert_eq!(fs::read_link(workspace.join("Link")).unwrap(), Path::new("Hero.uasset"));
        assert_eq!(read(&workspace, "a@b#c%d*e.txt").as_deref(), Some("special"));
    }
    #[cfg(target_os = "linux")]
    assert_eq!((read(&workspace, "Readme.txt").as_deref(), read(&workspace, "readme.txt").as_deref()), (Some("upper"), Some("lower")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setting_may_move_to_another_stream() {
    let studio = Studio::on(StreamServer::start_with(|server| {
        server.streams.insert("//Games/dev".into(), Vec::new());
    }));
    let main = studio.server.submit("main", &[("a.txt", Some(b"main")), ("only-main.txt", Some(b"x"))]);
    let dev = studio.server.submit_all("dev", &[("//Games/dev/a.txt", "text", Some(b"dev"))]);
    let workspace = studio.workspace("s1");
    studio.sync(&workspace, main, false).await.unwrap();
    let (binding, host) = (studio.binding(), &studio.host);
    let done =
        host.plugins.materialise(&binding, STREAM, "//Games/dev", &dev.to_string(), workspace.clone(), true, host.call()).await.unwrap();
    assert_eq!(done.revision.id, dev.to_string());
    assert_eq!((read(&workspace, "a.txt").as_deref(), read(&workspace, "only-main.txt")), (Some("dev"), None));
    let error =
        host.plugins.materialise(&binding, STREAM, "//Games/dev", &main.to_string(), workspace, true, host.call()).await.unwrap_err();
    assert_eq!(kind(&error), (SourceProblem::NotFound, Some("elsewhere")));
}
