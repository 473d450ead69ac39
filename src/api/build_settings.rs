//! Build settings: reusable presets of a project (decisions 7), and the trigger that starts one.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::auth::Caller;
use super::body::{self, Fields, Later, ReadFields};
use super::build_setting_fields::{NewSetting, SettingChange};
use super::conditional::check_match;
use super::cursor::Cursors;
use super::endpoint::{Call, Created, NoContent, Ok200, Resource};
use super::error::{ApiError, Problem, Result};
use super::projects::{self, MOST_SETTINGS, lifecycle};
use super::tokens::Paging;
use crate::app::App;
use crate::builds::{Overrides, Request, TriggerError};
use crate::model::build_setting::{BUILD_TYPES, Schedule, Supersede, TARGET_TYPES, TRIGGERS, Trigger};
use crate::model::page::Page;
use crate::model::{Build, BuildSetting, Id, Organization, Project, Status, Timestamp};
use crate::store::Read;

pub(super) type SettingPath = (Id<Project>, Id<BuildSetting>);

/// A build setting: what gets built, and what starts it. Secrets are told by whether they are there.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BuildSetting")]
pub(super) struct SettingView {
    /// Its id.
    id: Id<BuildSetting>,
    /// Which project's.
    project_id: Id<Project>,
    /// What people call it; `""` when nobody named it.
    #[schemars(example = &"Nightly Windows")]
    name: String,
    /// What to build for.
    #[schemars(example = &"Win64")]
    platform: String,
    /// The engine's build configuration.
    #[schemars(extend("enum" = BUILD_TYPES), example = &"Development")]
    build_type: String,
    /// Which of the project's targets.
    #[schemars(extend("enum" = TARGET_TYPES), example = &"Game")]
    target_type: String,
    /// Git-hosted projects: the tracked branch, else `""`.
    #[schemars(example = &"main")]
    branch: String,
    /// Stream-based projects: the tracked stream.
    stream_path: Option<String>,
    /// An engine version, or the label of an engine that is configured on the server.
    #[schemars(example = &"5.4")]
    ue_version: String,
    /// Where the project file lies in the codebase.
    #[schemars(example = &"Game/Kitchen.uproject")]
    uproject_path: String,
    /// What starts it. `push`: a push to the branch, or a call of the trigger endpoint by a stream server's script.
    #[schemars(extend("enum" = TRIGGERS), example = &"push")]
    trigger: &'static str,
    /// When it fires; null unless `trigger` is `scheduled`.
    schedule: Option<Schedule>,
    /// Tell people when a build ends.
    notify_on_complete: bool,
    /// Hand the artifact on after a successful build.
    auto_deploy: bool,
    /// Where custom deploy sends the artifact.
    #[schemars(example = &"https://drop.studio.example/upload")]
    upload_build_url: Option<String>,
    /// Whether `uploadBuildAuthHeader` is stored; it is never shown.
    upload_build_auth_header_set: bool,
    /// Further targets of the artifact.
    deploy_targets: Vec<TargetView>,
    /// How long a build may run; null: as the organization says.
    timeout_minutes: Option<u32>,
    /// What a newer automatic build of the same branch does to older ones.
    supersede: Supersede,
    /// Start each build from an empty workspace.
    clean_build: bool,
    /// Appended to the arguments of the engine's automation tool.
    extra_uat_args: Vec<String>,
    /// When it was made.
    created_at: Timestamp,
    /// When it was last changed.
    updated_at: Timestamp,
}

/// A further target of the artifact.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeployTarget")]
struct TargetView {
    /// Name of an installed plugin.
    #[schemars(example = &"custom-deploy")]
    plugin: String,
    /// What the plugin needs to know, without secrets.
    #[schemars(extend("type" = "object"))]
    config: serde_json::Value,
    /// Names of the secrets that are there.
    secrets_set: Vec<String>,
}

impl SettingView {
    pub(super) fn new(setting: &BuildSetting) -> Self {
        let setting = setting.clone();
        let trigger = setting.trigger.as_str();
        let schedule = match setting.trigger {
            Trigger::Scheduled(schedule) => Some(schedule),
            Trigger::Manual | Trigger::Push => None,
        };
        let targets = setting.deploy_targets.into_iter();
        SettingView {
            id: setting.id,
            project_id: setting.project_id,
            name: setting.name,
            platform: setting.platform,
            build_type: setting.build_type,
            target_type: setting.target_type,
            branch: setting.branch,
            stream_path: setting.stream_path,
            ue_version: setting.ue_version,
            uproject_path: setting.uproject_path,
            trigger,
            schedule,
            notify_on_complete: setting.notify_on_complete,
            auto_deploy: setting.auto_deploy,
            upload_build_url: setting.upload_build_url,
            upload_build_auth_header_set: setting.upload_build_auth_header.is_some(),
            deploy_targets: targets
                .map(|target| TargetView {
                    plugin: target.plugin,
                    config: target.config,
                    secrets_set: target.secrets.into_keys().collect(),
                })
                .collect(),
            timeout_minutes: setting.timeout_minutes,
            supersede: setting.supersede,
            clean_build: setting.clean_build,
            extra_uat_args: setting.extra_uat_args,
            created_at: setting.created_at,
            updated_at: setting.updated_at,
        }
    }

