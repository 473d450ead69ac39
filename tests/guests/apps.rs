//! githost as an app: the key stays in the host, tokens are bought, narrow, kept and renewed.

use std::time::Duration;

use cookhouse::demo::git_server::App;
use cookhouse::seams::{PluginBinding, SourceControl, SourceProblem};
use serde_json::json;

use super::{REPOSITORY, Studio};
use crate::plugins::Host;

const KEY: &str = include_str!("../../fixtures/githost/app-key.pem");
const APP: &str = "Iv1.8a61f9b3a7aba766";

async fn studio(life: Duration) -> Studio {
    let mut app = App::new(APP, KEY, &[(42, "studio"), (43, "guests")]).expect("an app");
    app.token_life = life;
    Studio::with(|settings| cookhouse::demo::git_server::Settings { app: Some(app), ..settings }).await
}

/// The app's connection for one installation; without one it can only list them.
fn binding(studio: &Studio, app: &str, installation: &str) -> PluginBinding {
    let mut config =
        json!({"mode": "app", "appId": app, "apiBaseUrl": studio.server.api_base_url(), "gitBaseUrl": studio.server.git_base_url()});
    if !installation.is_empty() {
        config["installationId"] = installation.into();
    }
    let mut binding = studio.host.binding("githost", config);
    binding.secrets = [("privateKey".to_owned(), cookhouse::model::Secret::new(KEY.to_owned()))].into();
    binding
}

