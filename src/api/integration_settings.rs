//! Where an organization's notifications go: read, judged and shown (decisions 5). Addresses of chats are secrets: whoever
//! knows one may write there.

use schemars::JsonSchema;
use serde::Serialize;

use super::body::{self, Change, Check, Fault, Fields};
use super::error::{ApiError, Result};
use super::members::email;
use super::urls;
use crate::app::App;
use crate::model::organization::{IntegrationSettings, Smtp, SmtpSecurity};
use crate::model::places::integration_setting;
use crate::model::secret::Sealed;
use crate::model::validation::InvalidCode;
use crate::model::{Id, Organization, Secret};

const MOST_EMAILS: usize = 50;
const USUAL_PORT: u16 = 587;
const FIELD: &str = "integrationSettings";

/// Where notifications go. Secrets are told by whether they are there.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "IntegrationSettings")]
pub(super) struct IntegrationSettingsView {
    /// Who is told of every build that says `notifyOnComplete`.
    notification_emails: Vec<String>,
    /// Whether `slackWebhookUrl` is stored.
    slack_webhook_url_set: bool,
    /// Whether `discordWebhookUrl` is stored.
    discord_webhook_url_set: bool,
    /// Whether `teamsWebhookUrl` is stored.
    teams_webhook_url_set: bool,
    /// The mail server; null without one.
    smtp: Option<SmtpView>,
}

/// A mail server.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Smtp")]
struct SmtpView {
    /// Its name or address.
    #[schemars(example = &"mail.studio.example")]
    host: String,
    /// Usually 587.
    #[schemars(example = 587)]
    port: u16,
    /// How the connection is secured.
    security: SmtpSecurity,
    /// Who signs in; `""`: nobody.
    username: String,
    /// Whether a password is stored.
    password_set: bool,
    /// Who the mail is from.
    #[schemars(example = &"builds@studio.example")]
    from: String,
}

impl IntegrationSettingsView {
    pub(super) fn new(settings: &IntegrationSettings) -> Self {
        IntegrationSettingsView {
            notification_emails: settings.notification_emails.clone(),
            slack_webhook_url_set: settings.slack_webhook_url.is_some(),
            discord_webhook_url_set: settings.discord_webhook_url.is_some(),
            teams_webhook_url_set: settings.teams_webhook_url.is_some(),
            smtp: settings.smtp.as_ref().map(|smtp| SmtpView {
                host: smtp.host.clone(),
                port: smtp.port,
                security: smtp.security,
                username: smtp.username.clone(),
                password_set: smtp.password.is_some(),
                from: smtp.from.clone(),
            }),
        }
    }
}

/// What a body says of the settings, each field checked by itself.
#[derive(Default)]
pub(super) struct SettingsChange {
    notification_emails: Change<Vec<String>>,
    slack: Change<Secret>,
    discord: Change<Secret>,
    teams: Change<Secret>,
    smtp: Change<SmtpChange>,
}

struct SmtpChange {
    host: Option<String>,
    port: Change<u32>,
    security: Change<SmtpSecurity>,
    username: Change<String>,
    password: Change<Secret>,
    from: Option<String>,
}

impl SettingsChange {
    /// Reads `integrationSettings`; `null` clears everything.
    pub(super) fn read(fields: &mut Fields) -> Self {
        match fields.nested(FIELD, "Where notifications go. null clears everything.") {
            Change::Absent => SettingsChange::default(),
            Change::Null => SettingsChange {
                notification_emails: Change::Null,
                slack: Change::Null,
                discord: Change::Null,
                teams: Change::Null,
                smtp: Change::Null,
            },
            Change::Value(mut nested) => {
                nested.read_only(&["slackWebhookUrlSet", "discordWebhookUrlSet", "teamsWebhookUrlSet"]);
                let change = SettingsChange {
                    notification_emails: nested.change("notificationEmails", body::list(MOST_EMAILS, email()).about("Who is told.")),
                    slack: nested.change("slackWebhookUrl", chat_address("Slack")),
                    discord: nested.change("discordWebhookUrl", chat_address("Discord")),
                    teams: nested.change("teamsWebhookUrl", chat_address("Teams")),
                    smtp: read_smtp(&mut nested),
                };
                fields.absorb(nested);
                change
            }
        }
    }

