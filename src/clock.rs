//! Now, and new ids.

use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::{Id, Timestamp};

/// The clock and the source of ids. One per process: ids are strictly increasing within it.
#[derive(Debug, Default)]
pub struct Clock {
    last: Mutex<(u64, u128)>,
    standing: Option<Timestamp>,
}

impl Clock {
    /// A clock that stands still, so that what is made of its times can be compared to the letter. Its ids still increase.
    pub fn standing_at(time: Timestamp) -> Self {
        Clock { standing: Some(time), ..Clock::default() }
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        if let Some(time) = self.standing {
            return time;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// A new id, greater than every id this clock made before, also inside one millisecond and after the clock
    /// stepped back (decisions 2).
    pub fn new_id<R>(&self) -> Id<R> {
        let mut random = [0u8; 16];
        // Without randomness ids still increase; the operating system's generator does not fail on a running machine.
        let _ = getrandom::fill(&mut random[7..]);
        let now = u64::try_from(self.now().0).unwrap_or(0);
        let (milliseconds, chance) = {
            let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *last = next(*last, now, u128::from_be_bytes(random));
            *last
        };
        Id::from_parts(milliseconds, chance)
    }
}

fn next(last: (u64, u128), now: u64, random: u128) -> (u64, u128) {
    const LIMIT: u128 = 1 << 72;
    if now > last.0 {
        return (now, random);
    }
    // A random step keeps neighbours hard to guess; 2^40 leaves room for billions of ids in one millisecond.
    match last.1 + 1 + (random & 0xff_ffff_ffff) {
        chance if chance < LIMIT => (last.0, chance),
        _ => (last.0 + 1, random),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_increase_inside_a_millisecond_and_when_the_clock_steps_back() {
        let clock = Clock::default();
        let ids: Vec<Id<()>> = (0..10_000).map(|_| clock.new_id()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(next((50, 7), 20, 0), (50, 8));
        assert_eq!(next((50, (1 << 72) - 1), 50, 3), (51, 3));
    }
}
