//! The one thread that writes. It takes what is waiting, runs each job in a transaction of its own without waiting for
//! the disk, makes all of them durable with one flush, and only then answers.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Instant;

use redb::{Database, Durability, ReadableTable, WriteTransaction};
use tokio::sync::{oneshot, watch};

use super::audit::{self, Journal};
use super::open::Shared;
use super::read::{Order, Range, Read, Rows, Visitor, table, walk_table};
use super::record::record_key;
use super::tables::META;
use super::{Record, StoreError, codec};
use crate::model::histogram::{Counts, Histogram};
use crate::model::{Id, Organization, User};

/// How many writes may wait. A full queue answers `Busy`, so that memory stays bounded when the disk is slow.
const WAITING: usize = 4096;
/// How many share a flush.
const BATCH: usize = 64;

type Hook = Box<dyn FnOnce() + Send>;
type Job = Box<dyn FnOnce(Result<&Database, StoreError>) -> Done + Send>;

/// What is left of a job after it ran: told once the flush succeeded or failed.
struct Done {
    needs_flush: bool,
    fatal: Option<StoreError>,
    answer: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

/// An open transaction: reads see its own writes.
pub struct Change {
    transaction: WriteTransaction,
    hooks: RefCell<Vec<Hook>>,
    /// The newest event that is durable; told after the flush.
    events: watch::Sender<u64>,
    /// What the audit log will say of it; none for the service's own work.
    journal: Option<Journal>,
}

impl Change {
    /// Stores a record, and brings its index rows in step.
    pub fn put<R: Record>(&self, record: &R) -> Result<(), StoreError> {
        let key = record_key(record.organization(), record.id());
        let old: Option<R> = self.get(record.organization(), record.id())?;
        self.transaction.open_table(table(R::TABLE))?.insert(key.as_slice(), codec::encode(record)?.as_slice())?;
        self.reindex(&key, old.as_ref(), Some(record))?;
        if let Some(journal) = &self.journal {
            journal.note(old.as_ref(), Some(record));
        }
        R::accompany(self, old.as_ref(), Some(record))
    }

    /// Removes a record and its index rows. False: there was none.
    pub fn remove<R: Record>(&self, organization: Id<Organization>, id: Id<R>) -> Result<bool, StoreError> {
        let Some(old) = self.get::<R>(organization, id)? else { return Ok(false) };
        let key = record_key(organization, id);
        self.transaction.open_table(table(R::TABLE))?.remove(key.as_slice())?;
        self.reindex(&key, Some(&old), None)?;
        if let Some(journal) = &self.journal {
            journal.note(Some(&old), None);
        }
        R::accompany(self, Some(&old), None)?;
        Ok(true)
    }

    /// Runs `hook` after the flush that makes this change durable, before the caller is answered. Keep it short: it
    /// runs on the writer thread. A hint, never a duty: after a crash it does not run.
    pub fn after_commit(&self, hook: impl FnOnce() + Send + 'static) {
        self.hooks.borrow_mut().push(Box::new(hook));
    }

    /// This person is who changes it, unless the audit log knows already.
    pub fn acts(&self, user: &User) {
        if let Some(journal) = &self.journal {
            journal.acts(user);
        }
    }

    pub(super) fn set_meta(&self, name: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.transaction.open_table(table(META))?.insert(name, value)?;
        Ok(())
    }

    pub(super) fn announced(&self, sequence: u64) {
        let events = self.events.clone();
        self.after_commit(move || {
            events.send_replace(sequence);
        });
    }

    fn reindex<R: Record>(&self, key: &[u8], old: Option<&R>, new: Option<&R>) -> Result<(), StoreError> {
        for index in R::INDEXES {
            let rows_of = |record: Option<&R>| record.map(|record| index.rows(record)).unwrap_or_default();
            let (before, after) = (rows_of(old), rows_of(new));
            if before == after {
                continue;
            }
            let mut rows = self.transaction.open_table(table(index.name))?;
            for row in before.difference(&after) {
                rows.remove(row.as_slice())?;
            }
            for row in after.difference(&before) {
                rows.insert(row.as_slice(), key)?;
            }
        }
        Ok(())
    }
}

impl Rows for Change {
    fn row(&self, name: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.transaction.open_table(table(name))?.get(key)?.map(|value| value.value().to_vec()))
    }
    fn walk(&self, name: &'static str, range: &Range, order: Order, visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        walk_table(&self.transaction.open_table(table(name))?, range, order, visit)
    }
}

/// The queue into the writer thread. The thread ends, and has flushed everything, when this is dropped.
pub(super) struct Writer {
    queue: Option<SyncSender<Job>>,
    events: watch::Sender<u64>,
    durations: Histogram,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(shared: Arc<Shared>, newest_event: u64) -> Result<Self, StoreError> {
        let (queue, jobs) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("store-writer".into()).spawn(move || work(&shared, &jobs))?;
        Ok(Writer { queue: Some(queue), events: watch::Sender::new(newest_event), durations: Histogram::default(), thread: Some(thread) })
    }

    /// Follows the newest durable event.
    pub(super) fn events(&self) -> watch::Receiver<u64> {
        self.events.subscribe()
    }

    pub(super) fn durations(&self) -> Counts {
        self.durations.counts()
    }

    pub(super) async fn run<T, E>(&self, job: impl FnOnce(&Change) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let started = Instant::now();
        let result = self.enqueue(job)?.await.unwrap_or_else(|_| Err(StoreError::Closed.into()));
        self.durations.record(started.elapsed());
        result
    }

