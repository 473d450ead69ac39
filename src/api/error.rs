//! Everything that can be wrong, as a client sees it, and the one envelope it is told in (decisions 3).

#![deny(clippy::wildcard_enum_match_arm)]

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

use super::endpoint::{self, Body};
use crate::model::validation::{Invalid, InvalidCode};
use crate::store::StoreError;

/// Any error, for the log.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a handler gives: an answer or the one kind of error.
pub type Result<T> = std::result::Result<T, ApiError>;

/// A code and its status are one decision: a new code is a new row here.
macro_rules! problems {
    ($($name:ident $status:ident $code:literal $text:literal,)*) => {
        /// The problems a client can branch on. Each has one status and one stable code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names are the decisions' own codes, and each has its sentence in the table")]
        pub enum Problem { $($name,)* }

        impl Problem {
            /// All of them.
            pub const ALL: &'static [Problem] = &[$(Problem::$name,)*];

            /// The status line.
            pub fn status(self) -> StatusCode {
                match self { $(Problem::$name => StatusCode::$status,)* }
            }

            /// `error.code`.
            pub fn code(self) -> &'static str {
                match self { $(Problem::$name => $code,)* }
            }

            /// The sentence when there is nothing more exact to say.
            pub(in super::super) fn text(self) -> &'static str {
                match self { $(Problem::$name => $text,)* }
            }
        }
    };
}

#[rustfmt::skip]
mod table {
    use super::*;
    problems! {
        InvalidJson             BAD_REQUEST                     "invalid_json"              "The body is not valid JSON.",
        ValidationFailed        BAD_REQUEST                     "validation_failed"         "The request has fields that cannot be accepted; `details` names each of them.",
        InvalidCursor           BAD_REQUEST                     "invalid_cursor"            "This cursor does not belong to this list; begin again without one.",
        InvalidLimit            BAD_REQUEST                     "invalid_limit"             "`limit` must be a whole number from 1 to 100.",
        StreamvcCheckFailed     BAD_REQUEST                     "streamvc_check_failed"     "The version-control server did not take these credentials; nothing was stored.",
        Unauthenticated         UNAUTHORIZED                    "unauthenticated"           "Send a valid token as `Authorization: Bearer <token>`.",
        TokenExpired            UNAUTHORIZED                    "token_expired"             "This token or session has expired; get a new one.",
        TokenRevoked            UNAUTHORIZED                    "token_revoked"             "This token was revoked; get a new one.",
        Forbidden               FORBIDDEN                       "forbidden"                 "Your role does not allow this.",
        InsufficientScope       FORBIDDEN                       "insufficient_scope"        "This token's scopes do not allow this.",
        UrlExpired              FORBIDDEN                       "url_expired"               "This link has expired; ask for a new one.",
        SignatureInvalid        FORBIDDEN                       "signature_invalid"         "This link was not made by this server, or was changed.",
        NotFound                NOT_FOUND                       "not_found"                 "There is nothing here.",
        UprojectNotFound        NOT_FOUND                       "uproject_not_found"        "No .uproject file was found.",
        InstallationNotFound    NOT_FOUND                       "installation_not_found"    "The git-host connection has no such installation.",
        RepositoryNotFound      NOT_FOUND                       "repository_not_found"      "The git host shows no such repository to this connection.",
        BranchNotFound          NOT_FOUND                       "branch_not_found"          "The repository has no such branch.",
        MethodNotAllowed        METHOD_NOT_ALLOWED              "method_not_allowed"        "This path does not take this method; `Allow` lists those it takes.",
        NotAcceptable           NOT_ACCEPTABLE                  "not_acceptable"            "This answer exists as application/json only.",
        RequestTimeout          REQUEST_TIMEOUT                 "request_timeout"           "The body did not arrive in time.",
        PayloadTooLarge         PAYLOAD_TOO_LARGE               "payload_too_large"         "The body is larger than 1 MiB.",
        UpgradeRequired         UPGRADE_REQUIRED                "upgrade_required"          "This address speaks WebSocket (RFC 6455, version 13) only.",
        UnsupportedMediaType    UNSUPPORTED_MEDIA_TYPE          "unsupported_media_type"    "Send the body as `Content-Type: application/json`.",
        HeadersTooLarge         REQUEST_HEADER_FIELDS_TOO_LARGE "headers_too_large"         "The request's headers are too many or too large.",
        MultipleUprojects       CONFLICT                        "multiple_uprojects"        "Several .uproject files match; name one as `uprojectPath`.",
        StreamvcNotConfigured   CONFLICT                        "streamvc_not_configured"   "The organization has no version-control server credentials.",
        GithostNotConnected     CONFLICT                        "githost_not_connected"     "The organization is not connected to a git host; an admin connects it with PUT /organizations/:id/integrations/githost.",
        ProjectExists           CONFLICT                        "project_exists"            "This codebase with this project file is linked already.",
        BuildFinished           CONFLICT                        "build_finished"            "The build has finished.",
        BuildUnfinished         CONFLICT                        "build_unfinished"          "The build has not finished.",
        LastAdmin               CONFLICT                        "last_admin"                "The last admin cannot go.",
        IdempotencyInProgress   CONFLICT                        "idempotency_in_progress"   "A request with this Idempotency-Key is still running; try again in a moment.",
        PreconditionFailed      PRECONDITION_FAILED             "precondition_failed"       "The resource was changed since you read it; read it again.",
        RangeNotSatisfiable     RANGE_NOT_SATISFIABLE           "range_not_satisfiable"     "The range lies outside of the content.",
        IdempotencyKeyReused    UNPROCESSABLE_ENTITY            "idempotency_key_reused"    "This Idempotency-Key was used with another request.",
        RateLimited             TOO_MANY_REQUESTS               "rate_limited"              "Too many attempts; wait as long as `Retry-After` says.",
        Internal                INTERNAL_SERVER_ERROR           "internal"                  "Something failed inside the service; its log has the details under this request id.",
        UpstreamError           BAD_GATEWAY                     "upstream_error"            "The source-control server could not be reached, or answered nonsense.",
        UpstreamRateLimited     SERVICE_UNAVAILABLE             "upstream_rate_limited"     "The source-control server asks to be asked less often.",
        Draining                SERVICE_UNAVAILABLE             "draining"                  "The service is stopping or overloaded; try again soon.",
        TooManyStreams          SERVICE_UNAVAILABLE             "too_many_streams"          "Too many streams are open, yours or in all; close some.",
        StorageFull             SERVICE_UNAVAILABLE             "storage_full"              "The service's disk is full.",
    }
}
pub use table::Problem;

