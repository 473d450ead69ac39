//! The configuration, read once.