    pub(super) fn run_blocking<T, E>(&self, job: impl FnOnce(&Change) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let started = Instant::now();
        let result = self.enqueue(job)?.blocking_recv().unwrap_or_else(|_| Err(StoreError::Closed.into()));
        self.durations.record(started.elapsed());
        result
    }

    fn enqueue<T, E>(
        &self,
        job: impl FnOnce(&Change) -> Result<T, E> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, E>>, StoreError>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let surroundings = Surroundings { events: self.events.clone(), journal: audit::current() };
        let job: Job = Box::new(move |database| run_job(database, job, surroundings, reply));
        match self.queue.as_ref().map(|queue| queue.try_send(job)) {
            Some(Ok(())) => Ok(answer),
            Some(Err(TrySendError::Full(_))) => Err(StoreError::Busy),
            Some(Err(TrySendError::Disconnected(_))) | None => Err(StoreError::Closed),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // The last handle may be dropped by a hook, on the writer thread itself.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// What a job gets besides its transaction.
struct Surroundings {
    events: watch::Sender<u64>,
    journal: Option<Journal>,
}

fn run_job<T, E>(
    database: Result<&Database, StoreError>,
    job: impl FnOnce(&Change) -> Result<T, E>,
    Surroundings { events, journal }: Surroundings,
    reply: oneshot::Sender<Result<T, E>>,
) -> Done
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let refused = |error: StoreError, reply: oneshot::Sender<Result<T, E>>, fatal| Done {
        needs_flush: false,
        fatal,
        answer: Box::new(move |_| drop(reply.send(Err(error.into())))),
    };
    let begun = database.and_then(|database| {
        let mut transaction = database.begin_write()?;
        transaction.set_durability(Durability::None)?;
        Ok(Change { transaction, hooks: RefCell::default(), events, journal })
    });
    let mut change = match begun {
        Ok(change) => change,
        Err(error) => return refused(error.again(), reply, Some(error)),
    };
    // A panic in a job undoes that job alone; the writer serves the others.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let value = job(&change)?;
        if let Some(journal) = change.journal.take() {
            journal.finish(&change)?;
        }
        Ok::<T, E>(value)
    }));
    match outcome {
        Ok(Ok(value)) => {
            let hooks = change.hooks.into_inner();
            if let Err(error) = change.transaction.commit() {
                let error = StoreError::from(error);
                return refused(error.again(), reply, Some(error));
            }
            let answer = move |flushed: Result<(), StoreError>| match flushed {
                Ok(()) => {
                    hooks.into_iter().for_each(|hook| hook());
                    let _ = reply.send(Ok(value));
                }
                Err(error) => drop(reply.send(Err(error.into()))),
            };
            Done { needs_flush: true, fatal: None, answer: Box::new(answer) }
        }
        Ok(Err(error)) => {
            // Dropping the transaction undoes it. The refusal waits for the flush too: it may rest on a change of the
            // same batch.
            drop(change);
            let answer =
                move |flushed: Result<(), StoreError>| drop(reply.send(flushed.map_or_else(|lost| Err(lost.into()), |()| Err(error))));
            Done { needs_flush: false, fatal: None, answer: Box::new(answer) }
        }
        Err(_) => {
            drop(change);
            tracing::error!("a write ended in a panic and was undone");
            refused(StoreError::Closed, reply, None)
        }
    }
}

fn work(shared: &Shared, jobs: &Receiver<Job>) {
    let mut broken = false;
    while let Ok(first) = jobs.recv() {
        let mut batch = vec![first];
        while batch.len() < BATCH
            && let Ok(job) = jobs.try_recv()
        {
            batch.push(job);
        }
        let mut result = if broken { Err(StoreError::Closed) } else { shared.ensure_open() };
        let mut done = Vec::with_capacity(batch.len());
        for job in batch {
            let mut outcome = shared.with_database(|database| match &result {
                Ok(()) => job(database.ok_or(StoreError::Closed)),
                Err(error) => job(Err(error.again())),
            });
            if let Some(error) = outcome.fatal.take() {
                result = Err(error);
            }
            done.push(outcome);
        }
        if result.is_ok() && done.iter().any(|outcome| outcome.needs_flush) {
            result = shared.with_database(|database| flush(database.ok_or(StoreError::Closed)?));
        }
        if let Err(error) = &result
            && !broken
        {
            broken = !gave_up_the_batch(shared, error);
        }
        for outcome in done {
            (outcome.answer)(result.as_ref().copied().map_err(StoreError::again));
        }
    }
}

/// After a failed write the same handle refuses every further one. Without space the file is opened anew, which also
/// forgets what was not flushed; anything else means that the disk cannot be trusted: stop saying yes. False: stopped.
fn gave_up_the_batch(shared: &Shared, error: &StoreError) -> bool {
    if error.is_for_want_of_space() {
        tracing::warn!("the disk that holds the store is full; writing is refused until there is space");
        shared.close();
        // Reading goes on at once where the reopening succeeds; else the next batch tries again.
        let _ = shared.ensure_open();
        return true;
    }
    tracing::error!(%error, "the disk did not keep what was written; stopping");
    shared.fail();
    false
}

fn flush(database: &Database) -> Result<(), StoreError> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    transaction.set_durability(Durability::Immediate)?;
    transaction.commit()?;
    Ok(())
}
