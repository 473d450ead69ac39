//! Sealing everything anew, when the key that secrets are sealed with changes. The store itself knows no key: it finds the
//! sealed values, and notes the name of the key that they are sealed with.

use super::read::{Order, Read, Rows, everything};
use super::{Change, Record, Store, StoreError, tables};
use crate::model::secret::Sealed;

const SEALED_WITH: &[u8] = b"sealed_with";

impl Store {
    /// The name of the key that secrets are sealed with; `None` before the first one was noted.
    pub fn sealed_with(&self) -> Result<Option<String>, StoreError> {
        self.read(|snapshot| Ok(snapshot.meta(SEALED_WITH)?.and_then(|bytes| String::from_utf8(bytes).ok())))
    }
}

impl Change {
    /// Notes the name of the key that secrets are sealed with from this change on.
    pub fn set_sealed_with(&self, key: &str) -> Result<(), StoreError> {
        self.set_meta(SEALED_WITH, key.as_bytes())
    }

    /// Seals every secret of the host anew; `seal` gets each with its place. How many there were.
    pub fn reseal<E: From<StoreError>>(&self, mut seal: impl FnMut(&str, &Sealed) -> Result<Sealed, E>) -> Result<u64, E> {
        tables::reseal(self, &mut seal)
    }

    /// The first table in which `text` stands in any row; for the check that nothing was forgotten.
    pub fn table_with(&self, text: &str) -> Result<Option<&'static str>, StoreError> {
        for name in tables::names().into_iter().filter(|name| *name != tables::META) {
            let mut found = false;
            self.walk(name, &everything(), Order::OldestFirst, &mut |_, value| {
                found = std::str::from_utf8(value).is_ok_and(|value| value.contains(text));
                Ok(!found)
            })?;
            if found {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}

pub(super) fn reseal_records<R: Record, E: From<StoreError>>(
    change: &Change,
    seal: &mut impl FnMut(&str, &Sealed) -> Result<Sealed, E>,
) -> Result<u64, E> {
    let Some(values) = R::SEALED else { return Ok(0) };
    let mut records = Vec::new();
    change.every::<R>(|record| {
        records.push(record);
        Ok(true)
    })?;
    let mut count = 0;
    for mut record in records {
        let sealed = values(&mut record);
        if sealed.is_empty() {
            continue;
        }
        for (place, value) in sealed {
            *value = seal(&place, value)?;
            count += 1;
        }
        change.put(&record)?;
    }
    Ok(count)
}
