//! What a body may say of a build setting, and whether the setting that would come of it can be (decisions 7).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::body::{self, Change, Check, Fault, Fields, ReadLater};
use super::error::{ApiError, Result};
use super::organizations::supersede;
use super::projects::{branch, uproject_path};
use super::urls::{self, Address};
use crate::app::{self, App};
use crate::builds::connections::{CUSTOM_DEPLOY_PLUGIN, deploy_secret_place, upload_header_place};
use crate::builds::uat::check_extra_argument;
use crate::model::build_setting::{BUILD_TYPES, DeployTargetSetting, PLATFORMS, Schedule, Supersede, TARGET_TYPES, TRIGGERS, Trigger};
use crate::model::project::SourceLink;
use crate::model::schedule;
use crate::model::validation::InvalidCode;
use crate::model::{BuildSetting, Project, Secret, Timestamp};

const LONGEST_NAME: usize = 80;
const LONGEST_HEADER: usize = 8192;
const LONGEST_STREAM: usize = 512;
const MOST_ARGUMENTS: usize = 32;
const MOST_TARGETS: usize = 8;
const MOST_SECRETS: usize = 16;
/// What a target's configuration may come to as JSON, in bytes.
const LARGEST_CONFIG: usize = 16 * 1024;

/// Fields that every setting has.
const NEEDED: [&str; 4] = ["platform", "buildType", "ueVersion", "trigger"];
/// Of which the kind of the codebase needs one and does not take the other.
const NEEDED_BY_KIND: [&str; 2] = ["branch", "streamPath"];

/// A body, each field checked by itself; failures are noted in `fields`.
pub(super) struct SettingChange {
    fields: Fields,
    name: Change<String>,
    platform: Change<String>,
    build_type: Change<String>,
    target_type: Change<String>,
    branch: Change<String>,
    stream_path: Change<String>,
    ue_version: Change<String>,
    uproject_path: Change<String>,
    trigger: Change<String>,
    schedule: Change<ScheduleChange>,
    notify_on_complete: Change<bool>,
    auto_deploy: Change<bool>,
    upload_build_url: Change<Address>,
    upload_build_auth_header: Change<Secret>,
    deploy_targets: Change<Vec<TargetChange>>,
    timeout_minutes: Change<u32>,
    supersede: Change<Supersede>,
    clean_build: Change<bool>,
    extra_uat_args: Change<Vec<String>>,
}

struct ScheduleChange {
    cron: Option<String>,
    timezone: Change<String>,
    enabled: Option<bool>,
    only_if_changed: Option<bool>,
    catch_up: Option<bool>,
}

struct TargetChange {
    plugin: String,
    config: Value,
    /// `None`: not named, so an unchanged target keeps its own.
    secrets: Option<BTreeMap<String, Secret>>,
}

impl SettingChange {
    /// Reads every field. `labels` are those of the configured engines.
    pub(super) fn read(mut fields: Fields, settings: &app::Settings, labels: &[String]) -> Self {
        let platforms: Vec<&str> = PLATFORMS.into_iter().chain(settings.extra_platforms.iter().map(String::as_str)).collect();
        let platform = body::one_of(platforms).about("What to build for. GET /platforms says what this server can build.").example("Win64");
        let build_type = body::one_of(BUILD_TYPES).about("The engine's build configuration.").example("Development");
        let target_type = body::one_of(TARGET_TYPES).about("Which of the project's targets; null: `Game`.").default_is("Game");
        let path = uproject_path().about("The project file's path in the codebase; null or `\"\"`: the project's own.");
        let trigger =
            body::one_of(TRIGGERS).about("What starts it: people and scripts, a push to `branch` or `streamPath`, or `schedule`.");
        let url = urls::address().about("Where custom deploy sends the artifact: https, or http to a private address.");
        let header = "The whole `Authorization` value of custom deploy; never shown. It is dropped when scheme, host or port of `uploadBuildUrl` change without it being sent again.";
        let targets = body::list(MOST_TARGETS, target(&settings.deploy_plugins));
        let arguments = body::list(MOST_ARGUMENTS, extra_argument()).about("Appended to the arguments of the engine's automation tool.");
        fields.read_only(&["id", "projectId", "uploadBuildAuthHeaderSet", "createdAt", "updatedAt"]);
        SettingChange {
            name: fields.change("name", body::text(LONGEST_NAME).about("What people call it.").example("Nightly Windows")),
            platform: fields.change("platform", platform),
            build_type: fields.change("buildType", build_type),
            target_type: fields.change("targetType", target_type),
            branch: fields.change("branch", branch().about("Git-hosted projects only, and required there: the tracked branch.")),
            stream_path: fields.change("streamPath", stream_path()),
            ue_version: fields.change("ueVersion", ue_version(labels)),
            uproject_path: fields.change("uprojectPath", path),
            trigger: fields.change("trigger", trigger.example("push")),
            schedule: read_schedule(&mut fields),
            notify_on_complete: fields.change("notifyOnComplete", body::boolean().about("Tell people when a build ends.")),
            auto_deploy: fields.change("autoDeploy", body::boolean().about("Hand the artifact on after a successful build.")),
            upload_build_url: fields.change("uploadBuildUrl", url),
            upload_build_auth_header: fields.change("uploadBuildAuthHeader", header_value().about(header)),
            deploy_targets: fields
                .change("deployTargets", targets.about("Further targets of the artifact; the list is replaced as a whole.")),
            timeout_minutes: fields
                .change("timeoutMinutes", body::number(5, 2880).about("How long a build may run; null: as the organization says.")),
            supersede: fields.change("supersede", supersede()),
            clean_build: fields.change("cleanBuild", body::boolean().about("Start each build from an empty workspace.").default_is(false)),
            extra_uat_args: fields.change("extraUatArgs", arguments),
            fields,
        }
    }

