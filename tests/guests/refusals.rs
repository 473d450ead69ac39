//! What a git host can answer instead of what was asked for.

use cookhouse::seams::{SourceControl, SourceProblem};
use serde_json::json;

use crate::plugins::Host;
use crate::support::scripted::Scripted;

fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_refusal_has_its_kind() {
    let host = Host::bundled();
    let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 100;
    let spent = format!("x-ratelimit-remaining: 0\r\nx-ratelimit-reset: {soon}\r\n");
    for (status, headers, body, problem) in [
        ("401 Unauthorized", "", r#"{"message":"Bad credentials"}"#, SourceProblem::Unauthenticated),
        ("403 Forbidden", "x-ratelimit-remaining: 9\r\n", "{}", SourceProblem::Forbidden),
        ("403 Forbidden", spent.as_str(), "{}", SourceProblem::RateLimited),
        ("429 Too Many Requests", "retry-after: 100\r\n", "{}", SourceProblem::RateLimited),
        ("500 Oh", "", "<html>\u{1b}[31m", SourceProblem::Unavailable),
        ("503 Busy", "", "", SourceProblem::Unavailable),
        ("200 OK", "", "<html>a portal</html>", SourceProblem::Broken),
        ("200 OK", "", r#"{"items":[]}"#, SourceProblem::Broken),
        ("302 Found", "location: https://evil.example/\r\n", "", SourceProblem::Broken),
        ("418 Teapot", "", "", SourceProblem::Broken),
    ] {
        let reply = answer(status, headers, body);
        let server = Scripted::start(move |_| reply.clone()).await;
        let binding = host.binding("githost", json!({ "mode": "token", "apiBaseUrl": server.base(), "gitBaseUrl": server.base() }));
        let error = host.plugins.list_repositories(&binding, None, 5, host.call()).await.unwrap_err();
        if status.starts_with("302") {
            // The host refuses the other origin, or the guest the redirect: either way nothing is followed.
            assert!(matches!(error.problem, SourceProblem::Broken | SourceProblem::Unavailable), "{error}");
        } else {
            assert_eq!(error.problem, problem, "{status}: {error}");
        }
        assert!(!error.message.contains('\u{1b}'), "{error}");
        if problem == SourceProblem::RateLimited {
            let wait = error.retry_after.unwrap();
            assert!((90..=101).contains(&wait), "{wait}");
        }
        assert!(server.requests().iter().all(|request| request.starts_with("GET /user/repos?")), "{:?}", server.requests());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_end_is_cut_off() {
    let host = Host::bundled();
    let body = "[".repeat(5 << 20);
    let reply = answer("200 OK", "", &body);
    let server = Scripted::start(move |_| reply.clone()).await;
    let binding = host.binding("githost", json!({ "mode": "token", "apiBaseUrl": server.base(), "gitBaseUrl": server.base() }));
    let error = host.plugins.list_repositories(&binding, None, 5, host.call()).await.unwrap_err();
    assert_eq!(error.problem, SourceProblem::TooLarge, "{error}");
    let hash = "a".repeat(40);
    let error = host.plugins.find_files(&binding, "a/b", &hash, "**", 3, 5, host.call()).await.unwrap_err();
    assert_eq!(error.problem, SourceProblem::Broken, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_cannot_work_are_named() {
    let host = Host::bundled();
    for (config, word) in [
        (json!({ "mode": "other", "apiBaseUrl": "https://a.example", "gitBaseUrl": "https://b.example" }), "mode"),
        (json!({ "apiBaseUrl": "https://user:pw@a.example", "gitBaseUrl": "https://b.example" }), "apiBaseUrl"),
        (json!({ "apiBaseUrl": "https://a.example" }), "gitBaseUrl"),
    ] {
        let binding = host.binding("githost", config.clone());
        let error = host.plugins.check(&binding, host.call()).await.unwrap_err();
        assert!(error.message.contains(word) && !error.message.contains("pw"), "{config}: {error}");
    }
}
