//! Fuzzes the reader of project files and their detection. Ten minutes, beginning with the fixtures:
//!
//! ```text
//! cd packaging/fuzz && mkdir -p target/corpus && cargo run -- -max_total_time=600 target/corpus ../../fixtures/uprojects
//! ```
//!
//! The reader's own source is compiled into this program, not the service: it builds in seconds.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../src"]
mod house {
    pub(crate) mod uproject;
}

/// As the service has them; whoever changes them there is told so here by the compiler.
mod model {
    pub(crate) mod project {
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct UprojectInfo {
            pub path: String,
            pub project_name: String,
            pub engine_version: String,
            pub modules: Vec<UprojectModule>,
            pub plugins: Vec<UprojectPlugin>,
        }

        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct UprojectModule {
            pub name: String,
            pub kind: String,
            pub loading_phase: String,
        }

        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct UprojectPlugin {
            pub name: String,
            pub enabled: bool,
        }
    }
}

use house::uproject::{DetectError, MAXIMUM_ENTRIES, MAXIMUM_LISTED, detect, read};

fuzz_target!(|bytes: &[u8]| {
    match read(bytes, "Game/Kitchen.uproject") {
        Ok(info) => {
            assert!(info.modules.len() <= MAXIMUM_ENTRIES && info.plugins.len() <= MAXIMUM_ENTRIES);
            assert!(info.modules.iter().all(|module| !module.name.is_empty()));
        }
        // A refusal is one sentence, whatever the file holds.
        Err(error) => assert!(error.to_string().len() < 2000),
    }
    let text = String::from_utf8_lossy(bytes);
    match detect(text.lines()) {
        Ok(path) => assert!(text.lines().any(|line| line == path)),
        Err(DetectError::Several(paths)) => assert!((2..=MAXIMUM_LISTED).contains(&paths.len())),
        Err(DetectError::NotFound) => {}
    }
});
