//! The life of a build.

pub mod engines;
pub mod uat;
