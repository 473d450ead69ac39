//! What is shown, in its order: from the first account to the file that the receiver got.

use std::time::Duration;

use serde_json::{Value, json};

use super::account::{Account, random};
use super::client::{Client, text};
use super::download::{self, Downloaded};
use super::git_server::GitServer;
use super::receiver::Received;
use super::screen::{Screen, faint, link, strong};
use super::stream::{STREAM, StreamServer};
use super::studio::{ENGINE, REPOSITORY, Source, Studio};
use super::{DemoError, follow, size};

/// How long the receiver may wait for a deploy that the service says it has made.
const DEPLOY_ARRIVES: Duration = Duration::from_secs(10);

/// What is needed to go on by hand.
pub(super) struct End {
    account: Account,
    token: String,
    project: String,
    setting: String,
    build: String,
    file: std::path::PathBuf,
}

/// Plays everything.
pub(super) async fn play(screen: &mut Screen, studio: &mut Studio) -> Result<End, DemoError> {
    let mut client = Client::new(studio.outbound.clone(), &studio.appliance.url());
    screen.chapter("Through the API");
    let (account, organization) = sign_in(screen, studio, &mut client).await?;
    let header = format!("Bearer {}", random(16)?);
    let (project, setting, build, changelist) = match &studio.source {
        Source::Git { server, token } => {
            let installation = connect(screen, server, token, &client, &organization).await?;
            let body = json!({ "name": "Kitchen", "installationId": installation, "repoFullName": REPOSITORY, "defaultBranch": "main" });
            let project = link_project(screen, &client, "add-repo", &body, REPOSITORY).await?;
            let place = json!({ "branch": "main", "trigger": "manual" });
            let setting = build_setting(screen, studio, &client, &project, &header, place).await?;
            let started = client.send("POST", &format!("/projects/{project}/build-settings/{setting}/trigger"), &json!({})).await?;
            let build = text(&started["buildId"]).to_owned();
            screen.done("Triggered", format_args!("build {build} {}", faint(text(&started["status"]))));
            (project, setting, build, None)
        }
        Source::Stream(server) => {
            server.connect(screen, &client, &organization).await?;
            let project = link_project(screen, &client, "add-streamvc", &StreamServer::project(), STREAM).await?;
            let place = json!({ "streamPath": STREAM, "trigger": "push" });
            let setting = build_setting(screen, studio, &client, &project, &header, place).await?;
            let (build, changelist) = server.submitted(screen, &client, &studio.appliance.url(), &project, &setting).await?;
            (project, setting, build, Some(changelist))
        }
    };

    screen.chapter("The build");
    let finished = follow::build(screen, &client, &build).await?;
    if let Some(changelist) = changelist {
        if text(&finished["changelist"]) != changelist {
            return Err(DemoError::failed(format!("changelist {} was built instead of {changelist}", finished["changelist"])));
        }
        screen.done("Exactly that changelist", format_args!("{changelist} {}", faint(text(&finished["commitMessage"]))));
    }

    screen.chapter("The artifact");
    let downloads = studio.directory.join("downloads");
    let downloaded = download::artifact(screen, &client, &finished, &downloads).await?;

    screen.chapter("What the receiver got");
    if text(&finished["autoDeployStatus"]) != "succeeded" {
        let error = &finished["autoDeployError"];
        return Err(DemoError::failed(format!("custom deploy failed: {} ({})", text(&error["message"]), text(&error["code"]))));
    }
    let received = loop {
        let next = tokio::time::timeout(DEPLOY_ARRIVES, studio.receiver.next()).await.ok().flatten();
        let next = next.ok_or_else(|| DemoError::failed("the service says that it deployed, but nothing arrived"))?;
        // On kept data the service may have caught up with a submit of the run before.
        if next.metadata["buildId"] == finished["id"] {
            break next;
        }
    };
    show_received(screen, &received, &finished, &downloaded, &header)?;

    let body = json!({ "name": "demo", "scopes": ["read", "trigger"] });
    let token = text(&client.send("POST", "/auth/tokens", &body).await?["token"]).to_owned();
    Ok(End { account, token, project, setting, build, file: downloaded.file })
}

async fn sign_in(screen: &Screen, studio: &Studio, client: &mut Client) -> Result<(Account, String), DemoError> {
    let (account, _) = Account::open(&studio.directory.join("account.json"))?;
    let Account { email, password } = &account;
    let signed_in = match studio.appliance.setup_token() {
        Some(token) => {
            let body = json!({ "setupToken": token.reveal(), "email": email, "name": "Demo chef", "password": password, "organizationName": "Demo kitchen" });
            client.send("POST", "/setup", &body).await?
        }
        None => client.send("POST", "/auth/login", &json!({ "email": email, "password": password })).await?,
    };
    client.sign_in(text(&signed_in["accessToken"]));
    let organization = &signed_in["organization"];
    let role = text(&signed_in["membership"]["role"]);
    screen.done("Signed in", format_args!("{email} {}", faint(format_args!("{role} of {}", text(&organization["name"])))));
    Ok((account, text(&organization["id"]).to_owned()))
}

async fn connect(screen: &Screen, git: &GitServer, token: &str, client: &Client, organization: &str) -> Result<String, DemoError> {
    let body = json!({ "token": token, "apiBaseUrl": git.api_base_url(), "gitBaseUrl": git.git_base_url() });
    let connected = client.send("PUT", &format!("/organizations/{organization}/integrations/githost"), &body).await?;
    // The answer is the integration, or the organization that has it.
    let githost = if connected["installations"].is_array() { &connected } else { &connected["integrations"]["githost"] };
    let installation = text(&githost["installations"][0]["id"]).to_owned();
    screen.done("Git host connected", format_args!("installation {installation} {}", faint("the token is sealed at rest")));
    Ok(installation)
}

