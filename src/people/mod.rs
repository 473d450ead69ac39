//! People, sessions and tokens: who somebody is, shared by the API and the command line (decisions 4).
//!
//! Passwords are kept as argon2id, bearers as SHA-256. A bearer is shown once, to whom it is made for.

mod accounts;
mod audit;
pub mod bearer;
mod members;
mod passwords;
mod sessions;
mod setup;
mod throttle;
mod tokens;

use std::sync::Arc;

pub use accounts::{NewAccount, email, name_fault};
pub use members::NewMember;
pub use passwords::{MAXIMUM_PASSWORD, MINIMUM_PASSWORD, Passwords};
pub use sessions::SignedIn;
pub use setup::SetupToken;
pub use throttle::Throttle;
pub use tokens::{NewToken, Reach};

use crate::clock::Clock;
use crate::model::user::Session;
use crate::model::{ApiToken, Id, User};
use crate::store::{Store, StoreError};

/// The handle. Cheap to clone.
#[derive(Clone)]
pub struct People {
    store: Store,
    clock: Arc<Clock>,
    passwords: Arc<Passwords>,
    throttle: Arc<Throttle>,
}

impl People {
    /// Over this store.
    pub fn new(store: Store, clock: Arc<Clock>) -> Self {
        People { store, clock, passwords: Arc::new(Passwords::default()), throttle: Arc::new(Throttle::default()) }
    }

    /// The time of day that expiries are compared with.
    pub fn now(&self) -> crate::model::Timestamp {
        self.clock.now()
    }
}

/// Somebody who showed a bearer that holds.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The person, or the owner of the token.
    pub user: User,
    /// What they showed.
    pub bearer: Bearer,
}

/// What somebody showed.
#[derive(Debug, Clone)]
pub enum Bearer {
    /// A person who signed in.
    Session(Id<Session>),
    /// A script's token. Boxed: sessions are the small and frequent case.
    Token(Box<ApiToken>),
}

/// Why something about people did not work.
#[derive(Debug, thiserror::Error)]
pub enum PeopleError {
    /// No such bearer, or e-mail address and password do not belong together.
    #[error("unknown credentials")]
    Unknown,
    /// The bearer's time is over.
    #[error("expired")]
    Expired,
    /// The token was revoked.
    #[error("revoked")]
    Revoked,
    /// Too many failures; try again after so many seconds.
    #[error("too many attempts; try again in {0} seconds")]
    TooManyAttempts(u64),
    /// More passwords are being checked than the machine can bear.
    #[error("too many passwords are being checked")]
    Busy,
    /// The e-mail address belongs to somebody.
    #[error("somebody with this e-mail address exists already")]
    EmailTaken,
    /// Nobody has the e-mail address.
    #[error("nobody has the e-mail address {0}")]
    NoSuchUser(String),
    /// Several organizations exist, or one of this name does not.
    #[error("{0}")]
    Organization(String),
    /// Setup was done already.
    #[error("the service is set up already")]
    AlreadySetUp,
    /// A field is no good.
    #[error("{field} {reason}")]
    Invalid {
        /// Which, in the API's spelling.
        field: &'static str,
        /// Why.
        reason: String,
    },
    /// There is no such member.
    #[error("there is no such member")]
    NoSuchMember,
    /// The organization would be left without an admin.
    #[error("the last admin cannot go")]
    LastAdmin,
    /// There is no such token.
    #[error("there is no such token")]
    NoSuchToken,
    /// Hashing failed.
    #[error("hashing a password failed: {0}")]
    Hash(String),
    /// The setup token's file.
    #[error("the setup token's file: {0}")]
    File(#[from] std::io::Error),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}
