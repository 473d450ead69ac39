//! A data directory that is prepared once and copied to each disk, and the service that runs on the copy.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use cookhouse::app::App;
use cookhouse::appliance::{Appliance, Seams};
use cookhouse::clock::Clock;
use cookhouse::config::{Config, Engine, Sources};
use cookhouse::model::permission::Role;
use cookhouse::model::{Build, Id, Timestamp, User};
use cookhouse::store::{Store, StoreError};
use md5::{Digest, Md5};
use serde_json::json;
use tempfile::TempDir;

use crate::support::client::Ask;
use crate::support::farm::{self, DirectorySource, Receiver, TOKEN, copy};
use crate::support::small_disk::SmallDisk;
use crate::support::studio::{self, Kind, Records};

/// What all disks share.
pub(super) struct Site {
    pub(super) records: Records,
    /// Kibibytes of the prepared directory.
    pub(super) size: u64,
    token: String,
    home: TempDir,
    source: Arc<DirectorySource>,
}

/// The service on one disk.
pub(super) struct Running {
    appliance: Appliance,
    data: PathBuf,
}

impl Site {
    /// `None` where this user may not mount.
    pub(super) async fn open() -> Option<Site> {
        let home = tempfile::tempdir().expect("a directory");
        let disk = SmallDisk::mount(64)?;
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/engines"), &home.path().join("engines"));
        let game = home.path().join("source/Game");
        fs::create_dir_all(game.join("Content")).expect("directories");
        fs::create_dir_all(game.join("Config")).expect("directories");
        fs::write(game.join("Kitchen.uproject"), r#"{"FileVersion": 3, "EngineAssociation": "5.4"}"#).expect("a file");
        fs::write(game.join("Content/A.umap"), "a map").expect("a file");
        fs::write(game.join("Content/Big.bin"), vec![3; 600_000]).expect("a file");
        fs::write(game.join("Config/StandIn.ini"), "[Cook]\nLines=2000\n[Stage]\nRandomBytes=1200000\n").expect("a file");
        let source = Arc::new(DirectorySource {
            directory: home.path().join("source"),
            failure: Mutex::default(),
            gate: Mutex::default(),
            checkouts: Mutex::default(),
        });
        let records = studio::records(&Clock::default(), Kind::Githost);
        let mut site = Site { records, size: 0, token: String::new(), home, source };
        let data = site.home.path().join("data");
        let running = site.start(&data).await.expect("it starts");
        site.fill(running.app()).await;
        running.stop(&[]).await;
        copy(&data, &disk.path().join("data"));
        site.size = disk.used_kibibytes();
        Some(site)
    }

    async fn fill(&mut self, app: &Arc<App>) {
        let place = cookhouse::builds::connections::githost_token_place(self.records.organization.id);
        let token = app.vault.seal(&place, TOKEN).expect("sealed");
        self.records.organization.githost.as_mut().expect("connected").token = Some(token);
        let stored = self.records.clone();
        let id: Id<User> = app.clock.new_id();
        let user = User {
            id,
            organization_id: stored.organization.id,
            email: format!("{id}@studio.test"),
            name: "Ada".into(),
            role: Role::Admin,
            password_hash: "$argon2id$none".into(),
            created_at: app.clock.now(),
            sessions_valid_from: Timestamp(0),
            invitation: None,
            version: 1,
        };
        let kept = user.clone();
        let put = move |tx: &cookhouse::store::Change| {
            tx.put(&stored.organization)?;
            tx.put(&stored.project)?;
            tx.put(&stored.setting)?;
            tx.put(&kept)
        };
        app.store.write::<(), StoreError>(put).await.expect("stored");
        self.token = app.people.begin_session(user).await.expect("a session").access_token.reveal().clone();
    }

    pub(super) fn copy_to(&self, disk: &Path) -> PathBuf {
        let data = disk.join("data");
        copy(&self.home.path().join("data"), &data);
        data
    }

    pub(super) async fn start(&self, data: &Path) -> Result<Running, String> {
        let sources = Sources { flags: vec![("data_dir", "--data", data.display().to_string())], ..Sources::default() };
        let mut config = Config::load(&sources).expect("the defaults").config;
        config.listen = "127.0.0.1:0".into();
        config.discover_engines = false;
        config.engines = vec![Engine { label: "5.4".into(), root: self.home.path().join("engines/UE_5.4"), platforms: Vec::new() }];
        config.executor.shutdown_grace_seconds = 1;
        // Nothing is held back: builds run into the end of the disk.
        (config.disk.floor_percent, config.disk.floor_bytes, config.disk.first_build_bytes) = (0, 0, 0);
        let seams = Seams { source_control: self.source.clone(), deploy_target: Arc::new(Receiver::default()) };
        let appliance = Appliance::start_with(&config, Some(seams)).await.map_err(|error| error.to_string())?;
        Ok(Running { appliance, data: data.to_owned() })
    }
}

impl Running {
    pub(super) fn app(&self) -> &Arc<App> {
        self.appliance.app()
    }

