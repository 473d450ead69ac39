//! Whole flows, as a studio knows them, with the real server as a process of its own.

mod checkouts;
mod githost;
