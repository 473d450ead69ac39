//! A p4 that is missing, old, broken or endless, servers that refuse, and what builds leave in a workspace.

use std::fs;
use std::time::Duration;

use cookhouse::seams::{SourceControl, SourceProblem};

use super::{Studio, kind, open};
use crate::plugins::Host;
use crate::support::depot::{STREAM, StreamServer, TICKET};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_no_use_is_said_to_be() {
    let mut studio = Studio::start();
    studio.server.submit("first", &[("a.txt", Some(b"a"))]);
    for (behaviour, problem, reason) in [
        ("old", SourceProblem::Broken, Some("tool-version")),
        ("garbage", SourceProblem::Broken, None),
        ("flood", SourceProblem::TooLarge, Some("output")),
    ] {
        studio.server.behave(behaviour);
        for error in [studio.head().await.unwrap_err(), studio.host.plugins.check(&studio.binding(), studio.host.call()).await.unwrap_err()]
        {
            assert_eq!(kind(&error), (problem, reason), "{behaviour}: {error}");
        }
    }
    studio.server.behave("hang");
    studio.host.wall = Duration::from_secs(3);
    assert_eq!(studio.head().await.unwrap_err().problem, SourceProblem::TimedOut);

    // No program at all, and one that cannot be started.
    let host = Host::with(|directory| open(directory, None));
    let error = host.plugins.check(&studio.binding(), host.call()).await.unwrap_err();
    assert_eq!(kind(&error), (SourceProblem::Broken, Some("tool-not-granted")));
    let host = Host::with(|directory| open(directory, Some(directory.join("no-such-p4"))));
    let error = host.plugins.check(&studio.binding(), host.call()).await.unwrap_err();
    assert_eq!(kind(&error), (SourceProblem::Broken, Some("tool-missing")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_in_the_middle_gives_a_typed_error() {
    let studio = Studio::start();
    let number = studio.server.submit("first", &[("a.txt", Some(b"a"))]);
    let workspace = studio.workspace("s1");
    for (command, generic, text, problem, reason) in [
        ("changes", 35, "Too many rows scanned (over 50000); see 'p4 help maxscanrows'.", SourceProblem::TooLarge, "server-limit"),
        ("client", 6, "Client 'x' can only be used from host 'other'.", SourceProblem::Broken, "client"),
        ("sync", 4, "Your session has expired, please login again.", SourceProblem::Unauthenticated, "ticket-expired"),
        ("sync", 38, "Partner exited unexpectedly.", SourceProblem::Unavailable, "unreachable"),
        ("sync", 34, "write: /somewhere/a.txt: No space left on device", SourceProblem::StorageFull, "storage-full"),
    ] {
        studio.server.change_server(|server| drop(server.refusals.insert(command.into(), (generic, text.into()))));
        let error = studio.sync(&workspace, number, false).await.unwrap_err();
        assert_eq!(kind(&error), (problem, Some(reason)), "{error}");
        studio.server.change_server(|server| server.refusals.clear());
    }
    studio.sync(&workspace, number, false).await.unwrap();
    // One that does not transfer in parallel.
    studio.server.change_server(|server| server.parallel = 0);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_through_links_that_a_build_left() {
    let studio = Studio::start();
    let first = studio.server.submit("first", &[("Content/a.txt", Some(b"one")), ("b.txt", Some(b"b"))]);
    let second = studio.server.submit("second", &[("Content/a.txt", Some(b"two")), ("Content/new.txt", Some(b"new"))]);
    let (workspace, outside) = (studio.workspace("s1"), tempfile::tempdir().unwrap());
    studio.sync(&workspace, first, false).await.unwrap();
    fs::write(outside.path().join("a.txt"), "precious").unwrap();
    fs::remove_dir_all(workspace.join("Content")).unwrap();
    std::os::unix::fs::symlink(outside.path(), workspace.join("Content")).unwrap();
    studio.sync(&workspace, second, true).await.unwrap();
    assert_eq!(fs::read_to_string(outside.path().join("a.txt")).unwrap(), "precious");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(workspace.join("Content/a.txt")).unwrap(), "two");
    // A configuration that a build planted configures nothing.
    for name in ["p4config", ".p4config", ".p4enviro", "P4CONFIG", ".p4aliases"] {
        fs::write(workspace.join(name), "P4PORT=evil:1\nP4CLIENT=evil\nP4CONFIG=x\n").unwrap();
    }
    studio.sync(&workspace, first, true).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_is_told_the_ticket_in_its_environment_alone() {
    let studio = Studio::on(StreamServer::start());
    let number = studio.server.submit("first", &[("a.txt", Some(b"a"))]);
    studio.sync(&studio.workspace("s1"), number, false).await.unwrap();
    let calls = studio.server.calls();
    assert!(calls.len() > 5);
    for call in &calls {
        assert!(!call["arguments"].to_string().contains(TICKET), "{call}");
        let names: Vec<&str> = call["environment"].as_array().unwrap().iter().filter_map(|pair| pair.as_str()?.split('=').next()).collect();
        for name in &names {
            let known = [
                "COOKHOUSE_PROCESS",
                "HOME",
                "LC_ALL",
                "P4ALIASES",
                "P4CHARSET",
                "P4CLIENT",
                "P4CLIENTPATH",
                "P4CONFIG",
                "P4ENVIRO",
                "P4PASSWD",
            ];
            let known =
                known.iter().chain(&["P4PORT", "P4TICKETS", "P4TRUST", "P4USER", "SystemRoot", "TEMP", "TMP", "TMPDIR", "USERPROFILE"]);
            assert!(known.clone().any(|one| one == name), "{name}");
        }
        let directory = call["directory"].as_str().unwrap();
        assert!(directory.contains("plugins"), "{directory}");
    }
    // Nor does any file hold it.
    let mut waiting = vec![studio.host.directory.path().to_owned()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if let Ok(bytes) = fs::read(&path) {
            assert!(!bytes.windows(TICKET.len()).any(|window| window == TICKET.as_bytes()), "{}", path.display());
        }
    }
    assert!(!studio.host.log.text().contains(TICKET));
    let _ = STREAM;
}
