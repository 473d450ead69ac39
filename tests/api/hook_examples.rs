//! Every delivery that the git host publishes as an example, and ours in the same shapes: taken, and what each came to.
//!
//! The published ones are not part of this repository. With npm: `npm pack @octokit/webhooks-examples && tar xzf octokit-*.tgz`, then
//! `COOKHOUSE_WEBHOOK_EXAMPLES=package/api.github.com/index.json cargo nextest run --run-ignored all --no-capture -E 'test(hook_examples)'`.

use std::collections::BTreeMap;

use cookhouse::model::project::SourceLink;
use cookhouse::model::{Organization, Project};
use cookhouse::store::StoreError;
use serde_json::{Value, json};

use super::hooks::{commit, deliver, ledger, push, settle, studio};
use crate::support::server::{Person, TestServer};

/// The published examples are about this repository, under two owners, and this installation.
const PUBLISHED: [&str; 2] = ["Codertocat/Hello-World", "Octocoders/Hello-World"];

/// Makes the project one of this repository.
async fn link_to(server: &TestServer, admin: &Person, repository: &str) {
    let organization = admin.user.organization_id;
    let repository = repository.to_owned();
    let change = move |tx: &cookhouse::store::Change| {
        let mut projects: Vec<Project> = Vec::new();
        cookhouse::store::Read::for_each(tx, organization, None, |project: Project| {
            projects.push(project);
            Ok(true)
        })?;
        for mut project in projects {
            if let SourceLink::Githost { repo_full_name, .. } = &mut project.source {
                repo_full_name.clone_from(&repository);
            }
            tx.put(&project)?;
        }
        Ok::<_, StoreError>(())
    };
    server.app.store.write(change).await.expect("changed");
}

/// Puts the connection back as it was: examples of uninstalling end it.
async fn reconnect(server: &TestServer, admin: &Person, before: &Organization) {
    let (id, before) = (admin.user.organization_id, before.clone());
    let change = move |tx: &cookhouse::store::Change| {
        let mut organization: Organization = cookhouse::store::Read::get(tx, id, id)?.expect("the organization");
        organization.githost = before.githost;
        tx.put(&organization)
    };
    server.app.store.write(change).await.expect("changed");
}

#[ignore = "needs the published examples; see the head of this file"]
#[tokio::test(flavor = "multi_thread")]
async fn every_published_example_is_taken_and_says_what_it_came_to() {
    let path = std::env::var_os("COOKHOUSE_WEBHOOK_EXAMPLES").expect("COOKHOUSE_WEBHOOK_EXAMPLES says where the examples are");
    let events: Vec<Value> = serde_json::from_slice(&std::fs::read(path).expect("the examples")).expect("a list of events");
    let (server, admin, setting) = studio().await;
    let id = admin.user.organization_id;
    let track = move |tx: &cookhouse::store::Change| {
        let mut stored: cookhouse::model::BuildSetting = cookhouse::store::Read::get(tx, id, setting)?.expect("the setting");
        stored.branch = "master".into();
        tx.put(&stored)
    };
    server.app.store.write::<(), StoreError>(track).await.expect("changed");
    let before: Organization = server.read(|snapshot| cookhouse::store::Read::get(snapshot, id, id)).expect("the organization");
    let mut told: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    let mut count = 0;
    for event in &events {
        let name = event["name"].as_str().expect("a name");
        for example in event["examples"].as_array().expect("examples") {
            for repository in PUBLISHED {
                link_to(&server, &admin, repository).await;
                reconnect(&server, &admin, &before).await;
                count += 1;
                let reply = deliver(&server, &format!("example-{count}"), name, example.to_string().as_bytes()).await;
                if name == "ping" {
                    assert!(matches!(reply.status, 200 | 202), "{}", reply.text());
                } else {
                    reply.expect(202);
                }
                settle(&server).await;
                let entry = ledger(&server, &admin).await[0].clone();
                let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
                assert_eq!((text("deliveryId"), text("status")), (format!("example-{count}"), "processed".to_owned()), "{name}");
                assert!(!text("message").is_empty() && !text("message").contains("not what this event promises"), "{name}: {entry}");
                *told.entry((name.to_owned(), text("outcome"), text("message"))).or_default() += 1;
            }
        }
    }
    for ((event, outcome, message), times) in &told {
        println!("{times:>4}  {event:<32} {outcome:<8} {message}");
    }
    println!("{count} deliveries of {} events", events.len());
    let has = |event: &str, outcome: &str| told.keys().any(|(name, how, _)| name == event && how == outcome);
    assert!(count >= 600 && has("push", "built") && has("push", "ignored") && has("repository", "updated"), "{told:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_repository_takes_its_projects_along() {
    let (server, admin, setting_id) = studio().await;
    let body = push("refs/heads/main", &commit(0), &commit(1)).to_string();
    deliver(&server, "one", "push", body.as_bytes()).await.expect(202);
    let event = |action: &str, name: &str, changes: Value| {
        json!({"action": action, "changes": changes, "repository": {"id": 1, "full_name": name}, "sender": {"login": "ada"}}).to_string()
    };
    let renamed = json!({"repository": {"name": {"from": "kitchen"}}});
    for (id, body, outcome) in [
        ("edited", event("edited", "studio/kitchen", json!({"description": {"from": "x"}})), "ignored"),
        ("other", event("renamed", "studio/bistro", json!({"repository": {"name": {"from": "canteen"}}})), "ignored"),
        ("hostile", event("renamed", "studio/../../x", renamed.clone()), "ignored"),
        ("renamed", event("renamed", "studio/bistro", renamed), "updated"),
        ("moved", event("transferred", "group/bistro", json!({"owner": {"from": {"organization": {"login": "studio"}}}})), "updated"),
    ] {
        deliver(&server, id, "repository", body.as_bytes()).await.expect(202);
        settle(&server).await;
        assert_eq!(ledger(&server, &admin).await[0]["outcome"], outcome, "{id}");
    }
    let projects = server.get(&admin, "/projects").await.expect(200).json();
    assert_eq!(projects["items"][0]["repoLink"], "group/bistro");
    // What was seen of its branches goes along: the next push follows the last one, and the last one again starts nothing.
    let again = push("refs/heads/main", &commit(0), &commit(1)).to_string().replace("studio/kitchen", "group/bistro");
    let next = push("refs/heads/main", &commit(1), &commit(2)).to_string().replace("studio/kitchen", "group/bistro");
    for (id, body, outcome) in [("again", again, "ignored"), ("next", next, "built")] {
        deliver(&server, id, "push", body.as_bytes()).await.expect(202);
        settle(&server).await;
        assert_eq!(ledger(&server, &admin).await[0]["outcome"], outcome, "{id}");
    }
    let head = server.read(|snapshot| {
        cookhouse::store::Read::get::<cookhouse::model::delivery::TrackedHead>(snapshot, admin.user.organization_id, setting_id.cast())
    });
    assert_eq!(head.map(|head| (head.repository, head.commit)), Some(("group/bistro".to_owned(), commit(2))));
}