/// A problem with its words. `message` and `details` go to the client, `cause` only to the log.
#[derive(Debug)]
pub struct ApiError {
    /// Code and status.
    pub problem: Problem,
    /// For people: what to do. No secret, no path of the host.
    pub message: String,
    /// Which fields.
    pub details: Vec<Invalid>,
    /// Headers that this problem carries (`Allow`, `Retry-After`, ...).
    headers: Vec<(HeaderName, HeaderValue)>,
    /// For the log.
    pub cause: Option<BoxError>,
}

impl ApiError {
    /// The problem with a more exact sentence.
    pub fn new(problem: Problem, message: impl Into<String>) -> Self {
        ApiError { problem, message: message.into(), details: Vec::new(), headers: Vec::new(), cause: None }
    }

    /// Something that should not have happened. The client learns nothing of `cause`.
    pub fn internal(cause: impl Into<BoxError>) -> Self {
        ApiError { cause: Some(cause.into()), ..Problem::Internal.into() }
    }

    /// All the fields that were wrong.
    pub fn validation(details: Vec<Invalid>) -> Self {
        ApiError { details, ..Problem::ValidationFailed.into() }
    }

    /// One field that was wrong.
    pub fn field(field: &str, code: InvalidCode, message: impl Into<String>) -> Self {
        Self::validation(vec![Invalid::new(field, code, message)])
    }

    /// The same problem, with what to note in the log.
    pub fn because(mut self, cause: impl Into<BoxError>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// With a further detail.
    pub fn with_detail(mut self, detail: Invalid) -> Self {
        self.details.push(detail);
        self
    }

    /// The same with another name for a field: what a body calls one thing, a query may call another.
    pub(super) fn with_field_renamed(mut self, old: &str, new: &str) -> Self {
        for detail in self.details.iter_mut().filter(|detail| detail.field == old) {
            detail.field = new.to_owned();
        }
        self
    }

    /// With a header. A value that is no header value is left out.
    pub fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// With `Retry-After`, in seconds.
    pub fn retry_after(self, seconds: u64) -> Self {
        self.with_header(header::RETRY_AFTER, &seconds.to_string())
    }

    /// The envelope.
    pub(super) fn into_response(self, request_id: &str) -> Response<Body> {
        let ApiError { problem, message, details, headers, cause: _ } = self;
        let envelope = Envelope { error: Inner { code: problem.code(), message: &message, request_id, details: &details } };
        let mut response = endpoint::json(problem.status(), &envelope).unwrap_or_else(|_| Response::new(endpoint::empty()));
        *response.status_mut() = problem.status();
        if problem.status() == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.headers_mut().extend(headers);
        response
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        ApiError::new(problem, problem.text())
    }
}

impl From<StoreError> for ApiError {
    /// The store's own failures; that something was not found is never one of them.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::StorageFull => ApiError::from(Problem::StorageFull).retry_after(60).because(error),
            StoreError::Busy => ApiError::from(Problem::Draining).retry_after(1).because(error),
            StoreError::Closed => ApiError::from(Problem::Draining).retry_after(5).because(error),
            StoreError::InUse
            | StoreError::NewerSchema { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Database(_)
            | StoreError::File(_) => ApiError::internal(error),
        }
    }
}

/// The one shape of everything that went wrong.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(super) struct Envelope<'a> {
    /// What went wrong.
    error: Inner<'a>,
}

/// What went wrong.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ErrorContent")]
struct Inner<'a> {
    /// For programs; never changes its meaning.
    #[schemars(extend("enum" = codes()))]
    code: &'a str,
    /// For people: what to do about it.
    message: &'a str,
    /// Names this request in the service's log.
    request_id: &'a str,
    /// Which fields, and what is wrong with each; only where there are some.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    details: &'a [Invalid],
}

fn codes() -> Vec<&'static str> {
    Problem::ALL.iter().map(|problem| problem.code()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_only_failures_are_problems() {
        let mut codes: Vec<_> = Problem::ALL.iter().map(|problem| problem.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Problem::ALL.len());
        assert!(Problem::ALL.iter().all(|problem| problem.status().is_client_error() || problem.status().is_server_error()));
    }
}
