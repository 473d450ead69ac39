//! EVERY table and index, one line each. Index names are part of the schema: a rename is a migration.

use super::key::Key;
use super::read::{Read, Rows};
use super::record::{Index, Record, SealedValues};
use super::{Change, Snapshot, StoreError, announce, build_list, census, deploy_ledger};
use crate::model::audit::Actor;
use crate::model::build_setting::Trigger;
use crate::model::delivery::{DeliveryBody, TrackedHead};
use crate::model::deploy::DeployAttempt;
use crate::model::idempotency::RememberedAnswer;
use crate::model::notification::NotificationState;
use crate::model::places;
use crate::model::queue::{ProjectTurn, QueuePause};
use crate::model::secret::Sealed;
use crate::model::user::Session;
use crate::model::webhook::delivery::{DeliveryStatus, WebhookDelivery};
use crate::model::webhook::message::WebhookMessage;
use crate::model::{
    ApiToken, AuditEntry, Build, BuildSetting, Delivery, Event, Id, Notice, Notification, Organization, Project, ScheduleSlot, Status,
    TriggeredBy, Usage, User, Webhook,
};

/// Where the schema's number is kept.
pub(super) const META: &str = "meta";

macro_rules! record {
    (
        $record:ty, $table:literal, $kind:expr, $organization:ident, [$($index:ident),*]
        $(, sealed in $sealed:path)? $(, accompanied by $accompany:path)?
    ) => {
        impl Record for $record {
            const TABLE: &'static str = $table;
            const INDEXES: &'static [Index<Self>] = &[$($index),*];
            const KIND: Option<&'static str> = $kind;
            $(const SEALED: Option<SealedValues<Self>> = Some($sealed);)?
            fn organization(&self) -> Id<Organization> {
                self.$organization
            }
            fn id(&self) -> Id<Self> {
                self.id
            }
            $(
                fn accompany(change: &Change, old: Option<&Self>, new: Option<&Self>) -> Result<(), StoreError> {
                    $accompany(change, old, new)
                }
            )?
        }
    };
}

macro_rules! tables {
    ($($record:ty),* $(,)?) => {
        /// The names of all tables, which are made when the store is.
        pub(super) fn names() -> Vec<&'static str> {
            let mut names = vec![META];
            $(
                names.push(<$record>::TABLE);
                names.extend(<$record>::INDEXES.iter().map(|index| index.name));
            )*
            names
        }

        /// Compares every index with its records.
        pub(super) fn check(snapshot: &Snapshot) -> Result<Vec<String>, StoreError> {
            let mut complaints = Vec::new();
            $(check_record::<$record>(snapshot, &mut complaints)?;)*
            if census::read(snapshot)? != census::recount(snapshot)? {
                complaints.push("the census of builds is wrong".to_owned());
            }
            Ok(complaints)
        }

        /// Seals every sealed value anew; how many there were.
        pub(super) fn reseal<E: From<StoreError>>(
            change: &Change,
            seal: &mut impl FnMut(&str, &Sealed) -> Result<Sealed, E>,
        ) -> Result<u64, E> {
            let mut count = 0;
            $(count += super::sealing::reseal_records::<$record, E>(change, seal)?;)*
            Ok(count)
        }
    };
}

tables!(
    Organization,
    User,
    Session,
    ApiToken,
    RememberedAnswer,
    Project,
    BuildSetting,
    Build,
    Event,
    ScheduleSlot,
    QueuePause,
    ProjectTurn,
    Delivery,
    DeliveryBody,
    TrackedHead,
    AuditEntry,
    Usage,
    Notice,
    Webhook,
    WebhookMessage,
    WebhookDelivery,
    DeployAttempt,
    Notification
);

/// What the audit log calls a person.
pub(super) const KIND_OF_USER: &str = "user";

