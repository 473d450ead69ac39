//! Lines of a build's log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Timestamp;

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LogStream {
    /// The build command's standard output.
    Stdout,
    /// Its standard error.
    Stderr,
    /// The service itself.
    System,
}

/// One line, as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// 1 for the first line of the build, without gaps.
    pub seq: u64,
    /// When the service read it.
    pub at: Timestamp,
    /// Where it came from.
    pub stream: LogStream,
    /// Without its end; UTF-8; at most 16 KiB.
    pub text: String,
}
