//! One page of a list.

use schemars::JsonSchema;
use serde::Serialize;

/// How many items a page has when the client does not say.
pub const DEFAULT_LIMIT: usize = 25;
/// How many it has at the most; more is clamped to this.
pub const MAXIMUM_LIMIT: usize = 100;

/// The specification's list answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    /// In the order of the list.
    pub items: Vec<T>,
    /// Where the next page begins; null when there is none.
    pub next_cursor: Option<String>,
}
