//! The life of a build.

pub mod diagnostics;
pub mod engines;
pub mod executor;
pub mod lifecycle;
pub mod logs;
pub mod uat;
pub mod verdict;
