//! The audit log's one place: whoever runs a request does it in [`scope`]; every change that the request makes is then
//! recorded in its own transaction, from what the transaction really stored. No handler can forget it.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::Key;
use super::read::Read;
use super::{Change, Record, Store, StoreError, tables};
use crate::clock::Clock;
use crate::model::audit::{Actor, Touch, Touched, Verdict};
use crate::model::{AuditEntry, Id, Organization, Timestamp, User};

/// Resources that one entry lists.
const LISTED: usize = 100;
/// Fields that one resource lists.
const FIELDS: usize = 64;
const HEAD: &[u8] = b"audit_head";
const CHECKPOINT: &[u8] = b"audit_checkpoint";

tokio::task_local! {
    static REQUEST: Arc<Origin>;
}

/// Who asks for what, from where.
pub struct Origin {
    clock: Arc<Clock>,
    operation_id: String,
    request_id: String,
    address: Option<IpAddr>,
    known: Mutex<Known>,
}

struct Known {
    organization: Option<Id<Organization>>,
    actor: Actor,
    /// What a refusal is about.
    named: Vec<Touched>,
}

impl Origin {
    /// Of a request whose caller is not known yet.
    pub fn of_request(clock: Arc<Clock>, operation_id: &str, request_id: &str, address: IpAddr) -> Arc<Origin> {
        let known = Known { organization: None, actor: Actor::Stranger, named: Vec::new() };
        let (operation_id, request_id) = (operation_id.to_owned(), request_id.to_owned());
        Arc::new(Origin { clock, operation_id, request_id, address: Some(address.to_canonical()), known: Mutex::new(known) })
    }

    /// Of an order by the owner of the host.
    pub fn of_host(clock: Arc<Clock>, operation_id: &str) -> Arc<Origin> {
        let known = Known { organization: None, actor: Actor::Host, named: Vec::new() };
        let request_id = String::new();
        Arc::new(Origin { clock, operation_id: operation_id.to_owned(), request_id, address: None, known: Mutex::new(known) })
    }

    /// The caller showed who they are.
    pub fn identified(&self, organization: Id<Organization>, actor: Actor) {
        let mut known = self.known();
        known.organization = Some(organization);
        known.actor = actor;
    }

    /// Who it is, as far as it is known.
    pub fn actor(&self) -> Actor {
        self.known().actor
    }

