//! The bytes of an artifact, behind a signed link (decisions 10). The link is the permission: no header is needed.

use std::fs::File;

use hyper::header;
use schemars::SchemaGenerator;

use super::content::{self, Content};
use super::endpoint::{Anybody, Call, Custom, CustomAnswer};
use super::error::{ApiError, Problem, Result};
use super::openapi::shape::Answered;
use super::query::{FromQuery, Query};
use crate::artifacts::file_name;
use crate::artifacts::signed_url::LinkError;
use crate::model::{Build, Id};
use crate::store::key::Key;
use crate::store::{Read, tables};

/// The query of a signed link, as it was sent: the signature is over its text.
pub(super) struct Signed(String);

impl FromQuery for Signed {
    fn read(query: &mut Query) -> Result<Option<Self>> {
        let sent = query.all();
        query.needs("expires", "When the link ends, in Unix seconds.");
        query.needs("key", "Which of the server's keys signed it.");
        query.needs("signature", "The signature over the build's id and `expires`, in base64url.");
        Ok(Some(Signed(sent)))
    }
}

/// The tarball.
pub(super) struct Tarball;

impl CustomAnswer for Tarball {
    fn describe(_: &mut SchemaGenerator) -> Vec<Answered> {
        Answered::bytes("application/gzip", &["ETag", "Accept-Ranges", "Content-Disposition", "Last-Modified"])
    }
}

/// `GET|HEAD /artifacts/{file}`: the tarball, whole or in part.
pub(super) async fn download(call: Call<String, Signed, (), Anybody>) -> Result<Custom<Tarball>> {
    let build: Id<Build> = call.path.strip_suffix(".tar.gz").and_then(|id| id.parse().ok()).ok_or(Problem::NotFound)?;
    call.app.links.check(build, &call.query.0, call.app.clock.now()).map_err(|error| match error {
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
    content::answer(&call.head, &content, |bytes| content::file(file, bytes)).map(Custom::from)
}
