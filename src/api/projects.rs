//! Projects: a codebase and its settings (decisions 6).

use schemars::JsonSchema;
use serde::Serialize;

use super::auth::Caller;
use super::body::{self, Change, Check, Fault, Fields, ReadFields};
use super::build_settings::SettingView;
use super::conditional::check_match;
use super::cursor::Cursors;
use super::endpoint::{Call, Created, NoContent, Ok200, Resource};
use super::error::{ApiError, Problem, Result};
use super::githost::Githost;
use super::idempotency::Idempotency;
use super::query::{FromQuery, Query};
use crate::app::App;
use crate::builds::lifecycle::LifecycleError;
use crate::model::page::Page;
use crate::model::project::{SourceLink, UprojectInfo, is_repository_name};
use crate::model::revision::check_branch;
use crate::model::{BuildSetting, Id, Project, Status, Timestamp};
use crate::store::key::Key;
use crate::store::{Order, Read, StoreError, tables};

const LONGEST_NAME: usize = 100;
const LONGEST_DESCRIPTION: usize = 4000;
const LONGEST_PATH: usize = 512;
/// What [`check_branch`] takes, for the documentation.
const BRANCH_PATTERN: &str = "^(?!refs/|HEAD$|@$)(?!.*(\\.\\.|@\\{))(?![-.])[^\\x00-\\x20\\x7f-\\x9f~^:?*\\[\\\\]+$";
/// What [`uproject_path`] takes, for the documentation.
const UPROJECT_PATTERN: &str = "^$|^(?![-/])[^\\x00-\\x1f\\x7f-\\x9f\\\\:<>\"|?*]+\\.[uU][pP][rR][oO][jJ][eE][cC][tT]$";
/// Settings of one project.
pub(super) const MOST_SETTINGS: usize = 500;

/// The two kinds of codebase.
const KINDS: [&str; 2] = ["githost", "streamvc"];

/// A project as lists show it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ProjectSummary")]
pub(super) struct Summary {
    /// Its id.
    id: Id<Project>,
    /// What people call it.
    #[schemars(example = &"Kitchen")]
    name: String,
    /// What people say of it; `""` when nothing.
    #[schemars(example = &"A game about cooking.")]
    description: String,
    /// What kind of codebase it is: a repository at a git host, or a stream of a version-control server.
    #[schemars(extend("enum" = KINDS))]
    source_control: &'static str,
    /// The repository as `<owner>/<repo>`, or the stream's path. Never changes.
    #[schemars(example = &"studio/kitchen")]
    repo_link: String,
    /// When its newest build was created; null before the first.
    last_build_at: Option<Timestamp>,
    /// Where its newest build stands; null before the first.
    last_build_status: Option<Status>,
}

/// A project with its build settings and what its project file says.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Project")]
pub(super) struct Detail {
    #[serde(flatten)]
    summary: Summary,
    /// When it was linked.
    created_at: Timestamp,
    /// When somebody last changed it.
    updated_at: Timestamp,
    /// Where the project file lies in the codebase.
    #[schemars(example = &"Game/Kitchen.uproject")]
    uproject_path: String,
    /// Its build settings, oldest first.
    build_settings: Vec<SettingView>,
    /// What the project file said when the project was linked; null when nobody could read it.
    uproject: Option<UprojectInfo>,
    /// Git-hosted projects: which installation reaches the repository.
    #[schemars(example = &"studio")]
    installation_id: Option<String>,
    /// Git-hosted projects: the branch when nobody names one.
    #[schemars(example = &"main")]
    default_branch: Option<String>,
    /// Stream-based projects: the depot.
    depot: Option<String>,
    /// Stream-based projects: the stream.
    stream_path: Option<String>,
}

impl Summary {
    fn new(project: &Project) -> Self {
        Summary {
            id: project.id,
            name: project.name.clone(),
            description: project.description.clone(),
            source_control: project.source.kind(),
            repo_link: project.source.repo_link().to_owned(),
            last_build_at: project.last_build.as_ref().map(|build| build.at),
            last_build_status: project.last_build.as_ref().map(|build| build.status),
        }
    }
}

