//! The worker's clock, as well as round trips can tell.
//!
//! A question sent at `a` and answered at `b` was read on the worker somewhere between: the middle is right to half the time
//! it took. The fastest exchange is the best witness, until it is too old for what two clocks drift apart.

/// What two clocks may drift apart, in parts of a million: more than clocks disciplined by a network do.
const DRIFT_PPM: u64 = 20;

/// One reading, all in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Our clock, in the middle.
    at: u64,
    /// The worker's clock less ours.
    pub offset: i64,
    /// The offset is right to this much.
    pub uncertainty: u64,
}

impl Reading {
    /// Asked at `before` and answered at `after`, the worker having read `theirs`.
    pub fn new(before: u64, after: u64, theirs: u64) -> Reading {
        let half = after.saturating_sub(before).div_ceil(2);
        let at = before + half;
        Reading { at, offset: theirs.wrapping_sub(at) as i64, uncertainty: half }
    }

    /// How far it may be off by now.
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
    /// Takes a reading into account; whether it is now the one believed.
    pub fn take(&mut self, reading: Reading) -> bool {
        let better = self.best.is_none_or(|best| reading.worth(reading.at) <= best.worth(reading.at));
        if better {
            self.best = Some(reading);
        }
        better
    }

    /// A time of the worker's clock on ours.
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
    fn nonsense_of_the_worker_maps_nowhere_rather_than_panicking() {
        let mut clock = Clock::default();
        clock.take(Reading::new(5, 5, u64::MAX));
        let _ = (clock.here(0), clock.here(u64::MAX));
        let mut clock = Clock::default();
        clock.take(Reading::new(0, 0, 1 << 63));
        assert_eq!(clock.here(7), None);
    }
}
