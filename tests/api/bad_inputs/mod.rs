//! Bad inputs by name, each with its exact answer, in one golden file: `bad_inputs.golden` beside this.
//!
//! The cases come from tables: what a field takes says what is bad for it. `UPDATE=1` writes the file anew; every line of
//! the difference is then read by a person.

mod bodies;
mod requests;
mod values;

use std::fmt::Write;
use std::path::Path;

use serde_json::json;

use super::{build_setting, connected, project, triggered};
use crate::support::client::Ask;
use crate::support::repositories::UPROJECT;
use crate::support::server::{Person, TestServer};

/// One bad input.
pub(super) struct Case {
    /// What is wrong with it; distinct.
    pub name: String,
    pub method: &'static str,
    /// With `{project}`, `{setting}`, `{build}`, `{finished}`, `{organization}`, `{member}`, `{webhook}`, `{token}` where an address of a real one belongs.
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<Vec<u8>>,
    /// Whether the caller shows a good token.
    pub is_signed_in: bool,
}

impl Case {
    pub fn new(name: impl Into<String>, method: &'static str, path: impl Into<String>) -> Self {
        Case { name: name.into(), method, path: path.into(), headers: Vec::new(), body: None, is_signed_in: true }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    pub fn json(self, body: impl Into<Vec<u8>>) -> Self {
        self.header("Content-Type", "application/json").body(body)
    }

    pub fn stranger(mut self) -> Self {
        self.is_signed_in = false;
        self
    }
}

/// What the paths of cases name.
struct Scene {
    server: TestServer,
    admin: Person,
    names: Vec<(&'static str, String)>,
}

impl Scene {
    async fn set_up() -> Self {
        let (server, admin) = connected().await;
        server.host.add("studio/empty", &[("Readme.md", "")]);
        server.host.add("studio/two", &[("B.uproject", UPROJECT), ("a/A.uproject", UPROJECT)]);
        server.host.add("studio/broken", &[("A.uproject", "no project file")]);
        let project = project(&server, &admin).await;
        let setting = build_setting(&server, &admin, &project).await;
        let finished = triggered(&server, &admin, &setting).await;
        server.post(&admin, &format!("/builds/{finished}/cancel"), json!({})).await.expect(202);
        let build = triggered(&server, &admin, &setting).await;
        let webhook = json!({"url": "https://hooks.studio.example/x", "events": ["build.failed"]});
        let webhook = server.post(&admin, "/webhooks", webhook).await.expect(201);
        let names = vec![
            ("{webhook}", webhook.header("location").expect("a location").to_owned()),
            ("{member}", format!("/members/{}", admin.user.id)),
            ("{project}", project),
            ("{setting}", setting),
            ("{finished}", format!("/builds/{finished}")),
            ("{build}", format!("/builds/{build}")),
            ("{organization}", format!("/organizations/{}", admin.user.organization_id)),
            ("{token}", admin.token.clone()),
        ];
        Scene { server, admin, names }
    }

    fn real(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (name, real)| text.replace(name, real))
    }

    /// Status, code, and every detail as `field:code`.
    async fn answer(&self, case: &Case) -> String {
        let mut ask: Ask = self.server.ask(case.method, &self.real(&case.path));
        if case.is_signed_in {
            ask = ask.bearer(&self.admin.token);
        }
        for (name, value) in &case.headers {
            // The client names the host itself, unless that is what is wrong.
            ask = if *name == "Host" { ask.instead(name, value) } else { ask.header(name, &self.real(value)) };
        }
        if let Some(body) = &case.body {
            ask = ask.body(body.clone());
        }
        let reply = ask.send().await;
        if reply.status < 400 {
            return format!("{} ACCEPTED", reply.status);
        }
        let is_envelope = reply.json()["error"]["requestId"].as_str().is_some_and(|id| Some(id) == reply.header("x-request-id"));
        assert!(
            is_envelope && !reply.json()["error"]["message"].as_str().unwrap_or_default().is_empty(),
            "{}: {}",
            case.name,
            reply.text()
        );
        let mut answer = format!("{} {}", reply.status, reply.code());
        for detail in reply.details() {
            // Answers name fields; what made-up keys are called is the client's own.
            let _ = write!(answer, " {detail}");
        }
        answer
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_input_has_its_exact_answer() {
    let scene = Scene::set_up().await;
    let (mut text, mut wrong) = (String::new(), Vec::new());
    let mut names = std::collections::BTreeSet::new();
    let cases: Vec<Case> = bodies::cases().into_iter().chain(requests::cases()).collect();
    for case in &cases {
        assert!(names.insert(&case.name), "two cases are called {}", case.name);
        let answer = scene.answer(case).await;
        if !answer.starts_with('4') {
            wrong.push(format!("{}: {answer}", case.name));
        }
        let _ = writeln!(text, "{:<72} {answer}", case.name);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(cases.len() >= 500, "only {} cases", cases.len());
    // And nothing of it changed anything.
    let server = &scene.server;
    assert_eq!(server.get(&scene.admin, "/projects").await.json()["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.get(&scene.admin, "/builds").await.json()["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(server.get(&scene.admin, "/webhooks").await.json()["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.get(&scene.admin, "/members").await.json()["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.get(&scene.admin, "/auth/tokens").await.json()["items"].as_array().map(Vec::len), Some(1));

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/bad_inputs/bad_inputs.golden");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let differing: Vec<_> = text.lines().filter(|line| !golden.lines().any(|golden| golden == *line)).collect();
    assert!(differing.is_empty() && golden.lines().count() == text.lines().count(), "UPDATE=1 writes it anew:\n{}", differing.join("\n"));
}
