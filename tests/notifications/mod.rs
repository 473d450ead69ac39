//! People are told that a build has ended: once, whatever the other side does, and nothing in a message is more than text.

mod bursts;
pub(crate) mod chats;

mod hostile;
mod mails;
mod samples;
mod servers;
#[cfg(unix)]
mod whole;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cookhouse::builds::lifecycle::{self, Closing, LifecycleError};
use cookhouse::builds::logs::{self, Logs};
use cookhouse::clock::Clock;
use cookhouse::model::artifact::Artifact;
use cookhouse::model::build::{Diagnostic, Diagnostics, Failure, FailureCode, StepName};
use cookhouse::model::log::LogStream;
use cookhouse::model::notification::NotificationStatus;
use cookhouse::model::organization::{IntegrationSettings, Smtp, SmtpSecurity};
use cookhouse::model::permission::Role;
use cookhouse::model::places::integration_setting;
use cookhouse::model::{Build, Id, Notification, Organization, TriggeredBy, User};
use cookhouse::notifications::{self, MailServer, Notifications, Plan};
use cookhouse::outbound::{self, Outbound};
use cookhouse::seams::LogSink;
use cookhouse::store::{Change, Read, Store, StoreError};
use cookhouse::vault::{self, Vault};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::studio::{self, Kind, Records};

pub(crate) const BASE: &str = "https://builds.studio.test";

/// Fast, so that five tries fit into a test.
pub(crate) fn plan() -> Plan {
    Plan {
        retries: vec![Duration::from_millis(20); 5],
        longest_wait: Duration::from_secs(2),
        pause: Duration::from_millis(1),
        chat: Duration::from_secs(2),
        greeting: Duration::from_secs(2),
        mail: Duration::from_secs(2),
        kept: Duration::from_secs(3600),
    }
}

/// How a room is furnished.
pub(crate) struct Furniture {
    pub(crate) plan: Plan,
    pub(crate) mail: Option<MailServer>,
    pub(crate) trusted: Vec<PathBuf>,
    pub(crate) allow_loopback: bool,
}

impl Default for Furniture {
    fn default() -> Self {
        Furniture { plan: plan(), mail: None, trusted: Vec::new(), allow_loopback: true }
    }
}

/// An organization whose builds end as a test wants them to, and everything that tells people.
pub(crate) struct Room {
    _home: TempDir,
    pub(crate) store: Store,
    pub(crate) clock: Arc<Clock>,
    pub(crate) vault: Arc<Vault>,
    pub(crate) logs: Logs,
    pub(crate) records: Records,
    pub(crate) ada: User,
    pub(crate) notifications: Notifications,
    stop: CancellationToken,
    work: Option<JoinHandle<()>>,
}

impl Room {
    /// Somebody is told as soon as there is somebody to tell.
    pub(crate) async fn open(furniture: Furniture) -> Room {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(Clock::default());
        let store = studio::store(home.path());
        let key_file = home.path().join("secret.key");
        let vault = Arc::new(Vault::open(&vault::Settings { key: None, credentials_directory: None, key_file }).unwrap());
        let logs = logs::Settings { directory: home.path().join("logs"), limits: logs::Limits::default() };
        let logs = Logs::open(logs, clock.clone()).unwrap();
        let mut records = studio::records(&clock, Kind::Githost);
        records.setting.notify_on_complete = true;
        let ada = User {
            id: clock.new_id(),
            organization_id: records.organization.id,
            email: "ada@studio.test".into(),
            name: "Ada".into(),
            role: Role::Member,
            password_hash: String::new(),
            created_at: clock.now(),
            sessions_valid_from: clock.now(),
            invitation: None,
            version: 1,
        };
        let (stored, user) = (records.clone(), ada.clone());
        let put = move |tx: &Change| {
            tx.put(&stored.organization)?;
            tx.put(&stored.project)?;
            tx.put(&stored.setting)?;
            tx.put(&user)
        };
        store.write::<(), StoreError>(put).await.unwrap();
        let Furniture { plan, mail, trusted, allow_loopback } = furniture;
        let outbound = Outbound::new(&outbound::Settings { allow_loopback, ca_certificates: trusted, proxy: None }).unwrap();
        let parts = notifications::Parts { store: store.clone(), vault: vault.clone(), clock: clock.clone(), logs: logs.clone(), outbound };
        let notifications = Notifications::new(notifications::Settings { base_url: BASE.into(), mail, plan }, parts);
        let mut room =
            Room { _home: home, store, clock, vault, logs, records, ada, notifications, stop: CancellationToken::new(), work: None };
        room.begin();
        room
    }

    /// Begins to send.
    pub(crate) fn begin(&mut self) {
        self.stop = CancellationToken::new();
        let (notifications, stop) = (self.notifications.clone(), self.stop.clone());
        self.work = Some(tokio::spawn(async move { notifications.run(stop).await }));
    }

    /// Sends no more.
    pub(crate) async fn pause(&mut self) {
        self.stop.cancel();
        if let Some(work) = self.work.take() {
            work.await.unwrap();
        }
    }

    /// Changes where notifications go.
    pub(crate) async fn settle(&mut self, change: impl FnOnce(&mut IntegrationSettings)) {
        change(&mut self.records.organization.integration_settings);
        let organization = self.records.organization.clone();
        self.store.write::<(), StoreError>(move |tx| tx.put(&organization)).await.unwrap();
    }