impl Detail {
    pub(super) fn new(project: &Project, settings: &[BuildSetting]) -> Self {
        let (installation_id, default_branch, depot, stream_path) = match project.source.clone() {
            SourceLink::Githost { installation_id, default_branch, .. } => (Some(installation_id), Some(default_branch), None, None),
            SourceLink::Streamvc { depot, stream_path } => (None, None, Some(depot), Some(stream_path)),
        };
        Detail {
            summary: Summary::new(project),
            created_at: project.created_at,
            updated_at: project.updated_at,
            uproject_path: project.uproject_path.clone(),
            build_settings: settings.iter().map(SettingView::new).collect(),
            uproject: project.uproject.clone(),
            installation_id,
            default_branch,
            depot,
            stream_path,
        }
    }

    fn resource(project: &Project, settings: &[BuildSetting]) -> Resource<Detail> {
        Resource { value: Detail::new(project, settings), version: project.version }
    }
}

/// The settings of a project that a caller may see, oldest first.
pub(super) fn settings_of(rows: &impl Read, caller: &Caller, project: Id<Project>) -> std::result::Result<Vec<BuildSetting>, StoreError> {
    let key = Key::of_id(project);
    let all = rows.find_all(caller.organization(), &tables::BUILD_SETTINGS_BY_PROJECT, &key, Order::OldestFirst, MOST_SETTINGS)?;
    Ok(all.into_iter().filter(|setting: &BuildSetting| caller.reaches_setting(project, setting.id)).collect())
}

/// A project that a caller may see.
pub(super) fn find(rows: &impl Read, caller: &Caller, id: Id<Project>) -> Result<Project> {
    if !caller.reaches_project(id) {
        return Err(Problem::NotFound.into());
    }
    rows.get(caller.organization(), id)?.ok_or_else(|| Problem::NotFound.into())
}

/// GET `/projects`
pub(super) struct ListProjects {
    source_control: Option<String>,
    limit: usize,
    cursor: Option<String>,
}

impl FromQuery for ListProjects {
    fn read(query: &mut Query) -> Result<Option<Self>> {
        Ok(Some(ListProjects {
            source_control: query.one_of("sourceControl", KINDS, "Only projects of this kind of codebase."),
            limit: query.limit()?,
            cursor: query.cursor(),
        }))
    }
}

/// Projects, oldest first.
pub(super) async fn list(call: Call<(), ListProjects>) -> Result<Ok200<Page<Summary>>> {
    let ListProjects { source_control, limit, cursor } = call.query;
    let organization = call.caller.organization();
    let cursors = Cursors::new(&call.app.vault, organization, "listProjects", &[source_control.as_deref()])?;
    let after = cursor.map(|cursor| cursors.read::<Project>(&cursor)).transpose()?;
    let page = call.app.store.read(|snapshot| match call.caller.project_limit() {
        None => {
            let walk = source_control.as_deref().map(|kind| (&tables::PROJECTS_BY_KIND, Key::of_text(kind)));
            snapshot.page(organization, walk, after, Order::OldestFirst, limit)
        }
        // A token of few projects: they are looked up one by one. The limit is kept sorted.
        Some(ids) => {
            let mut items = Vec::new();
            for id in ids.iter().filter(|id| after.is_none_or(|after| **id > after)) {
                let project: Option<Project> = snapshot.get(organization, *id)?;
                items.extend(project.filter(|project| source_control.as_deref().is_none_or(|kind| kind == project.source.kind())));
            }
            let more = items.len() > limit;
            items.truncate(limit);
            let next = items.last().filter(|_| more).map(|last| last.id);
            Ok(crate::store::Page { items, next })
        }
    })?;
    let page: crate::store::Page<Project> = page;
    Ok(Ok200(Page { items: page.items.iter().map(Summary::new).collect(), next_cursor: page.next.map(|last| cursors.write(last)) }))
}

/// One project.
pub(super) async fn show(call: Call<Id<Project>>) -> Result<Resource<Detail>> {
    call.app.store.read(|snapshot| {
        let project = find(snapshot, &call.caller, call.path)?;
        let settings = settings_of(snapshot, &call.caller, project.id)?;
        Ok(Detail::resource(&project, &settings))
    })
}

