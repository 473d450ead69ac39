//! What a running build notes about itself: its steps and its revision. Notes are written in order and in the
//! background, several in one transaction, so that a build never waits for the disk only to say where it is.

use tokio::sync::{mpsc, oneshot};

use super::lifecycle::{self, LifecycleError};
use super::run::until_stored;
use crate::model::build::StepName;
use crate::model::{Build, Id, Organization, Timestamp};
use crate::store::{Change, Store};

/// Where a running build's notes go.
pub(super) struct Notes(mpsc::UnboundedSender<Entry>);

enum Entry {
    Note(Note),
    Flush(oneshot::Sender<()>),
}

#[derive(Clone)]
enum Note {
    Step(StepName, Timestamp),
    Revision { id: String, message: String, is_stream: bool },
}

impl Notes {
    /// Begins to take notes. What is not yet written when this is dropped is still written.
    pub(super) fn start(store: Store, organization: Id<Organization>, build: Id<Build>) -> Notes {
        // A build makes a handful of notes.
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(write(store, organization, build, receiver));
        Notes(sender)
    }

    /// The step under way is done, and this one begins.
    pub(super) fn begin(&self, step: StepName, now: Timestamp) {
        let _ = self.0.send(Entry::Note(Note::Step(step, now)));
    }

    /// What is being built.
    pub(super) fn revision(&self, id: String, message: String, is_stream: bool) {
        let _ = self.0.send(Entry::Note(Note::Revision { id, message, is_stream }));
    }

    /// Waits until every note is on disk.
    pub(super) async fn flush(&self) {
        let (sender, done) = oneshot::channel();
        let _ = self.0.send(Entry::Flush(sender));
        let _ = done.await;
    }
}

impl Note {
    fn apply(self, build: &mut Build) {
        match self {
            Note::Step(name, now) => lifecycle::begin_step(build, name, now),
            Note::Revision { id, message, is_stream } => {
                build.changelist = is_stream.then(|| id.clone());
                build.commit = id;
                build.commit_message = message;
            }
        }
    }
}

async fn write(store: Store, organization: Id<Organization>, id: Id<Build>, mut entries: mpsc::UnboundedReceiver<Entry>) {
    while let Some(first) = entries.recv().await {
        let (mut notes, mut waiting) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(entry) = next {
            match entry {
                Entry::Note(note) => notes.push(note),
                Entry::Flush(done) => waiting.push(done),
            }
            next = entries.try_recv().ok();
        }
        if !notes.is_empty() {
            let record =
                move |tx: &Change| lifecycle::note(tx, organization, id, |build| notes.into_iter().for_each(|note| note.apply(build)));
            let written: Result<bool, LifecycleError> = until_stored(|| store.write(record.clone())).await;
            if let Err(error) = written {
                tracing::warn!(%error, build.id = %id, "notes of a build are lost");
            }
        }
        for done in waiting {
            let _ = done.send(());
        }
    }
}