record!(Organization, "organizations", Some("organization"), id, [ORGANIZATIONS_ALL], sealed in places::of_organization);
record!(User, "users", Some(KIND_OF_USER), organization_id, [USERS_BY_EMAIL, USERS_BY_INVITATION]);
record!(Session, "sessions", Some("session"), organization_id, [SESSIONS_BY_HASH, SESSIONS_BY_USER]);
record!(ApiToken, "api_tokens", Some("token"), organization_id, [API_TOKENS_BY_HASH, API_TOKENS_BY_USER]);
record!(
    RememberedAnswer,
    "remembered_answers",
    None,
    organization_id,
    [REMEMBERED_ANSWERS_BY_KEY, REMEMBERED_ANSWERS_ALL],
    sealed in places::of_remembered_answer
);
record!(Project, "projects", Some("project"), organization_id, [PROJECTS_BY_KIND, PROJECTS_BY_SOURCE], accompanied by announce::project);
record!(
    BuildSetting,
    "build_settings",
    Some("buildSetting"),
    organization_id,
    [BUILD_SETTINGS_BY_PROJECT, BUILD_SETTINGS_DUE],
    sealed in places::of_build_setting
);
record!(
    Build,
    "builds",
    Some("build"),
    organization_id,
    [
        BUILDS_BY_SCOPE,
        BUILDS_BY_SCOPE_AND_WORDS,
        BUILDS_UNFINISHED,
        BUILDS_PENDING,
        BUILDS_PENDING_BY_PROJECT,
        BUILDS_RUNNING,
        BUILDS_TO_DEPLOY,
        BUILDS_WITH_ARTIFACT,
        BUILDS_BY_PUSH,
        BUILDS_WITH_ARTIFACT_BY_SETTING
    ],
    accompanied by counts_and_announcements
);

record!(QueuePause, "queue_pauses", Some("queue"), organization_id, []);
record!(ProjectTurn, "project_turns", None, organization_id, []);
record!(ScheduleSlot, "schedule_slots", None, organization_id, [SCHEDULE_SLOTS_BY_SETTING, SCHEDULE_SLOTS_ALL]);

record!(Event, "events", None, organization_id, [EVENTS_BY_BUILD]);
record!(Delivery, "deliveries", Some("delivery"), organization_id, [DELIVERIES_BY_NAME, DELIVERIES_WAITING]);
record!(DeliveryBody, "delivery_bodies", None, organization_id, []);
record!(TrackedHead, "tracked_heads", None, organization_id, []);
record!(
    Notification,
    "notifications",
    None,
    organization_id,
    [NOTIFICATIONS_DUE, NOTIFICATIONS_BY_BUILD, NOTIFICATIONS_OF_FAILURES, NOTIFICATIONS_HELD, NOTIFICATIONS_OVER]
);
record!(Usage, "usages", None, organization_id, []);
record!(DeployAttempt, "deploy_attempts", None, organization_id, [DEPLOY_ATTEMPTS_BY_BUILD]);
record!(Notice, "notices", None, organization_id, [NOTICES_ALL]);
record!(Webhook, "webhooks", Some("webhook"), organization_id, [], sealed in places::of_webhook);
record!(WebhookMessage, "webhook_messages", None, organization_id, []);
record!(
    WebhookDelivery,
    "webhook_deliveries",
    None,
    organization_id,
    [WEBHOOK_QUEUE, WEBHOOK_DELIVERIES_ASKED_FOR, WEBHOOK_DELIVERIES_BY_WEBHOOK, WEBHOOK_DELIVERIES_BY_STATUS]
);

record!(AuditEntry, "audit_entries", None, organization_id, [AUDIT_CHAIN, AUDIT_BY_ACTOR, AUDIT_BY_OPERATION, AUDIT_BY_RESOURCE]);

/// Every organization of the host.
pub const ORGANIZATIONS_ALL: Index<Organization> = Index::host("organizations_all", |_| Some(Key::all()));
/// E-mail addresses are unique on the host, because login names only them.
pub const USERS_BY_EMAIL: Index<User> = Index::host("users_by_email", |user| Some(Key::of_text(&user.email)));
/// A bearer comes before its organization is known.
pub const SESSIONS_BY_HASH: Index<Session> = Index::host("sessions_by_hash", |session| Some(Key::of_text(&session.token_hash)));
/// An invitation comes before its organization is known.
pub const USERS_BY_INVITATION: Index<User> =
    Index::host("users_by_invitation", |user| user.invitation.as_ref().map(|invitation| Key::of_text(&invitation.token_hash)));