    fn resource(setting: &BuildSetting) -> Resource<SettingView> {
        Resource { value: SettingView::new(setting), version: setting.version }
    }
}

/// A setting of a project that the caller may see.
pub(super) fn find(rows: &impl Read, caller: &Caller, (project, id): SettingPath) -> Result<(Project, BuildSetting)> {
    let project = projects::find(rows, caller, project)?;
    let setting: Option<BuildSetting> = rows.get(caller.organization(), id)?;
    let setting = setting.filter(|setting| setting.project_id == project.id && caller.reaches_setting(project.id, id));
    Ok((project, setting.ok_or(Problem::NotFound)?))
}

/// Labels of the engines on this host; read from its disk, so not on the runtime's threads.
pub(super) async fn labels(app: &Arc<App>) -> Result<Vec<String>> {
    let builds = app.builds.clone();
    let inventory = tokio::task::spawn_blocking(move || builds.engines()).await.map_err(ApiError::internal)?;
    let usable = inventory.engines.into_iter().map(|engine| engine.label);
    Ok(usable.chain(inventory.unusable.into_iter().map(|engine| engine.label)).collect())
}

/// A project's settings, oldest first.
pub(super) async fn list(call: Call<Id<Project>, Paging>) -> Result<Ok200<Page<SettingView>>> {
    let (caller, project) = (&call.caller, call.path);
    let cursors = Cursors::new(&call.app.vault, caller.organization(), "listBuildSettings", &[Some(project.as_str())])?;
    let after = call.query.cursor.as_deref().map(|cursor| cursors.read::<BuildSetting>(cursor)).transpose()?;
    let settings = call.app.store.read(|snapshot| {
        projects::find(snapshot, caller, project)?;
        Ok::<_, ApiError>(projects::settings_of(snapshot, caller, project)?)
    })?;
    let mut items: Vec<BuildSetting> = settings.into_iter().filter(|setting| after.is_none_or(|after| setting.id > after)).collect();
    let more = items.len() > call.query.limit;
    items.truncate(call.query.limit);
    let next_cursor = items.last().filter(|_| more).map(|last| cursors.write(last.id));
    Ok(Ok200(Page { items: items.iter().map(SettingView::new).collect(), next_cursor }))
}

/// One setting.
pub(super) async fn show(call: Call<SettingPath>) -> Result<Resource<SettingView>> {
    call.app.store.read(|snapshot| find(snapshot, &call.caller, call.path).map(|(_, setting)| SettingView::resource(&setting)))
}

/// Makes a setting.
pub(super) async fn create(call: Call<Id<Project>, (), Later<NewSetting>>) -> Result<Created<SettingView>> {
    let (app, caller, project, idempotency) = (call.app.clone(), call.caller, call.path, call.idempotency);
    app.store.read(|snapshot| projects::find(snapshot, &caller, project))?;
    if caller.setting_limit().is_some() {
        return Err(ApiError::new(Problem::InsufficientScope, "A token that is limited to build settings adds none."));
    }
    let change = SettingChange::read(call.body.fields, &app.settings, &labels(&app).await?);
    let insert = {
        let app = app.clone();
        move |tx: &crate::store::Change| {
            let project = projects::find(tx, &caller, project)?;
            if projects::settings_of(tx, &caller, project.id)?.len() >= MOST_SETTINGS {
                let message = format!("A project has at most {MOST_SETTINGS} build settings.");
                return Err(ApiError::field("platform", crate::model::validation::InvalidCode::NotAllowed, message));
            }
            let mut setting = blank(tx, &app, &project)?;
            change.apply(&mut setting, &project, &app, true)?;
            tx.put(&setting)?;
            let path = format!("/projects/{}/build-settings/{}", project.id, setting.id);
            let created = Created::new(&path, &SettingView::new(&setting), Some(setting.version))?;
            idempotency.remember(tx, &created)?;
            Ok(created)
        }
    };
    app.store.write(insert).await
}

