//! The bytes of an artifact, behind a signed link (decisions 10). The link is the permission: no header is needed.

use std::fs::File;

use hyper::{Response, header};

use super::content::{self, Content};
use super::endpoint::{Anybody, Body, Call};
use super::error::{ApiError, Problem, Result};
use super::query::Pairs;
use crate::artifacts::file_name;
use crate::artifacts::signed_url::LinkError;
use crate::model::{Build, Id};
use crate::store::key::Key;
use crate::store::{Read, tables};

/// `GET|HEAD /artifacts/{file}`: the tarball, whole or in part.
pub(super) async fn download(call: Call<String, Pairs, (), Anybody>) -> Result<Response<Body>> {
    let build: Id<Build> = call.path.strip_suffix(".tar.gz").and_then(|id| id.parse().ok()).ok_or(Problem::NotFound)?;
    let query: Vec<String> = call.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    call.app.links.check(build, &query.join("&"), call.app.clock.now()).map_err(|error| match error {
        LinkError::Expired => Problem::UrlExpired,
        LinkError::SignatureInvalid => Problem::SignatureInvalid,
    })?;
    let gone = || ApiError::new(Problem::NotFound, "This artifact is not kept any more.");
    let found = call.app.store.read(|snapshot| snapshot.find_on_host(&tables::BUILDS_WITH_ARTIFACT, &Key::of_id(build), 1))?;
    let artifact = found.into_iter().next().and_then(|build| build.artifact).ok_or_else(gone)?;
    let opened = call.app.artifacts.open_artifact(build).await.map_err(ApiError::internal)?.ok_or_else(gone)?;
    if opened.size != artifact.size_bytes {
        return Err(ApiError::internal(format!(
            "the artifact of build {build} has {} bytes instead of {}",
            opened.size, artifact.size_bytes
        )));
    }
    let content = Content {
        length: opened.size,
        tag: format!("\"{}\"", artifact.checksum_sha256),
        modified: Some(opened.modified),
        headers: vec![
            (header::CONTENT_TYPE, "application/gzip".into()),
            (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", file_name(build))),
            // Whoever holds the link may keep what it gave; nobody in between.
            (header::CACHE_CONTROL, "private, max-age=86400, immutable".into()),
        ],
    };
    let file: File = opened.file;
    content::answer(&call.head, &content, |bytes| content::file(file, bytes))
}