    /// The address of a chat, as it is stored.
    pub(crate) fn sealed(&self, name: &str, value: &str) -> Option<cookhouse::model::secret::Sealed> {
        Some(self.vault.seal(&integration_setting(self.records.organization.id, name), value).unwrap())
    }

    /// A mail server of the organization's own.
    pub(crate) async fn mail_by(&mut self, host: &str, port: u16, security: SmtpSecurity, sign_in: Option<(&str, &str)>) {
        let password = sign_in.and_then(|(_, password)| self.sealed("smtp/password", password));
        let username = sign_in.map_or(String::new(), |(user, _)| user.to_owned());
        let smtp = Smtp { host: host.into(), port, security, username, password, from: "builds@studio.test".into() };
        self.settle(|settings| settings.smtp = Some(smtp)).await;
    }

    /// A build that runs.
    pub(crate) async fn running(&self, change: impl FnOnce(&mut Build)) -> Build {
        let now = self.clock.now();
        let setting = self.records.setting.clone();
        let mut build = Build::waiting(self.clock.new_id(), &setting, TriggeredBy::User(self.ada.id), now);
        change(&mut build);
        let (organization, id) = (build.organization_id, build.id);
        let changed = build.clone();
        let run = move |tx: &Change| {
            lifecycle::create(tx, build, &setting, now)?;
            // Not claimed: builds of one setting would wait for one another.
            let begun = changed.created_at;
            let running = changed.moved_to(cookhouse::model::Status::Running, begun)?;
            tx.put(&running)?;
            Ok::<_, LifecycleError>(())
        };
        self.store.write(run).await.unwrap();
        self.read(organization, id)
    }

    /// Writes lines into a build's log.
    pub(crate) async fn print(&self, build: Id<Build>, lines: &[&str], masked: &[&str]) {
        let log = self.logs.writer(build).await.unwrap();
        masked.iter().for_each(|secret| log.mask(secret));
        lines.iter().for_each(|line| log.line(LogStream::Stdout, line));
        log.flush().await.unwrap();
    }

    /// A build that failed for this reason.
    pub(crate) async fn fail(&self, build: &Build, message: &str, errors: Vec<Diagnostic>) -> Build {
        let (organization, id, now) = (build.organization_id, build.id, self.clock.now());
        let failure = Failure { code: FailureCode::BuildStepFailed, message: message.into(), step: Some(StepName::Build) };
        let count = errors.len() as u64;
        let log_lines = self.logs.reader(id).await.unwrap().line_count();
        let diagnostics = Diagnostics { errors: count, warnings: 1, items: errors };
        let closing = Closing { diagnostics, log_lines, log_bytes: 1 };
        let fail = move |tx: &Change| lifecycle::fail(tx, organization, id, failure, closing, now);
        self.store.write(fail).await.unwrap()
    }

    /// A build that failed, from beginning to end.
    pub(crate) async fn failed(&self) -> Build {
        let build = self.running(|_| {}).await;
        self.fail(&build, "Compiling the code failed (exit code 6).", Vec::new()).await
    }

    /// A build that went well.
    pub(crate) async fn complete(&self, change: impl FnOnce(&mut Build)) -> Build {
        let build = self.running(change).await;
        let (organization, id, now) = (build.organization_id, build.id, self.clock.now());
        let artifact = Artifact {
            size_bytes: 1_234_567_890,
            checksum_md5: "0".repeat(32),
            checksum_sha256: "0".repeat(64),
            expires_at: None,
            deleted_at: None,
            deleted_reason: None,
        };
        let complete = move |tx: &Change| lifecycle::complete(tx, organization, id, artifact, Vec::new(), Closing::default(), now);
        self.store.write(complete).await.unwrap()
    }

    pub(crate) fn read(&self, organization: Id<Organization>, id: Id<Build>) -> Build {
        let build: Result<Option<Build>, StoreError> = self.store.read(|rows| rows.get(organization, id));
        build.unwrap().expect("no build is lost")
    }

    /// What a build has told, once all of it is over.
    pub(crate) async fn told(&self, build: &Build) -> Vec<Notification> {
        let patience = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            let rows: Result<_, StoreError> = self.store.read(|rows| notifications::of_build(rows, build.organization_id, build.id));
            let rows = rows.unwrap();
            if rows.iter().all(|one| one.finished_at.is_some()) {
                return rows;
            }
            assert!(tokio::time::Instant::now() < patience, "it never ended: {rows:#?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn status(&self, build: &Build) -> Option<NotificationStatus> {
        self.told(build).await;
        self.read(build.organization_id, build.id).notification_status
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(work) = self.work.take() {
            work.abort();
        }
        if !std::thread::panicking() {
            let complaints = self.store.check().unwrap();
            assert!(complaints.is_empty(), "indexes have drifted: {complaints:?}");
        }
    }
}

pub(crate) fn error(file: &str, line: u32, code: &str, message: &str) -> Diagnostic {
    Diagnostic {
        severity: "error".into(),
        code: Some(code.into()),
        message: message.into(),
        file: Some(file.into()),
        line: Some(line),
        log_seq: 1,
    }
}
