//! Builds: lists, details, and what can be asked of one (decisions 8 and 10).

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::auth::Caller;
use super::body::{self, Check, Fault, Fields, ReadFields};
use super::build_view::{BuildDetail, BuildView};
use super::conditional::check_match;
use super::cursor::Cursors;
use super::endpoint::{Accepted, Call, Created, Ok200, Resource};
use super::error::{ApiError, Problem, Result};
use super::query::{FromQuery, Query};
use crate::app::App;
use crate::artifacts::signed_url::LIFETIME_SECONDS;
use crate::builds::Refused;
use crate::model::build::Diagnostics;
use crate::model::build_setting::{BUILD_TYPES, PLATFORMS};
use crate::model::page::Page;
use crate::model::validation::InvalidCode;
use crate::model::{Build, Id, Status, Timestamp};
use crate::store::build_list::{self, BuildFilter};
use crate::store::{Read, StoreError};

/// Lines of the log in the detail.
const RECENT_LINES: usize = 200;

/// A build that the caller may see.
pub(super) fn find(rows: &impl Read, caller: &Caller, id: Id<Build>) -> Result<Build> {
    let build: Option<Build> = rows.get(caller.organization(), id)?;
    build.filter(|build| caller.may_see(build)).ok_or_else(|| Problem::NotFound.into())
}

/// The same, as it is shown.
fn find_shown(rows: &impl Read, app: &App, caller: &Caller, id: Id<Build>) -> Result<Build> {
    let mut build = find(rows, caller, id)?;
    app.builds.keeping().show(rows, [&mut build])?;
    Ok(build)
}

/// GET `/builds`
pub(super) struct ListBuilds {
    project_id: Option<String>,
    build_setting_id: Option<String>,
    status: Option<String>,
    platform: Option<String>,
    build_type: Option<String>,
    branch: Option<String>,
    limit: usize,
    cursor: Option<String>,
}

impl FromQuery for ListBuilds {
    fn read(query: &mut Query) -> Result<Option<Self>> {
        Ok(Some(ListBuilds {
            project_id: query.text("projectId", "Only builds of this project. An unknown id: an empty list."),
            build_setting_id: query.text("buildSettingId", "Only builds of this build setting. An unknown id: an empty list."),
            status: query.one_of("status", Status::ALL.map(Status::as_str), "Only builds that stand here."),
            platform: query.checked("platform", known_platform()),
            build_type: query.one_of("buildType", BUILD_TYPES, "Only builds of this build type."),
            branch: query.text("branch", "Only builds of this branch or stream path, exactly as written."),
            limit: query.limit()?,
            cursor: query.cursor(),
        }))
    }
}

/// Which platforms there are, the configuration says; see [`ListBuilds::check_platform`].
fn known_platform() -> Check<'static, String> {
    let about = "Only builds for this platform: one of the engine's own, or one that the server's configuration adds.";
    Check::new(json!({"type": "string", "examples": PLATFORMS}), |value| match value {
        serde_json::Value::String(platform) => Ok(platform),
        _ => Err(Fault::wrong_type("a string")),
    })
    .about(about)
}

impl ListBuilds {
    /// The filter; `None` when an id can belong to nothing: the list is empty, as for any id that is unknown.
    fn filter(&self) -> Option<BuildFilter> {
        Some(BuildFilter {
            project_id: self.project_id.as_deref().map(str::parse).transpose().ok()?,
            build_setting_id: self.build_setting_id.as_deref().map(str::parse).transpose().ok()?,
            status: self.status.as_deref().and_then(|status| status.parse().ok()),
            platform: self.platform.clone(),
            build_type: self.build_type.clone(),
            branch: self.branch.clone(),
        })
    }

    fn check_platform(&self, app: &App) -> Result<()> {
        let Some(platform) = &self.platform else { return Ok(()) };
        let known = PLATFORMS.into_iter().chain(app.settings.extra_platforms.iter().map(String::as_str));
        let known: Vec<String> = known.map(str::to_owned).collect();
        if known.contains(platform) {
            return Ok(());
        }
        let detail = crate::model::validation::Invalid::new("platform", InvalidCode::InvalidValue, "is none of the allowed values");
        Err(ApiError::validation(vec![crate::model::validation::Invalid { allowed: known, ..detail }]))
    }
}

