//! How long things took, counted in steps: what monitoring reads, at the cost of a few additions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper ends of the steps, in seconds; behind the last one lies everything else.
pub const STEPS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// The counts.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; STEPS.len() + 1],
    microseconds: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts {
    /// Of each step, what took at most so long, the faster ones included.
    pub cumulative: [u64; STEPS.len()],
    /// All of them.
    pub count: u64,
    /// What they took together, in seconds.
    pub sum: f64,
}

impl Histogram {
    /// Counts one.
    pub fn record(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let step = STEPS.iter().position(|end| seconds <= *end).unwrap_or(STEPS.len());
        self.counts[step].fetch_add(1, Relaxed);
        self.microseconds.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// All counts so far.
    pub fn counts(&self) -> Counts {
        let mut count = 0;
        let mut cumulative = [0; STEPS.len()];
        for (place, step) in self.counts.iter().enumerate() {
            count += step.load(Relaxed);
            if let Some(place) = cumulative.get_mut(place) {
                *place = count;
            }
        }
        Counts { cumulative, count, sum: Duration::from_micros(self.microseconds.load(Relaxed)).as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_includes_the_faster_ones() {
        let histogram = Histogram::default();
        for milliseconds in [1, 2, 3, 100_000] {
            histogram.record(Duration::from_millis(milliseconds));
        }
        let counts = histogram.counts();
        assert_eq!((counts.cumulative[0], counts.cumulative[1], counts.cumulative[2], counts.cumulative[11]), (1, 2, 3, 3));
        assert_eq!((counts.count, counts.sum), (4, 100.006));
    }
}
