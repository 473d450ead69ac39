//! Outbound webhooks: who is told of what (decisions 13). What is sent is in `message`, what became of it in `delivery`.

pub mod delivery;
pub mod message;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::deploy::DeployStatus;
use super::event::What;
use super::secret::Sealed;
use super::{Id, Organization, Project, Status, Timestamp};

/// Endpoints of one organization: each costs every event a row.
pub const MOST_WEBHOOKS: usize = 50;

/// An endpoint as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Its id.
    pub id: Id<Webhook>,
    /// Whose it is.
    pub organization_id: Id<Organization>,
    /// Where to send.
    pub url: String,
    /// Of what it is told.
    pub events: Vec<WebhookKind>,
    /// Only of these projects; `None`: of all.
    pub project_ids: Option<Vec<Id<Project>>>,
    /// What people say of it.
    pub description: String,
    /// Off: nothing is queued for it, and what is queued waits.
    pub enabled: bool,
    /// Why the service itself switched it off; gone as soon as somebody switches it on again.
    pub disabled: Option<Disabled>,
    /// What its messages are signed with, `whsec_` and all.
    pub secret: Sealed,
    /// Secrets before that one, which sign as well for a while.
    pub former_secrets: Vec<FormerSecret>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When a person last changed it.
    pub updated_at: Timestamp,
    /// Counts those changes; the ETag.
    pub version: u64,
}

impl Webhook {
    /// Whether something of this kind, about this project, is queued for it.
    pub fn wants(&self, kind: WebhookKind, project: Id<Project>) -> bool {
        self.enabled && self.events.contains(&kind) && self.project_ids.as_ref().is_none_or(|projects| projects.contains(&project))
    }

    /// Everything that signs a message sent at `now`, the newest first.
    pub fn secrets(&self, now: Timestamp) -> impl Iterator<Item = &Sealed> {
        let former = self.former_secrets.iter().filter(move |former| former.until > now).map(|former| &former.secret);
        std::iter::once(&self.secret).chain(former)
    }
}

/// A secret that was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FormerSecret {
    /// It.
    pub secret: Sealed,
    /// How long messages are signed with it, too.
    pub until: Timestamp,
}

/// The service switched an endpoint off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WebhookDisabled")]
pub struct Disabled {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: DisabledReason,
    /// The same in a sentence that says what to do.
    pub message: String,
}

/// Why the service switches an endpoint off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "WebhookDisabledReason")]
pub enum DisabledReason {
    /// It answered 410: it wants nothing more.
    Gone,
    /// A message was tried as often as the plan has it.
    Exhausted,
}

macro_rules! kinds {
    ($($name:ident $text:literal,)*) => {
        /// What somebody can be told of.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[expect(missing_docs, reason = "the names are the decisions' own words")]
        pub enum WebhookKind { $(#[serde(rename = $text)] $name,)* }

        impl WebhookKind {
            /// All of them, in the decisions' order.
            pub const ALL: &'static [WebhookKind] = &[$(WebhookKind::$name,)*];

            /// The `type` of its message.
            pub fn as_str(self) -> &'static str {
                match self { $(WebhookKind::$name => $text,)* }
            }
        }
    };
}

kinds! {
    BuildCreated "build.created",
    BuildStarted "build.started",
    BuildCompleted "build.completed",
    BuildFailed "build.failed",
    BuildSuperseded "build.superseded",
    DeploySucceeded "deploy.succeeded",
    DeployFailed "deploy.failed",
    ArtifactDeleted "artifact.deleted",
    ProjectCreated "project.created",
    ProjectDeleted "project.deleted",
    Ping "ping",
}

impl WebhookKind {
    /// The kind of an entry of the event log; `None`: nobody but followers is told of it.
    pub fn of(what: &What) -> Option<WebhookKind> {
        match what {
            What::Status { status, .. } => Some(match status {
                Status::Pending => WebhookKind::BuildCreated,
                Status::Running => WebhookKind::BuildStarted,
                Status::Complete => WebhookKind::BuildCompleted,
                Status::Failed => WebhookKind::BuildFailed,
                Status::Superseded => WebhookKind::BuildSuperseded,
            }),
            What::Deploy { status: DeployStatus::Succeeded, .. } => Some(WebhookKind::DeploySucceeded),
            What::Deploy { status: DeployStatus::Failed, .. } => Some(WebhookKind::DeployFailed),
            What::Deploy { status: DeployStatus::Pending | DeployStatus::InProgress, .. } | What::Step(_) => None,
            What::ArtifactDeleted => Some(WebhookKind::ArtifactDeleted),
            What::ProjectCreated => Some(WebhookKind::ProjectCreated),
            What::ProjectDeleted => Some(WebhookKind::ProjectDeleted),
        }
    }
}

impl fmt::Display for WebhookKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for WebhookKind {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        WebhookKind::ALL.iter().copied().find(|kind| kind.as_str() == text).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_standard_and_read_back() {
        for kind in WebhookKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(*kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
            assert!(kind.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte)), "{kind}");
        }
    }

    #[test]
    fn a_former_secret_signs_until_its_time_is_over() {
        let secret = |name: &str| Sealed(name.to_owned());
        let webhook = Webhook {
            id: Id::from_parts(1, 1),
            organization_id: Id::from_parts(1, 2),
            url: String::new(),
            events: vec![WebhookKind::BuildFailed],
            project_ids: Some(vec![Id::from_parts(1, 3)]),
            description: String::new(),
            enabled: true,
            disabled: None,
            secret: secret("new"),
            former_secrets: vec![FormerSecret { secret: secret("old"), until: Timestamp(10) }],
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            version: 1,
        };
        let names = |now| webhook.secrets(Timestamp(now)).map(|sealed| sealed.0.clone()).collect::<Vec<_>>();
        assert_eq!((names(9), names(10)), (vec!["new".to_owned(), "old".to_owned()], vec!["new".to_owned()]));
        assert!(webhook.wants(WebhookKind::BuildFailed, Id::from_parts(1, 3)));
        assert!(!webhook.wants(WebhookKind::BuildFailed, Id::from_parts(1, 4)));
        assert!(!webhook.wants(WebhookKind::BuildStarted, Id::from_parts(1, 3)));
        assert!(!Webhook { enabled: false, ..webhook.clone() }.wants(WebhookKind::BuildFailed, Id::from_parts(1, 3)));
    }
}
