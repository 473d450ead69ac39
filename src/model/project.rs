//! A project: a codebase and its settings (decisions 6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::build::Status;
use super::{Build, Id, Organization, Timestamp};

/// A project as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// Its id.
    pub id: Id<Project>,
    /// Whose it is.
    pub organization_id: Id<Organization>,
    /// What people call it.
    pub name: String,
    /// What people say of it.
    pub description: String,
    /// The codebase; never changes.
    pub source: SourceLink,
    /// Where the project file lies in the codebase.
    pub uproject_path: String,
    /// What it said when the project was linked.
    pub uproject: Option<UprojectInfo>,
    /// Its newest build.
    pub last_build: Option<LastBuild>,
    /// When it was linked.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Counts changes; the ETag.
    pub version: u64,
}

/// Where the code lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum SourceLink {
    /// A repository at a git host.
    Githost {
        /// Which of the integration's installations.
        installation_id: String,
        /// `<owner>/<repo>`.
        repo_full_name: String,
        /// The branch when nobody names one.
        default_branch: String,
    },
    /// A stream on a version-control server.
    Streamvc {
        /// `//depot`.
        depot: String,
        /// `//depot/stream`.
        stream_path: String,
    },
}

impl SourceLink {
    /// The specification's `sourceControl`.
    pub fn kind(&self) -> &'static str {
        match self {
            SourceLink::Githost { .. } => "githost",
            SourceLink::Streamvc { .. } => "streamvc",
        }
    }

    /// The specification's `repoLink`: the repository, or the stream path.
    pub fn repo_link(&self) -> &str {
        match self {
            SourceLink::Githost { repo_full_name, .. } => repo_full_name,
            SourceLink::Streamvc { stream_path, .. } => stream_path,
        }
    }
}

/// The newest build, kept on the project so that lists cost a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastBuild {
    /// Which.
    pub id: Id<Build>,
    /// When it was created.
    pub at: Timestamp,
    /// Where it stands.
    pub status: Status,
}

/// What a `.uproject` file says (specification, git-hosting records).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UprojectInfo {
    /// Path in the codebase.
    pub path: String,
    /// File name without its extension.
    pub project_name: String,
    /// `EngineAssociation`: a version, a GUID, a path or `""`.
    pub engine_version: String,
    /// `Modules`.
    pub modules: Vec<UprojectModule>,
    /// `Plugins`.
    pub plugins: Vec<UprojectPlugin>,
}

/// One of its modules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UprojectModule {
    /// Its name.
    pub name: String,
    /// `Runtime`, `Editor`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// `Default`, `PreDefault`, ...
    pub loading_phase: String,
}

/// One of its plugins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UprojectPlugin {
    /// Its name.
    pub name: String,
    /// Switched on.
    pub enabled: bool,
}

/// Whether a text is a repository's full name, `<owner>/<repo>`.
pub fn is_repository_name(name: &str) -> bool {
    let is_part = |part: &str| {
        (1..=100).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            && !part.starts_with(['-', '.'])
    };
    name.split_once('/')
        .is_some_and(|(owner, repository)| is_part(owner) && is_part(repository) && !repository.to_ascii_lowercase().ends_with(".git"))
}
