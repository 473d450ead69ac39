//! The handles that a handler may use.
