//! The API from outside, over a real listener.

mod build_logs;
mod conversation;
mod downloads;
mod every_route;
mod people;
mod tokens;
