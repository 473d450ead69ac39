//! What is sent: made once, in the transaction that makes it true, and the same bytes on every try.
//!
//! The words are those of the API; every text is cut, so that a message stays below what receivers take (Standard
//! Webhooks asks for less than 20 kB).

use serde::{Deserialize, Serialize};

use super::WebhookKind;
use crate::model::build::{Failure, FailureCode, Step, StepName};
use crate::model::deploy::{DeployError, DeployFailureCode, DeployStatus};
use crate::model::{Artifact, Build, BuildSetting, Id, Organization, Project, Status, Timestamp, TriggeredBy};

/// A message as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookMessage {
    /// `webhook-id`.
    pub id: Id<WebhookMessage>,
    /// Whose.
    pub organization_id: Id<Organization>,
    /// When it was made.
    pub created_at: Timestamp,
    /// JSON, exactly as it is sent and signed.
    pub body: String,
}

/// Names and short words.
const WORD: usize = 128;
/// Branches, streams, paths.
const PLACE: usize = 300;
/// Sentences.
const SENTENCE: usize = 300;
/// Targets and steps that are listed: a build that is handed on again and again has many.
const LISTED: usize = 8;

/// The body of a message: the state at `at`.
pub fn body(kind: WebhookKind, at: Timestamp, build: Option<&Build>, project: Option<&Project>, organization: &Organization) -> String {
    let data = Data {
        build: build.map(BuildData::new),
        project: project.map(|project| ProjectData {
            id: project.id,
            name: cut(&project.name, WORD),
            source_control: project.source.kind(),
            repo_link: cut(project.source.repo_link(), PLACE),
        }),
        organization: OrganizationData { id: organization.id, name: cut(&organization.name, WORD), slug: cut(&organization.slug, WORD) },
    };
    // These types have no maps and no floats: turning them into JSON does not fail.
    serde_json::to_string(&Body { kind, timestamp: at, data }).unwrap_or_default()
}

#[derive(Serialize)]
struct Body {
    #[serde(rename = "type")]
    kind: WebhookKind,
    timestamp: Timestamp,
    data: Data,
}

