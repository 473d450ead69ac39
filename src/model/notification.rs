//! What people are told of a build's end (decisions 15): one record for each of those who are told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Build, Id, Organization, Project, Timestamp};

/// The most characters of an answer that an error repeats.
pub const LONGEST_MESSAGE: usize = 300;

/// One message about one build to one destination, from the transaction that finished the build on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// Made from the build's id and the destination: the same build never tells somebody twice.
    pub id: Id<Notification>,
    /// Whose.
    pub organization_id: Id<Organization>,
    /// What is told of.
    pub build_id: Id<Build>,
    /// Its project, which may be gone.
    pub project_id: Id<Project>,
    /// What the project was called when the build ended.
    pub project_name: String,
    /// Who is told.
    pub destination: Destination,
    /// The build failed: a burst of those is told in one message.
    pub is_failure: bool,
    /// It waits for others to be told together with.
    pub is_held: bool,
    /// Where it stands.
    pub state: NotificationState,
    /// When the build ended.
    pub created_at: Timestamp,
    /// Not to be tried before.
    pub due_at: Timestamp,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was sent or given up.
    pub finished_at: Option<Timestamp>,
    /// Why the last try did not go well.
    pub error: Option<NotificationError>,
}

/// Who is told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "channel")]
pub enum Destination {
    /// Somebody, by mail.
    Email {
        /// Their address.
        to: String,
    },
    /// A chat, at the address that the organization has for it.
    Slack,
    /// The same of another chat.
    Discord,
    /// The same of another chat.
    Teams,
}

impl Destination {
    /// Where it goes out.
    pub fn channel(&self) -> Channel {
        match self {
            Destination::Email { .. } => Channel::Email,
            Destination::Slack => Channel::Slack,
            Destination::Discord => Channel::Discord,
            Destination::Teams => Channel::Teams,
        }
    }

    /// The address of a mail, `None` for a chat.
    pub fn address(&self) -> Option<&str> {
        match self {
            Destination::Email { to } => Some(to),
            Destination::Slack | Destination::Discord | Destination::Teams => None,
        }
    }

    /// Tells destinations of an organization apart.
    pub fn key(&self) -> String {
        format!("{}:{}", self.channel().as_str(), self.address().unwrap_or_default())
    }
}

/// How people are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Channel {
    /// A mail.
    Email,
    /// A message in Slack.
    Slack,
    /// A message in Discord.
    Discord,
    /// A message in Microsoft Teams.
    Teams,
}

impl Channel {
    /// All of them.
    pub const ALL: [Channel; 4] = [Channel::Email, Channel::Slack, Channel::Discord, Channel::Teams];

    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Channel::Email => "email",
            Channel::Slack => "slack",
            Channel::Discord => "discord",
            Channel::Teams => "teams",
        }
    }
}

/// Where one message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotificationState {
    /// Still to be sent, or to be tried again.
    Pending,
    /// The other side took it.
    Sent,
    /// Given up.
    Failed,
    /// There was nowhere to send it to: no mail server, or the chat's address was taken away.
    Skipped,
}

/// `notificationStatus` of a build: what came of all its messages. None of a build whose setting tells nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotificationStatus {
    /// Some are still to be sent.
    Pending,
    /// Everybody who could be told was told.
    Sent,
    /// Some were told, some could not be.
    PartlySent,
    /// Nobody could be told.
    Failed,
    /// There was nobody to tell: no mail server and no chat is configured.
    Skipped,
}

impl NotificationStatus {
    /// What the states of all messages of a build come to.
    pub fn of(states: impl IntoIterator<Item = NotificationState>) -> NotificationStatus {
        let (mut pending, mut sent, mut failed) = (false, false, false);
        for state in states {
            match state {
                NotificationState::Pending => pending = true,
                NotificationState::Sent => sent = true,
                NotificationState::Failed => failed = true,
                NotificationState::Skipped => {}
            }
        }
        match (pending, sent, failed) {
            (true, ..) => NotificationStatus::Pending,
            (_, true, true) => NotificationStatus::PartlySent,
            (_, true, false) => NotificationStatus::Sent,
            (_, false, true) => NotificationStatus::Failed,
            (_, false, false) => NotificationStatus::Skipped,
        }
    }
}

/// Why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationError {
    /// For programs.
    pub code: NotificationErrorCode,
    /// What the other side answered with: of HTTP or of SMTP.
    pub status: Option<u16>,
    /// For people: a sentence that says what to do. Holds no secret and no part of a chat's address but its host.
    pub message: String,
    /// When.
    pub attempted_at: Timestamp,
}

/// The kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotificationErrorCode {
    /// There is no mail server, or no such chat.
    NotConfigured,
    /// The address is none that is ever connected to.
    AddressDenied,
    /// The name is unknown, or nobody took the connection, or it broke.
    ConnectFailed,
    /// No encryption was agreed on, or the certificate is not trusted.
    TlsFailed,
    /// The mail server did not take the user name and password.
    AuthFailed,
    /// The other side took too long.
    Timeout,
    /// It answered something that is neither yes nor no in its protocol.
    ProtocolError,
    /// It said no, and will say so again.
    Rejected,
    /// It said not now.
    Deferred,
    /// A stored secret or an address cannot be used.
    Invalid,
    /// The service ended again and again while it was being sent.
    Interrupted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_messages_of_a_build_come_to() {
        use NotificationState::{Failed, Pending, Sent, Skipped};
        let table: &[(&[NotificationState], NotificationStatus)] = &[
            (&[], NotificationStatus::Skipped),
            (&[Skipped], NotificationStatus::Skipped),
            (&[Sent, Skipped], NotificationStatus::Sent),
            (&[Sent, Failed, Skipped], NotificationStatus::PartlySent),
            (&[Failed, Skipped], NotificationStatus::Failed),
            (&[Sent, Failed, Pending], NotificationStatus::Pending),
        ];
        for (states, status) in table {
            assert_eq!(NotificationStatus::of(states.iter().copied()), *status, "{states:?}");
        }
    }
}
