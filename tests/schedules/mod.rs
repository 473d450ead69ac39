//! Builds that the clock starts. Time is told to `tick`; no test waits for it.

#[cfg(unix)]
mod firing;
mod simulation;