    /// Applies the change to `setting` and judges the result. All failures come at once; nothing is stored here.
    pub(super) fn apply(self, setting: &mut BuildSetting, project: &Project, app: &App, is_new: bool) -> Result<()> {
        let SettingChange { mut fields, .. } = self;
        let old = setting.clone();
        require(&mut fields, is_new, "platform", self.platform, &mut setting.platform);
        require(&mut fields, is_new, "buildType", self.build_type, &mut setting.build_type);
        require(&mut fields, is_new, "ueVersion", self.ue_version, &mut setting.ue_version);
        require(&mut fields, is_new, "name", self.name, &mut setting.name);
        let mut trigger = setting.trigger.as_str().to_owned();
        require(&mut fields, is_new, "trigger", self.trigger, &mut trigger);
        let mut stream = setting.stream_path.take().unwrap_or_default();
        match project.source {
            SourceLink::Githost { .. } => {
                require(&mut fields, is_new, "branch", self.branch, &mut setting.branch);
                if matches!(self.stream_path, Change::Value(_)) {
                    fields.refuse("streamPath", InvalidCode::NotAllowed, "belongs to stream-based projects; this one is git-hosted");
                }
            }
            SourceLink::Streamvc { .. } => {
                require(&mut fields, is_new, "streamPath", self.stream_path, &mut stream);
                setting.stream_path = Some(stream);
                if matches!(self.branch, Change::Value(_)) {
                    fields.refuse("branch", InvalidCode::NotAllowed, "belongs to git-hosted projects; this one is stream-based");
                }
            }
        }
        self.target_type.apply_or(&mut setting.target_type, "Game".to_owned());
        self.uproject_path.apply_or(&mut setting.uproject_path, project.uproject_path.clone());
        if setting.uproject_path.is_empty() {
            setting.uproject_path.clone_from(&project.uproject_path);
        }
        self.notify_on_complete.apply_or(&mut setting.notify_on_complete, false);
        self.auto_deploy.apply_or(&mut setting.auto_deploy, false);
        self.supersede.apply_or(&mut setting.supersede, Supersede::Pending);
        self.clean_build.apply_or(&mut setting.clean_build, false);
        self.extra_uat_args.apply_or(&mut setting.extra_uat_args, Vec::new());
        self.timeout_minutes.apply(&mut setting.timeout_minutes);
        apply_trigger(&mut fields, &trigger, self.schedule, setting, app.clock.now());
        self.upload_build_url.map(|address| address.text).apply(&mut setting.upload_build_url);
        apply_header(&mut fields, self.upload_build_auth_header, setting, &old, app)?;
        apply_targets(&mut fields, self.deploy_targets, setting, app)?;
        let has_target = setting.upload_build_url.is_some() || !setting.deploy_targets.is_empty();
        if setting.auto_deploy && !has_target && !fields.has_failed_on("uploadBuildUrl") && !fields.has_failed_on("deployTargets") {
            fields.refuse(
                "uploadBuildUrl",
                InvalidCode::Required,
                "is required when autoDeploy is true, unless deployTargets names a target",
            );
        }
        fields.finish()
    }
}

