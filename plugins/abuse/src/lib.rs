//! A guest that misbehaves: the setting `do` says how. What the host answered goes back in the server's name, or in the
//! message of the revision.
#![cfg(target_arch = "wasm32")]

mod misdeeds;

wit_bindgen::generate!({ path: "../../wit", world: "source-control-plugin" });

use cookhouse::plugin::types::{Error, ErrorCode};
use cookhouse::plugin::workspaces::Workspace;
use exports::cookhouse::plugin::source_control as contract;

struct Guest;

fn unsupported<T>() -> Result<T, Error> {
    Err(error("not in this guest"))
}

fn error(message: &str) -> Error {
    Error { code: ErrorCode::Unsupported, message: message.to_owned(), retryable: false, retry_after_ms: None, reason: None }
}

fn revision(message: String) -> contract::Revision {
    contract::Revision { id: "0".repeat(40), message, author: String::new(), time_ms: None, extra: Vec::new() }
}

impl contract::Guest for Guest {
    fn check() -> Result<contract::Server, Error> {
        let product = misdeeds::commit(None)?;
        Ok(contract::Server { product, version: String::new(), account: None, features: contract::Features::empty(), extra: Vec::new() })
    }

    fn materialise(
        _: String,
        _: String,
        _: String,
        workspace: &Workspace,
        _: contract::CheckoutOptions,
    ) -> Result<contract::Materialised, Error> {
        let said = misdeeds::commit(Some(workspace))?;
        Ok(contract::Materialised { revision: revision(said), files: 0, bytes: 0, reusable: false, extra: Vec::new() })
    }

    fn list_repositories(_: contract::PageRequest) -> Result<contract::RepositoryPage, Error> {
        unsupported()
    }

    fn list_branches(_: String, _: Option<String>, _: contract::PageRequest) -> Result<contract::BranchPage, Error> {
        unsupported()
    }

    fn resolve_head(_: String, _: String) -> Result<contract::Revision, Error> {
        unsupported()
    }

    fn describe_revision(_: String, _: String) -> Result<contract::Revision, Error> {
        unsupported()
    }

    fn read_file(_: String, _: String, _: String, _: u32) -> Result<Vec<u8>, Error> {
        // More than anybody asks for.
        Ok(vec![0; 1 << 20])
    }

    fn find_files(_: String, _: String, _: String, _: u32, _: u32) -> Result<contract::Found, Error> {
        unsupported()
    }
}

export!(Guest);
