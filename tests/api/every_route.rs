//! What holds for every row of the table: the tests loop over the table itself.

use std::collections::BTreeSet;

use cookhouse::api::{Access, Route, routes};
use cookhouse::model::permission::{Role, Scope};

use crate::support::server::TestServer;

/// A path with ids that exist nowhere.
fn path_of(route: &Route) -> String {
    let segment = |segment: &str| if segment.starts_with('{') { "0000000000000000000000zz".to_owned() } else { segment.to_owned() };
    route.path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

#[test]
fn every_row_names_a_distinct_operation_and_says_what_it_is_for() {
    let routes = routes();
    // The specification's two spellings of one path are two rows of one operation.
    let operations: BTreeSet<_> = routes.iter().map(|route| (route.operation_id, route.path.replace("gitghost", "githost"))).collect();
    let names: BTreeSet<_> = routes.iter().map(|route| route.operation_id).collect();
    assert_eq!(operations.len(), names.len());
    for route in &routes {
        assert!(!route.summary.is_empty() && !route.summary.ends_with('.'), "{}", route.operation_id);
        assert!(route.operation_id.chars().all(|character| character.is_ascii_alphanumeric()), "{}", route.operation_id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_refuses_a_stranger_and_a_garbage_token() {
    let server = TestServer::start().await;
    for route in routes().iter().filter(|route| route.access != Access::Public) {
        for path in [path_of(route), format!("/v1{}", path_of(route))] {
            let reply = server.ask(route.method.as_str(), &path).send().await;
            assert_eq!((reply.status, reply.code().as_str()), (401, "unauthenticated"), "{}", route.operation_id);
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
            for token in ["garbage", "ckh_000000000000000000000000000000000000", ""] {
                let reply = server.ask(route.method.as_str(), &path).bearer(token).send().await;
                assert_eq!((reply.status, reply.code().as_str()), (401, "unauthenticated"), "{}", route.operation_id);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_refuses_a_caller_without_its_permission() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let organization = admin.user.organization_id;
    for route in &routes() {
        let Access::Needs(permission) = route.access else { continue };
        let (role, scope) = permission.needs();
        for weaker in [Role::Viewer, Role::Member].into_iter().filter(|weaker| *weaker < role) {
            let person = server.person(organization, weaker).await;
            let reply = server.ask(route.method.as_str(), &path_of(route)).bearer(&person.token).send().await;
            assert_eq!((reply.status, reply.code().as_str()), (403, "forbidden"), "{}", route.operation_id);
        }
        let Some(scope) = scope else { continue };
        for weaker in Scope::ALL.into_iter().filter(|weaker| !weaker.includes(scope)) {
            let may_pass = permission == cookhouse::model::permission::Permission::ReadBuild && weaker == Scope::Trigger;
            if may_pass {
                continue;
            }
            let token = server.token(&admin.user, &[weaker]).await;
            let reply = server.ask(route.method.as_str(), &path_of(route)).bearer(&token).send().await;
            assert_eq!((reply.status, reply.code().as_str()), (403, "insufficient_scope"), "{} {weaker:?}", route.operation_id);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_are_unknown_or_malformed_are_not_found() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for route in routes().iter().filter(|route| ["{id}", "{settingId}", "{userId}"].iter().any(|id| route.path.contains(id))) {
        let malformed = path_of(route).replace("0000000000000000000000zz", "no-id");
        for path in [path_of(route), malformed] {
            let reply = server.ask(route.method.as_str(), &path).bearer(&admin.token).json(&serde_json::json!({"token": "t"})).send().await;
            assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"), "{} {path}", route.operation_id);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_path_tells_its_methods() {
    let server = TestServer::start().await;
    for route in &routes() {
        let reply = server.ask("OPTIONS", &path_of(route)).send().await.expect(204);
        let allowed = reply.header("allow").unwrap_or_default().to_owned();
        assert!(allowed.split(", ").any(|method| method == route.method.as_str()), "{}: {allowed}", route.operation_id);
        let reply = server.ask("BREW", &path_of(route)).send().await;
        assert_eq!((reply.status, reply.code().as_str(), reply.header("allow")), (405, "method_not_allowed", Some(allowed.as_str())));
    }
}
