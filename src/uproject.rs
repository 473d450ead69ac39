//! Finding and reading project files; pure, on lists of paths and on bytes.
