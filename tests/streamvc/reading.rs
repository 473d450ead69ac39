//! What can be asked of a server without a checkout.

use cookhouse::seams::{SourceControl, SourceProblem};
use serde_json::json;

use super::{Studio, kind};
use crate::support::depot::{ADDRESS, Changelist, FINGERPRINT, STREAM, StreamServer, TICKET, USER, User};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_says_what_the_server_is() {
    let studio = Studio::start();
    let found = studio.host.plugins.check(&studio.binding(), studio.host.call()).await.unwrap();
    assert_eq!((found.product.as_str(), found.account.as_deref()), ("Perforce", Some(USER)));
    assert_eq!(found.version, "P4D/LINUX26X86_64/2025.1/2761706 (2025/05/01)");
    assert_eq!(found.extra.get("ticketSeconds").map(String::as_str), Some("43000"));
    assert_eq!(studio.server.commands(), ["-V", "info -s", "login -s", "changes -m1 -s submitted"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_keeps_us_out_is_told_apart() {
    let studio = Studio::on(StreamServer::start_with(|server| {
        server.users.insert("late".into(), User { ticket: TICKET.into(), seconds: 0, forbidden: false });
        server.users.insert("stranger".into(), User { ticket: TICKET.into(), seconds: 100, forbidden: true });
        server.users.insert("open".into(), User::default());
    }));
    let check = async |address: &str, user: &str, ticket: &str| {
        let binding = studio.binding_to(json!({"serverUrl": address, "userName": user}), ticket);
        studio.host.plugins.check(&binding, studio.host.call()).await
    };
    for (address, user, ticket, problem, reason) in [
        (ADDRESS, USER, "0123456789ABCDEF0123456789ABCDEF", SourceProblem::Unauthenticated, "ticket"),
        (ADDRESS, USER, "", SourceProblem::Unauthenticated, "ticket"),
        (ADDRESS, "nobody", TICKET, SourceProblem::Unauthenticated, "user"),
        (ADDRESS, "late", TICKET, SourceProblem::Unauthenticated, "ticket-expired"),
        (ADDRESS, "stranger", TICKET, SourceProblem::Forbidden, "permission"),
        ("127.0.0.1:1", USER, TICKET, SourceProblem::Unavailable, "unreachable"),
        ("169.254.169.254:1666", USER, TICKET, SourceProblem::Unavailable, "address-denied"),
        ("ssl:no-such-host.invalid:1666", USER, TICKET, SourceProblem::Unavailable, "dns"),
        ("rsh:touch /tmp/x", USER, TICKET, SourceProblem::Broken, "server-address"),
    ] {
        let error = check(address, user, ticket).await.unwrap_err();
        let reason_is = error.reason.as_deref() == Some(reason) || reason == "dns";
        assert!(error.problem == problem && reason_is, "{address} {user}: {error:?}");
        assert!(!error.message.contains(TICKET), "{error}");
    }
    // No password, no ticket.
    check(ADDRESS, "open", "").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_key_is_taken_and_another_one_is_not() {
    let studio = Studio::on(StreamServer::start_with(|server| server.fingerprint = Some(FINGERPRINT.into())));
    let binding = |fingerprint: &str| {
        studio.binding_to(json!({"serverUrl": format!("ssl:{ADDRESS}"), "userName": USER, "fingerprint": fingerprint}), TICKET)
    };
    let (host, call) = (&studio.host, || studio.host.call());
    let found = host.plugins.check(&binding(""), call()).await.unwrap();
    assert_eq!(found.extra.get("fingerprint").map(String::as_str), Some(FINGERPRINT));
    host.plugins.check(&binding(FINGERPRINT), call()).await.unwrap();
    let other = FINGERPRINT.replace("50", "51");
    let error = host.plugins.check(&binding(&other), call()).await.unwrap_err();
    assert_eq!(kind(&error), (SourceProblem::Broken, Some("untrusted-certificate")));
    assert!(error.message.contains(FINGERPRINT), "{error}");
    // A build asks by the pinned key; without one it takes none.
    studio.server.submit("first", &[("a", Some(b"a"))]);
    host.plugins.resolve_head(&binding(FINGERPRINT), STREAM, STREAM, call()).await.unwrap();
    let error = host.plugins.resolve_head(&binding(""), STREAM, STREAM, call()).await.unwrap_err();
    assert_eq!(kind(&error), (SourceProblem::Broken, Some("untrusted-certificate")));
    // A server that speaks TLS, called without it.
    let plain = studio.binding();
    let error = host.plugins.check(&plain, call()).await.unwrap_err();
    assert_eq!(kind(&error), (SourceProblem::Unavailable, Some("unreachable")));
    assert!(error.message.contains("ssl:"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changelists_of_a_stream_are_told_from_others() {
    let studio = Studio::start();
    let (host, binding) = (&studio.host, studio.binding());
    assert_eq!(kind(&studio.head().await.unwrap_err()), (SourceProblem::NotFound, Some("revision")));
    let long = format!("Salt the soup\n\n{}", "It was bland. ".repeat(20));
    let first = studio.server.submit(&long, &[("Game.uproject", Some(b"{}"))]);
    let elsewhere = studio.server.submit_all("elsewhere", &[("//Libs/zip/zip.h", "text", Some(b"x"))]);
    let last = studio.server.submit("last", &[("a.txt", Some(b"x"))]);
    studio.server.put(Changelist {
        change: 90,
        user: "ada".into(),
        time: 1,
        description: "not yet".into(),
        status: "pending".into(),
        files: Vec::new(),
    });
    assert_eq!(studio.head().await.unwrap(), last.to_string());
    let head = async |branch: String| host.plugins.resolve_head(&binding, STREAM, &branch, host.call()).await;
    assert_eq!(head(format!("{STREAM}@{elsewhere}")).await.unwrap().id, first.to_string());
    let describe = async |number: &str| host.plugins.describe_revision(&binding, STREAM, number, host.call()).await;
    let found = describe(&first.to_string()).await.unwrap();
    assert_eq!((found.id, found.author.as_str(), found.message.as_str()), (first.to_string(), "ada", long.trim_end()));
    for (number, problem, reason) in [
        (elsewhere.to_string(), SourceProblem::NotFound, "elsewhere"),
        ("90".to_owned(), SourceProblem::Invalid, "revision"),
        ("4711".to_owned(), SourceProblem::NotFound, "revision"),
        ("head".to_owned(), SourceProblem::Invalid, "revision"),
        ("1;ls".to_owned(), SourceProblem::Invalid, "revision"),
    ] {
        let error = describe(&number).await.unwrap_err();
        assert_eq!(kind(&error), (problem, Some(reason)), "{number}: {error}");
    }
    for (stream, problem, reason) in [
        ("//Games/none", SourceProblem::NotFound, "branch"),
        ("//Nope/main", SourceProblem::NotFound, "repository"),
        ("//Old/main", SourceProblem::NotFound, "repository"),
        ("//Games/..", SourceProblem::Invalid, "branch"),
        ("//Games/...", SourceProblem::Invalid, "branch"),
        ("//Games/*", SourceProblem::Invalid, "branch"),
        ("-o", SourceProblem::Invalid, "branch"),
    ] {
        let error = head(stream.to_owned()).await.unwrap_err();
        assert_eq!(kind(&error), (problem, Some(reason)), "{stream}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_found_and_read_at_a_changelist() {
    let studio = Studio::on(StreamServer::start_with(|server| {
        server.streams.insert(STREAM.into(), vec![("Plugins/Zip".into(), "//Libs/zip".into())]);
    }));
    let (host, binding) = (&studio.host, studio.binding());
    let utf16: Vec<u8> = "{\"FileVersion\": 3}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let first = studio.server.submit_all(
        "first",
        &[
            ("//Games/main/Kitchen/Kitchen.uproject", "text", Some(b"{\"FileVersion\": 3}")),
            ("//Games/main/a/b/c/Deep.UPROJECT", "text", Some(b"{}")),
            ("//Games/main/a/b/c/d/TooDeep.uproject", "text", Some(b"{}")),
            ("//Games/main/we@ird#%1*.uproject", "binary", Some(&utf16)),
            ("//Games/main/Link.uproject", "symlink", Some(b"Kitchen/Kitchen.uproject\n")),
            ("//Games/main/Gone.uproject", "text", Some(b"{}")),
            ("//Libs/zip/Zip.uproject", "text", Some(b"zip")),
        ],
    );
    let second = studio.server.submit_all("second", &[("//Games/main/Gone.uproject", "text", None)]);
    let find = async |pattern: &str, at: u64, limit: u32| {
        host.plugins.find_files(&binding, STREAM, &at.to_string(), pattern, 3, limit, host.call()).await
    };
    let (paths, truncated) = find("**/*.uproject", second, 100).await.unwrap();
    // The server tells upper from lower case, as its own patterns do.
    assert_eq!(paths, ["Kitchen/Kitchen.uproject", "Plugins/Zip/Zip.uproject", "we@ird#%1*.uproject"]);
    assert!(!truncated);
    assert!(find("**/*.uproject", first, 100).await.unwrap().0.contains(&"Gone.uproject".to_owned()));
    assert_eq!(find("**/*.uproject", second, 1).await.unwrap(), (vec!["Kitchen/Kitchen.uproject".to_owned()], true));
    assert_eq!(find("Kitchen/Kitchen.uproject", second, 2).await.unwrap().0, ["Kitchen/Kitchen.uproject"]);
    let read = async |path: &str, limit: u32| host.plugins.read_file(&binding, STREAM, &second.to_string(), path, limit, host.call()).await;
    assert_eq!(read("Kitchen/Kitchen.uproject", 100).await.unwrap(), b"{\"FileVersion\": 3}");
    assert_eq!(read("we@ird#%1*.uproject", 100).await.unwrap(), utf16);
    assert_eq!(read("Plugins/Zip/Zip.uproject", 100).await.unwrap(), b"zip");
    assert_eq!(kind(&read("Kitchen/Kitchen.uproject", 5).await.unwrap_err()), (SourceProblem::TooLarge, Some("file")));
    for path in ["Gone.uproject", "Link.uproject", "none", "kitchen/kitchen.uproject"] {
        assert_eq!(kind(&read(path, 100).await.unwrap_err()), (SourceProblem::NotFound, Some("file")), "{path}");
    }
    for path in ["../x", "/etc/passwd", "a/...", ""] {
        assert_eq!(kind(&read(path, 100).await.unwrap_err()).0, SourceProblem::Invalid, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_ignore_case_and_speak_unicode_are_spoken_to_their_way() {
    let studio = Studio::on(StreamServer::start_with(|server| {
        server.insensitive = true;
        server.unicode = true;
        server.streams.insert("//Games/Main".into(), Vec::new());
        server.streams.remove(STREAM);
    }));
    let (host, binding) = (&studio.host, studio.binding());
    let number = studio.server.submit_all("ünïcode", &[("//Games/Main/Küche/Kitchen.uproject", "text", Some(b"{}"))]);
    assert_eq!(host.plugins.resolve_head(&binding, STREAM, STREAM, host.call()).await.unwrap().message, "ünïcode");
    let page = host.plugins.list_branches(&binding, "games", Some("//games/MAIN".into()), None, 10, host.call()).await.unwrap();
    assert_eq!(page.items[0].name, "//Games/Main");
    let at = number.to_string();
    let found = host.plugins.find_files(&binding, STREAM, &at, "küche/KITCHEN.uproject", 3, 2, host.call()).await.unwrap();
    assert_eq!(found.0, ["Küche/Kitchen.uproject"]);
    host.plugins.read_file(&binding, STREAM, &at, "küche/kitchen.uproject", 100, host.call()).await.unwrap();
    let variables = studio.server.calls().last().unwrap()["environment"].to_string();
    assert!(variables.contains("P4CHARSET=utf8"), "{variables}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn depots_and_streams_are_listed_page_by_page() {
    let studio = Studio::on(StreamServer::start_with(|server| {
        for name in ["dev", "release/1.0", "empty"] {
            server.streams.insert(format!("//Games/{name}"), Vec::new());
        }
    }));
    for name in ["main", "dev", "release/1.0"] {
        studio.server.submit_all(name, &[(&format!("//Games/{name}/a"), "text", Some(b"a"))]);
    }
    let (host, binding) = (&studio.host, studio.binding());
    let depots = host.plugins.list_repositories(&binding, None, 10, host.call()).await.unwrap();
    assert_eq!(depots.items.iter().map(|depot| depot.full_name.as_str()).collect::<Vec<_>>(), ["//Games", "//Libs"]);
    let (mut names, mut cursor) = (Vec::new(), None);
    loop {
        let page = host.plugins.list_branches(&binding, "Games", None, cursor, 2, host.call()).await.unwrap();
        names.extend(page.items.into_iter().map(|branch| (branch.name, branch.head.message)));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let expected = [("//Games/dev", "dev"), ("//Games/main", "main"), ("//Games/release/1.0", "release/1.0")];
    assert_eq!(names, expected.map(|(name, message)| (name.to_owned(), message.to_owned())));
    let page = host.plugins.list_branches(&binding, "Games", Some("MAIN".into()), None, 10, host.call()).await.unwrap();
    assert_eq!(page.items.len(), 1);
    let error = host.plugins.list_branches(&binding, "Nope", None, None, 10, host.call()).await.unwrap_err();
    assert_eq!(kind(&error), (SourceProblem::NotFound, Some("repository")));
}