    /// Applies the change and judges the result; failures are noted in `fields`.
    pub(super) fn apply(self, fields: &mut Fields, settings: &mut IntegrationSettings, app: &App, id: Id<Organization>) -> Result<()> {
        let seal =
            |name: &str, secret: &Secret| app.vault.seal(&integration_setting(id, name), secret.reveal()).map_err(ApiError::internal);
        self.notification_emails.map(without_doubles).apply_or(&mut settings.notification_emails, Vec::new());
        let addresses = [
            ("slackWebhookUrl", self.slack, &mut settings.slack_webhook_url),
            ("discordWebhookUrl", self.discord, &mut settings.discord_webhook_url),
            ("teamsWebhookUrl", self.teams, &mut settings.teams_webhook_url),
        ];
        for (name, change, place) in addresses {
            write(change, place, |secret| seal(name, secret))?;
        }
        let change = match self.smtp {
            Change::Absent => return Ok(()),
            Change::Null => {
                settings.smtp = None;
                return Ok(());
            }
            Change::Value(change) => change,
        };
        let old = settings.smtp.take();
        let mut smtp = old.clone().unwrap_or_else(|| Smtp {
            host: String::new(),
            port: USUAL_PORT,
            security: SmtpSecurity::Starttls,
            username: String::new(),
            password: None,
            from: String::new(),
        });
        need(fields, "host", change.host, &mut smtp.host);
        need(fields, "from", change.from, &mut smtp.from);
        change.port.map(|port| u16::try_from(port).unwrap_or(USUAL_PORT)).apply_or(&mut smtp.port, USUAL_PORT);
        change.security.apply_or(&mut smtp.security, SmtpSecurity::Starttls);
        change.username.apply_or(&mut smtp.username, String::new());
        if smtp.security == SmtpSecurity::None && !smtp.host.is_empty() && !urls::is_near(&smtp.host) {
            let message = "none is taken only for a private or loopback address, given as numbers";
            fields.refuse(&format!("{FIELD}.smtp.security"), InvalidCode::NotAllowed, message);
        }
        // The password is bound to where it was given for: whoever may change the address cannot have it sent elsewhere.
        let place = |smtp: &Smtp| (smtp.host.to_ascii_lowercase(), smtp.port, smtp.security);
        if old.is_some_and(|old| place(&old) != place(&smtp)) {
            smtp.password = None;
        }
        write(change.password, &mut smtp.password, |secret| seal("smtp/password", secret))?;
        settings.smtp = Some(smtp);
        Ok(())
    }
}

fn read_smtp(fields: &mut Fields) -> Change<SmtpChange> {
    let security = body::one_of(["starttls", "tls", "none"]).and(|word| {
        Ok(match word.as_str() {
            "tls" => SmtpSecurity::Tls,
            "none" => SmtpSecurity::None,
            _ => SmtpSecurity::Starttls,
        })
    });
    let security = security.about("How the connection is secured; `none` only to a private or loopback address.").default_is("starttls");
    fields.nested("smtp", "The mail server; null: none.").map(|mut nested| {
        nested.read_only(&["passwordSet"]);
        let change = SmtpChange {
            host: nested.optional("host", host()),
            port: nested.change("port", body::number(1, 65535).about("Where it listens.").default_is(USUAL_PORT)),
            security: nested.change("security", security),
            username: nested.change("username", body::text(256).about("Who signs in; null: nobody.")),
            password: nested.change("password", password()),
            from: nested.optional("from", email().about("Who the mail is from; required for a new server.")),
        };
        fields.absorb(nested);
        change
    })
}

/// Writes a text that a mail server cannot do without.
fn need(fields: &mut Fields, name: &str, change: Option<String>, place: &mut String) {
    let field = format!("{FIELD}.smtp.{name}");
    match change {
        Some(value) => *place = value,
        None if place.is_empty() && !fields.has_failed_on(&field) => fields.refuse(&field, InvalidCode::Required, "is required"),
        None => {}
    }
}