/// Body of POST `/projects/:id/build-settings`
pub(super) struct NewSetting;

impl ReadLater for NewSetting {
    fn describe(fields: Fields, settings: &app::Settings) -> Fields {
        let mut fields = SettingChange::read(fields, settings, &[]).fields;
        fields.must_have(&NEEDED);
        fields
    }
}

impl ReadLater for SettingChange {
    fn describe(fields: Fields, settings: &app::Settings) -> Fields {
        let mut fields = SettingChange::read(fields, settings, &[]).fields;
        fields.never_null(&NEEDED);
        fields
    }
}

/// Writes a text that has to be there, or may be cleared.
fn require(fields: &mut Fields, is_new: bool, field: &str, change: Change<String>, place: &mut String) {
    let is_needed = NEEDED.contains(&field) || NEEDED_BY_KIND.contains(&field);
    match change {
        Change::Value(value) => *place = value,
        Change::Null if is_needed => fields.refuse(field, InvalidCode::Required, "is required"),
        Change::Null => place.clear(),
        Change::Absent if is_needed && is_new && !fields.has_failed_on(field) => fields.refuse(field, InvalidCode::Required, "is required"),
        Change::Absent => {}
    }
}

fn read_schedule(fields: &mut Fields) -> Change<ScheduleChange> {
    let about = "When it fires: required exactly when `trigger` is `scheduled`.";
    fields.nested("schedule", about).map(|mut nested| {
        let cron = body::text(200).and(|text| {
            schedule::parse(&text).map_err(Fault::invalid)?;
            Ok(text.trim().to_owned())
        });
        let cron =
            cron.about("Five fields, or `@hourly @daily @weekly @monthly @yearly`; at least five minutes apart.").example("0 3 * * 1-5");
        let timezone = body::text(64).and(|name| schedule::check_timezone(&name).map_err(Fault::invalid).map(|()| name));
        let timezone = timezone.about("An IANA zone; null: `UTC`.").example("Europe/Stockholm").default_is("UTC");
        nested.read_only(&["nextRunAt", "lastRunAt", "lastError"]);
        let change = ScheduleChange {
            cron: nested.optional("cron", cron),
            timezone: nested.change("timezone", timezone),
            enabled: nested.optional("enabled", body::boolean().about("False keeps the schedule and fires never.").default_is(true)),
            only_if_changed: nested
                .optional("onlyIfChanged", body::boolean().about("Skip when the revision is the one of the last build.").default_is(false)),
            catch_up: nested
                .optional("catchUp", body::boolean().about("One build for a time missed while the service was down.").default_is(true)),
        };
        fields.absorb(nested);
        change
    })
}

/// A schedule exists exactly on scheduled settings.
fn apply_trigger(fields: &mut Fields, trigger: &str, change: Change<ScheduleChange>, setting: &mut BuildSetting, now: Timestamp) {
    let old = match &setting.trigger {
        Trigger::Scheduled(schedule) => Some(schedule.clone()),
        Trigger::Manual | Trigger::Push => None,
    };
    if trigger != "scheduled" {
        if matches!(change, Change::Value(_)) {
            fields.refuse("schedule", InvalidCode::NotAllowed, "is taken only when trigger is scheduled");
        }
        setting.trigger = if trigger == "push" { Trigger::Push } else { Trigger::Manual };
        return;
    }
    let change = match (change, &old) {
        (Change::Value(change), _) => change,
        (Change::Absent, Some(_)) => return,
        (Change::Null, _) | (Change::Absent, None) => {
            if !fields.has_failed_on("schedule") {
                fields.refuse("schedule", InvalidCode::Required, "is required when trigger is scheduled");
            }
            return;
        }
    };
    let mut schedule = old.unwrap_or_else(|| Schedule {
        cron: String::new(),
        timezone: "UTC".into(),
        enabled: true,
        only_if_changed: false,
        catch_up: true,
        next_run_at: None,
        last_run_at: None,
        last_error: None,
    });
    match change.cron {
        Some(cron) => schedule.cron = cron,
        None if schedule.cron.is_empty() && !fields.has_failed_on("schedule.cron") => {
            fields.refuse("schedule.cron", InvalidCode::Required, "is required");
        }
        None => {}
    }
    change.timezone.apply_or(&mut schedule.timezone, "UTC".into());
    schedule.enabled = change.enabled.unwrap_or(schedule.enabled);
    schedule.only_if_changed = change.only_if_changed.unwrap_or(schedule.only_if_changed);
    schedule.catch_up = change.catch_up.unwrap_or(schedule.catch_up);
    plan(&mut schedule, now);
    setting.trigger = Trigger::Scheduled(schedule);
}

