//! Records and the indexes that are kept in step with them.

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::key::Key;
use crate::model::secret::Sealed;
use crate::model::{Id, Organization};

/// A stored type. Its row's key is the organization's id followed by its own.
pub trait Record: Serialize + DeserializeOwned + Clone + Send + Sync + Sized + 'static {
    /// Name of its table.
    const TABLE: &'static str;
    /// Version of its JSON; a change of meaning needs a new number and a migration.
    const VERSION: u8 = 1;
    /// Every index over it.
    const INDEXES: &'static [Index<Self>];
    /// What the audit log calls it; `None`: the service's own book-keeping, which is not audited.
    const KIND: Option<&'static str>;
    /// Its sealed values with their places; `None`: it never has any.
    const SEALED: Option<SealedValues<Self>> = None;

    /// Whose it is.
    fn organization(&self) -> Id<Organization>;
    /// Its id.
    fn id(&self) -> Id<Self>;

    /// What else changes when a record is stored over `old` or removed; runs in the same transaction.
    fn accompany(_: &super::Change, _old: Option<&Self>, _new: Option<&Self>) -> Result<(), super::StoreError> {
        Ok(())
    }
}

/// Finds the sealed values of a record, each with the place that it is sealed for.
pub type SealedValues<R> = fn(&mut R) -> Vec<(String, &mut Sealed)>;

/// Who may look into an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Rows begin with the organization: no lookup can leave it.
    Organization,
    /// Rows of the whole host, for what comes before an organization is known (a bearer, an e-mail address) and for
    /// the service's own work.
    Host,
}

/// An index: name, scope, and the keys of a record.
pub struct Index<R> {
    /// Name of its table, `<what>_by_<key>` or `<what>_<condition>`.
    pub name: &'static str,
    /// Who may look into it.
    pub scope: Scope,
    /// What a record is found under.
    keys: Keys<R>,
}

/// The keys of a record; without one it has no row.
enum Keys<R> {
    One(fn(&R) -> Option<Key>),
    Many(fn(&R) -> Vec<Key>),
}

impl<R: Record> Index<R> {
    /// An index inside an organization.
    pub const fn new(name: &'static str, key: fn(&R) -> Option<Key>) -> Self {
        Index { name, scope: Scope::Organization, keys: Keys::One(key) }
    }

    /// An index inside an organization that a record may have several rows in.
    pub const fn many(name: &'static str, keys: fn(&R) -> Vec<Key>) -> Self {
        Index { name, scope: Scope::Organization, keys: Keys::Many(keys) }
    }

    /// An index over the whole host.
    pub const fn host(name: &'static str, key: fn(&R) -> Option<Key>) -> Self {
        Index { name, scope: Scope::Host, keys: Keys::One(key) }
    }

    /// The rows of a record: the prefix that lookups name, then its id.
    pub(super) fn rows(&self, record: &R) -> BTreeSet<Vec<u8>> {
        let keys = match self.keys {
            Keys::One(key) => key(record).into_iter().collect(),
            Keys::Many(keys) => keys(record),
        };
        let row = |key: Key| [self.prefix(record.organization(), &key).as_slice(), record.id().as_bytes()].concat();
        keys.into_iter().map(row).collect()
    }

    pub(super) fn prefix(&self, organization: Id<Organization>, key: &Key) -> Vec<u8> {
        let mut prefix = match self.scope {
            Scope::Organization => organization.as_bytes().to_vec(),
            Scope::Host => Vec::new(),
        };
        prefix.extend_from_slice(key.bytes());
        prefix
    }
}

/// The key of a record's own row.
pub(super) fn record_key<R>(organization: Id<Organization>, id: Id<R>) -> Vec<u8> {
    let mut key = organization.as_bytes().to_vec();
    key.extend_from_slice(id.as_bytes());
    key
}