    /// The request names this resource.
    pub fn names(&self, kind: &str, id: &str) {
        self.known().named.push(Touched { kind: kind.to_owned(), id: id.to_owned(), change: Touch::Named, fields: Vec::new() });
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the work of a request; what it changes is recorded under `origin`.
pub async fn scope<T>(origin: Arc<Origin>, work: impl Future<Output = T>) -> T {
    REQUEST.scope(origin, work).await
}

/// The same, for work that may be of no interest to the log.
pub async fn scope_if<T>(origin: Option<Arc<Origin>>, work: impl Future<Output = T>) -> T {
    match origin {
        Some(origin) => scope(origin, work).await,
        None => work.await,
    }
}

/// The request turned out to be about this person, whether or not it succeeds.
pub fn concerns(user: &User) {
    let _ = REQUEST.try_with(|origin| {
        origin.known().organization.get_or_insert(user.organization_id);
        origin.names(super::tables::KIND_OF_USER, user.id.as_str());
    });
}

pub(super) fn current() -> Option<Journal> {
    REQUEST.try_with(|origin| Journal { origin: origin.clone(), notes: RefCell::default() }).ok()
}

/// Records a refusal, in a transaction of its own. `omitted`: refusals before it that are not recorded.
pub async fn refused(store: &Store, origin: Arc<Origin>, code: &'static str, omitted: u64) -> Result<(), StoreError> {
    let append = move |change: &Change| {
        let (organization, actor, named) = {
            let known = origin.known();
            (known.organization, known.actor, known.named.clone())
        };
        // A stranger's request belongs to the only organization there is, else to the host.
        let organization = match organization {
            Some(organization) => organization,
            None => match change.find_on_host::<Organization>(&tables::ORGANIZATIONS_ALL, &Key::all(), 2)?.as_slice() {
                [only] => only.id,
                _ => AuditEntry::host(),
            },
        };
        let what = What { organization, actor, refused: Some(code.to_owned()), resources: named, omitted: 0, refusals_omitted: omitted };
        append(change, &origin, what)
    };
    store.write(append).await
}

/// What one transaction changed so far.
pub(super) struct Journal {
    origin: Arc<Origin>,
    notes: RefCell<Notes>,
}

#[derive(Default)]
struct Notes {
    organization: Option<Id<Organization>>,
    touched: Vec<Touched>,
    omitted: u64,
}

impl Journal {
    pub(super) fn note<R: Record>(&self, old: Option<&R>, new: Option<&R>) {
        let (Some(kind), Some(record)) = (R::KIND, new.or(old)) else { return };
        let (change, fields) = match (old, new) {
            (None, _) => (Touch::Created, Vec::new()),
            (_, None) => (Touch::Deleted, Vec::new()),
            (Some(old), Some(new)) => (Touch::Changed, changed_fields(old, new)),
        };
        let id = record.id();
        let notes = &mut *self.notes.borrow_mut();
        notes.organization.get_or_insert(record.organization());
        // Twice in one transaction: what it came to.
        if let Some(touched) = notes.touched.iter_mut().find(|touched| touched.kind == kind && touched.id == id.as_str()) {
            if change == Touch::Deleted {
                touched.change = change;
            }
            let further: Vec<String> = fields.into_iter().filter(|field| !touched.fields.contains(field)).collect();
            touched.fields.extend(further);
        } else if notes.touched.len() >= LISTED {
            notes.omitted += 1;
        } else {
            notes.touched.push(Touched { kind: kind.to_owned(), id: id.as_str().to_owned(), change, fields });
        }
    }

    pub(super) fn acts(&self, user: &User) {
        let mut known = self.origin.known();
        if known.actor == Actor::Stranger {
            known.actor = Actor::User { user_id: user.id };
            known.organization = Some(user.organization_id);
        }
    }

    /// Adds the entry, if anything was changed.
    pub(super) fn finish(self, change: &Change) -> Result<(), StoreError> {
        let Notes { organization, touched, omitted } = self.notes.into_inner();
        if touched.is_empty() {
            return Ok(());
        }
        let (known, actor) = {
            let known = self.origin.known();
            (known.organization, known.actor)
        };
        let organization = known.or(organization).unwrap_or_else(AuditEntry::host);
        let what = What { organization, actor, refused: None, resources: touched, omitted, refusals_omitted: 0 };
        append(change, &self.origin, what)
    }
}

struct What {
    organization: Id<Organization>,
    actor: Actor,
    refused: Option<String>,
    resources: Vec<Touched>,
    omitted: u64,
    refusals_omitted: u64,
}

/// A point of the chain.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Point {
    sequence: u64,
    hash: String,
}

impl Point {
    fn read(name: &'static str, bytes: Option<Vec<u8>>) -> Result<Point, StoreError> {
        let beginning = || Point { sequence: 0, hash: AuditEntry::BEGINNING.to_owned() };
        let corrupt = |error: serde_json::Error| StoreError::Corrupt { table: name, reason: error.to_string() };
        bytes.map_or_else(|| Ok(beginning()), |bytes| serde_json::from_slice(&bytes).map_err(corrupt))
    }

    fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

fn append(change: &Change, origin: &Origin, what: What) -> Result<(), StoreError> {
    let head = Point::read("audit_head", change.meta(HEAD)?)?;
    let now = origin.clock.now();
    let mut entry = AuditEntry {
        id: origin.clock.new_id(),
        organization_id: what.organization,
        sequence: head.sequence + 1,
        at: now,
        actor: what.actor,
        address: origin.address.map(|address| address.to_string()),
        operation_id: origin.operation_id.clone(),
        request_id: origin.request_id.clone(),
        refused: what.refused,
        resources: what.resources,
        resources_omitted: what.omitted,
        refusals_omitted: what.refusals_omitted,
        previous_hash: head.hash,
        hash: String::new(),
    };
    entry.hash = entry.digest();
    change.put(&entry)?;
    change.set_meta(HEAD, &Point { sequence: entry.sequence, hash: entry.hash }.bytes())
}

/// Removes up to `most` of the oldest entries that are no younger than `until`; how many there were. The last one removed
/// becomes the checkpoint that the chain begins at.
pub fn prune(change: &Change, until: Timestamp, most: usize) -> Result<usize, StoreError> {
    let oldest: Vec<AuditEntry> = change.find_on_host(&tables::AUDIT_CHAIN, &Key::all(), most)?;
    let mut removed = 0;
    for entry in oldest.into_iter().take_while(|entry| entry.at <= until) {
        change.remove(entry.organization_id, entry.id)?;
        change.set_meta(CHECKPOINT, &Point { sequence: entry.sequence, hash: entry.hash }.bytes())?;
        removed += 1;
    }
    Ok(removed)
}

/// Walks the whole chain and says whether it holds.
pub fn verify(store: &Store) -> Result<Verdict, StoreError> {
    store.read(|snapshot| {
        let mut at = Point::read("audit_checkpoint", snapshot.meta(CHECKPOINT)?)?;
        let head = Point::read("audit_head", snapshot.meta(HEAD)?)?;
        let (first, mut entries, mut broken) = (at.sequence + 1, 0, None);
        let walked = snapshot.for_each_on_host(&tables::AUDIT_CHAIN, &Key::all(), |entry: AuditEntry| {
            broken = fault(&at, &entry);
            if broken.is_none() {
                entries += 1;
                at = Point { sequence: entry.sequence, hash: entry.hash };
            }
            Ok(broken.is_none())
        });
        match walked {
            Err(StoreError::Corrupt { reason, .. }) => broken = Some(format!("entry {} does not read back: {reason}", at.sequence + 1)),
            other => other?,
        }
        if broken.is_none() && (at.sequence, &at.hash) != (head.sequence, &head.hash) {
            broken = Some(match at.sequence < head.sequence {
                true => format!("the entries {} to {} are missing at the end", at.sequence + 1, head.sequence),
                false => format!("the chain does not end with the hash that was noted for entry {}", head.sequence),
            });
        }
        Ok(Verdict { entries, first, last: head.sequence, head: head.hash, broken })
    })
}

fn fault(at: &Point, entry: &AuditEntry) -> Option<String> {
    if entry.sequence != at.sequence + 1 {
        return Some(format!("entry {} is missing; entry {} follows entry {}", at.sequence + 1, entry.sequence, at.sequence));
    }
    if entry.hash != entry.digest() {
        return Some(format!("entry {} ({}, {}) was changed after it was written", entry.sequence, entry.id, entry.at));
    }
    if entry.previous_hash != at.hash {
        return Some(format!("entry {} ({}, {}) does not follow the one before it", entry.sequence, entry.id, entry.at));
    }
    None
}

/// Names of the fields in which two states of a record differ, `outer.inner` inside objects.
fn changed_fields<R: Serialize>(old: &R, new: &R) -> Vec<String> {
    let (Ok(old), Ok(new)) = (serde_json::to_value(old), serde_json::to_value(new)) else { return Vec::new() };
    let mut fields = Vec::new();
    compare("", &old, &new, &mut fields);
    // Kept by the service itself at every change.
    fields.retain(|field| !matches!(field.as_str(), "updatedAt" | "version"));
    fields.truncate(FIELDS);
    fields
}

fn compare(path: &str, old: &Value, new: &Value, fields: &mut Vec<String>) {
    if old == new {
        return;
    }
    let depth = if path.is_empty() { 0 } else { 1 + path.matches('.').count() };
    match (old, new) {
        (Value::Object(old), Value::Object(new)) if depth < 3 => {
            let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&path, old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null), fields);
            }
        }
        _ => fields.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_named_and_their_values_are_not() {
        let old = json!({"name": "a", "smtp": {"password": "secret-one", "host": "h"}, "token": null, "version": 1, "list": [1]});
        let new = json!({"name": "a", "smtp": {"password": "secret-two", "host": "h"}, "token": {"x": 1}, "version": 2, "list": [2]});
        assert_eq!(changed_fields(&old, &new), ["list", "smtp.password", "token"]);
    }

    #[tokio::test]
    async fn entries_past_their_time_go_and_the_chain_still_holds() {
        let directory = tempfile::tempdir().unwrap();
        let settings = crate::store::Settings { path: directory.path().join("store.redb"), cache_bytes: 1 << 20 };
        let store = Store::open(&settings).unwrap();
        let clock = Arc::new(Clock::default());
        let session = crate::model::user::Session {
            id: clock.new_id(),
            organization_id: clock.new_id(),
            user_id: clock.new_id(),
            token_hash: String::new(),
            created_at: clock.now(),
            last_used_at: clock.now(),
        };
        for number in 0..5 {
            let changed = crate::model::user::Session { last_used_at: Timestamp(number), ..session.clone() };
            let write = store.write(move |change| change.put(&changed));
            scope(Origin::of_host(clock.clone(), "test"), write).await.unwrap();
        }
        // Outside of a scope nothing is recorded.
        store.write(move |change| change.remove(session.organization_id, session.id)).await.unwrap();
        assert_eq!(verify(&store).unwrap().entries, 5);
        let (earlier, now) = (clock.now().minus(std::time::Duration::from_mins(1)), clock.now());
        assert_eq!(store.write(move |change| prune(change, earlier, 3)).await.unwrap(), 0);
        assert_eq!(store.write(move |change| prune(change, now, 3)).await.unwrap(), 3);
        let verdict = verify(&store).unwrap();
        assert_eq!((verdict.entries, verdict.first, verdict.last, verdict.broken), (2, 4, 5, None));
        assert_eq!(store.write(move |change| prune(change, now, 3)).await.unwrap(), 2);
        let verdict = verify(&store).unwrap();
        assert_eq!((verdict.entries, verdict.first, verdict.last, verdict.broken), (0, 6, 5, None));
        store.write(move |change| change.set_meta(CHECKPOINT, &Point { sequence: 4, hash: String::new() }.bytes())).await.unwrap();
        assert!(verify(&store).unwrap().broken.is_some(), "a checkpoint that was set back");
    }
}