/// The next time; what is due at this moment stays so.
fn plan(schedule: &mut Schedule, now: Timestamp) {
    let is_due = schedule.next_run_at.is_some_and(|next| next <= now);
    if !schedule.enabled {
        schedule.next_run_at = None;
    } else if !is_due {
        let starts = schedule::Starts::parse(&schedule.cron, &schedule.timezone);
        schedule.next_run_at = starts.ok().and_then(|starts| starts.after(now));
    }
}

/// The header is bound to the scheme, host and port that it was given for: whoever may change the address cannot have it
/// sent somewhere else.
fn apply_header(fields: &mut Fields, change: Change<Secret>, setting: &mut BuildSetting, old: &BuildSetting, app: &App) -> Result<()> {
    let origin = |setting: &BuildSetting| setting.upload_build_url.as_deref().and_then(urls::origin_of);
    if origin(setting) != origin(old) {
        setting.upload_build_auth_header = None;
    }
    match change {
        Change::Absent => {}
        Change::Null => setting.upload_build_auth_header = None,
        Change::Value(_) if setting.upload_build_url.is_none() => {
            if !fields.has_failed_on("uploadBuildUrl") {
                fields.refuse("uploadBuildAuthHeader", InvalidCode::NotAllowed, "needs an uploadBuildUrl that it is for");
            }
        }
        Change::Value(header) => {
            let sealed = app.vault.seal(&upload_header_place(setting.id), header.reveal()).map_err(ApiError::internal)?;
            setting.upload_build_auth_header = Some(sealed);
        }
    }
    Ok(())
}

/// The list is replaced as a whole; an entry that stays what and where it was keeps secrets that are not sent again.
fn apply_targets(fields: &mut Fields, change: Change<Vec<TargetChange>>, setting: &mut BuildSetting, app: &App) -> Result<()> {
    let targets = match change {
        Change::Absent => return Ok(()),
        Change::Null => Vec::new(),
        Change::Value(targets) => targets,
    };
    let old = std::mem::take(&mut setting.deploy_targets);
    for (entry, target) in targets.into_iter().enumerate() {
        let same = old.get(entry).filter(|old| old.plugin == target.plugin && old.config == target.config);
        let secrets = match target.secrets {
            None => same.map(|same| same.secrets.clone()).unwrap_or_default(),
            Some(secrets) => {
                let seal = |(name, secret): (String, Secret)| {
                    let sealed = app.vault.seal(&deploy_secret_place(setting.id, entry, &name), secret.reveal());
                    sealed.map(|sealed| (name, sealed)).map_err(ApiError::internal)
                };
                secrets.into_iter().map(seal).collect::<Result<_>>()?
            }
        };
        if target.plugin == CUSTOM_DEPLOY_PLUGIN && !target.config["url"].is_string() {
            fields.refuse("deployTargets", InvalidCode::InvalidValue, format!("item {entry}: config needs a url"));
        }
        setting.deploy_targets.push(DeployTargetSetting { plugin: target.plugin, config: target.config, secrets });
    }
    Ok(())
}

fn target(plugins: &[String]) -> Check<'_, TargetChange> {
    let schema = json!({
        "type": "object",
        "properties": {
            "plugin": {"type": "string", "description": "Name of an installed deploy plugin.", "examples": [CUSTOM_DEPLOY_PLUGIN]},
            "config": {"type": ["object", "null"], "description": "What the plugin needs to know, at most 16 KiB of JSON; no secrets."},
            "secrets": {
                "type": ["object", "null"],
                "description": "Its secrets by name; never shown. Absent: an entry that stays what and where it was keeps its own.",
                "maxProperties": MOST_SECRETS,
                "additionalProperties": header_value().schema(),
            },
        },
        "required": ["plugin"],
    });
    Check::new(schema, |value| read_target(value, plugins))
}

