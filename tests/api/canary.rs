//! Known secrets are put everywhere they can go; then every route is driven, and no answer, no line of the log and no file
//! may hold one of them, in whatever spelling.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use aho_corasick::AhoCorasick;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use cookhouse::api::routes;
use cookhouse::model::permission::Scope;
use cookhouse::model::{Organization, User};
use cookhouse::seams::SourceProblem;
use cookhouse::store::Read;
use serde_json::{Value, json};

use super::{repository, setting, with};
use crate::support::client::{Ask, Reply};
use crate::support::repositories::{GOOD_TOKEN, UPROJECT};
use crate::support::server::TestServer;

const HEADER: &str = "Bearer canary/header+\"1\\\"-5e7c1a90";
const TARGET: &str = "Basic canary/target+\"2\\\"-77b0d2f4";
const SLACK: &str = "https://hooks.example/slack/canary+3-c91f63aa";
const DISCORD: &str = "https://hooks.example/discord/canary+4-0d84e5bb";
const TEAMS: &str = "https://hooks.example/teams/canary+5-b7a31ccc";
const WEBHOOK: &str = "canary/webhook+9-4be1d7c3a05f29e8b6";
const SMTP: &str = "canary smtp/\"6\\\" \u{e9}\u{4e2d}-dd20f7ab";
const PASSWORD: &str = "canary password/\"7\\\" \u{e9}-e19b44cd";
const SECOND_PASSWORD: &str = "canary password/\"8\\\" \u{e9}-f0c2a6de";
const WRONG_PASSWORD: &str = "canary password/\"9\\\" \u{e9}-1e5d3b7f";

/// Everything that is looked for.
#[derive(Clone)]
struct Secrets(Vec<String>);

impl Secrets {
    /// Which of them stand in `bytes`; `shown` may.
    fn found_in(&self, bytes: &[u8], shown: &[&str]) -> Vec<String> {
        let wanted: Vec<&String> = self.0.iter().filter(|secret| !shown.contains(&secret.as_str())).collect();
        let spellings: Vec<(usize, Vec<u8>)> =
            wanted.iter().enumerate().flat_map(|(at, secret)| spellings(secret).into_iter().map(move |spelling| (at, spelling))).collect();
        let search = AhoCorasick::builder().ascii_case_insensitive(true).build(spellings.iter().map(|(_, spelling)| spelling));
        let mut found: Vec<String> =
            search.expect("a search").find_iter(bytes).map(|hit| wanted[spellings[hit.pattern().as_usize()].0].clone()).collect();
        found.dedup();
        found
    }
}

/// Plain, base64 at each of its three offsets, percent, hex, and as JSON, Rust and forms write it.
fn spellings(secret: &str) -> Vec<Vec<u8>> {
    let bytes = secret.as_bytes();
    let hex = |separator: &str| bytes.iter().map(|byte| format!("{separator}{byte:02x}")).collect::<String>();
    let percent: String = bytes
        .iter()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(*byte).to_string() } else { format!("%{byte:02x}") })
        .collect();
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let sparing: String =
        bytes.iter().map(|byte| if unreserved(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02x}") }).collect();
    let json = serde_json::to_string(secret).expect("a text");
    let json = json.trim_start_matches('"');
    let json = &json[..json.len() - 1];
    let ascii: String = json.chars().map(|c| if c.is_ascii() { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) }).collect();
    let debug = format!("{secret:?}");
    let mut all: Vec<String> = vec![
        secret.to_owned(),
        hex(""),
        hex("%"),
        hex("\\x"),
        sparing.replace("%20", "+"),
        percent,
        sparing,
        json.to_owned(),
        json.replace('/', "\\/"),
        ascii,
        debug[1..debug.len() - 1].to_owned(),
    ];
    for offset in 0..3 {
        let shifted = [vec![0; offset].as_slice(), bytes].concat();
        let whole = shifted.len() / 3 * 3;
        let from = if offset == 0 { 0 } else { 4 };
        all.extend([STANDARD.encode(&shifted[..whole]), URL_SAFE.encode(&shifted[..whole])].map(|text| text[from..].to_owned()));
    }
    all.into_iter().map(String::into_bytes).collect()
}

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn files(directory: &Path, visit: &mut impl FnMut(&Path, &[u8])) {
    for entry in std::fs::read_dir(directory).expect("readable").flatten() {
        let path = entry.path();
        if entry.file_type().expect("a type").is_dir() {
            files(&path, visit);
        } else if !entry.file_name().to_string_lossy().starts_with("secret.key") {
            visit(&path, &std::fs::read(&path).expect("readable"));
        }
    }
}

