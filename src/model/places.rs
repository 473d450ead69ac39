//! Under which names secrets are sealed: the row and the field that a sealed value belongs to. Part of the stored form: a
//! value that moves does not open any more.

use super::idempotency::RememberedAnswer;
use super::secret::Sealed;
use super::{BuildSetting, Id, Organization, Webhook};

/// A git host's access token.
pub fn githost_token(organization: Id<Organization>) -> String {
    format!("organization/{organization}/githost/token")
}

/// The private key of a git host's app.
pub fn githost_key(organization: Id<Organization>) -> String {
    format!("organization/{organization}/githost/privateKey")
}

/// What a git host's deliveries are signed with.
pub fn githost_webhook(organization: Id<Organization>) -> String {
    format!("organization/{organization}/githost/webhookSecret")
}

/// The ticket of a version-control server.
pub fn streamvc_ticket(organization: Id<Organization>) -> String {
    format!("organization/{organization}/streamvc/ticket")
}

/// A secret of an organization's `integrationSettings`, such as `slackWebhookUrl` or `smtp/password`.
pub fn integration_setting(organization: Id<Organization>, name: &str) -> String {
    format!("organization/{organization}/integrationSettings/{name}")
}

/// A setting's `uploadBuildAuthHeader`.
pub fn upload_header(setting: Id<BuildSetting>) -> String {
    format!("build_setting/{setting}/uploadBuildAuthHeader")
}

/// A deploy target's secret. A setting may name a plugin twice, so the entry's number counts.
pub fn deploy_secret(setting: Id<BuildSetting>, entry: usize, name: &str) -> String {
    format!("build_setting/{setting}/deployTargets/{entry}/{name}")
}

/// The answer that an `Idempotency-Key` stands for.
pub fn remembered_answer(answer: Id<RememberedAnswer>) -> String {
    format!("remembered_answer/{answer}")
}

/// What messages to an endpoint are signed with, now or before.
pub fn webhook_secret(webhook: Id<Webhook>) -> String {
    format!("webhook/{webhook}/secret")
}

/// Every sealed value of an organization, with its place.
pub fn of_organization(organization: &mut Organization) -> Vec<(String, &mut Sealed)> {
    let id = organization.id;
    let settings = &mut organization.integration_settings;
    let addresses = [
        ("slackWebhookUrl", settings.slack_webhook_url.as_mut()),
        ("discordWebhookUrl", settings.discord_webhook_url.as_mut()),
        ("teamsWebhookUrl", settings.teams_webhook_url.as_mut()),
        ("smtp/password", settings.smtp.as_mut().and_then(|smtp| smtp.password.as_mut())),
    ];
    let addresses = addresses.into_iter().filter_map(|(name, sealed)| Some((integration_setting(id, name), sealed?)));
    let githost = organization.githost.as_mut().into_iter().flat_map(move |connection| {
        let token = connection.token.as_mut().map(|token| (githost_token(id), token));
        let webhook = [connection.webhook.current.as_mut(), connection.webhook.former.as_mut()].into_iter().flatten();
        let key = connection.app.as_mut().map(|app| (githost_key(id), &mut app.private_key));
        token.into_iter().chain(key).chain(webhook.map(move |secret| (githost_webhook(id), secret)))
    });
    let ticket = organization.streamvc.as_mut().and_then(|connection| connection.ticket.as_mut());
    addresses.chain(githost).chain(ticket.map(|ticket| (streamvc_ticket(id), ticket))).collect()
}

/// Every sealed value of a build setting, with its place.
pub fn of_build_setting(setting: &mut BuildSetting) -> Vec<(String, &mut Sealed)> {
    let id = setting.id;
    let header = setting.upload_build_auth_header.as_mut().map(|header| (upload_header(id), header));
    let targets = setting.deploy_targets.iter_mut().enumerate();
    let secrets =
        targets.flat_map(|(entry, target)| target.secrets.iter_mut().map(move |(name, secret)| (deploy_secret(id, entry, name), secret)));
    header.into_iter().chain(secrets).collect()
}

/// The sealed value of a remembered answer, with its place.
pub fn of_remembered_answer(answer: &mut RememberedAnswer) -> Vec<(String, &mut Sealed)> {
    vec![(remembered_answer(answer.id), &mut answer.answer)]
}

/// Every sealed value of an endpoint, with its place.
pub fn of_webhook(webhook: &mut Webhook) -> Vec<(String, &mut Sealed)> {
    let id = webhook.id;
    let former = webhook.former_secrets.iter_mut().map(|former| &mut former.secret);
    std::iter::once(&mut webhook.secret).chain(former).map(|secret| (webhook_secret(id), secret)).collect()
}
