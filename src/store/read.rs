//! Reading: the same words over a snapshot and inside a change.

use std::ops::Bound;

use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

use super::key::{Key, prefix_range};
use super::record::record_key;
use super::{Index, Record, StoreError, codec};
use crate::model::id::ID_LENGTH;
use crate::model::{Id, Organization};

pub(super) fn table(name: &'static str) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(name)
}

/// Which end of a list comes first. Ids sort by creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By creation.
    OldestFirst,
    /// By creation, backwards.
    NewestFirst,
}

/// One page, and where the next one begins.
#[derive(Debug)]
pub struct Page<R> {
    /// In order.
    pub items: Vec<R>,
    /// The last id of this page when there is more behind it: pass it as `after`.
    pub next: Option<Id<R>>,
}

/// A range of one table's keys; `None` as the end is the end of the table.
pub struct Range {
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
}

impl Range {
    fn of_prefix(prefix: &[u8]) -> Range {
        let (start, end) = prefix_range(prefix);
        Range { start: Bound::Included(start), end: end.map_or(Bound::Unbounded, Bound::Excluded) }
    }

    /// Only what comes behind `row` in `order`.
    fn behind(mut self, row: Vec<u8>, order: Order) -> Range {
        match order {
            Order::OldestFirst => self.start = Bound::Excluded(row),
            Order::NewestFirst => self.end = Bound::Excluded(row),
        }
        self
    }

    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.start.as_ref().map(Vec::as_slice), self.end.as_ref().map(Vec::as_slice))
    }
}

/// What visits a row: key and value; false ends the walk.
pub type Visitor<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool, StoreError> + 'a;

/// Raw rows, from whichever transaction. Implemented here, and by tests that count; use the words of [`Read`].
pub trait Rows {
    #[doc(hidden)]
    fn row(&self, name: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    #[doc(hidden)]
    fn walk(&self, name: &'static str, range: &Range, order: Order, visit: &mut Visitor<'_>) -> Result<(), StoreError>;
}

/// One consistent state of the store.
pub struct Snapshot(redb::ReadTransaction);

impl Snapshot {
    pub(super) fn begin(database: &redb::Database) -> Result<Self, StoreError> {
        Ok(Snapshot(database.begin_read()?))
    }

    /// How many rows an index has: asking costs one look, however many there are.
    pub fn size_of<R: Record>(&self, index: &Index<R>) -> Result<u64, StoreError> {
        Ok(self.0.open_table(table(index.name))?.len()?)
    }
}

impl Rows for Snapshot {
    fn row(&self, name: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.open_table(table(name))?.get(key)?.map(|value| value.value().to_vec()))
    }
    fn walk(&self, name: &'static str, range: &Range, order: Order, visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        walk_table(&self.0.open_table(table(name))?, range, order, visit)
    }
}

