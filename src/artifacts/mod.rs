//! Tarballs on local disk.
