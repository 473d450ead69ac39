//! What tests of the whole system share.

pub(crate) mod small_disk;