/// To end all sessions of a person.
pub const SESSIONS_BY_USER: Index<Session> = Index::new("sessions_by_user", |session| Some(Key::of_id(session.user_id)));
/// A bearer comes before its organization is known.
pub const API_TOKENS_BY_HASH: Index<ApiToken> = Index::host("api_tokens_by_hash", |token| Some(Key::of_text(&token.token_hash)));
/// One's own tokens.
pub const API_TOKENS_BY_USER: Index<ApiToken> = Index::new("api_tokens_by_user", |token| Some(Key::of_id(token.user_id)));
/// The same request again.
pub const REMEMBERED_ANSWERS_BY_KEY: Index<RememberedAnswer> =
    Index::new("remembered_answers_by_key", |answer| Some(Key::of_text(&answer.key_hash)));
/// The oldest are forgotten first.
pub const REMEMBERED_ANSWERS_ALL: Index<RememberedAnswer> = Index::host("remembered_answers_all", |_| Some(Key::all()));
/// The `sourceControl` filter.
pub const PROJECTS_BY_KIND: Index<Project> = Index::new("projects_by_kind", |project| Some(Key::of_text(project.source.kind())));
/// The same codebase and project file is linked once only.
pub const PROJECTS_BY_SOURCE: Index<Project> = Index::new("projects_by_source", |project| {
    Some(project_source_key(project.source.kind(), project.source.repo_link(), &project.uproject_path))
});
/// A project's settings.
pub const BUILD_SETTINGS_BY_PROJECT: Index<BuildSetting> =
    Index::new("build_settings_by_project", |setting| Some(Key::of_id(setting.project_id)));
/// Schedules of the whole host that will fire, the first due first.
pub const BUILD_SETTINGS_DUE: Index<BuildSetting> = Index::host("build_settings_due", |setting| match &setting.trigger {
    Trigger::Scheduled(schedule) if schedule.enabled => schedule.next_run_at.map(Key::of_time),
    Trigger::Scheduled(_) | Trigger::Manual | Trigger::Push => None,
});
/// What became of a setting's due times.
pub const SCHEDULE_SLOTS_BY_SETTING: Index<ScheduleSlot> =
    Index::new("schedule_slots_by_setting", |slot| Some(Key::of_id(slot.build_setting_id)));
/// The oldest are forgotten first.
pub const SCHEDULE_SLOTS_ALL: Index<ScheduleSlot> = Index::host("schedule_slots_all", |_| Some(Key::all()));
/// The filters `projectId`, `buildSettingId` and `branch`, and all of them together.
pub const BUILDS_BY_SCOPE: Index<Build> = Index::many("builds_by_scope", build_list::scopes);
/// The same, or none of them, with the filters `platform`, `buildType` and `status`.
pub const BUILDS_BY_SCOPE_AND_WORDS: Index<Build> = Index::many("builds_by_scope_and_words", build_list::scopes_and_words);
/// How many builds of an organization wait, and how many run.
pub const BUILDS_UNFINISHED: Index<Build> =
    Index::new("builds_unfinished", |build| build.status.is_unfinished().then(|| Key::of_text(build.status.as_str())));
/// What was announced of a build.
pub const EVENTS_BY_BUILD: Index<Event> = Index::new("events_by_build", |event| event.build_id.map(Key::of_id));
/// The host's one chain, in its order.
pub const AUDIT_CHAIN: Index<AuditEntry> = Index::host("audit_chain", |entry| Some(Key::of_text(&format!("{:020}", entry.sequence))));
/// The `actor` filter: a person with their tokens, a token, `host` or `stranger`.
pub const AUDIT_BY_ACTOR: Index<AuditEntry> = Index::many("audit_by_actor", |entry| match &entry.actor {
    Actor::User { user_id } => vec![Key::of_text(user_id.as_str())],
    Actor::Token { user_id, token_id } => vec![Key::of_text(user_id.as_str()), Key::of_text(token_id.as_str())],
    Actor::Host => vec![Key::of_text("host")],
    Actor::Stranger => vec![Key::of_text("stranger")],
});
/// The `operationId` filter.
pub const AUDIT_BY_OPERATION: Index<AuditEntry> = Index::new("audit_by_operation", |entry| Some(Key::of_text(&entry.operation_id)));
/// The `resourceId` filter.
pub const AUDIT_BY_RESOURCE: Index<AuditEntry> =
    Index::many("audit_by_resource", |entry| entry.resources.iter().map(|resource| Key::of_text(&resource.id)).collect());
