//! Cursors: where the next page begins, opaque and authenticated. A cursor belongs to one list of one organization with
//! one set of filters; anything else is refused, so that a client cannot page through what it did not ask for.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::error::{Problem, Result};
use crate::model::id::ID_LENGTH;
use crate::model::{Id, Organization};
use crate::vault::Vault;

const VERSION: u8 = 1;
/// Of a cursor whose place is another server's.
const FOREIGN: u8 = 2;
const MAC_LENGTH: usize = 16;
/// The longest place of another server that a cursor carries.
const LONGEST_PLACE: usize = 1024;

/// Makes and reads the cursors of one list.
pub struct Cursors {
    mac: Hmac<Sha256>,
}

impl Cursors {
    /// Of the list `operation` of an organization with these filters, in a fixed order.
    pub fn new(vault: &Vault, organization: Id<Organization>, operation: &str, filters: &[Option<&str>]) -> Result<Self> {
        let key = vault.derive("cursors of lists");
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&key).map_err(super::ApiError::internal)?;
        let parts = [Some(organization.as_str()), Some(operation)].into_iter().chain(filters.iter().copied());
        for part in parts {
            // Lengths first: no two lists of parts give the same bytes.
            match part {
                None => mac.update(&[0]),
                Some(text) => {
                    mac.update(&[1]);
                    mac.update(&(text.len() as u64).to_be_bytes());
                    mac.update(text.as_bytes());
                }
            }
        }
        Ok(Cursors { mac })
    }

    /// The cursor of the page behind `last`.
    pub fn write<R>(&self, last: Id<R>) -> String {
        self.sign(VERSION, last.as_bytes())
    }

    /// The cursor of a page that another server will give: its own words for the place, up to 1024 bytes.
    pub fn write_foreign(&self, place: &str) -> Option<String> {
        (place.len() <= LONGEST_PLACE).then(|| self.sign(FOREIGN, place.as_bytes()))
    }

    fn sign(&self, version: u8, place: &[u8]) -> String {
        let mut bytes = vec![version];
        bytes.extend_from_slice(place);
        let mac = self.mac.clone().chain_update(&bytes).finalize().into_bytes();
        bytes.extend_from_slice(&mac[..MAC_LENGTH]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// What a client sent back.
    pub fn read<R>(&self, cursor: &str) -> Result<Id<R>> {
        self.open(VERSION, ID_LENGTH, cursor)?.parse().map_err(|_| Problem::InvalidCursor.into())
    }

    /// What a client sent back of [`Cursors::write_foreign`].
    pub fn read_foreign(&self, cursor: &str) -> Result<String> {
        self.open(FOREIGN, LONGEST_PLACE, cursor)
    }

    fn open(&self, version: u8, longest: usize, cursor: &str) -> Result<String> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| Problem::InvalidCursor)?;
        let length = bytes.len().checked_sub(MAC_LENGTH).filter(|length| (1..=1 + longest).contains(length));
        let (signed, mac) = bytes.split_at(length.ok_or(Problem::InvalidCursor)?);
        self.mac.clone().chain_update(signed).verify_truncated_left(mac).map_err(|_| Problem::InvalidCursor)?;
        if signed[0] != version {
            return Err(Problem::InvalidCursor.into());
        }
        String::from_utf8(signed[1..].to_vec()).map_err(|_| Problem::InvalidCursor.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_belongs_to_its_list_and_does_not_survive_a_change() {
        let directory = tempfile::TempDir::new().unwrap();
        let settings = crate::vault::Settings { key: None, credentials_directory: None, key_file: directory.path().join("key") };
        let vault = Vault::open(&settings).unwrap();
        let (one, other) = (Id::from_parts(1, 1), Id::from_parts(2, 2));
        let cursors = |organization, filters: &[Option<&str>]| Cursors::new(&vault, organization, "listBuilds", filters).unwrap();
        let cursor = cursors(one, &[Some("a"), None]).write(other);
        assert_eq!(cursors(one, &[Some("a"), None]).read::<Organization>(&cursor).ok(), Some(other));
        for foreign in [cursors(other, &[Some("a"), None]), cursors(one, &[None, Some("a")]), cursors(one, &[Some("a")])] {
            assert!(foreign.read::<Organization>(&cursor).is_err());
        }
        let foreign = cursors(one, &[]).write_foreign("2.25.0").unwrap();
        assert_eq!(cursors(one, &[]).read_foreign(&foreign).ok().as_deref(), Some("2.25.0"));
        assert!(
            cursors(one, &[]).read::<Organization>(&foreign).is_err() && cursors(one, &[Some("a"), None]).read_foreign(&cursor).is_err()
        );
        assert!(cursors(one, &[]).write_foreign(&"x".repeat(LONGEST_PLACE + 1)).is_none());
        for position in 0..cursor.len() {
            let mut changed = cursor.clone().into_bytes();
            changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
            assert!(cursors(one, &[Some("a"), None]).read::<Organization>(std::str::from_utf8(&changed).unwrap()).is_err());
        }
    }
}