pub(super) fn walk_table<T>(table: &T, range: &Range, order: Order, visit: &mut Visitor<'_>) -> Result<(), StoreError>
where
    T: ReadableTable<&'static [u8], &'static [u8]>,
{
    // redb panics on a range whose start lies behind its end; such a range is empty.
    if let (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) = range.bounds()
        && start >= end
        && !(start == end && matches!(range.bounds(), (Bound::Included(_), Bound::Included(_))))
    {
        return Ok(());
    }
    let mut rows = table.range::<&[u8]>(range.bounds())?;
    loop {
        let next = match order {
            Order::OldestFirst => rows.next(),
            Order::NewestFirst => rows.next_back(),
        };
        let Some(row) = next else { return Ok(()) };
        let (key, value) = row?;
        if !visit(key.value(), value.value())? {
            return Ok(());
        }
    }
}

/// The words for reading.
pub trait Read: Rows + Sized {
    /// One record by its id, inside an organization.
    fn get<R: Record>(&self, organization: Id<Organization>, id: Id<R>) -> Result<Option<R>, StoreError> {
        self.row(R::TABLE, &record_key(organization, id))?.map(|bytes| codec::decode(&bytes)).transpose()
    }

    /// The oldest record with this key in an organization's index.
    fn find<R: Record>(&self, organization: Id<Organization>, index: &Index<R>, key: &Key) -> Result<Option<R>, StoreError> {
        Ok(self.collect(index, &index.prefix(organization, key), Order::OldestFirst, 1)?.pop())
    }

    /// Up to `limit` records with this key in an organization's index.
    fn find_all<R: Record>(
        &self,
        organization: Id<Organization>,
        index: &Index<R>,
        key: &Key,
        order: Order,
        limit: usize,
    ) -> Result<Vec<R>, StoreError> {
        self.collect(index, &index.prefix(organization, key), order, limit)
    }

    /// Up to `limit` records with this key in an index over the whole host.
    fn find_on_host<R: Record>(&self, index: &Index<R>, key: &Key, limit: usize) -> Result<Vec<R>, StoreError> {
        debug_assert!(index.scope == super::Scope::Host, "{} belongs to organizations", index.name);
        self.collect(index, key.bytes(), Order::OldestFirst, limit)
    }

    /// Visits the records with this key in an index over the whole host, oldest first. False ends the walk; what comes
    /// after it is not read.
    fn for_each_on_host<R: Record>(
        &self,
        index: &Index<R>,
        key: &Key,
        mut visit: impl FnMut(R) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        debug_assert!(index.scope == super::Scope::Host, "{} belongs to organizations", index.name);
        self.walk(index.name, &Range::of_prefix(key.bytes()), Order::OldestFirst, &mut |_, value| {
            let missing = || StoreError::Corrupt { table: index.name, reason: "a row without its record".into() };
            visit(codec::decode(&self.row(R::TABLE, value)?.ok_or_else(missing)?)?)
        })
    }

    /// The oldest record of each key of an index over the whole host whose keys are one id.
    fn first_of_each_on_host<R: Record>(&self, index: &Index<R>) -> Result<Vec<R>, StoreError> {
        debug_assert!(index.scope == super::Scope::Host, "{} belongs to organizations", index.name);
        let mut found = Vec::new();
        let mut range = everything();
        loop {
            let mut next = None;
            self.walk(index.name, &range, Order::OldestFirst, &mut |key, value| {
                let missing = || StoreError::Corrupt { table: index.name, reason: "a row without its record".into() };
                found.push(codec::decode(&self.row(R::TABLE, value)?.ok_or_else(missing)?)?);
                next = prefix_range(&key[..key.len().min(ID_LENGTH)]).1;
                Ok(false)
            })?;
            match next {
                Some(next) => range.start = Bound::Included(next),
                None => return Ok(found),
            }
        }
    }

    /// How many records have this key in an organization's index; counts up to `limit`.
    fn count<R: Record>(&self, organization: Id<Organization>, index: &Index<R>, key: &Key, limit: usize) -> Result<usize, StoreError> {
        let mut count = 0;
        self.walk(index.name, &Range::of_prefix(&index.prefix(organization, key)), Order::OldestFirst, &mut |_, _| {
            count += 1;
            Ok(count < limit)
        })?;
        Ok(count)
    }

    /// Up to `limit` ids of the records with this key in an index over the whole host, oldest first.
    fn ids_on_host<R: Record>(&self, index: &Index<R>, key: &Key, limit: usize) -> Result<Vec<Id<R>>, StoreError> {
        debug_assert!(index.scope == super::Scope::Host, "{} belongs to organizations", index.name);
        self.ids(index.name, key.bytes(), None, Order::OldestFirst, limit)
    }

    /// Up to `limit` ids of the records with this key in an organization's index.
    fn ids_of<R: Record>(
        &self,
        organization: Id<Organization>,
        index: &Index<R>,
        key: &Key,
        order: Order,
        limit: usize,
    ) -> Result<Vec<Id<R>>, StoreError> {
        self.ids(index.name, &index.prefix(organization, key), None, order, limit)
    }

    /// One page of an organization's records, beginning behind `after`: those with this key in an index, or all.
    fn page<R: Record>(
        &self,
        organization: Id<Organization>,
        walk: Option<(&Index<R>, Key)>,
        after: Option<Id<R>>,
        order: Order,
        limit: usize,
    ) -> Result<Page<R>, StoreError> {
        let mut ids = match walk {
            None => self.ids(R::TABLE, organization.as_bytes(), after, order, limit + 1)?,
            Some((index, key)) => self.ids(index.name, &index.prefix(organization, &key), after, order, limit + 1)?,
        };
        let more = ids.len() > limit;
        ids.truncate(limit);
        let mut items = Vec::with_capacity(ids.len());
        for id in &ids {
            items.extend(self.get(organization, *id)?);
        }
        Ok(Page { items, next: ids.last().copied().filter(|_| more) })
    }

    /// The id that comes first behind `after` among the records with this key in an organization's index.
    fn next_id<R: Record>(
        &self,
        organization: Id<Organization>,
        (index, key): (&Index<R>, &Key),
        after: Option<Id<R>>,
        order: Order,
    ) -> Result<Option<Id<R>>, StoreError> {
        Ok(self.ids(index.name, &index.prefix(organization, key), after, order, 1)?.pop())
    }

    /// The keys that an organization's index has behind `key` with one further text, each once: it asks as often as there are
    /// different ones.
    fn keys_behind<R: Record>(&self, organization: Id<Organization>, index: &Index<R>, key: &Key) -> Result<Vec<Key>, StoreError> {
        let prefix = index.prefix(organization, key);
        let mut range = Range::of_prefix(&prefix);
        let mut found = Vec::new();
        loop {
            let mut next = None;
            self.walk(index.name, &range, Order::OldestFirst, &mut |row, _| {
                next = key.with_text_of(row.get(prefix.len()..).unwrap_or_default());
                Ok(false)
            })?;
            let Some(next) = next else { return Ok(found) };
            let Some(end) = prefix_range(&index.prefix(organization, &next)).1 else { return Ok(found) };
            range.start = Bound::Included(end);
            found.push(next);
        }
    }

    /// Visits an organization's records, oldest first: those with this key in an index, or all. False ends the walk.
    fn for_each<R: Record>(
        &self,
        organization: Id<Organization>,
        walk: Option<(&Index<R>, Key)>,
        mut visit: impl FnMut(R) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let Some((index, key)) = walk else {
            let all = Range::of_prefix(organization.as_bytes());
            return self.walk(R::TABLE, &all, Order::OldestFirst, &mut |_, value| visit(codec::decode(value)?));
        };
        for record in self.collect(index, &index.prefix(organization, &key), Order::OldestFirst, usize::MAX)? {
            if !visit(record)? {
                break;
            }
        }
        Ok(())
    }

    /// Every record of a type on the host, oldest organization first; for the service's own work and for checks.
    fn every<R: Record>(&self, mut visit: impl FnMut(R) -> Result<bool, StoreError>) -> Result<(), StoreError> {
        self.walk(R::TABLE, &Range::of_prefix(&[]), Order::OldestFirst, &mut |_, value| visit(codec::decode(value)?))
    }

    #[doc(hidden)]
    fn meta(&self, name: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.row(super::tables::META, name)
    }

    #[doc(hidden)]
    fn collect<R: Record>(&self, index: &Index<R>, prefix: &[u8], order: Order, limit: usize) -> Result<Vec<R>, StoreError> {
        let mut keys = Vec::new();
        self.walk(index.name, &Range::of_prefix(prefix), order, &mut |_, value| {
            keys.push(value.to_vec());
            Ok(keys.len() < limit)
        })?;
        let missing = |index: &Index<R>| StoreError::Corrupt { table: index.name, reason: "a row without its record".into() };
        keys.iter().map(|key| codec::decode(&self.row(R::TABLE, key)?.ok_or_else(|| missing(index))?)).collect()
    }

    #[doc(hidden)]
    fn ids<R>(
        &self,
        name: &'static str,
        prefix: &[u8],
        after: Option<Id<R>>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<Id<R>>, StoreError> {
        let mut range = Range::of_prefix(prefix);
        if let Some(after) = after {
            range = range.behind([prefix, after.as_bytes()].concat(), order);
        }
        let mut ids = Vec::new();
        self.walk(name, &range, order, &mut |key, _| {
            ids.push(id_at_the_end(name, key)?);
            Ok(ids.len() < limit)
        })?;
        Ok(ids)
    }
}

impl<T: Rows> Read for T {}

fn id_at_the_end<R>(name: &'static str, key: &[u8]) -> Result<Id<R>, StoreError> {
    let text = key.len().checked_sub(ID_LENGTH).and_then(|start| std::str::from_utf8(&key[start..]).ok());
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| StoreError::Corrupt { table: name, reason: "a key that does not end with an id".into() })
}

pub(super) fn everything() -> Range {
    Range::of_prefix(&[])
}
