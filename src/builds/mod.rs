//! The life of a build.