/// Builds of the whole organization, newest first.
pub(super) async fn list(call: Call<(), ListBuilds>) -> Result<Ok200<Page<BuildView>>> {
    let (query, caller, app) = (&call.query, &call.caller, &call.app);
    query.check_platform(app)?;
    let filters = [&query.project_id, &query.build_setting_id, &query.status, &query.platform, &query.build_type, &query.branch];
    let cursors = Cursors::new(&app.vault, caller.organization(), "listBuilds", &filters.map(Option::as_deref))?;
    let after = query.cursor.as_deref().map(|cursor| cursors.read::<Build>(cursor)).transpose()?;
    let Some(filter) = query.filter() else { return Ok(Ok200(Page { items: Vec::new(), next_cursor: None })) };
    let page = app.store.read(|snapshot| {
        let mut page = page(snapshot, caller, &filter, after, query.limit)?;
        app.builds.keeping().show(snapshot, &mut page.items)?;
        Ok::<_, StoreError>(page)
    })?;
    let outlooks = app.builds.outlooks(&page.items)?;
    let items = page.items.into_iter().zip(outlooks).map(|(build, outlook)| BuildView::new(build, outlook)).collect();
    Ok(Ok200(Page { items, next_cursor: page.next.map(|last| cursors.write(last)) }))
}

/// One page of what the caller may see. A limited token sees the lists of what it is limited to, merged.
fn page(
    rows: &impl Read,
    caller: &Caller,
    filter: &BuildFilter,
    after: Option<Id<Build>>,
    limit: usize,
) -> std::result::Result<crate::store::Page<Build>, StoreError> {
    let organization = caller.organization();
    let filters: Vec<BuildFilter> = match (caller.setting_limit(), caller.project_limit()) {
        (None, None) => return build_list::page(rows, organization, filter, after, limit),
        (Some(settings), _) => {
            let wanted = settings.iter().filter(|id| filter.build_setting_id.is_none_or(|wanted| wanted == **id));
            wanted.map(|id| BuildFilter { build_setting_id: Some(*id), ..filter.clone() }).collect()
        }
        (None, Some(projects)) => {
            let wanted = projects.iter().filter(|id| filter.project_id.is_none_or(|wanted| wanted == **id));
            wanted.map(|id| BuildFilter { project_id: Some(*id), ..filter.clone() }).collect()
        }
    };
    let (mut items, mut more) = (Vec::new(), false);
    for filter in &filters {
        let page = build_list::page(rows, organization, filter, after, limit)?;
        more |= page.next.is_some();
        items.extend(page.items.into_iter().filter(|build| caller.may_see(build)));
    }
    items.sort_unstable_by_key(|build| std::cmp::Reverse(build.id));
    more |= items.len() > limit;
    items.truncate(limit);
    let next = items.last().map(|build| build.id).filter(|_| more);
    Ok(crate::store::Page { items, next })
}

/// One build with the newest lines of its log.
pub(super) async fn show(call: Call<Id<Build>>) -> Result<Resource<BuildDetail>> {
    let build = call.app.store.read(|snapshot| find_shown(snapshot, &call.app, &call.caller, call.path))?;
    let log = call.app.logs.reader(build.id).await.map_err(ApiError::internal)?;
    let log_lines = log.line_count().max(build.log_lines);
    let recent_logs = log.tail(RECENT_LINES).await.map_err(ApiError::internal)?;
    let version = u64::from(build.pinned);
    let outlook = call.app.builds.outlook(&build)?;
    Ok(Resource { value: BuildDetail { build: BuildView::new(build, outlook), recent_logs, log_lines }, version })
}

/// Errors and warnings of one build.
pub(super) async fn diagnostics(call: Call<Id<Build>>) -> Result<Ok200<Diagnostics>> {
    call.app.store.read(|snapshot| find(snapshot, &call.caller, call.path).map(|build| Ok200(build.diagnostics)))
}

/// Where the artifact can be downloaded, for 24 hours.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Download {
    /// The signed link; it needs no header, so whoever has it can download.
    #[schemars(extend("format" = "uri"))]
    #[schemars(example = &"https://builds.studio.example/artifacts/01k7f9zq4v6m2x8c3b5n0t7h.tar.gz?expires=1795253400&key=1&signature=m3Ql")]
    url: String,
    /// When the link ends. Ask again for a new one.
    expires_at: Timestamp,
    /// Bytes of the tarball.
    #[schemars(example = 1_482_366_976)]
    size_bytes: u64,
    /// MD5 of the tarball, in lower-case hex.
    #[schemars(example = &"9e107d9d372bb6826bd81d3542a419d6")]
    checksum_md5: String,
}

/// A link to the artifact.
pub(super) async fn download(call: Call<Id<Build>>) -> Result<Ok200<Download>> {
    let build = call.app.store.read(|snapshot| find(snapshot, &call.caller, call.path))?;
    let gone = |text: &str| Err(ApiError::new(Problem::NotFound, text));
    let artifact = match (build.status, build.artifact) {
        (Status::Pending | Status::Running, _) => return gone("The build is not finished; there is no artifact yet."),
        (_, None) => return gone("The build never produced an artifact."),
        (_, Some(artifact)) if artifact.deleted_at.is_some() => return gone("The artifact was deleted by retention."),
        (_, Some(artifact)) => artifact,
    };
    // Links carry whole seconds.
    let now = Timestamp(call.app.clock.now().seconds() * 1000);
    let expires_at = now.plus(Duration::from_secs(LIFETIME_SECONDS.unsigned_abs()));
    Ok(Ok200(Download {
        url: format!("{}{}", call.head.base_url, call.app.links.sign(build.id, expires_at)),
        expires_at,
        size_bytes: artifact.size_bytes,
        checksum_md5: artifact.checksum_md5,
    }))
}