#[derive(Serialize)]
struct Data {
    build: Option<BuildData>,
    project: Option<ProjectData>,
    organization: OrganizationData,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OrganizationData {
    id: Id<Organization>,
    name: String,
    slug: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProjectData {
    id: Id<Project>,
    name: String,
    source_control: &'static str,
    repo_link: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BuildData {
    id: Id<Build>,
    project_id: Id<Project>,
    build_setting_id: Id<BuildSetting>,
    status: Status,
    platform: String,
    build_type: String,
    target_type: String,
    branch: String,
    commit: String,
    commit_message: String,
    changelist: Option<String>,
    ue_version: String,
    triggered_by: TriggeredBy,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    duration_ms: Option<u64>,
    superseded_by: Option<Id<Build>>,
    retry_of: Option<Id<Build>>,
    failure: Option<FailureData>,
    steps: Vec<Step>,
    diagnostics: DiagnosticsData,
    artifact: Option<Artifact>,
    auto_deploy_status: Option<DeployStatus>,
    auto_deploy_error: Option<DeployErrorData>,
    deployments: Vec<DeploymentData>,
}

#[derive(Serialize)]
struct FailureData {
    code: FailureCode,
    message: String,
    step: Option<StepName>,
}

/// Without the entries: they are a page of their own.
#[derive(Serialize)]
struct DiagnosticsData {
    errors: u64,
    warnings: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeployErrorData {
    code: DeployFailureCode,
    http_status: Option<u16>,
    message: String,
    attempted_at: Timestamp,
}

#[derive(Serialize)]
struct DeploymentData {
    plugin: String,
    status: DeployStatus,
    error: Option<DeployErrorData>,
}

impl BuildData {
    fn new(build: &Build) -> Self {
        let failure = |Failure { code, message, step }: &Failure| FailureData { code: *code, message: cut(message, SENTENCE), step: *step };
        let deploy_error = |error: &DeployError| DeployErrorData {
            code: error.code,
            http_status: error.http_status,
            message: cut(&error.message, SENTENCE),
            attempted_at: error.attempted_at,
        };
        BuildData {
            id: build.id,
            project_id: build.project_id,
            build_setting_id: build.build_setting_id,
            status: build.status,
            platform: cut(&build.platform, WORD),
            build_type: cut(&build.build_type, WORD),
            target_type: cut(&build.target_type, WORD),
            branch: cut(&build.branch, PLACE),
            commit: cut(&build.commit, WORD),
            commit_message: cut(&build.commit_message, SENTENCE),
            changelist: build.changelist.as_deref().map(|changelist| cut(changelist, WORD)),
            ue_version: cut(&build.ue_version, WORD),
            triggered_by: build.triggered_by.clone(),
            created_at: build.created_at,
            started_at: build.started_at,
            finished_at: build.finished_at,
            duration_ms: build.duration_ms(),
            superseded_by: build.superseded_by,
            retry_of: build.retry_of,
            failure: build.failure.as_ref().map(failure),
            steps: build.steps[build.steps.len().saturating_sub(LISTED)..].to_vec(),
            diagnostics: DiagnosticsData { errors: build.diagnostics.errors, warnings: build.diagnostics.warnings },
            artifact: build.artifact.clone(),
            auto_deploy_status: build.auto_deploy_status,
            auto_deploy_error: build.auto_deploy_error.as_ref().map(deploy_error),
            deployments: build
                .deployments
                .iter()
                .take(LISTED)
                .map(|deployment| DeploymentData {
                    plugin: cut(&deployment.plugin, WORD),
                    status: deployment.status,
                    // The whole sentence of the first is `autoDeployError`.
                    error: deployment
                        .error
                        .as_ref()
                        .map(|error| DeployErrorData { message: cut(&error.message, WORD), ..deploy_error(error) }),
                })
                .collect(),
        }
    }
}

/// At most `most` characters, in one line: a control character takes six bytes in JSON.
fn cut(text: &str, most: usize) -> String {
    let mut characters = text.chars().map(|character| if character.is_control() { ' ' } else { character });
    let mut cut: String = characters.by_ref().take(most).collect();
    if characters.next().is_some() {
        cut.pop();
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::build::StepStatus;
    use crate::model::deploy::Deployment;
    use crate::model::project::SourceLink;

    fn organization(name: &str) -> Organization {
        Organization {
            id: Id::from_parts(1, 1),
            name: name.to_owned(),
            slug: name.to_owned(),
            default_project_settings: Default::default(),
            integration_settings: Default::default(),
            githost: None,
            streamvc: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            version: 1,
        }
    }

    fn project(text: &str) -> Project {
        Project {
            id: Id::from_parts(1, 2),
            organization_id: Id::from_parts(1, 1),
            name: text.to_owned(),
            description: text.to_owned(),
            source: SourceLink::Streamvc { depot: text.to_owned(), stream_path: text.to_owned() },
            uproject_path: text.to_owned(),
            uproject: None,
            last_build: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            version: 1,
        }
    }

    fn build(text: &str) -> Build {
        let error = DeployError {
            code: DeployFailureCode::ArtifactMissing,
            http_status: Some(599),
            message: text.to_owned(),
            attempted_at: Timestamp(253_402_300_799_999),
        };
        let step = Step {
            name: StepName::Prepare,
            status: StepStatus::Complete,
            started_at: Timestamp(0),
            finished_at: Some(Timestamp(0)),
            duration_ms: Some(u64::MAX),
        };
        Build {
            id: Id::from_parts(1, 3),
            organization_id: Id::from_parts(1, 1),
            project_id: Id::from_parts(1, 2),
            build_setting_id: Id::from_parts(1, 4),
            status: Status::Superseded,
            platform: text.to_owned(),
            build_type: text.to_owned(),
            target_type: text.to_owned(),
            ue_version: text.to_owned(),
            branch: text.to_owned(),
            requested_revision: None,
            commit: "a".repeat(64),
            commit_message: text.to_owned(),
            changelist: Some("1".repeat(10)),
            triggered_by: TriggeredBy::Push("a".repeat(64)),
            created_at: Timestamp(0),
            started_at: Some(Timestamp(0)),
            finished_at: Some(Timestamp(0)),
            pending_reason: None,
            superseded_by: Some(Id::from_parts(1, 5)),
            retry_of: Some(Id::from_parts(1, 6)),
            failure: Some(Failure { code: FailureCode::IntegrationDisconnected, message: text.to_owned(), step: Some(StepName::Package) }),
            steps: vec![step; 100],
            diagnostics: Default::default(),
            artifact: Some(Artifact {
                size_bytes: u64::MAX,
                checksum_md5: "a".repeat(32),
                checksum_sha256: "a".repeat(64),
                expires_at: Some(Timestamp(0)),
                deleted_at: Some(Timestamp(0)),
                deleted_reason: Some("project_deleted".into()),
            }),
            auto_deploy_status: Some(DeployStatus::InProgress),
            auto_deploy_error: Some(error.clone()),
            deployments: vec![Deployment { plugin: "p".repeat(64), status: DeployStatus::Succeeded, error: Some(error) }; 50],
            deploy_requested_by: None,
            pinned: true,
            notification_status: None,
            cancel_requested: false,
            log_lines: 0,
            log_bytes: 0,
            log_deleted_at: None,
        }
    }

    #[test]
    fn no_message_is_larger_than_the_standard_asks_for() {
        for text in ["\u{1f600}", "\"", "\u{1}", "\\", "\u{e4}"] {
            let text = text.repeat(5000);
            let body = body(WebhookKind::BuildSuperseded, Timestamp(0), Some(&build(&text)), Some(&project(&text)), &organization(&text));
            assert!(body.len() < 20_000, "{} bytes of {:?}", body.len(), text.chars().next());
            assert!(serde_json::from_str::<serde_json::Value>(&body).is_ok() && !body.contains('\n'));
        }
    }

    #[test]
    fn a_message_says_what_and_when_and_of_what() {
        let body = body(WebhookKind::BuildSuperseded, Timestamp(5), Some(&build("x")), Some(&project("y")), &organization("z"));
        assert!(body.starts_with(r#"{"type":"build.superseded","timestamp":"1970-01-01T00:00:00.005Z","data":{"build":{"id":"#), "{body}");
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["data"]["build"]["durationMs"], 0);
        assert_eq!(body["data"]["project"]["repoLink"], "y");
        assert_eq!(body["data"]["organization"]["slug"], "z");
        let ping = super::body(WebhookKind::Ping, Timestamp(5), None, None, &organization("z"));
        assert!(ping.contains(r#""data":{"build":null,"project":null,"organization":{"#), "{ping}");
    }

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!((cut("abc", 3).as_str(), cut("abcd", 3).as_str(), cut("a\nb", 3).as_str()), ("abc", "ab…", "a b"));
    }
}
