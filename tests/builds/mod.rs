//! The life of a build, with the parts real: store, artifacts, logs, processes and the stand-in engine.

#[cfg(unix)]
mod deploy;
#[cfg(unix)]
mod ending;
#[cfg(unix)]
mod failures;
#[cfg(unix)]
mod hostile;
#[cfg(target_os = "linux")]
mod isolation;
mod lifecycle;
#[cfg(unix)]
mod order;
#[cfg(unix)]
mod recovery;
#[cfg(unix)]
mod room;
mod starting;
#[cfg(unix)]
mod success;
