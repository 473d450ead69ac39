//! One visit to a lane, and the messages that administrators try their settings with.

use sha2::{Digest, Sha256};

use super::ledger::{self, Lane, Parcel};
use super::mail::smtp::{MailServer, Session};
use super::mail::{self};
use super::outcome::Trouble;
use super::report::{self, Report};
use super::{Notifications, chat};
use crate::model::notification::{Channel, Destination, NotificationError, NotificationErrorCode, NotificationState};
use crate::model::places::integration_setting;
use crate::model::secret::Sealed;
use crate::model::{Build, Id, Notification, Organization, Secret};
use crate::store::{Read, StoreError};

/// Between tries to record what has happened, on a disk that is full.
const STORE_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// What came of a message that an administrator wanted to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Who was told.
    pub destination: Destination,
    /// `Skipped`: there is no such way out.
    pub state: NotificationState,
    /// Why it did not go well.
    pub error: Option<NotificationError>,
}

/// A connection to a mail server that the next message may use, too.
#[derive(Default)]
pub(super) struct Post {
    open: Option<(MailServer, Session)>,
}

impl Post {
    /// Says goodbye where there is somebody.
    pub(super) async fn close(self) {
        if let Some((_, session)) = self.open {
            session.close().await;
        }
    }
}

impl Notifications {
    /// Sends what waits on a lane, one after the other.
    pub(super) async fn visit(&self, lane: Lane, waiting: Vec<Notification>) -> Result<(), StoreError> {
        let mut post = Post::default();
        let mut result = Ok(());
        for (place, notification) in waiting.into_iter().enumerate() {
            if place > 0 && lane.1 != Channel::Email {
                tokio::time::sleep(self.0.settings.plan.pause).await;
            }
            match self.deliver(notification, &mut post).await {
                // Whatever keeps this one away keeps the others away, too.
                Ok(Some(trouble)) if is_of_the_lane(trouble.code) => {
                    tokio::time::sleep(self.0.settings.plan.pause * 5).await;
                    break;
                }
                Ok(_) => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        post.close().await;
        result
    }

    async fn deliver(&self, notification: Notification, post: &mut Post) -> Result<Option<Trouble>, StoreError> {
        let (plan, now) = (self.0.settings.plan.clone(), self.0.parts.clock.now());
        let begun = self.0.parts.store.write(move |tx| ledger::begin(tx, &notification, &plan, now)).await?;
        let Some(parcel) = begun else { return Ok(None) };
        let result = self.send(&parcel, post).await;
        match (&result, parcel.first()) {
            (Ok(NotificationState::Skipped), _) | (_, None) => {}
            (result, Some(first)) => self.0.tries.note(first.destination.channel(), result.is_ok()),
        }
        let now = self.0.parts.clock.now();
        if let (Err(trouble), Some(first)) = (&result, parcel.first()) {
            let (channel, code) = (first.destination.channel().as_str(), trouble.code);
            tracing::warn!(build.id = %first.build_id, channel, ?code, "a notification was not taken: {}", trouble.error(now).message);
        }
        loop {
            let (parcel, result, plan) = (parcel.clone(), result.clone(), self.0.settings.plan.clone());
            // What has happened outside must be recorded, also when the disk is full for a while.
            match self.0.parts.store.write(move |tx| ledger::end(tx, &parcel, &result, &plan, now)).await {
                Ok(()) => break,
                Err(StoreError::StorageFull | StoreError::Busy) => tokio::time::sleep(STORE_AGAIN).await,
                Err(error) => return Err(error),
            }
        }
        Ok(result.err())
    }

    async fn send(&self, parcel: &Parcel, post: &mut Post) -> Result<NotificationState, Trouble> {
        let Some(first) = parcel.first() else { return Ok(NotificationState::Skipped) };
        let broken = |error: StoreError| Trouble::for_now(NotificationErrorCode::Interrupted, format!("It could not be written: {error}"));
        let organization = self.0.parts.store.read(|rows| rows.get(first.organization_id, first.organization_id)).map_err(broken)?;
        let Some(organization) = organization else { return Ok(NotificationState::Skipped) };
        let builds: Vec<(Notification, Build)> = self
            .0
            .parts
            .store
            .read(|rows| {
                let mut found = Vec::new();
                for one in &parcel.notifications {
                    found.extend(rows.get::<Build>(one.organization_id, one.build_id)?.map(|build| (one.clone(), build)));
                }
                Ok(found)
            })
            .map_err(broken)?;
        let (report, id) = match builds.as_slice() {
            [] => return Ok(NotificationState::Skipped),
            [(notification, build)] => {
                let lines = report::last_lines(&self.0.parts.logs, build).await.unwrap_or_else(|error| {
                    // What happened is worth more than how the log ended.
                    tracing::warn!(%error, build.id = %build.id, "a notification goes without the end of the log");
                    Vec::new()
                });
                let links = &self.0.links;
                let report = self.0.parts.store.read(|rows| report::of_build(rows, links, notification, build, lines)).map_err(broken)?;
                (report, notification.id.to_string())
            }
            several => (report::digest(&self.0.links, several), digest_id(several)),
        };
        self.dispatch(&organization, &first.destination, &report, &id, post).await
    }

    /// Hands a report over to a destination, as the organization's settings are now.
    pub(super) async fn dispatch(
        &self,
        organization: &Organization,
        destination: &Destination,
        report: &Report,
        id: &str,
        post: &mut Post,
    ) -> Result<NotificationState, Trouble> {
        let settings = &organization.integration_settings;
        let (name, address) = match destination {
            Destination::Email { to } => return self.mail(organization, to, report, id, post).await,
            Destination::Slack => ("slackWebhookUrl", &settings.slack_webhook_url),
            Destination::Discord => ("discordWebhookUrl", &settings.discord_webhook_url),
            Destination::Teams => ("teamsWebhookUrl", &settings.teams_webhook_url),
        };
        let channel = destination.channel();
        let (Some(sealed), Some(body)) = (address, chat::body(channel, report)) else { return Ok(NotificationState::Skipped) };
        let address = self.open(organization.id, name, sealed)?;
        chat::post(&self.0.parts.outbound, channel, &address, &body, &self.0.settings.plan).await?;
        Ok(NotificationState::Sent)
    }

    async fn mail(
        &self,
        organization: &Organization,
        to: &str,
        report: &Report,
        id: &str,
        post: &mut Post,
    ) -> Result<NotificationState, Trouble> {
        let Some(server) = self.mail_server(organization)? else { return Ok(NotificationState::Skipped) };
        let host = self.0.links.host(&server.from);
        let letter = mail::letter(report, &server.from, to, id, &host)?;
        let mut session = match post.open.take() {
            Some((other, session)) if other.is_same(&server) => session,
            other => {
                if let Some((_, session)) = other {
                    session.close().await;
                }
                Session::open(&self.0.parts.outbound, &server, &host, &self.0.settings.plan).await?
            }
        };
        // After a refusal the connection is gone; the next message opens another.
        session.send(&letter).await?;
        post.open = Some((server, session));
        Ok(NotificationState::Sent)
    }

    /// The organization's mail server, or else the host's.
    fn mail_server(&self, organization: &Organization) -> Result<Option<MailServer>, Trouble> {
        let Some(smtp) = &organization.integration_settings.smtp else { return Ok(self.0.settings.mail.clone()) };
        let password = smtp.password.as_ref().map(|sealed| self.open(organization.id, "smtp/password", sealed)).transpose()?;
        Ok(Some(MailServer {
            host: smtp.host.clone(),
            port: smtp.port,
            security: smtp.security,
            username: smtp.username.clone(),
            password,
            from: smtp.from.clone(),
        }))
    }

    fn open(&self, organization: Id<Organization>, name: &str, sealed: &Sealed) -> Result<Secret, Trouble> {
        let opened = self.0.parts.vault.open_sealed(&integration_setting(organization, name), sealed);
        opened.map_err(|error| Trouble::for_ever(NotificationErrorCode::Invalid, format!("{name}: {error}")))
    }

    /// Sends a message to each of an organization's ways out, the mail to `to`, and says what came of each. Nothing is tried
    /// twice or recorded.
    pub async fn try_out(&self, organization: &Organization, asked_by: &str, to: &str) -> Vec<Trial> {
        let _permit = self.0.trials.acquire().await;
        let now = self.0.parts.clock.now();
        let report = report::trial(&self.0.links, &organization.name, asked_by, now);
        let destinations = [Destination::Email { to: to.to_owned() }, Destination::Slack, Destination::Discord, Destination::Teams];
        let tries = destinations.into_iter().map(|destination| {
            let report = &report;
            async move {
                let mut post = Post::default();
                let id: Id<Notification> = self.0.parts.clock.new_id();
                let result = self.dispatch(organization, &destination, report, id.as_str(), &mut post).await;
                if let Some((_, session)) = post.open {
                    session.close().await;
                }
                match result {
                    Ok(state) => Trial { destination, state, error: None },
                    Err(trouble) => {
                        let error = Some(trouble.error(self.0.parts.clock.now()));
                        Trial { destination, state: NotificationState::Failed, error }
                    }
                }
            }
        });
        futures_util::future::join_all(tries).await
    }
}

/// Whether it is not about one message, but about the way.
fn is_of_the_lane(code: NotificationErrorCode) -> bool {
    use NotificationErrorCode as Code;
    matches!(code, Code::AddressDenied | Code::ConnectFailed | Code::TlsFailed | Code::AuthFailed | Code::Timeout | Code::ProtocolError)
}

/// The same for the same messages, and another one once there are more.
fn digest_id(builds: &[(Notification, Build)]) -> String {
    let mut hash = Sha256::new();
    builds.iter().for_each(|(notification, _)| hash.update(notification.id.as_bytes()));
    let digest: String = hash.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("digest-{digest}")
}
