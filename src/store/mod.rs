//! The store. No other module names redb.
