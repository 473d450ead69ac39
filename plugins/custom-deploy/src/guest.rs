//! The exports: what the host calls.

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "deploy-plugin" });
}

use bindings::cookhouse::plugin::http::{self, Multipart, Request, Response};
use bindings::cookhouse::plugin::types::{Error, ErrorCode};
use bindings::cookhouse::plugin::{artifacts, config, secrets};
use bindings::exports::cookhouse::plugin::deploy_target::{Attempt, Build, Guest, Outcome, Problem as Finding};
use guest_support::{Problem, text};

use crate::request::{self, ANSWER_LIMIT, Metadata};

guest_support::problem_into_error!(Error);

struct CustomDeploy;

impl Guest for CustomDeploy {
    fn validate() -> Result<Vec<Finding>, Error> {
        Ok(match request::address(&config::document()) {
            Ok(_) => Vec::new(),
            Err(problem) => vec![Finding { pointer: "/url".into(), message: problem.message }],
        })
    }

    /// Asks for the headers of the address: whatever answers is there. Nothing is sent to it.
    fn check() -> Result<String, Error> {
        let address = request::address(&config::document())?;
        let asked = Request::new("HEAD", address.as_str());
        authorize(&asked)?;
        let status = http::send(asked)?.status();
        match status {
            401 | 403 | 407 => Err(Problem::from_status("the receiver", status, b"it refuses the Authorization header").into()),
            500..=599 => Err(Problem::from_status("the receiver", status, b"").into()),
            _ => Ok(format!("{} answers (status {status} to HEAD)", address.origin())),
        }
    }

    fn deploy(build: Build, artifact: &artifacts::Artifact, _attempt: Attempt) -> Result<Outcome, Error> {
        let address = request::address(&config::document())?;
        let metadata = Metadata {
            build_id: build.build_id,
            project_id: build.project_id,
            platform: build.platform,
            build_type: build.build_type,
            ue_version: build.ue_version,
            branch: build.branch,
            commit: build.commit,
        };

        let parts = Multipart::new();
        parts.add_bytes("metadata", None, Some("application/json"), &metadata.to_json()?)?;
        parts.add_artifact("artifact", &metadata.file_name(), "application/gzip", artifact)?;
        let content_type = parts.content_type();

        let upload = Request::new("POST", address.as_str());
        upload.set_header("content-type", &content_type)?;
        authorize(&upload)?;
        upload.set_body(Multipart::finish(parts))?;
        upload.set_max_redirects(0)?;
        upload.report_as("deploy")?;

        let response = http::send(upload)?;
        let answer = beginning(&response);
        request::judge(response.status(), response.header("location").as_deref(), &answer)?;
        let said = text::excerpt(&answer, guest_support::problem::EXCERPT_CHARACTERS);
        Ok(Outcome {
            remote_id: None,
            remote_url: response.header("location"),
            message: (!said.is_empty()).then_some(said),
            extra: Vec::new(),
        })
    }
}

/// Puts the stored header on the request; a target without one gets none.
fn authorize(request: &Request) -> Result<(), Error> {
    match secrets::get("authorization") {
        Ok(secret) => request.set_secret_header("authorization", "", &secret),
        Err(Error { code: ErrorCode::NotFound, .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The first bytes of the answer. The status has already decided: an answer that breaks off changes nothing.
fn beginning(response: &Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(room) = ANSWER_LIMIT.checked_sub(bytes.len()).filter(|room| *room > 0) {
        match response.read(room as u32) {
            Ok(Some(more)) if !more.is_empty() => bytes.extend_from_slice(&more),
            _ => break,
        }
    }
    bytes
}

bindings::export!(CustomDeploy with_types_in bindings);