/// What is sent in place of secrets, and where it is of a wrong type.
fn poisoned(text: &str) -> Value {
    json!({
        "token": text, "password": text, "setupToken": text, "webhookSecret": text, "privateKeyPem": text, "ticket": text,
        "uploadBuildAuthHeader": [text], "name": [text], "email": [text], "role": [text], "platform": {"x": text}, "depot": [text],
        "defaultProjectSettings": {"platform": [text]}, "scopes": [[text]], "pinned": [text], "commit": [text], "branch": [text],
        "integrationSettings": {"slackWebhookUrl": format!("gopher://{text}"), "smtp": {"host": [text], "password": [text]}},
        "url": format!("gopher://{text}"), "events": [text], "description": [text], "deployTargets": [{"plugin": [text], "secrets": {"authorization": [text]}}],
    })
}

#[test]
fn the_search_finds_every_spelling() {
    for secret in [HEADER, SMTP, SLACK] {
        let secrets = Secrets(vec![secret.to_owned()]);
        let spelled = [
            secret.to_owned(),
            format!("Authorization: {secret}\r\n"),
            json!({ "x": secret }).to_string(),
            STANDARD.encode(secret),
            STANDARD.encode(format!("a{secret}b")),
            URL_SAFE.encode(format!("ab{secret}c")),
            serde_urlencoded::to_string([("x", secret)]).expect("a form"),
            secret.bytes().map(|byte| format!("{byte:02X}")).collect(),
            format!("{:?}", Some(secret)),
        ];
        for (number, text) in spelled.iter().enumerate() {
            assert_eq!(secrets.found_in(text.as_bytes(), &[]), [secret], "{number}: {text}");
        }
        assert_eq!(secrets.found_in(b"nothing of the kind", &[]), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_ever_told() {
    let log = Captured::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false).with_writer(move || writer.clone());
    tracing::subscriber::set_global_default(subscriber.finish()).expect("no other test listens to the log");
    let server = TestServer::start().await;
    server.host.add("studio/kitchen", &[("Kitchen.uproject", UPROJECT)]);
    let setup = server.setup_token.clone().expect("printed").reveal().clone();
    let mut secrets = Secrets(
        [HEADER, TARGET, WEBHOOK, SLACK, DISCORD, TEAMS, SMTP, PASSWORD, SECOND_PASSWORD, WRONG_PASSWORD, GOOD_TOKEN]
            .map(String::from)
            .into(),
    );
    secrets.0.push(setup.clone());
    let check = |secrets: &Secrets, reply: &Reply, shown: &[&str]| {
        let told = [reply.body.clone(), format!("{:?}", reply.headers).into_bytes()].concat();
        assert_eq!(secrets.found_in(&told, shown), Vec::<String>::new(), "{}", reply.text());
    };
    let text = |value: &Value| value.as_str().expect("a text").to_owned();

    // What is secret and where it belongs.
    let body = json!({"setupToken": setup, "email": "ada@example.com", "name": "Ada", "password": PASSWORD, "organizationName": "S"});
    let reply = server.ask("POST", "/setup").json(&body).send().await.expect(201);
    check(&secrets, &reply, &[]);
    let session = text(&reply.json()["accessToken"]);
    secrets.0.push(session.clone());
    let organization = format!("/organizations/{}", text(&reply.json()["organization"]["id"]));
    let ask = |method: &str, path: &str| -> Ask { server.ask(method, path).bearer(&session) };
    let connect = ask("PUT", &format!("{organization}/integrations/githost")).json(&json!({"token": GOOD_TOKEN, "webhookSecret": WEBHOOK}));
    check(&secrets, &connect.send().await.expect(200), &[]);
    let smtp = json!({"host": "mail.example", "from": "a@example.com", "password": SMTP});
    let settings = json!({"slackWebhookUrl": SLACK, "discordWebhookUrl": DISCORD, "teamsWebhookUrl": TEAMS, "smtp": smtp});
    check(&secrets, &ask("PATCH", &organization).json(&json!({ "integrationSettings": settings })).send().await.expect(200), &[]);
    let project =
        ask("POST", "/projects/add-repo").json(&repository()).send().await.expect(201).header("location").expect("a place").to_owned();
    let target = json!([{"plugin": "custom-deploy", "config": {"url": "https://b.example/"}, "secrets": {"authorization": TARGET}}]);
    let change =
        json!({"uploadBuildUrl": "https://a.example/", "uploadBuildAuthHeader": HEADER, "deployTargets": target, "autoDeploy": true});
    let create = ask("POST", &format!("{project}/build-settings")).header("Idempotency-Key", "setting").json(&with(setting(), change));
    let reply = create.send().await.expect(201);
    check(&secrets, &reply, &[]);
    let hook = json!({"url": "https://hooks.example/", "events": ["build.created", "build.failed", "ping"]});
    let make = || ask("POST", "/webhooks").header("Idempotency-Key", "hook").json(&hook).send();
    let first = make().await.expect(201).json();
    let (hook_id, hook_secret) = (text(&first["id"]), text(&first["secret"]));
    let renew = ask("POST", &format!("/webhooks/{hook_id}/rotate-secret")).send().await.expect(201);
    let renewed = text(&renew.json()["secret"]);
    secrets.0.extend([hook_secret.clone(), renewed.clone()]);
    check(&secrets, &make().await.expect(201), &[&hook_secret]);
    check(&secrets, &renew, &[&renewed]);
    let ping = ask("POST", &format!("/webhooks/{hook_id}/ping")).send().await.expect(202);
    check(&secrets, &ping, &[]);
    let delivery = text(&ping.json()["id"]);
    let setting = reply.header("location").expect("a place").to_owned();
    let build = text(&ask("POST", &format!("{setting}/trigger")).send().await.expect(201).json()["buildId"]);
    let make = || ask("POST", "/auth/tokens").header("Idempotency-Key", "token").json(&json!({"name": "t", "scopes": ["read"]})).send();
    let reply = make().await.expect(201);
    let token = text(&reply.json()["token"]);
    let token_id = text(&reply.json()["id"]);
    secrets.0.push(token.clone());
    check(&secrets, &make().await.expect(201), &[&token]);
    let invite = json!({"email": "b@example.com", "name": "B", "role": "viewer"});
    let reply = ask("POST", "/members").header("Idempotency-Key", "member").json(&invite).send().await.expect(201);
    let member = text(&reply.json()["id"]);
    let invitation = text(&reply.json()["invitationUrl"]).split_once('=').expect("a token").1.to_owned();
    secrets.0.push(invitation.clone());
    let accept = json!({"token": invitation, "name": "B", "password": SECOND_PASSWORD});
    let reply = server.ask("POST", "/auth/accept-invitation").json(&accept).send().await.expect(200);
    secrets.0.push(text(&reply.json()["accessToken"]));
    check(&secrets, &reply, &[&text(&reply.json()["accessToken"])]);
    for (email, password) in [("ada@example.com", WRONG_PASSWORD), ("nobody@example.com", WRONG_PASSWORD)] {
        let body = json!({"email": email, "password": password});
        check(&secrets, &server.ask("POST", "/auth/login").json(&body).send().await.expect(401), &[]);
    }

    // Every route: with what exists and what does not, with a good and with a failing git host, as an admin and as nobody.
    let admin = server.app.people.find_user("ada@example.com").expect("she exists");
    let bearer = server.token(&admin, &[Scope::Admin]).await;
    secrets.0.push(bearer.clone());
    let ids = |path: &str| {
        let path = path
            .replace("{settingId}", setting.rsplit('/').next().expect("an id"))
            .replace("{userId}", &member)
            .replace("{deliveryId}", &delivery);
        let own = match path.split('/').nth(1) {
            Some("builds") => build.clone(),
            Some("webhooks") => hook_id.clone(),
            Some("auth") => token_id.clone(),
            Some("organizations") => organization.rsplit('/').next().expect("an id").to_owned(),
            _ => project.rsplit('/').next().expect("an id").to_owned(),
        };
        path.replace("{id}", &own).replace("{file}", "x.tar.gz")
    };
    let mut driven = 0;
    let mut table = routes();
    // What a stream says are parts of the answers of other rows, without an end.
    table.retain(|route| !route.is_stream);
    // What takes something away comes last.
    table.sort_by_key(|route| route.method == "DELETE");
    for outage in [None, Some(SourceProblem::Unavailable)] {
        server.host.fail_with(outage);
        for route in &table {
            for path in [ids(route.path), ids(route.path).replace(&project[project.len() - 24..], "0000000000000000000000zz")] {
                if outage.is_none() && route.method == "DELETE" {
                    continue;
                }
                for secret in [HEADER, PASSWORD, &bearer] {
                    let ask = server.ask(route.method.as_str(), &path).header("Prefer", "handling=strict").json(&poisoned(secret));
                    for reply in
                        [ask.clone().bearer(&bearer).send().await, ask.clone().bearer(secret.trim_start_matches("Bearer ")).send().await]
                    {
                        check(&secrets, &reply, &[]);
                        driven += 1;
                    }
                }
            }
        }
    }
    assert!(driven > 12 * table.len(), "{driven}");

    // What Debug shows of the records, what was logged, and what lies on the disk.
    let id = admin.organization_id;
    let (organization, user): (Option<Organization>, Option<User>) =
        server.read(|snapshot| Ok((snapshot.get(id, id)?, snapshot.get(id, admin.id)?)));
    let debug = format!("{organization:?} {user:?}");
    assert_eq!(secrets.found_in(debug.as_bytes(), &[]), Vec::<String>::new(), "{debug}");
    let directory = server.stop().await;
    let log = log.bytes();
    assert!(log.len() > 10_000, "the log was not listened to");
    let told = secrets.found_in(&log, &[]);
    assert_eq!(told, Vec::<String>::new(), "in the log");
    let mut looked_at = 0;
    files(directory.path(), &mut |path, bytes| {
        assert_eq!(secrets.found_in(bytes, &[]), Vec::<String>::new(), "in {}", path.display());
        looked_at += bytes.len();
    });
    assert!(looked_at > 100_000, "{looked_at}");
}