/// Body of POST `/projects/add-repo`
pub(super) struct AddRepo {
    name: String,
    installation_id: String,
    repo_full_name: String,
    default_branch: String,
    uproject_path: Option<String>,
}

impl ReadFields for AddRepo {
    fn read(fields: &mut Fields) -> Option<Self> {
        let name = fields.required("name", project_name());
        let installation = body::name(200).about("Which of the git-host connection's installations reaches the repository.");
        let installation_id = fields.required("installationId", installation.example("studio"));
        let repo_full_name = fields.required("repoFullName", repository_name());
        let default_branch = fields.required("defaultBranch", branch().about("The branch when nobody names one."));
        let path = uproject_path().about(
            "The project file's path in the repository. Absent, null or `\"\"`: it is looked for, at most three directories deep; several are 409 `multiple_uprojects`.",
        );
        let uproject_path = fields.change("uprojectPath", path).value().filter(|path| !path.is_empty());
        Some(AddRepo {
            name: name?,
            installation_id: installation_id?,
            repo_full_name: repo_full_name?,
            default_branch: default_branch?,
            uproject_path,
        })
    }
}

/// What people call a project.
pub(super) fn project_name() -> Check<'static, String> {
    body::name(LONGEST_NAME).about("What people call the project; two may have the same name.").example("Kitchen")
}

/// `<owner>/<repo>`
pub(super) fn repository_name() -> Check<'static, String> {
    let check = body::text(201).and(|name| match is_repository_name(&name) {
        true => Ok(name),
        false => Err(Fault::invalid("must look like owner/repository")),
    });
    let check = check.about("The repository, as `<owner>/<repo>`.").example("studio/kitchen");
    check.with("pattern", "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}/(?!.*\\.[Gg][Ii][Tt]$)[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")
}

/// A branch's name.
pub(super) fn branch() -> Check<'static, String> {
    let check = body::text(250).and(|name| check_branch(&name).map_err(Fault::invalid).map(|()| name));
    check.with("pattern", BRANCH_PATTERN).about("A branch.").example("main")
}

/// A project file's path in the codebase. `""` is for callers to judge.
pub(super) fn uproject_path() -> Check<'static, String> {
    let check = body::text(LONGEST_PATH).and(checked_path);
    check.with("pattern", UPROJECT_PATTERN).about("The project file's path in the codebase.").example("Game/Kitchen.uproject")
}

fn checked_path(path: String) -> std::result::Result<String, Fault> {
    if path.is_empty() {
        return Ok(path);
    }
    let is_relative = !path.starts_with('/') && !path.contains(['\\', ':', '<', '>', '"', '|', '?', '*']);
    let is_plain =
        path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.starts_with('-') && !part.eq_ignore_ascii_case(".git"));
    let has_name = path.len() > ".uproject".len()
        && path.to_ascii_lowercase().ends_with(".uproject")
        && !path.to_ascii_lowercase().ends_with("/.uproject");
    match is_relative && is_plain && has_name {
        true => Ok(path),
        false => Err(Fault::invalid("must be the relative path of a .uproject file, with / between its parts")),
    }
}

/// Links a git-hosted repository. Everything is verified at the host before anything is stored.
pub(super) async fn add_repo(call: Call<(), (), AddRepo>) -> Result<Created<Detail>> {
    if call.caller.is_limited() {
        return Err(ApiError::new(Problem::InsufficientScope, "A token that is limited to projects or settings adds none."));
    }
    let AddRepo { name, installation_id, repo_full_name, default_branch, uproject_path } = call.body;
    let host = Githost::of(&call.app, &call.caller, &installation_id)?;
    let head = host.head(&repo_full_name, &default_branch).await?;
    let uproject = host.uproject(&repo_full_name, &head.id, uproject_path.as_deref()).await?;
    let now = call.app.clock.now();
    let project = Project {
        id: call.app.clock.new_id(),
        organization_id: call.caller.organization(),
        name,
        description: String::new(),
        source: SourceLink::Githost { installation_id, repo_full_name, default_branch },
        uproject_path: uproject.path.clone(),
        uproject: Some(uproject),
        last_build: None,
        created_at: now,
        updated_at: now,
        version: 1,
    };
    link(&call.app, call.idempotency, project, |_| Ok(())).await
}