/// What a new setting begins with: the organization's defaults, nothing that has to be said.
fn blank(rows: &impl Read, app: &App, project: &Project) -> Result<BuildSetting> {
    let organization: Option<Organization> = rows.get(project.organization_id, project.organization_id)?;
    let defaults = organization.ok_or(Problem::NotFound)?.default_project_settings;
    let now = app.clock.now();
    Ok(BuildSetting {
        id: app.clock.new_id(),
        organization_id: project.organization_id,
        project_id: project.id,
        name: String::new(),
        platform: String::new(),
        build_type: String::new(),
        target_type: "Game".into(),
        branch: String::new(),
        stream_path: None,
        ue_version: String::new(),
        uproject_path: project.uproject_path.clone(),
        trigger: Trigger::Manual,
        notify_on_complete: defaults.notify_on_complete,
        auto_deploy: false,
        upload_build_url: None,
        upload_build_auth_header: None,
        deploy_targets: Vec::new(),
        timeout_minutes: None,
        supersede: defaults.supersede,
        clean_build: false,
        extra_uat_args: Vec::new(),
        created_at: now,
        updated_at: now,
        version: 1,
    })
}

/// Changes any subset of the fields.
pub(super) async fn change(call: Call<SettingPath, (), Later<SettingChange>>) -> Result<Resource<SettingView>> {
    let (app, caller, head, path) = (call.app.clone(), call.caller, call.head, call.path);
    app.store.read(|snapshot| find(snapshot, &caller, path))?;
    let change = SettingChange::read(call.body.fields, &app.settings, &labels(&app).await?);
    let update = {
        let app = app.clone();
        move |tx: &crate::store::Change| {
            let (project, mut setting) = find(tx, &caller, path)?;
            check_match(&head, setting.version)?;
            change.apply(&mut setting, &project, &app, false)?;
            setting.updated_at = app.clock.now();
            setting.version += 1;
            tx.put(&setting)?;
            Ok::<_, ApiError>(SettingView::resource(&setting))
        }
    };
    app.store.write(update).await
}

/// Removes a setting; what it still has to build ends. Its builds stay reachable by id.
pub(super) async fn remove(call: Call<SettingPath>) -> Result<NoContent> {
    let (caller, head, path, builds) = (call.caller, call.head, call.path, call.app.builds.clone());
    let delete = move |tx: &crate::store::Change| {
        let (_, setting) = find(tx, &caller, path)?;
        check_match(&head, setting.version)?;
        builds.setting_deleted_in(tx, caller.organization(), setting.id).map_err(lifecycle)?;
        tx.remove(caller.organization(), setting.id)?;
        Ok::<_, ApiError>(NoContent)
    };
    call.app.store.write(delete).await
}

/// A build that was accepted: it is on disk, and will be built even if the power goes.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StartedBuild")]
pub(super) struct Started {
    /// The new build.
    build_id: Id<Build>,
    /// Its project.
    project_id: Id<Project>,
    /// Its build setting.
    build_setting_id: Id<BuildSetting>,
    /// Always `pending`.
    status: Status,
}

/// Body of the trigger: what to build instead of the newest revision of what the setting tracks.
pub(super) struct WhatToBuild(Overrides);

impl ReadFields for WhatToBuild {
    const IS_OPTIONAL: bool = true;

    fn read(fields: &mut Fields) -> Option<Self> {
        let branch = body::text(512).about("Git-hosted projects: another branch than the setting's.");
        let commit = body::text(128).about("Git-hosted projects: exactly this commit, 7 to 64 hexadecimal digits.");
        let changelist = body::text(64).about("Stream-based projects: exactly this changelist.");
        Some(WhatToBuild(Overrides {
            branch: fields.change("branch", branch.example("main")).value(),
            commit: fields.change("commit", commit).value(),
            changelist: fields.change("changelist", changelist).value(),
        }))
    }
}

/// Starts a build: it is durable before the answer.
pub(super) async fn trigger(call: Call<SettingPath, (), WhatToBuild>) -> Result<Created<Started>> {
    let (caller, (project, setting), idempotency) = (call.caller, call.path, call.idempotency);
    call.app.store.read(|snapshot| find(snapshot, &caller, (project, setting)))?;
    let WhatToBuild(overrides) = call.body;
    let request = Request { organization: caller.organization(), project, setting, by: caller.cause(), overrides };
    let builds = call.app.builds.clone();
    let start = move |tx: &crate::store::Change| {
        // Accepted as pending, whatever becomes of it in the same transaction.
        let build = builds.trigger_in(tx, &request).map_err(refusal)?;
        let started = Started { build_id: build.id, project_id: project, build_setting_id: setting, status: Status::Pending };
        let created = Created::new(&format!("/builds/{}", build.id), &started, None)?;
        idempotency.remember(tx, &created)?;
        Ok::<_, ApiError>(created)
    };
    call.app.store.write(start).await
}

fn refusal(error: TriggerError) -> ApiError {
    match error {
        TriggerError::NoSuchSetting => Problem::NotFound.into(),
        TriggerError::Invalid(details) => ApiError::validation(details),
        TriggerError::Store(error) => error.into(),
    }
}
