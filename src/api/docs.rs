//! What the API says of itself: for programs, and for people.
//!
//! Both are large, and everybody may ask for them: they are made once, and thousands of slow readers share the same bytes.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::compress::{gzip, takes_gzip};
use super::conditional::{Tag, compressed_tag};
use super::endpoint::{Anybody, Body, Call, Custom, CustomAnswer, Head, empty, full};
use super::error::{ApiError, Result};
use super::openapi::shape::Answered;
use super::openapi::{self, page};
use super::routes::routes;
use crate::app::{self, App};

const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";

/// An OpenAPI document.
pub(super) struct Document;

impl JsonSchema for Document {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OpenapiDocument".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "OpenAPI 3.1.",
            "required": ["openapi", "info", "paths", "components"],
            "examples": [{"openapi": "3.1.0", "info": {"title": "Cookhouse", "version": "0.1.0"}, "paths": {}, "components": {}}],
        })
    }
}

impl CustomAnswer for Document {
    fn describe(generator: &mut SchemaGenerator) -> Vec<Answered> {
        vec![
            Answered::json::<Document>(StatusCode::OK, generator).with(&["ETag"]),
            Answered::empty(StatusCode::NOT_MODIFIED).with(&["ETag"]),
        ]
    }
}

/// A page of HTML.
pub(super) struct Page;

impl CustomAnswer for Page {
    fn describe(_: &mut SchemaGenerator) -> Vec<Answered> {
        let headers = ["ETag", "Content-Security-Policy"];
        vec![Answered::text(StatusCode::OK, HTML).with(&headers), Answered::empty(StatusCode::NOT_MODIFIED).with(&headers)]
    }
}

/// Bytes that are sent often.
struct File {
    kind: &'static str,
    bytes: Bytes,
    compressed: Bytes,
    tag: Tag,
}

impl File {
    fn new(kind: &'static str, bytes: Vec<u8>) -> Result<File> {
        let compressed = gzip(&bytes).map_err(ApiError::internal)?.into();
        Ok(File { kind, tag: Tag::new(1, &bytes), bytes: bytes.into(), compressed })
    }

    fn answer(&self, head: &Head) -> Result<Response<Body>> {
        let is_compressed = takes_gzip(&head.headers);
        let (mut response, tag) = match self.tag.known_to(&head.headers) {
            Some(known) => {
                let mut response = Response::new(empty());
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                (response, known)
            }
            None if is_compressed => (Response::new(full(self.compressed.clone())), compressed_tag(&self.tag.to_string())),
            None => (Response::new(full(self.bytes.clone())), self.tag.to_string()),
        };
        let is_whole = response.status() == StatusCode::OK;
        let headers = response.headers_mut();
        headers.insert(header::ETAG, HeaderValue::from_str(&tag).map_err(ApiError::internal)?);
        if is_whole {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        }
        if is_whole && is_compressed {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        Ok(response)
    }
}

/// The document in both of its forms.
struct Made {
    settings: app::Settings,
    document: File,
    page: File,
    policy: HeaderValue,
}

impl Made {
    /// What was made last, if it is for this configuration.
    fn of(app: &App) -> Result<Arc<Made>> {
        static LAST: Mutex<Option<Arc<Made>>> = Mutex::new(None);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = last.as_ref().filter(|made| made.settings == app.settings) {
            return Ok(made.clone());
        }
        let document = openapi::document(&routes(), &app.settings);
        let (html, policy) = page::html(&document);
        let made = Made {
            settings: app.settings.clone(),
            document: File::new(JSON, serde_json::to_vec(&document).map_err(ApiError::internal)?)?,
            page: File::new(HTML, html.into_bytes())?,
            policy: HeaderValue::from_str(&policy).map_err(ApiError::internal)?,
        };
        Ok(last.insert(Arc::new(made)).clone())
    }
}

/// The document of the rows that this server serves.
pub(super) async fn document(call: Call<(), (), (), Anybody>) -> Result<Custom<Document>> {
    Made::of(&call.app)?.document.answer(&call.head).map(Custom::from)
}

/// The same as a page.
pub(super) async fn page(call: Call<(), (), (), Anybody>) -> Result<Custom<Page>> {
    let made = Made::of(&call.app)?;
    let mut response = made.page.answer(&call.head)?;
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, made.policy.clone());
    Ok(response.into())
}