async fn link_project(screen: &Screen, client: &Client, route: &str, body: &Value, place: &str) -> Result<String, DemoError> {
    let project = match client.send("POST", &format!("/projects/{route}"), body).await {
        // A second run on kept data finds the project of the first.
        Err(DemoError::Failed { code: Some(code), .. }) if code == "project_exists" => {
            let projects = client.get("/projects?limit=100").await?;
            let found = projects["items"].as_array().into_iter().flatten().find(|project| text(&project["repoLink"]) == place);
            client.get(&format!("/projects/{}", found.map(|project| text(&project["id"])).unwrap_or_default())).await?
        }
        answer => answer?,
    };
    let uproject = &project["uproject"];
    let found = format!("found {} for engine {}", text(&uproject["path"]), text(&uproject["engineVersion"]));
    screen.done("Project linked", format_args!("{place} {}", faint(found)));
    Ok(text(&project["id"]).to_owned())
}

/// `place`: the branch or stream, and how its builds are started.
async fn build_setting(
    screen: &Screen,
    studio: &Studio,
    client: &Client,
    project: &str,
    header: &str,
    place: Value,
) -> Result<String, DemoError> {
    let platform = if cfg!(windows) { "Win64" } else { "Linux" };
    let path = format!("/projects/{project}/build-settings");
    let mut body = json!({
        "name": "Demo", "platform": platform, "buildType": "Development", "ueVersion": ENGINE,
        "autoDeploy": true, "uploadBuildUrl": studio.receiver.url(), "uploadBuildAuthHeader": header,
    });
    let branch = text(if place["branch"].is_string() { &place["branch"] } else { &place["streamPath"] }).to_owned();
    if let (Value::Object(body), Value::Object(place)) = (&mut body, place) {
        body.extend(place);
    }
    let known = client.get(&path).await?;
    let setting = match known["items"].as_array().and_then(|items| items.first()) {
        Some(known) => client.send("PATCH", &format!("{path}/{}", text(&known["id"])), &body).await?,
        None => client.send("POST", &path, &body).await?,
    };
    screen.done("Build setting", format_args!("{platform} Development on {branch} {}", faint("custom deploy to the receiver")));
    Ok(text(&setting["id"]).to_owned())
}

fn show_received(screen: &Screen, received: &Received, build: &Value, downloaded: &Downloaded, header: &str) -> Result<(), DemoError> {
    let wrong = |what: &str| Err(DemoError::failed(format!("the receiver got {what}")));
    if received.authorization != header {
        return wrong("another Authorization header than the setting has");
    }
    screen.done("Request", format_args!("POST {} {}", received.content_type, faint("Authorization as the setting says")));
    for part in &received.parts {
        let name = part.file_name.as_ref().map(|name| format!(", file {name}")).unwrap_or_default();
        screen.done(&format!("Part {}", part.name), format_args!("{}{name} {}", part.content_type, faint(size::rounded(part.size))));
        if part.name == "metadata" {
            for (key, value) in received.metadata.as_object().into_iter().flatten() {
                screen.more(faint(format_args!("{key}: {}", text(value))));
            }
        }
    }
    let names: Vec<&str> = received.parts.iter().map(|part| part.name.as_str()).collect();
    if names != ["metadata", "artifact"] {
        return wrong("other parts than metadata and artifact");
    }
    for key in ["buildId", "projectId", "platform", "buildType", "ueVersion", "branch", "commit"] {
        let own = if key == "buildId" { &build["id"] } else { &build[key] };
        if received.metadata[key] != *own {
            return wrong(&format!("{key} {} instead of {own}", received.metadata[key]));
        }
    }
    match received.part("artifact") {
        Some(part) if part.sha256 == downloaded.sha256 && part.md5 == downloaded.md5 && part.size == downloaded.size => {
            screen.done("Byte for byte", faint("the same file as the download"));
            Ok(())
        }
        _ => wrong("other bytes than the download"),
    }
}

/// Says what one can do now.
pub(super) fn go_on(screen: &Screen, studio: &Studio, end: &End, leaves: bool) {
    if leaves {
        screen.line("");
        screen.line(strong("  Everything worked."));
        return;
    }
    let base = studio.appliance.url();
    screen.chapter("Now you");
    screen.line(format_args!("  Service   {}", link(format_args!("{base}/v1"))));
    screen.line(format_args!("  Account   {} with the password {}", end.account.email, end.account.password));
    screen.line(format_args!("  Artifact  {}", end.file.display()));
    screen.line("");
    screen.line(faint("  In another terminal:"));
    let curl = "curl -H \"Authorization: Bearer $TOKEN\"";
    let commands = [
        format!("TOKEN={}", end.token),
        format!("URL={base}/v1"),
        format!("SETTING=$URL/projects/{}/build-settings/{}", end.project, end.setting),
        format!("{curl} $URL/projects"),
        format!("{curl} -X POST $SETTING/trigger"),
        format!("{curl} \"$URL/builds?limit=5\""),
        format!("{curl} $URL/builds/{}/log", end.build),
        format!("tar -tzf {}", end.file.display()),
    ];
    for command in commands {
        screen.line(format_args!("    {}", link(command)));
    }
    screen.line("");
    screen.line(format_args!("  {} ends everything.", strong("Ctrl-C")));
}