    /// The id, or status and code of the refusal.
    pub(super) async fn trigger(&self, site: &Site) -> Result<Id<Build>, (u16, String)> {
        let setting = &site.records.setting;
        let path = format!("/v1/projects/{}/build-settings/{}/trigger", setting.project_id, setting.id);
        let reply = Ask::new(self.appliance.address(), "POST", &path).bearer(&site.token).json(&json!({})).send().await;
        match reply.status {
            201 => Ok(reply.json()["buildId"].as_str().expect("an id").parse().expect("an id")),
            status => Err((status, reply.code())),
        }
    }

    pub(super) async fn status(&self, site: &Site, path: &str) -> u16 {
        Ask::new(self.appliance.address(), "GET", path).bearer(&site.token).send().await.status
    }

    pub(super) async fn log(&self, id: Id<Build>) -> String {
        let reader = self.app().logs.reader(id).await.expect("a log");
        reader.tail(200).await.expect("lines").into_iter().map(|line| line.text + "\n").collect()
    }

    /// There is a whole artifact exactly when the record says so.
    pub(super) async fn check_artifact(&self, build: &Build) {
        let opened = self.app().artifacts.open_artifact(build.id).await.expect("readable");
        assert_eq!(opened.is_some(), build.artifact.is_some(), "{build:#?}");
        let (Some(mut opened), Some(artifact)) = (opened, &build.artifact) else { return };
        let mut bytes = Vec::new();
        opened.file.read_to_end(&mut bytes).expect("readable");
        let md5: String = Md5::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((bytes.len() as u64, &md5), (artifact.size_bytes, &artifact.checksum_md5));
    }

    /// The lines are numbered without a hole; those that found no place are spoken of.
    pub(super) async fn check_log(&self, build: &Build) {
        let lines = self.app().logs.reader(build.id).await.expect("a log").tail(usize::MAX).await.expect("lines");
        for (number, line) in (1..).zip(&lines) {
            assert_eq!(line.seq, number, "{build:#?}");
        }
    }

    /// Nothing is left over.
    pub(super) async fn stop(self, builds: &[Id<Build>]) {
        let Running { appliance, data } = self;
        let marker = appliance.app().builds.process_marker("");
        appliance.stop().await;
        assert_eq!(farm::marked_processes(&marker), Vec::<String>::new());
        let settings = cookhouse::store::Settings { path: data.join("store.redb"), cache_bytes: 1 << 20 };
        // A task that notes the use of a token may hold it for a moment.
        let store = loop {
            match Store::open(&settings) {
                Err(StoreError::InUse) => tokio::task::yield_now().await,
                store => break store.expect("it opens"),
            }
        };
        assert_eq!(store.check().expect("checked"), Vec::<String>::new(), "after {builds:?}");
        let temporaries = fs::read_dir(data.join("temporary")).into_iter().flatten().flatten().map(|entry| entry.file_name());
        assert_eq!(temporaries.collect::<Vec<_>>(), Vec::<std::ffi::OsString>::new());
    }
}