fn bought(studio: &Studio) -> usize {
    studio.server.requests().iter().filter(|request| request.starts_with("POST /api/v3/app/installations/42/access_tokens")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_lists_its_installations_and_their_repositories() {
    let studio = studio(Duration::from_secs(3600)).await;
    studio.commit("main", "one", &[("Game.uproject", b"{}")]).await;
    let host: &Host = &studio.host;
    let server = host.plugins.check(&binding(&studio, APP, ""), host.call()).await.expect("the app");
    let found: Vec<_> = server.installations.iter().map(|one| (one.id.as_str(), one.account.as_str(), one.suspended)).collect();
    assert_eq!((server.account.as_deref(), found), (Some("cookhouse"), vec![("42", "studio", false), ("43", "guests", false)]));
    let page = host.plugins.list_repositories(&binding(&studio, APP, "42"), None, 10, host.call()).await.expect("a page");
    assert_eq!(page.items.iter().map(|one| one.full_name.as_str()).collect::<Vec<_>>(), [REPOSITORY]);
    let foreign = host.plugins.check(&binding(&studio, "another", ""), host.call()).await.expect_err("another app's id");
    assert_eq!(foreign.problem, SourceProblem::Unauthenticated);
    let gone = host.plugins.list_repositories(&binding(&studio, APP, "99"), None, 10, host.call()).await.expect_err("no installation");
    assert_eq!((gone.problem, gone.reason.as_deref()), (SourceProblem::Forbidden, Some("installation")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_narrow_bought_once_and_renewed_when_it_was_taken_back() {
    let studio = studio(Duration::from_secs(3600)).await;
    let commit = studio.commit("main", "one", &[("Game.uproject", b"{}")]).await;
    let (host, binding) = (&studio.host, binding(&studio, APP, "42"));
    let head = || host.plugins.resolve_head(&binding, REPOSITORY, "main", host.call());
    let all = futures_util::future::join_all((0..4).map(|_| head())).await;
    assert!(all.into_iter().all(|head| head.is_ok_and(|head| head.id == commit)));
    assert_eq!(bought(&studio), 1);
    // It opens this repository alone.
    let foreign = host.plugins.resolve_head(&binding, "guests/game", "main", host.call()).await.expect_err("another account's");
    assert_eq!((foreign.problem, foreign.reason.as_deref()), (SourceProblem::NotFound, Some("repository")));
    let before = bought(&studio);
    studio.server.revoke_tokens();
    assert_eq!(head().await.expect("with a new token").id, commit);
    assert_eq!(bought(&studio), before + 1);
    // A checkout whose kept token was taken back goes on with a new one.
    studio.server.revoke_tokens();
    let workspace = tempfile::tempdir().expect("a directory");
    let done = host.plugins.materialise(&binding, REPOSITORY, "main", &commit, workspace.path().to_owned(), false, host.call()).await;
    assert_eq!(done.expect("a checkout").revision.id, commit);
    assert!(workspace.path().join("Game.uproject").is_file());
    assert_eq!(bought(&studio), before + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_that_is_renamed_is_found_under_its_new_name() {
    let studio = studio(Duration::from_secs(3600)).await;
    let commit = studio.commit("main", "one", &[("Game.uproject", b"{}")]).await;
    let (host, binding) = (&studio.host, binding(&studio, APP, "42"));
    let head = || host.plugins.resolve_head(&binding, REPOSITORY, "main", host.call());
    assert_eq!(head().await.expect("a head").id, commit);
    studio.server.repositories().rename(REPOSITORY, "studio/renamed").await.expect("renamed");
    studio.server.revoke_tokens();
    // By the old name no token is sold any more; by the number there is one.
    assert_eq!(head().await.expect("a head").id, commit);
    let page = host.plugins.list_branches(&binding, REPOSITORY, None, None, 10, host.call()).await.expect("branches");
    assert_eq!(page.items.len(), 1);
    let checkout = |name: &'static str| host.plugins.materialise(&binding, name, "main", &commit, host.workspace(), true, host.call());
    let done = checkout(REPOSITORY).await.expect("a checkout");
    assert_eq!((done.revision.id.as_str(), done.renamed.as_deref()), (commit.as_str(), Some("studio/renamed")));
    assert!(host.log.text().contains("The repository is called studio/renamed now"), "{}", host.log.text());
    assert_eq!(checkout("studio/renamed").await.expect("a checkout").renamed, None);
    let empty = tempfile::tempdir().expect("a directory");
    let lost = host.plugins.materialise(&binding, "studio/other", "main", &commit, empty.path().to_owned(), false, host.call()).await;
    let lost = lost.expect_err("there is none");
    assert_eq!((lost.problem, lost.reason.as_deref()), (SourceProblem::NotFound, Some("repository")), "{lost}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_installation_is_told_from_a_wrong_key() {
    let studio = studio(Duration::from_secs(3600)).await;
    let commit = studio.commit("main", "one", &[("Game.uproject", b"{}")]).await;
    let (host, binding) = (&studio.host, binding(&studio, APP, "42"));
    studio.server.suspend(42, true);
    let error = host.plugins.resolve_head(&binding, REPOSITORY, "main", host.call()).await.expect_err("suspended");
    assert_eq!((error.problem, error.reason.as_deref()), (SourceProblem::Forbidden, Some("installation")), "{error}");
    let error = host.plugins.materialise(&binding, REPOSITORY, "main", &commit, host.workspace(), false, host.call()).await;
    assert_eq!(error.expect_err("suspended").reason.as_deref(), Some("installation"));
    let server = host.plugins.check(&self::binding(&studio, APP, ""), host.call()).await.expect("the app");
    assert_eq!(server.installations.iter().map(|one| one.suspended).collect::<Vec<_>>(), [true, false]);
    studio.server.suspend(42, false);
    assert_eq!(host.plugins.resolve_head(&binding, REPOSITORY, "main", host.call()).await.expect("a head").id, commit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branches_come_in_one_request_where_the_server_speaks_graphql() {
    let studio = studio(Duration::from_secs(3600)).await;
    for name in ["main", "Feature/one", "feature/two", "fix/x"] {
        studio.commit(name, name, &[("a", b"x")]).await;
    }
    let (host, binding) = (&studio.host, binding(&studio, APP, "42"));
    let page = host.plugins.list_branches(&binding, REPOSITORY, Some("FEATURE".into()), None, 1, host.call()).await.expect("a page");
    let next = host.plugins.list_branches(&binding, REPOSITORY, Some("FEATURE".into()), page.next_cursor.clone(), 1, host.call()).await;
    let next = next.expect("a page");
    assert_eq!((page.items[0].name.as_str(), next.items[0].name.as_str(), next.next_cursor), ("Feature/one", "feature/two", None));
    assert_eq!((page.items[0].head.message.as_str(), page.items[0].head.author.as_str()), ("Feature/one", "Ada"));
    let asked: Vec<String> = studio.server.requests().into_iter().filter(|request| !request.contains("/access_tokens")).collect();
    assert_eq!(asked, ["POST /api/graphql", "POST /api/graphql"]);
    let none = host.plugins.list_branches(&binding, "studio/none", None, None, 5, host.call()).await.expect_err("no repository");
    assert_eq!((none.problem, none.reason.as_deref()), (SourceProblem::NotFound, Some("repository")), "{none}");
    // A server that does not speak it is asked once.
    let silent = Studio::with(|settings| cookhouse::demo::git_server::Settings { speaks_graphql: false, ..settings }).await;
    silent.commit("main", "m", &[("a", b"x")]).await;
    let token = silent.binding();
    for _ in 0..2 {
        let page = silent.host.plugins.list_branches(&token, REPOSITORY, None, None, 5, silent.host.call()).await.expect("a page");
        assert_eq!(page.items.len(), 1);
    }
    assert_eq!(silent.server.requests().iter().filter(|request| request.contains("graphql")).count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_wrong_keeps_no_app_out() {
    for ahead in [-1000, 3 * 3600] {
        let mut app = App::new(APP, KEY, &[(42, "studio")]).expect("an app");
        app.clock_ahead = ahead;
        let studio = Studio::with(|settings| cookhouse::demo::git_server::Settings { app: Some(app), ..settings }).await;
        let commit = studio.commit("main", "one", &[("Game.uproject", b"{}")]).await;
        let host: &Host = &studio.host;
        let server = host.plugins.check(&binding(&studio, APP, ""), host.call()).await.expect("the app");
        assert_eq!(server.installations.len(), 1);
        let asked = |end: &str| studio.server.requests().iter().filter(|request| request.ends_with(end)).count();
        assert_eq!((asked("/api/v3/app"), asked("page=1")), (2, 1), "{ahead}: signed once more, and right from then on");
        let binding = binding(&studio, APP, "42");
        for _ in 0..2 {
            assert_eq!(host.plugins.resolve_head(&binding, REPOSITORY, "main", host.call()).await.expect("a head").id, commit);
        }
        assert_eq!(bought(&studio), 2, "{ahead}: one that was refused, and one that is kept");
        let said = host.log.text();
        let word = if ahead < 0 { "seconds behind" } else { "seconds ahead of" };
        assert!(said.contains("The git host's clock is") && said.contains(word), "{said}");
        // A wrong app is no matter of clocks.
        let before = studio.server.requests().len();
        let foreign = host.plugins.check(&self::binding(&studio, "another", ""), host.call()).await.expect_err("another app's id");
        assert_eq!(foreign.problem, SourceProblem::Unauthenticated);
        assert!(studio.server.requests().len() - before <= 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_go_on_as_long_as_the_server_links_to_more() {
    let app = App::new(APP, KEY, &[(42, "studio"), (43, "guests"), (44, "friends")]).expect("an app");
    let change = |settings| cookhouse::demo::git_server::Settings { app: Some(app), largest_page: 1, speaks_graphql: false, ..settings };
    let studio = Studio::with(change).await;
    for branch in ["main", "one", "two"] {
        studio.commit(branch, "m", &[("a", b"x")]).await;
    }
    let host = &studio.host;
    let server = host.plugins.check(&binding(&studio, APP, ""), host.call()).await.expect("the app");
    assert_eq!(server.installations.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["42", "43", "44"]);
    let page = host.plugins.list_branches(&binding(&studio, APP, "42"), REPOSITORY, None, None, 10, host.call()).await.expect("branches");
    assert_eq!(page.items.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["main", "one", "two"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_that_is_used_up_says_when_the_next_begins() {
    let studio = studio(Duration::from_secs(3600)).await;
    studio.commit("main", "one", &[("Game.uproject", b"{}")]).await;
    let (host, binding) = (&studio.host, binding(&studio, APP, "42"));
    studio.server.exhaust(1, 1800);
    let error = host.plugins.resolve_head(&binding, REPOSITORY, "main", host.call()).await.expect_err("too often");
    assert_eq!(error.problem, SourceProblem::RateLimited, "{error}");
    assert!(error.retry_after.is_some_and(|seconds| (1700..=1800).contains(&seconds)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_asks_again_before_the_time_is_up() {
    let studio = studio(Duration::from_secs(3600)).await;
    studio.commit("main", "one", &[("Game.uproject", b"{}")]).await;
    let (host, binding) = (&studio.host, binding(&studio, APP, "42"));
    let head = || host.plugins.resolve_head(&binding, REPOSITORY, "main", host.call());
    head().await.expect("a head");
    studio.server.limit(1, 3);
    let before = studio.server.requests().len();
    for _ in 0..3 {
        let error = head().await.expect_err("too often");
        assert_eq!(error.problem, SourceProblem::RateLimited, "{error}");
        assert!(error.retry_after.is_some_and(|seconds| (1..=3).contains(&seconds)), "{error:?}");
    }
    assert_eq!(studio.server.requests().len(), before + 1, "those who were told to wait did");
    tokio::time::sleep(Duration::from_millis(3100)).await;
    head().await.expect("a head");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_about_to_end_is_not_kept() {
    let studio = studio(Duration::from_secs(200)).await;
    studio.commit("main", "one", &[("Game.uproject", b"{}")]).await;
    let (host, binding) = (&studio.host, binding(&studio, APP, "42"));
    for _ in 0..2 {
        host.plugins.resolve_head(&binding, REPOSITORY, "main", host.call()).await.expect("a head");
    }
    assert_eq!(bought(&studio), 2);
}
