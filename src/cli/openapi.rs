//! `cookhouse openapi`

use std::io::{Write, stdout};

use crate::api::openapi::document;
use crate::api::routes;
use crate::app::Settings;

use super::{Exit, Failure};

/// Prints the document of a server without a configuration; a running one serves its own at `/openapi.json`.
pub(crate) fn run() -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(&document(&routes(), &Settings::default()));
    let text =
        text.map_err(|error| Failure::new(Exit::Internal, format!("The document cannot be written: {error}."), "Please report this."))?;
    match writeln!(stdout().lock(), "{text}") {
        // Whoever reads it may have seen enough.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failed, format!("The document cannot be printed: {error}."), "Look at where standard output goes."))
        }
        _ => Ok(()),
    }
}