/// Writes a secret into its place, sealed.
fn write(change: Change<Secret>, place: &mut Option<Sealed>, seal: impl FnOnce(&Secret) -> Result<Sealed>) -> Result<()> {
    match change {
        Change::Absent => {}
        Change::Null => *place = None,
        Change::Value(secret) => *place = Some(seal(&secret)?),
    }
    Ok(())
}

fn without_doubles(emails: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(emails.len());
    for email in emails {
        if !kept.contains(&email) {
            kept.push(email);
        }
    }
    kept
}

/// Hosts of the chats' own services, with the field that each belongs into: every chat has another format.
const CHATS: &[(&str, &str, &str)] = &[
    ("hooks.slack.com", "Slack", "slackWebhookUrl"),
    ("discord.com", "Discord", "discordWebhookUrl"),
    ("discordapp.com", "Discord", "discordWebhookUrl"),
    ("logic.azure.com", "Teams", "teamsWebhookUrl"),
    ("powerplatform.com", "Teams", "teamsWebhookUrl"),
    ("webhook.office.com", "Teams", "teamsWebhookUrl"),
];

/// A chat whose address stands in another one's field.
fn other_chat(host: &str, product: &str) -> Option<Fault> {
    let belongs = |known: &str| host == known || host.strip_suffix(known).is_some_and(|rest| rest.ends_with('.'));
    let (_, other, field) = CHATS.iter().find(|(known, ..)| belongs(known)).filter(|(_, other, _)| *other != product)?;
    Some(Fault::invalid(format!("is an address of {other}; give it as {field}")))
}

fn chat_address(product: &'static str) -> Check<'static, Secret> {
    let check = urls::address().and(move |address| match other_chat(&address.origin.1, product) {
        Some(fault) => Err(fault),
        None => Ok(Secret::new(address.text)),
    });
    check.about(&format!("An incoming webhook of {product}; never shown.")).with("writeOnly", true)
}

fn password() -> Check<'static, Secret> {
    let check = body::secret(1024).and(|password: Secret| {
        let is_line = !password.reveal().is_empty() && !password.reveal().chars().any(char::is_control);
        if is_line { Ok(password) } else { Err(Fault::invalid("must not be empty or contain control characters")) }
    });
    let about = "Never shown. It is dropped when host, port or security change without it being sent again.";
    check.about(about).with("minLength", 1).with("pattern", "^[^\\x00-\\x1f\\x7f-\\x9f]+$")
}

/// A name or an address, without a port.
fn host() -> Check<'static, String> {
    let check = body::text(253).and(checked_host);
    let check = check.with("pattern", "^[A-Za-z0-9:]([A-Za-z0-9.:-]*[A-Za-z0-9:])?$");
    check.about("Its name or address, without a port; required for a new server.").example("mail.studio.example")
}

fn checked_host(host: String) -> std::result::Result<String, Fault> {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_name = host.split('.').all(is_label);
    match is_name || host.parse::<std::net::IpAddr>().is_ok() {
        true => Ok(host),
        false => Err(Fault::invalid("must be a host name or an address, without a port")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chat_has_its_own_format() {
        for (host, product, fits) in [
            ("hooks.slack.com", "Slack", true),
            ("hooks.slack.com", "Teams", false),
            ("discord.com", "Slack", false),
            ("canary.discord.com", "Discord", true),
            ("prod-1.westeurope.logic.azure.com", "Teams", true),
            ("studio.webhook.office.com", "Discord", false),
            ("mattermost.studio.lan", "Slack", true),
            ("notdiscord.com", "Slack", true),
        ] {
            assert_eq!(other_chat(host, product).is_none(), fits, "{host} for {product}");
        }
    }

    #[test]
    fn hosts_are_names_or_addresses_and_nothing_else() {
        for good in ["mail.studio.example", "localhost", "10.0.0.5", "::1", "fd00::25", "mail"] {
            assert!(checked_host(good.into()).is_ok(), "{good}");
        }
        for bad in ["", "mail:25", "[::1]", "a b", "-a.example", "a..b", "mail.example/x", "user@mail", "m\u{e4}il.example", "a\r\nb"] {
            assert!(host().check(bad.into()).is_err(), "{bad}");
        }
    }
}
