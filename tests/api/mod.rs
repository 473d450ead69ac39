//! The API from outside, over a real listener.

mod conversation;
mod every_route;
mod people;
mod tokens;
