//! The demo as a customer: it knows the service by its public API alone.

use bytes::Bytes;
use serde_json::Value;

use crate::outbound::{Outbound, OutboundBody, OutboundRequest, OutboundResponse};

use super::DemoError;

/// No answer of the API is larger.
const LARGEST_ANSWER: usize = 8 << 20;

/// Calls the API, with a bearer once there is one.
pub(super) struct Client {
    outbound: Outbound,
    base: String,
    bearer: Option<String>,
}

impl Client {
    /// For the service at `base`, which ends without a slash.
    pub(super) fn new(outbound: Outbound, base: &str) -> Self {
        Client { outbound, base: format!("{base}/v1"), bearer: None }
    }

    /// From here on every request carries it.
    pub(super) fn sign_in(&mut self, bearer: &str) {
        self.bearer = Some(bearer.to_owned());
    }

    /// What is at `path`.
    pub(super) async fn get(&self, path: &str) -> Result<Value, DemoError> {
        self.call("GET", path, None).await
    }

    /// Sends `body`, expects success.
    pub(super) async fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, DemoError> {
        self.call(method, path, Some(body)).await
    }

    async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, DemoError> {
        let mut request = OutboundRequest::new(method, format!("{}{path}", self.base));
        if let Some(bearer) = &self.bearer {
            request.headers.push(("authorization".into(), format!("Bearer {bearer}")));
        }
        if let Some(body) = body {
            request.headers.push(("content-type".into(), "application/json".into()));
            request.body = OutboundBody::Bytes(Bytes::from(body.to_string()));
        }
        let failed = |message: String| DemoError::failed(format!("{method} {path}: {message}"));
        let mut response = self.outbound.send(request).await.map_err(|error| failed(error.to_string()))?;
        let status = response.status;
        let body = response.read_all(LARGEST_ANSWER).await.map_err(|error| failed(error.to_string()))?;
        let answer: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap_or(Value::Null) };
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        let code = text(&answer["error"]["code"]).to_owned();
        let message = format!("{method} {path}: {status} {code}: {} {}", text(&answer["error"]["message"]), details(&answer));
        Err(DemoError::Failed { message: message.trim_end().to_owned(), code: Some(code) })
    }

    /// Fetches a signed address from this byte on. It carries no bearer: the signature is all it takes.
    pub(super) async fn fetch(&self, url: &str, from: u64) -> Result<OutboundResponse, DemoError> {
        let mut request = OutboundRequest::new("GET", url);
        if from > 0 {
            request.headers.push(("range".into(), format!("bytes={from}-")));
        }
        self.outbound.send(request).await.map_err(|error| DemoError::failed(format!("the download: {error}")))
    }
}

/// A text of an answer, `""` where there is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn details(answer: &Value) -> String {
    let details = answer["error"]["details"].as_array().into_iter().flatten();
    details.map(|detail| format!("{}: {}; ", text(&detail["field"]), text(&detail["message"]))).collect()
}
