//! Linking a stream of the organization's version-control server (decisions 6).

use super::body::{self, Check, Fault, Fields, ReadFields};
use super::build_setting_fields::stream_path;
use super::endpoint::{Call, Created};
use super::error::{ApiError, Problem, Result};
use super::projects::{self, Detail, project_name, uproject_path};
use super::streamvc::Streamvc;
use crate::model::organization::StreamvcConnection;
use crate::model::project::SourceLink;
use crate::model::validation::InvalidCode;
use crate::model::{Id, Organization, Project};
use crate::store::Read;

/// Body of POST `/projects/add-streamvc`
pub(super) struct AddStreamvc {
    name: String,
    depot: String,
    stream_path: String,
    uproject_path: String,
}

impl ReadFields for AddStreamvc {
    fn read(fields: &mut Fields) -> Option<Self> {
        let name = fields.required("name", project_name());
        let depot = fields.required("depot", depot());
        let stream_path = fields.required("streamPath", stream_path().about("The stream, `//depot/stream`.").example("//Games/main"));
        let uproject_path = fields.required("uprojectPath", uproject_path().with("minLength", 1));
        if uproject_path.as_deref() == Some("") {
            fields.refuse("uprojectPath", InvalidCode::Required, "is required");
        }
        if let (Some(depot), Some(stream)) = (&depot, &stream_path)
            && !lies_in(stream, depot)
        {
            fields.refuse("streamPath", InvalidCode::InvalidValue, "must lie in the depot");
        }
        Some(AddStreamvc { name: name?, depot: depot?, stream_path: stream_path?, uproject_path: uproject_path? })
    }
}

/// `depot` or `//depot`; kept as the latter.
fn depot() -> Check<'static, String> {
    let check = body::text(128).and(checked_depot).about("The stream's depot, with or without `//` before it.").example("//Games");
    check.with("pattern", "^(//)?(?!\\.{1,2}$)(?!.*\\.\\.\\.)[^-/\\\\#@%* \"\\x00-\\x1f\\x7f-\\x9f][^/\\\\#@%* \"\\x00-\\x1f\\x7f-\\x9f]*$")
}

fn checked_depot(text: String) -> std::result::Result<String, Fault> {
    let name = text.strip_prefix("//").unwrap_or(&text);
    let is_name = !name.is_empty()
        && !name.contains(['/', '\\', '#', '@', '%', '*', ' ', '"'])
        && !name.contains("...")
        && !name.starts_with('-')
        && !matches!(name, "." | "..");
    if is_name { Ok(format!("//{name}")) } else { Err(Fault::invalid("must be a depot's name, such as Games or //Games")) }
}

fn lies_in(stream: &str, depot: &str) -> bool {
    stream.strip_prefix(depot).is_some_and(|rest| rest.starts_with('/'))
}

/// The organization's connection; 409 without one.
fn connection(rows: &impl Read, id: Id<Organization>) -> Result<StreamvcConnection> {
    let organization: Option<Organization> = rows.get(id, id)?;
    organization.ok_or(Problem::NotFound)?.streamvc.ok_or_else(|| Problem::StreamvcNotConfigured.into())
}

/// Links a stream. Everything is verified at the server before anything is stored.
pub(super) async fn add(call: Call<(), (), AddStreamvc>) -> Result<Created<Detail>> {
    if call.caller.is_limited() {
        return Err(ApiError::new(Problem::InsufficientScope, "A token that is limited to projects or settings adds none."));
    }
    let AddStreamvc { name, depot, stream_path, uproject_path } = call.body;
    let organization_id = call.caller.organization();
    let server = Streamvc::of(&call.app, &call.caller)?;
    let (stream_path, changelist) = server.stream(&depot, &stream_path).await?;
    let uproject = server.uproject(&stream_path, &changelist, &uproject_path).await?;
    // As the server writes it.
    let depot = stream_path.get(..depot.len()).filter(|head| head.eq_ignore_ascii_case(&depot)).unwrap_or(&depot).to_owned();
    let now = call.app.clock.now();
    let project = Project {
        id: call.app.clock.new_id(),
        organization_id,
        name,
        description: String::new(),
        source: SourceLink::Streamvc { depot, stream_path },
        uproject_path: uproject.path.clone(),
        uproject: Some(uproject),
        last_build: None,
        created_at: now,
        updated_at: now,
        version: 1,
    };
    projects::link(&call.app, call.idempotency, project, move |change| connection(change, organization_id).map(drop)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_depot_has_one_form_and_holds_its_streams_only() {
        let read = |text: &str| depot().check(text.into()).ok();
        assert_eq!([read("Games"), read("//Games")], [Some("//Games".to_owned()), Some("//Games".to_owned())]);
        for bad in ["", "//", "a/b", "//a/b", "a b", "a*", "...", "..", "-x", "a@1", "a#2", "a%b"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert!(lies_in("//Games/main", "//Games") && !lies_in("//Games2/main", "//Games") && !lies_in("//Other/main", "//Games"));
    }
}
