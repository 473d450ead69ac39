//! Git LFS: the batch API, and the objects behind the addresses that it gives out.
//!
//! Objects lie where git-lfs puts them, `lfs/objects/aa/bb/<oid>` in the repository. A download is opened by a key of its own
//! that the batch answer carries, as real servers do, so that the token goes to the batch endpoint alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::Shared;
use super::answer::{Answer, bytes, internal, message, streamed};
use super::repositories::is_name;

const KIND: &str = "application/vnd.git-lfs+json";
const KEY: HeaderName = HeaderName::from_static("x-object-key");
const BATCH: &str = ".git/info/lfs/objects/batch";
const OBJECTS: &str = ".git/info/lfs/objects/";
/// The most of a batch request that is read.
const REQUEST_LIMIT: usize = 4 << 20;

#[derive(Deserialize)]
struct Batch {
    operation: String,
    objects: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    oid: String,
    size: u64,
}

/// The repository of a batch request.
pub(super) fn batch_repository(path: &str) -> Option<&str> {
    path.strip_prefix('/')?.strip_suffix(BATCH).filter(|name| is_name(name))
}

/// The key of an object's download, where the request has one.
pub(super) fn key_of(request: &Request<Incoming>) -> Option<String> {
    (request.method() == Method::GET).then(|| request.headers().get(KEY)?.to_str().ok().map(str::to_owned)).flatten()
}

/// Says where the objects are.
pub(super) async fn batch(server: &Shared, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let repository = batch_repository(&path).and_then(|name| Some((name, server.repositories.directory_of(name)?)));
    let Some((name, directory)) = repository else { return message(StatusCode::NOT_FOUND, "Not Found") };
    let Ok(body) = Limited::new(request.into_body(), REQUEST_LIMIT).collect().await else {
        return message(StatusCode::PAYLOAD_TOO_LARGE, "The batch request is too large");
    };
    let Ok(wanted) = serde_json::from_slice::<Batch>(&body.to_bytes()) else {
        return message(StatusCode::UNPROCESSABLE_ENTITY, "The batch request cannot be read");
    };
    if wanted.operation != "download" {
        return message(StatusCode::FORBIDDEN, "This server is read-only");
    }
    let mut objects: Vec<Value> = Vec::with_capacity(wanted.objects.len());
    for Object { oid, size } in wanted.objects {
        let is_here = match file(&directory, &oid) {
            Some(file) => tokio::fs::metadata(file).await.is_ok_and(|found| found.len() == size),
            None => false,
        };
        objects.push(if is_here {
            let download = json!({ "href": format!("{}/{name}{OBJECTS}{oid}", server.base), "header": { KEY.as_str(): server.object_key(name, &oid) }, "expires_in": 3600 });
            json!({ "oid": oid, "size": size, "authenticated": true, "actions": { "download": download } })
        } else {
            json!({ "oid": oid, "size": size, "error": { "code": 404, "message": "Object does not exist on the server" } })
        });
    }
    bytes(StatusCode::OK, KIND, json!({ "transfer": "basic", "objects": objects, "hash_algo": "sha256" }).to_string())
}

/// An object's bytes.
pub(super) async fn object(server: &Shared, path: &str, key: String) -> Answer {
    let Some((name, oid)) = path.strip_prefix('/').and_then(|path| path.split_once(OBJECTS)) else {
        return message(StatusCode::NOT_FOUND, "Not Found");
    };
    if !bool::from(key.as_bytes().ct_eq(server.object_key(name, oid).as_bytes())) {
        return message(StatusCode::FORBIDDEN, "The key does not open this object");
    }
    let Some(file) = server.repositories.directory_of(name).and_then(|directory| file(&directory, oid)) else {
        return message(StatusCode::NOT_FOUND, "Not Found");
    };
    let opened = async {
        let file = tokio::fs::File::open(file).await?;
        let size = file.metadata().await?.len();
        Ok((file, size))
    };
    match opened.await {
        Ok((file, size)) => {
            let mut answer = streamed(file, (), Arc::clone(&server.bytes));
            answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(size));
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            answer
        }
        Err(error) => internal(&error),
    }
}

/// Where an object lies; `None` when the text is no SHA-256.
fn file(repository: &Path, oid: &str) -> Option<PathBuf> {
    let is_hash = oid.len() == 64 && oid.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hash.then(|| repository.join("lfs/objects").join(&oid[..2]).join(&oid[2..4]).join(oid))
}

impl Shared {
    fn object_key(&self, repository: &str, oid: &str) -> String {
        // HMAC takes keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.settings.token.as_bytes()) else { return String::new() };
        mac.update(repository.as_bytes());
        mac.update(b"\0");
        mac.update(oid.as_bytes());
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{batch_repository, file};

    #[test]
    fn addresses() {
        assert_eq!(batch_repository("/studio/game.git/info/lfs/objects/batch"), Some("studio/game"));
        assert_eq!(batch_repository("/studio/../x.git/info/lfs/objects/batch"), None);
        let oid = "ab".repeat(32);
        assert!(file(Path::new("r"), &oid).unwrap().ends_with(format!("lfs/objects/ab/ab/{oid}")));
        assert_eq!(file(Path::new("r"), &"..".repeat(32)), None);
        assert_eq!(file(Path::new("r"), &"AB".repeat(32)), None);
    }
}