fn read_target(value: Value, plugins: &[String]) -> std::result::Result<TargetChange, Fault> {
    let Value::Object(mut object) = value else { return Err(Fault::wrong_type("an object {plugin, config, secrets}")) };
    let plugin = match object.remove("plugin") {
        Some(Value::String(plugin)) if plugins.contains(&plugin) => plugin,
        Some(Value::String(_)) => return Err(Fault::not_one_of(plugins)),
        _ => return Err(Fault::wrong_type("an object whose plugin is a string")),
    };
    let config = match object.remove("config") {
        None | Some(Value::Null) => Value::Object(serde_json::Map::new()),
        Some(config @ Value::Object(_)) if config.to_string().len() <= LARGEST_CONFIG => config,
        Some(Value::Object(_)) => return Err(Fault::invalid(format!("config may have at most {LARGEST_CONFIG} bytes"))),
        Some(_) => return Err(Fault::wrong_type("an object whose config is an object")),
    };
    if let (CUSTOM_DEPLOY_PLUGIN, Some(url)) = (plugin.as_str(), config.get("url")) {
        urls::address().check(url.clone())?;
    }
    let secrets = match object.remove("secrets") {
        None => None,
        Some(Value::Null) => Some(BTreeMap::new()),
        Some(Value::Object(secrets)) if secrets.len() <= MOST_SECRETS => {
            let read = |(name, value): (String, Value)| header_value().check(value).map(|secret| (name, secret));
            Some(secrets.into_iter().map(read).collect::<std::result::Result<_, _>>()?)
        }
        Some(_) => return Err(Fault::wrong_type("an object whose secrets are an object of at most 16 strings")),
    };
    Ok(TargetChange { plugin, config, secrets })
}

/// What may stand in a header: visible ASCII and spaces inside.
fn header_value() -> Check<'static, Secret> {
    let check = body::secret(LONGEST_HEADER).and(|secret: Secret| {
        let text = secret.reveal();
        let is_header = !text.is_empty() && text.trim() == text && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        match is_header {
            true => Ok(secret),
            false => Err(Fault::invalid("must be visible ASCII without control characters, and without spaces around it")),
        }
    });
    check.with("pattern", "^[!-~]([ -~]*[!-~])?$").with("minLength", 1)
}

fn extra_argument() -> Check<'static, String> {
    let schema = json!({"type": "string", "pattern": "^-[^\\x00-\\x1f\\x7f-\\x9f\"%]+$", "examples": ["-compressed"]});
    Check::new(schema, |value| {
        let Value::String(argument) = value else { return Err(Fault::wrong_type("a list of strings")) };
        check_extra_argument(&argument).map_err(Fault::invalid)?;
        Ok(argument)
    })
}

/// A stream: `//depot/stream`.
pub(super) fn stream_path() -> Check<'static, String> {
    let check = body::text(LONGEST_STREAM).and(checked_stream);
    let part = "(?!\\.{1,2}(/|$))(?!-)[^/#@%*\\\\ \"\\x00-\\x1f\\x7f-\\x9f]+";
    let check = check.with("pattern", format!("^(?!.*\\.\\.\\.)/(/{part}){{2,}}$"));
    check.about("Stream-based projects only, and required there: the tracked stream, `//depot/stream`.")
}

fn checked_stream(path: String) -> std::result::Result<String, Fault> {
    // `#`, `@`, `%`, `*` and `...` mean something to the server's tools.
    let parts = path.strip_prefix("//").map(|rest| rest.split('/').collect::<Vec<_>>()).unwrap_or_default();
    let is_part = |part: &&str| {
        !part.is_empty() && !part.contains(['#', '@', '%', '*', '\\', ' ', '"']) && !part.contains("...") && !part.starts_with('-')
    };
    match parts.len() >= 2 && parts.iter().all(|part| is_part(part) && !matches!(*part, "." | "..")) {
        true => Ok(path),
        false => Err(Fault::invalid("must look like //depot/stream")),
    }
}

/// A version, or the label of an engine of this host.
pub(super) fn ue_version(labels: &[String]) -> Check<'_, String> {
    let check = body::text(64).and(|version| checked_version(version, labels));
    check.about("`5.4`, `5.4.3`, or the label of an engine that is configured on the server.").example("5.4")
}

pub(super) fn checked_version(version: String, labels: &[String]) -> std::result::Result<String, Fault> {
    let parts: Vec<&str> = version.split('.').collect();
    let is_number = |part: &&str| (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    if labels.contains(&version) || ((2..=3).contains(&parts.len()) && parts.iter().all(is_number)) {
        return Ok(version);
    }
    let fault = Fault::invalid("must be a version such as 5.4 or 5.4.3, or the label of an engine that is configured on this host");
    Err(fault.with_allowed(labels))
}
