//! The store from outside: durability, isolation, indexes and pages.

mod events;
mod full_disk;
mod paging;
mod power_loss;
mod writing;

use crate::support::builds::build;
pub(crate) use crate::support::studio::store as open;