/// Ends a build that nobody wants any more.
pub(super) async fn cancel(call: Call<Id<Build>>) -> Result<Accepted<BuildView>> {
    call.app.store.read(|snapshot| find_for_change(snapshot, &call.caller, call.path))?;
    let build = call.app.builds.cancel(call.caller.organization(), call.path).await.map_err(refusal)?;
    Ok(Accepted(BuildView::new(build, None)))
}

/// Builds the same revision again.
pub(super) async fn retry(call: Call<Id<Build>>) -> Result<Created<BuildView>> {
    let (caller, id, idempotency, builds) = (call.caller, call.path, call.idempotency, call.app.builds.clone());
    call.app.store.read(|snapshot| find_for_change(snapshot, &caller, id))?;
    let start = move |tx: &crate::store::Change| {
        let build = builds.retry_in(tx, caller.organization(), id, caller.cause()).map_err(refusal)?;
        let created = Created::new(&format!("/builds/{}", build.id), &BuildView::new(build, None), Some(0))?;
        idempotency.remember(tx, &created)?;
        Ok::<_, ApiError>(created)
    };
    call.app.store.write(start).await
}

/// Hands the artifact to the setting's targets once more.
pub(super) async fn deploy(call: Call<Id<Build>>) -> Result<Accepted<BuildView>> {
    call.app.store.read(|snapshot| find_for_change(snapshot, &call.caller, call.path))?;
    let build = call.app.builds.deploy(call.caller.organization(), call.path, call.caller.cause()).await.map_err(refusal)?;
    Ok(Accepted(BuildView::new(build, None)))
}

/// Body of PATCH `/builds/:id`
pub(super) struct BuildChange {
    pinned: Option<bool>,
}

impl ReadFields for BuildChange {
    fn read(fields: &mut Fields) -> Option<Self> {
        let pinned = body::boolean().about("True keeps the artifact from retention, false gives it back.").example(true);
        Some(BuildChange { pinned: fields.optional("pinned", pinned) })
    }
}

/// Keeps the artifact from retention, or gives it back.
pub(super) async fn change(call: Call<Id<Build>, (), BuildChange>) -> Result<Resource<BuildView>> {
    let (caller, head, id, builds) = (call.caller, call.head, call.path, call.app.builds.clone());
    let pinned = call.body.pinned;
    let update = move |tx: &crate::store::Change| {
        let mut build = find_for_change(tx, &caller, id)?;
        check_match(&head, u64::from(build.pinned))?;
        if let Some(pinned) = pinned.filter(|pinned| *pinned != build.pinned) {
            build.pinned = pinned;
            tx.put(&build)?;
        }
        builds.keeping().show(tx, [&mut build])?;
        Ok::<_, ApiError>(build)
    };
    let build = call.app.store.write(update).await?;
    let (version, outlook) = (u64::from(build.pinned), call.app.builds.outlook(&build)?);
    Ok(Resource { value: BuildView::new(build, outlook), version })
}

/// A build that the caller's token may act on, not only look at.
fn find_for_change(rows: &impl Read, caller: &Caller, id: Id<Build>) -> Result<Build> {
    let build: Option<Build> = rows.get(caller.organization(), id)?;
    let build = build.filter(|build| caller.reaches_setting(build.project_id, build.build_setting_id)).ok_or(Problem::NotFound)?;
    caller.check_acts_on(&build)?;
    Ok(build)
}

fn refusal(error: Refused) -> ApiError {
    match error {
        Refused::NotFound => Problem::NotFound.into(),
        Refused::Finished => Problem::BuildFinished.into(),
        Refused::Unfinished => ApiError::new(Problem::BuildUnfinished, "The build is not finished; it can be repeated when it is."),
        Refused::SettingDeleted => ApiError::new(Problem::NotFound, "The build's setting was deleted; there is nothing to build it by."),
        Refused::NoArtifact => ApiError::new(Problem::NotFound, "The build has no artifact to deploy."),
        Refused::NoDeployTarget => {
            ApiError::field("uploadBuildUrl", InvalidCode::Required, "the build's setting names no target to deploy to")
        }
        Refused::DeployUnderWay => ApiError::new(Problem::BuildUnfinished, "A deploy of this build is under way."),
        Refused::Store(error) => error.into(),
    }
}
