//! What differs between operating systems: processes, disks, private files. No other module is Unix-only.

pub mod files;
