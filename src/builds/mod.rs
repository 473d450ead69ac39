//! The life of a build.

pub mod diagnostics;
pub mod engines;
pub mod lifecycle;
pub mod uat;
pub mod verdict;
