//! A studio's records, for tests below the API.

use std::path::Path;

use cookhouse::clock::Clock;
use cookhouse::model::build_setting::{Supersede, Trigger};
use cookhouse::model::organization::{DefaultProjectSettings, GithostConnection, GithostStatus, WebhookSecrets};
use cookhouse::model::project::SourceLink;
use cookhouse::model::{Build, BuildSetting, Id, Organization, Project, Timestamp, TriggeredBy};
use cookhouse::store::{Settings, Store};

/// Where the code lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Githost,
    Streamvc,
}

/// An organization with one project and one setting of it.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    pub(crate) organization: Organization,
    pub(crate) project: Project,
    pub(crate) setting: BuildSetting,
}

pub(crate) fn store(directory: &Path) -> Store {
    Store::open(&Settings { path: directory.join("store.redb"), cache_bytes: 1 << 22 }).expect("a store")
}

pub(crate) fn records(clock: &Clock, kind: Kind) -> Records {
    let now = clock.now();
    let organization = Organization {
        id: clock.new_id(),
        name: "Studio".into(),
        slug: "studio".into(),
        default_project_settings: DefaultProjectSettings::default(),
        integration_settings: Default::default(),
        streamvc: None,
        githost: Some(GithostConnection {
            status: GithostStatus::Connected,
            api_base_url: "https://git.studio.test/api/v3".into(),
            git_base_url: "https://git.studio.test".into(),
            token: None,
            app: None,
            webhook: WebhookSecrets::default(),
            installations: Vec::new(),
            checked_at: now,
        }),
        created_at: now,
        updated_at: now,
        version: 1,
    };
    let source = match kind {
        Kind::Githost => {
            SourceLink::Githost { installation_id: "1".into(), repo_full_name: "studio/kitchen".into(), default_branch: "main".into() }
        }
        Kind::Streamvc => SourceLink::Streamvc { depot: "//kitchen".into(), stream_path: "//kitchen/main".into() },
    };
    let project = Project {
        id: clock.new_id(),
        organization_id: organization.id,
        name: "Kitchen".into(),
        description: String::new(),
        source,
        uproject_path: "Game/Kitchen.uproject".into(),
        uproject: None,
        last_build: None,
        created_at: now,
        updated_at: now,
        version: 1,
    };
    let setting = setting(clock, &project, kind);
    Records { organization, project, setting }
}

pub(crate) fn setting(clock: &Clock, project: &Project, kind: Kind) -> BuildSetting {
    let now = clock.now();
    BuildSetting {
        id: clock.new_id(),
        organization_id: project.organization_id,
        project_id: project.id,
        name: String::new(),
        platform: "Linux".into(),
        build_type: "Development".into(),
        target_type: "Game".into(),
        branch: if kind == Kind::Githost { "main".into() } else { String::new() },
        stream_path: (kind == Kind::Streamvc).then(|| "//kitchen/main".into()),
        ue_version: "5.4".into(),
        uproject_path: String::new(),
        trigger: Trigger::Manual,
        notify_on_complete: false,
        auto_deploy: false,
        upload_build_url: None,
        upload_build_auth_header: None,
        deploy_targets: Vec::new(),
        timeout_minutes: None,
        supersede: Supersede::Pending,
        clean_build: false,
        extra_uat_args: Vec::new(),
        created_at: now,
        updated_at: now,
        version: 1,
    }
}

/// A pending build of a setting.
pub(crate) fn build(setting: &BuildSetting, id: Id<Build>, now: Timestamp) -> Build {
    Build::waiting(id, setting, TriggeredBy::Cron, now)
}
