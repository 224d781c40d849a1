//! Clock offset between worker and client, estimated from round trips.
//!
//! The worker reads its clock between sending the request at `a` and receiving the reply at `b`: the midpoint is correct
//! to within half the round trip. The fastest round trip gives the best estimate, until drift makes it too old.

/// Assumed drift between two clocks, in parts per million: more than NTP-disciplined clocks have.
const DRIFT_PPM: u64 = 20;

/// One reading, all in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The local clock at the midpoint.
    at: u64,
    /// The worker's clock minus the local one.
    pub offset: i64,
    /// Maximum error of the offset.
    pub uncertainty: u64,
}

impl Reading {
    /// From a request sent at `before` and answered at `after`, with the worker's clock at `theirs`.
    pub fn new(before: u64, after: u64, theirs: u64) -> Reading {
        let half = after.saturating_sub(before).div_ceil(2);
        let at = before + half;
        Reading { at, offset: theirs.wrapping_sub(at) as i64, uncertainty: half }
    }

    /// Maximum error at time `now`, drift included.
    fn worth(&self, now: u64) -> u64 {
        self.uncertainty + now.abs_diff(self.at) / 1_000_000 * DRIFT_PPM
    }
}

/// The best reading so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    best: Option<Reading>,
}

impl Clock {
    /// Adds a reading. Returns whether it is now the best.
    pub fn take(&mut self, reading: Reading) -> bool {
        let better = self.best.is_none_or(|best| reading.worth(reading.at) <= best.worth(reading.at));
        if better {
            self.best = Some(reading);
        }
        better
    }

    /// Converts a time of the worker's clock to the local clock.
    pub fn here(&self, theirs: u64) -> Option<u64> {
        let offset = self.best?.offset;
        theirs.checked_add_signed(offset.checked_neg()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_mapped_to_within_half_the_round_trip() {
        let truth = -5_000_000i64;
        let mut clock = Clock::default();
        for (before, there, back) in [(1_000_000_000u64, 70_000, 10_000), (1_001_000_000, 8_000, 9_000)] {
            let theirs = (before + there).wrapping_add_signed(truth);
            clock.take(Reading::new(before, before + there + back, theirs));
        }
        let best = clock.best.unwrap();
        assert!(best.uncertainty <= 8_500 + 1);
        assert!(best.offset.abs_diff(truth) <= best.uncertainty);
        assert_eq!(clock.here(2_000_000), Some((2_000_000 - best.offset) as u64));
    }

    #[test]
    fn a_slow_exchange_is_believed_only_when_the_fast_one_is_old() {
        let mut clock = Clock::default();
        assert!(clock.take(Reading::new(0, 10_000, 0)));
        assert!(!clock.take(Reading::new(1_000_000_000, 1_000_100_000, 0)));
        assert!(clock.take(Reading::new(10_000_000_000, 10_000_100_000, 0)));
    }

    #[test]
    fn invalid_clock_values_of_the_worker_are_ignored() {
        let mut clock = Clock::default();
        clock.take(Reading::new(5, 5, u64::MAX));
        let _ = (clock.here(0), clock.here(u64::MAX));
        let mut clock = Clock::default();
        clock.take(Reading::new(0, 0, 1 << 63));
        assert_eq!(clock.here(7), None);
    }
}
