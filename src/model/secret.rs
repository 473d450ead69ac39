//! Values that must not be shown.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A value that no log line, error text or `Debug` output shows. It has no `Display` and no `Serialize`.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct Secret<T = String>(T);

impl<T> Secret<T> {
    /// Wraps it.
    pub fn new(value: T) -> Self {
        Secret(value)
    }

    /// The value itself. Each caller is a place to look at in a review.
    pub fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A secret as the store keeps it: encrypted, useless without the key and the place it belongs to (see `vault`).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sealed(pub String);

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(sealed)")
    }
}
