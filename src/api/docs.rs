//! What the API says of itself: for programs, and for people.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hyper::{Response, StatusCode, header};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::endpoint::{Anybody, Call, Custom, CustomAnswer, Resource, full};
use super::error::{ApiError, Result};
use super::openapi::shape::Answered;
use super::openapi::{self, page};
use super::routes::routes;
use crate::app::{self, App};

/// An OpenAPI document.
pub(super) struct Document(Arc<Value>);

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

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

/// A page of HTML.
pub(super) struct Page;

impl CustomAnswer for Page {
    fn describe(_: &mut SchemaGenerator) -> Vec<Answered> {
        vec![Answered::text(StatusCode::OK, "text/html; charset=utf-8").with(&["Content-Security-Policy"])]
    }
}

/// The document in both of its forms.
struct Made {
    settings: app::Settings,
    document: Arc<Value>,
    html: Bytes,
    policy: String,
}

impl Made {
    /// Made once for a configuration: nobody keeps the service busy by asking for it.
    fn of(app: &App) -> Arc<Made> {
        static LAST: Mutex<Option<Arc<Made>>> = Mutex::new(None);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(made) if made.settings == app.settings => made.clone(),
            _ => {
                let document = openapi::document(&routes(), &app.settings);
                let (html, policy) = page::html(&document);
                let made = Made { settings: app.settings.clone(), document: Arc::new(document), html: html.into(), policy };
                last.insert(Arc::new(made)).clone()
            }
        }
    }
}

/// The document of the rows that this server serves.
pub(super) async fn document(call: Call<(), (), (), Anybody>) -> Result<Resource<Document>> {
    Ok(Resource { value: Document(Made::of(&call.app).document.clone()), version: 1 })
}

/// The same as a page.
pub(super) async fn page(call: Call<(), (), (), Anybody>) -> Result<Custom<Page>> {
    let made = Made::of(&call.app);
    let mut response = Response::new(full(made.html.clone()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, header::HeaderValue::from_str(&made.policy).map_err(ApiError::internal)?);
    Ok(response.into())
}