/// The queue: pending builds of the whole host, oldest first.
pub const BUILDS_PENDING: Index<Build> = Index::host("builds_pending", |build| (build.status == Status::Pending).then(Key::all));
/// The same, each project's behind one another: projects take turns.
pub const BUILDS_PENDING_BY_PROJECT: Index<Build> =
    Index::host("builds_pending_by_project", |build| (build.status == Status::Pending).then(|| Key::of_id(build.project_id)));
/// What occupies executor slots, and what a restart has to deal with: running builds of the whole host.
pub const BUILDS_RUNNING: Index<Build> = Index::host("builds_running", |build| (build.status == Status::Running).then(Key::all));
/// A signed link names the build alone, and so does a file on disk: builds whose artifact is there.
pub const BUILDS_WITH_ARTIFACT: Index<Build> =
    Index::host("builds_with_artifact", |build| build.kept_artifact().map(|_| Key::of_id(build.id)));
/// The newest artifacts of a setting, which retention keeps whatever their age.
pub const BUILDS_WITH_ARTIFACT_BY_SETTING: Index<Build> =
    Index::new("builds_with_artifact_by_setting", |build| build.kept_artifact().map(|_| Key::of_id(build.build_setting_id)));
/// Builds whose artifact still has to be handed on, or was being handed on when the service ended.
pub const BUILDS_TO_DEPLOY: Index<Build> = Index::host("builds_to_deploy", |build| {
    use crate::model::deploy::DeployStatus::{InProgress, Pending};
    (build.status == Status::Complete && matches!(build.auto_deploy_status, Some(Pending | InProgress))).then(Key::all)
});

/// The ledger of a build's deploys.
pub const DEPLOY_ATTEMPTS_BY_BUILD: Index<DeployAttempt> =
    Index::new("deploy_attempts_by_build", |attempt| Some(Key::of_id(attempt.build_id)));
/// A push builds a commit once for each setting.
pub const BUILDS_BY_PUSH: Index<Build> = Index::new("builds_by_push", |build| match &build.triggered_by {
    TriggeredBy::Push(commit) => Some(Key::of_id(build.build_setting_id).and_text(commit)),
    _ => None,
});
/// The git host's own name of a delivery: the same one again is known.
pub const DELIVERIES_BY_NAME: Index<Delivery> = Index::new("deliveries_by_name", |delivery| Some(Key::of_text(&delivery.delivery_id)));
/// Deliveries of the whole host that nobody dealt with yet, oldest first.
pub const DELIVERIES_WAITING: Index<Delivery> =
    Index::host("deliveries_waiting", |delivery| delivery.processed_at.is_none().then(Key::all));

/// What administrators still have to be told, oldest first.
pub const NOTICES_ALL: Index<Notice> = Index::host("notices_all", |_| Some(Key::all()));
/// What waits to be sent, of the whole host: each endpoint's messages in the order of their events.
pub const WEBHOOK_QUEUE: Index<WebhookDelivery> = Index::host("webhook_queue", |delivery| {
    (delivery.status == DeliveryStatus::Pending && !delivery.is_asked_for)
        .then(|| Key::of_id(delivery.webhook_id).and_number(delivery.sequence))
});
/// What somebody asked for and was not sent yet.
pub const WEBHOOK_DELIVERIES_ASKED_FOR: Index<WebhookDelivery> = Index::host("webhook_deliveries_asked_for", |delivery| {
    (delivery.status == DeliveryStatus::Pending && delivery.is_asked_for).then(|| Key::of_id(delivery.webhook_id))
});
/// An endpoint's ledger.
pub const WEBHOOK_DELIVERIES_BY_WEBHOOK: Index<WebhookDelivery> =
    Index::new("webhook_deliveries_by_webhook", |delivery| Some(Key::of_id(delivery.webhook_id)));
