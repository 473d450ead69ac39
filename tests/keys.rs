//! Changing the master key, also when the machine stops in the middle.

use std::path::Path;

use cookhouse::keys::{self, KeyError, Step};
use cookhouse::model::build_setting::{BuildSetting, DeployTargetSetting, Supersede, Trigger};
use cookhouse::model::idempotency::RememberedAnswer;
use cookhouse::model::organization::{
    DefaultProjectSettings, GithostApp, GithostConnection, GithostStatus, IntegrationSettings, Organization, Smtp, SmtpSecurity,
    StreamvcConnection, WebhookSecrets,
};
use cookhouse::model::{Id, Timestamp, places};
use cookhouse::store::{self, Read, Store};
use cookhouse::vault::{Settings, Vault};
use tempfile::TempDir;

use crate::cli::{run, text};

struct Host {
    directory: TempDir,
    store: Store,
}

fn organization_id() -> Id<Organization> {
    Id::from_parts(1, 1)
}

impl Host {
    async fn new() -> Host {
        let directory = tempfile::tempdir().expect("a directory");
        let store = store::Settings { path: directory.path().join("store.redb"), cache_bytes: 1 << 20 };
        let host = Host { store: Store::open(&store).expect("a store"), directory };
        let vault = keys::open(&host.settings(), &host.store).await.expect("a vault");
        host.fill(&vault).await;
        host
    }

    fn settings(&self) -> Settings {
        Settings { key: None, credentials_directory: None, key_file: self.directory.path().join("secret.key") }
    }

    fn has(&self, name: &str) -> bool {
        self.directory.path().join(name).exists()
    }

    fn key(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("secret.key")).expect("a key")
    }

    /// One secret at each place that there is.
    async fn fill(&self, vault: &Vault) {
        let id = organization_id();
        let seal = |place: String| Some(vault.seal(&place, &format!("secret of {place}")).expect("sealed"));
        let setting_of = |name| seal(places::integration_setting(id, name));
        let organization = Organization {
            id,
            name: "Studio".into(),
            slug: "studio".into(),
            default_project_settings: DefaultProjectSettings::default(),
            integration_settings: IntegrationSettings {
                notification_emails: Vec::new(),
                slack_webhook_url: setting_of("slackWebhookUrl"),
                discord_webhook_url: setting_of("discordWebhookUrl"),
                teams_webhook_url: setting_of("teamsWebhookUrl"),
                smtp: Some(Smtp {
                    host: "mail".into(),
                    port: 587,
                    security: SmtpSecurity::Tls,
                    username: String::new(),
                    password: setting_of("smtp/password"),
                    from: "a@b".into(),
                }),
            },
            githost: Some(GithostConnection {
                status: GithostStatus::Connected,
                api_base_url: "https://git.test/api".into(),
                git_base_url: "https://git.test".into(),
                token: seal(places::githost_token(id)),
                app: seal(places::githost_key(id)).map(|private_key| GithostApp { id: "1".into(), private_key }),
                webhook: WebhookSecrets {
                    current: seal(places::githost_webhook(id)),
                    former: seal(places::githost_webhook(id)),
                    ..WebhookSecrets::default()
                },
                installations: Vec::new(),
                checked_at: Timestamp(0),
            }),
            streamvc: Some(StreamvcConnection {
                server_url: "ssl:vcs:1666".into(),
                user_name: "u".into(),
                ticket: seal(places::streamvc_ticket(id)),
                checked_at: Timestamp(0),
                server_version: String::new(),
                fingerprint: None,
                ticket_expires_at: None,
            }),
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            version: 1,
        };
        let setting: Id<BuildSetting> = Id::from_parts(2, 2);
        let secret = seal(places::deploy_secret(setting, 1, "token")).expect("sealed");
        let target = |secrets| DeployTargetSetting { plugin: "p".into(), config: serde_json::json!({}), secrets };
        let build_setting = BuildSetting {
            id: setting,
            organization_id: id,
            project_id: Id::from_parts(3, 3),
            name: String::new(),
            platform: "Win64".into(),
            build_type: "Shipping".into(),
            target_type: "Game".into(),
            branch: "main".into(),
            stream_path: None,
            ue_version: "5.4".into(),
            uproject_path: String::new(),
            trigger: Trigger::Manual,
            notify_on_complete: false,
            auto_deploy: false,
            upload_build_url: None,
            upload_build_auth_header: seal(places::upload_header(setting)),
            deploy_targets: vec![target(Default::default()), target([("token".to_owned(), secret)].into())],
            timeout_minutes: None,
            supersede: Supersede::Off,
            clean_build: false,
            extra_uat_args: Vec::new(),
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            version: 1,
        };
        let answer: Id<RememberedAnswer> = Id::from_parts(4, 4);
        let remembered = RememberedAnswer {
            id: answer,
            organization_id: id,
            key_hash: "k".into(),
            request_hash: "r".into(),
            answer: seal(places::remembered_answer(answer)).expect("sealed"),
            created_at: Timestamp(0),
        };
        let put = move |change: &store::Change| {
            change.put(&organization)?;
            change.put(&build_setting)?;
            change.put(&remembered)
        };
        self.store.write(put).await.expect("written");
    }

    /// How many of the secrets open, each with its own value.
    fn open_with(&self, vault: &Vault) -> usize {
        self.store
            .read(|snapshot| {
                let id = organization_id();
                let mut organization: Organization = snapshot.get(id, id)?.expect("there");
                let mut setting: BuildSetting = snapshot.get(id, Id::from_parts(2, 2))?.expect("there");
                let mut answer: RememberedAnswer = snapshot.get(id, Id::from_parts(4, 4))?.expect("there");
                let all = places::of_organization(&mut organization).into_iter();
                let all = all.chain(places::of_build_setting(&mut setting)).chain(places::of_remembered_answer(&mut answer));
                let opens = |(place, sealed): &(String, &mut cookhouse::model::secret::Sealed)| {
                    vault.open_sealed(place, sealed).is_ok_and(|secret| *secret.reveal() == format!("secret of {place}"))
                };
                Ok::<_, store::StoreError>(all.filter(opens).count())
            })
            .expect("read")
    }
}