/// Stores a project that nobody has linked yet. `is_still_possible` looks, in the same transaction, at what may have gone
/// since it was looked at.
pub(super) async fn link(
    app: &App,
    idempotency: Idempotency,
    project: Project,
    is_still_possible: impl FnOnce(&crate::store::Change) -> Result<()> + Send + 'static,
) -> Result<Created<Detail>> {
    let created = Created::new(&format!("/projects/{}", project.id), &Detail::new(&project, &[]), Some(project.version))?;
    let answer = created.clone();
    let insert = move |change: &crate::store::Change| {
        is_still_possible(change)?;
        let key = tables::project_source_key(project.source.kind(), project.source.repo_link(), &project.uproject_path);
        if change.find(project.organization_id, &tables::PROJECTS_BY_SOURCE, &key)?.is_some() {
            return Err(ApiError::from(Problem::ProjectExists));
        }
        change.put(&project)?;
        idempotency.remember(change, &answer)
    };
    app.store.write(insert).await?;
    Ok(created)
}

/// Body of PATCH `/projects/:id`
pub(super) struct ProjectChange {
    name: Option<String>,
    description: Change<String>,
}

impl ReadFields for ProjectChange {
    fn read(fields: &mut Fields) -> Option<Self> {
        let name = fields.optional("name", project_name());
        let description = body::prose(LONGEST_DESCRIPTION).about("What people say of it; null clears it.").example("A game about cooking.");
        let description = fields.change("description", description);
        // The link to the codebase never changes: delete and create again.
        fields.read_only(&["id", "sourceControl", "repoLink", "lastBuildAt", "lastBuildStatus", "createdAt", "updatedAt", "uprojectPath"]);
        fields.read_only(&["buildSettings", "uproject", "installationId", "defaultBranch", "depot", "streamPath", "repoFullName"]);
        Some(ProjectChange { name, description })
    }
}

/// Changes name and description.
pub(super) async fn change(call: Call<Id<Project>, (), ProjectChange>) -> Result<Resource<Detail>> {
    let (caller, head, id, now) = (call.caller, call.head, call.path, call.app.clock.now());
    let ProjectChange { name, description } = call.body;
    let update = move |change: &crate::store::Change| {
        let mut project = find(change, &caller, id)?;
        check_match(&head, project.version)?;
        if let Some(name) = name {
            project.name = name;
        }
        match description {
            Change::Absent => {}
            Change::Null => project.description.clear(),
            Change::Value(description) => project.description = description,
        }
        project.updated_at = now;
        project.version += 1;
        change.put(&project)?;
        let settings = settings_of(change, &caller, id)?;
        Ok::<_, ApiError>(Detail::resource(&project, &settings))
    };
    call.app.store.write(update).await
}

/// Removes a project and its settings; what it still has to build ends. Build records and artifacts stay.
pub(super) async fn remove(call: Call<Id<Project>>) -> Result<NoContent> {
    let (caller, head, id, builds) = (call.caller, call.head, call.path, call.app.builds.clone());
    let delete = move |change: &crate::store::Change| {
        let project = find(change, &caller, id)?;
        check_match(&head, project.version)?;
        let organization = caller.organization();
        let settings: Vec<BuildSetting> =
            change.find_all(organization, &tables::BUILD_SETTINGS_BY_PROJECT, &Key::of_id(id), Order::OldestFirst, usize::MAX)?;
        builds.project_deleted_in(change, organization, id, settings.iter().map(|setting| setting.id).collect()).map_err(lifecycle)?;
        for setting in settings {
            change.remove(organization, setting.id)?;
        }
        change.remove(organization, id)?;
        Ok::<_, ApiError>(NoContent)
    };
    call.app.store.write(delete).await
}

/// What the life of builds can refuse inside somebody else's transaction: nothing that a client could mend.
pub(super) fn lifecycle(error: LifecycleError) -> ApiError {
    match error {
        LifecycleError::Store(error) => error.into(),
        LifecycleError::NotFound | LifecycleError::CancelRequested | LifecycleError::Transition(_) => ApiError::internal(error),
    }
}
