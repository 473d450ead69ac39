//! The API's own description, OpenAPI 3.1, made of the route table each time it is asked for.
//!
//! What comes from where, so that the document cannot disagree with the code:
//!
//! - Path, method, name, summary, who may: the row.
//! - Path parameters: the handler's type (`FromPath`). Query parameters and bodies: the very reading of them, done once
//!   without a request (`Query::describing`, `Fields::describing`); each check carries its schema (`check`).
//! - Answers: the handler's type (`Answer`); the schemas of resources from the attributes that serialize them (`schemars`).
//! - Problems: from the row (access, parameters, body, idempotency, conditions) and from what it lists itself. A debug build
//!   panics when a row answers with a problem that it does not document, and the whole test suite runs in debug builds.
//! - Only the prose is written by hand (`guide`); a test asks for it. A pattern of JSON Schema stands beside the code that
//!   judges the same text in words; the fuzzer of `tests/fuzz` holds the two against each other.

mod document;
mod example;
mod guide;
mod operation;
pub mod page;
mod problems;
pub mod shape;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;

pub use document::document;
pub use guide::missing;
pub(super) use problems::is_documented;

/// Schemas as OpenAPI 3.1 has them, of what is serialized.
fn generator() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.with(|settings| settings.definitions_path = "/components/schemas".into()).into_generator()
}
