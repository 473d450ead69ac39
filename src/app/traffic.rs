//! Requests as monitoring counts them, by operation of the route table: bounded by the table, never by what clients send.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::model::histogram::{Counts, Histogram};

/// The counts since the start.
#[derive(Default)]
pub struct Traffic(Mutex<BTreeMap<&'static str, Operation>>);

#[derive(Default)]
struct Operation {
    statuses: BTreeMap<u16, u64>,
    durations: Histogram,
}

/// One operation at one moment.
#[derive(Debug, Clone)]
pub struct OperationCounts {
    /// Its id in the route table, or a word for what is in no table.
    pub operation: &'static str,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// From the request's head to the answer's.
    pub durations: Counts,
}

impl Traffic {
    /// Counts one answer.
    pub fn note(&self, operation: &'static str, status: u16, took: Duration) {
        let mut operations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let operation = operations.entry(operation).or_default();
        *operation.statuses.entry(status).or_default() += 1;
        operation.durations.record(took);
    }

    /// Everything so far.
    pub fn counts(&self) -> Vec<OperationCounts> {
        let operations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = operations.iter().map(|(name, operation)| OperationCounts {
            operation: name,
            statuses: operation.statuses.clone(),
            durations: operation.durations.counts(),
        });
        counts.collect()
    }
}
