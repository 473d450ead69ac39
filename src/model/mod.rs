//! What the product talks about. No input or output, no async, no clock, no randomness.

pub mod artifact;
pub mod build;
pub mod build_setting;
pub mod deploy;
pub mod event;
pub mod histogram;
pub mod id;
pub mod idempotency;
pub mod lane;
pub mod log;
pub mod network;
pub mod organization;
pub mod page;
pub mod permission;
pub mod project;
pub mod revision;
pub mod schedule;
pub mod schedule_slot;
pub mod secret;
pub mod timestamp;
pub mod token;
pub mod user;
pub mod validation;

pub use artifact::Artifact;
pub use build::{Build, Status, TriggeredBy};
pub use build_setting::BuildSetting;
pub use event::Event;
pub use id::Id;
pub use lane::Lane;
pub use organization::Organization;
pub use project::Project;
pub use schedule_slot::ScheduleSlot;
pub use secret::Secret;
pub use timestamp::Timestamp;
pub use token::ApiToken;
pub use user::User;
