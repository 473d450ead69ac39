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
    let app = App { token_life: life, ..App::new(APP, KEY, &[(42, "studio"), (43, "guests")]).expect("an app") };
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
async fn a_token_that_is_about_to_end_is_not_kept() {
    let studio = studio(Duration::from_secs(200)).await;
    studio.commit("main", "one", &[("Game.uproject", b"{}")]).await;
    let (host, binding) = (&studio.host, binding(&studio, APP, "42"));
    for _ in 0..2 {
        host.plugins.resolve_head(&binding, REPOSITORY, "main", host.call()).await.expect("a head");
    }
    assert_eq!(bought(&studio), 2);
}