const SECRETS: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_sealed_anew_and_the_former_key_opens_nothing() {
    let host = Host::new().await;
    let former = Vault::open(&host.settings()).expect("a vault");
    assert_eq!(host.open_with(&former), SECRETS);
    let old_key = host.key();
    let rotated = keys::rotate(&host.settings(), &host.store, |_| Ok(())).await.expect("rotated");
    assert_eq!(rotated.secrets, SECRETS as u64);
    assert_ne!(host.key(), old_key);
    assert_eq!(std::fs::read_to_string(rotated.former).expect("kept"), old_key);
    let vault = keys::open(&host.settings(), &host.store).await.expect("a vault");
    assert_eq!((host.open_with(&vault), host.open_with(&former)), (SECRETS, 0));
    assert!(!host.has("secret.key.next") && !host.has("secret.key.new"));
    // And once more.
    keys::rotate(&host.settings(), &host.store, |_| Ok(())).await.expect("rotated");
    let vault = keys::open(&host.settings(), &host.store).await.expect("a vault");
    assert_eq!(host.open_with(&vault), SECRETS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_at_any_step_loses_no_secret_and_the_next_start_tidies_up() {
    for stop in Step::ALL {
        let host = Host::new().await;
        let old_key = host.key();
        let pause = move |step| if step == stop { Err(KeyError::Interrupted) } else { Ok(()) };
        let interrupted = keys::rotate(&host.settings(), &host.store, pause).await;
        assert!(matches!(interrupted, Err(KeyError::Interrupted)), "{stop:?}");
        assert!(host.has("secret.key.next"), "{stop:?}: as the machine stopped");
        // Also before anything is tidied up, both keys are at hand.
        assert_eq!(host.open_with(&Vault::open(&host.settings()).expect("a vault")), SECRETS, "{stop:?}");
        let vault = keys::open(&host.settings(), &host.store).await.expect("a vault");
        assert_eq!(host.open_with(&vault), SECRETS, "{stop:?}");
        assert!(!host.has("secret.key.next"), "{stop:?}");
        assert_eq!(host.key() == old_key, stop != Step::Resealed, "{stop:?}");
        keys::rotate(&host.settings(), &host.store, |_| Ok(())).await.expect("another try");
        let vault = keys::open(&host.settings(), &host.store).await.expect("a vault");
        assert_eq!(host.open_with(&vault), SECRETS, "{stop:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_key_is_not_replaced_behind_ones_back() {
    let host = Host::new().await;
    keys::rotate(&host.settings(), &host.store, |_| Ok(())).await.expect("rotated");
    let path = host.directory.path().join("secret.key");
    std::fs::remove_file(&path).expect("removed");
    let error = keys::open(&host.settings(), &host.store).await.map(|_| ()).expect_err("no key").to_string();
    assert!(error.contains("is gone"), "{error}");
    assert!(!path.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_does_not_open_stops_the_change() {
    let host = Host::new().await;
    let old_key = host.key();
    let id = organization_id();
    let damage = move |change: &store::Change| {
        let mut organization: Organization = change.get(id, id)?.expect("there");
        // Moved from its own place to another one's.
        organization.integration_settings.teams_webhook_url = organization.integration_settings.slack_webhook_url.clone();
        change.put(&organization)
    };
    host.store.write(damage).await.expect("written");
    assert!(keys::rotate(&host.settings(), &host.store, |_| Ok(())).await.is_err());
    assert_eq!((host.key() == old_key, host.has("secret.key.next")), (true, false));
    let vault = keys::open(&host.settings(), &host.store).await.expect("a vault");
    assert_eq!(host.open_with(&vault), SECRETS - 1);
}

fn rotate(data: &Path) -> crate::cli::Ended {
    run(&["key", "rotate", "--data", text(data)])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_works_while_stopped_only_and_is_recorded() {
    let host = Host::new().await;
    let Host { directory, store } = host;
    drop(store);
    let data = directory.path().to_owned();
    {
        let _lock = cookhouse::platform::lock::lock(&data).expect("the lock");
        let refused = rotate(&data);
        assert_eq!(refused.code, 75, "{}", refused.err);
    }
    let done = rotate(&data);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("12 secrets are sealed with a new key") && done.out.contains("secret.key.former"), "{}", done.out);
    let verified = run(&["audit", "verify", "--data", text(&data)]);
    assert_eq!(verified.code, 0, "{}", verified.err);
    assert!(verified.out.starts_with("It holds: 1 entries, 1 to 1.\nHead: 1 "), "{}", verified.out);

    let mut elsewhere = crate::cli::cookhouse(&["key", "rotate", "--data", text(&data)]);
    elsewhere.env("COOKHOUSE_SECRET_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    let refused: crate::cli::Ended = elsewhere.output().expect("it starts").into();
    assert!(refused.code == 2 && refused.err.contains("secrets.key_file"), "{} {}", refused.code, refused.err);
}
