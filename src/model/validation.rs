//! What is wrong with a field, as the error envelope's `details` say it (decisions 3).

use schemars::JsonSchema;
use serde::Serialize;

/// One failure of one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ErrorDetail")]
pub struct Invalid {
    /// Path of the field, such as `schedule.cron`.
    pub field: String,
    /// For programs.
    pub code: InvalidCode,
    /// For people.
    pub message: String,
    /// What would have been taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ErrorDetailCode")]
#[expect(missing_docs, reason = "the names are the decisions' own words")]
pub enum InvalidCode {
    Required,
    InvalidType,
    InvalidValue,
    TooLong,
    UnknownField,
    NotAllowed,
    AuthFailed,
    Unreachable,
    UntrustedCertificate,
}

impl Invalid {
    /// A failure without a list of what is allowed.
    pub fn new(field: impl Into<String>, code: InvalidCode, message: impl Into<String>) -> Self {
        Invalid { field: field.into(), code, message: message.into(), allowed: Vec::new() }
    }
}