/// The `status` filter of the ledger.
pub const WEBHOOK_DELIVERIES_BY_STATUS: Index<WebhookDelivery> =
    Index::new("webhook_deliveries_by_status", |delivery| Some(Key::of_id(delivery.webhook_id).and_text(delivery.status.as_str())));
/// Messages of the whole host that are still to be sent, the first due first.
pub const NOTIFICATIONS_DUE: Index<Notification> =
    Index::host("notifications_due", |one| (one.state == NotificationState::Pending).then(|| Key::of_time(one.due_at)));
/// Whom a build has told.
pub const NOTIFICATIONS_BY_BUILD: Index<Notification> = Index::new("notifications_by_build", |one| Some(Key::of_id(one.build_id)));
/// How many failures a destination has heard of lately.
pub const NOTIFICATIONS_OF_FAILURES: Index<Notification> =
    Index::new("notifications_of_failures", |one| one.is_failure.then(|| Key::of_text(&one.destination.key())));
/// What is to be told together.
pub const NOTIFICATIONS_HELD: Index<Notification> = Index::new("notifications_held", |one| {
    (one.is_held && one.state == NotificationState::Pending).then(|| Key::of_text(&one.destination.key()))
});
/// The first that ended is forgotten first.
pub const NOTIFICATIONS_OVER: Index<Notification> = Index::host("notifications_over", |one| one.finished_at.map(Key::of_time));

/// The key of [`PROJECTS_BY_SOURCE`]. Hosts do not tell repositories apart by case.
pub fn project_source_key(kind: &str, repo_link: &str, uproject_path: &str) -> Key {
    project_source_prefix(kind, repo_link).and_text(uproject_path)
}

/// The beginning of that key: every project of a codebase.
pub fn project_source_prefix(kind: &str, repo_link: &str) -> Key {
    Key::of_text(kind).and_text(&repo_link.to_lowercase())
}

fn counts_and_announcements(change: &Change, old: Option<&Build>, new: Option<&Build>) -> Result<(), StoreError> {
    census::build(change, old, new)?;
    if let Some(build) = new.or(old).filter(|_| Usage::differs(old, new)) {
        let (organization, project, setting) = (build.organization_id, build.project_id, build.build_setting_id);
        let found = change.get::<Usage>(organization, setting.cast())?;
        let mut usage = found.unwrap_or_else(|| Usage::empty(organization, project, setting));
        usage.replace(old, new);
        put_usage(change, &usage)?;
    }
    deploy_ledger::build(change, old, new)?;
    announce::build(change, old, new)
}

/// Stores what a setting takes, or that it takes nothing any more.
pub fn put_usage(change: &Change, usage: &Usage) -> Result<(), StoreError> {
    match usage.is_empty() {
        true => change.remove::<Usage>(usage.organization_id, usage.id).map(|_| ()),
        false => change.put(usage),
    }
}

fn check_record<R: Record>(snapshot: &Snapshot, complaints: &mut Vec<String>) -> Result<(), StoreError> {
    let mut expected = vec![std::collections::BTreeSet::new(); R::INDEXES.len()];
    snapshot.every::<R>(|record| {
        for (rows, index) in expected.iter_mut().zip(R::INDEXES) {
            rows.extend(index.rows(&record));
        }
        Ok(true)
    })?;
    for (expected, index) in expected.into_iter().zip(R::INDEXES) {
        let mut found = std::collections::BTreeSet::new();
        snapshot.walk(index.name, &super::read::everything(), super::Order::OldestFirst, &mut |key, _| {
            found.insert(key.to_vec());
            Ok(true)
        })?;
        if expected != found {
            let (missing, stray) = (expected.difference(&found).count(), found.difference(&expected).count());
            complaints.push(format!("{}: {missing} rows missing, {stray} stray", index.name));
        }
    }
    Ok(())
}
