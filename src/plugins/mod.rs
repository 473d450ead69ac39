//! The plugin host. No other module names wasmtime.
