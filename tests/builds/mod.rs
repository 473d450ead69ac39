//! The life of a build, with the parts real: store, artifacts, logs, processes and the stand-in engine.

mod lifecycle;
