//! What `wit/` says, as Rust: one set of bindings for the interfaces that the host gives, and one per world for
//! what a guest gives. Generated; a change of `wit/` is the only reason to touch this file.
#![allow(clippy::all, reason = "generated from wit/, documented there")]

/// The world with every import of the contract, and the deploy export.
pub(crate) mod deploy {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "deploy-command-plugin",
        imports: { default: async | trappable },
        exports: { default: async },
        require_store_data_send: true,
        trappable_error_type: { "cookhouse:plugin/types.error" => crate::plugins::host::Failure },
        with: {
            "cookhouse:plugin/secrets.secret": crate::plugins::host::secrets::Secret,
            "cookhouse:plugin/artifacts.artifact": crate::plugins::host::artifacts::Artifact,
            "cookhouse:plugin/workspaces.workspace": crate::plugins::host::workspaces::Workspace,
            "cookhouse:plugin/http.body": crate::plugins::host::http::body::Body,
            "cookhouse:plugin/http.multipart": crate::plugins::host::http::multipart::Multipart,
            "cookhouse:plugin/http.request": crate::plugins::host::http::request::Request,
            "cookhouse:plugin/http.exchange": crate::plugins::host::http::exchange::Exchange,
            "cookhouse:plugin/http.response": crate::plugins::host::http::response::Response,
            "cookhouse:plugin/command.invocation": crate::plugins::host::command::Invocation,
            "cookhouse:plugin/command.process": crate::plugins::host::command::Process,
        },
    });
}

/// The source-control export; its imports are those of [`deploy`].
pub(crate) mod source {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "source-control-plugin",
        imports: { default: async | trappable },
        exports: { default: async },
        require_store_data_send: true,
        with: {
            "cookhouse:plugin/types": crate::plugins::bindings::deploy::cookhouse::plugin::types,
            "cookhouse:plugin/log": crate::plugins::bindings::deploy::cookhouse::plugin::log,
            "cookhouse:plugin/clock": crate::plugins::bindings::deploy::cookhouse::plugin::clock,
            "cookhouse:plugin/random": crate::plugins::bindings::deploy::cookhouse::plugin::random,
            "cookhouse:plugin/cache": crate::plugins::bindings::deploy::cookhouse::plugin::cache,
            "cookhouse:plugin/config": crate::plugins::bindings::deploy::cookhouse::plugin::config,
            "cookhouse:plugin/secrets": crate::plugins::bindings::deploy::cookhouse::plugin::secrets,
            "cookhouse:plugin/progress": crate::plugins::bindings::deploy::cookhouse::plugin::progress,
            "cookhouse:plugin/artifacts": crate::plugins::bindings::deploy::cookhouse::plugin::artifacts,
            "cookhouse:plugin/workspaces": crate::plugins::bindings::deploy::cookhouse::plugin::workspaces,
            "cookhouse:plugin/http": crate::plugins::bindings::deploy::cookhouse::plugin::http,
            "cookhouse:plugin/command": crate::plugins::bindings::deploy::cookhouse::plugin::command,
        },
    });
}

pub(crate) use deploy::cookhouse::plugin::{
    artifacts, cache, clock, command, config, http, log, progress, random, secrets, types, workspaces,
};
