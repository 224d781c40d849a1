//! Rate limiter for compute time: a token bucket that may go into debt, stored as one timestamp.
//!
//! The timestamp `paid_until` is the time until which all use so far is paid for. Each use advances it by its cost at the allowed rate;
//! new work may begin once that time has passed. A timestamp in the past is credit, up to [`BURST`]. Because the state is one number,
//! processes share it without a lock, and a process that is killed leaves it consistent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Maximum credit: time lost to late wake-ups or idleness can be made up for, up to this much.
pub const BURST: Duration = Duration::from_millis(250);
const BURST_NS: u64 = BURST.as_nanos() as u64;
/// Share that stands for the whole device, in millionths.
pub(crate) const WHOLE: u64 = 1_000_000;

/// A share of a device's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// In millionths.
    share: u64,
}

impl Pace {
    /// A share in percent, clamped to at least one millionth and at most the whole device.
    pub fn percent(percent: f64) -> Pace {
        Pace::millionths((percent * WHOLE as f64 / 100.0).round().max(0.0) as u64)
    }

    pub(crate) fn millionths(share: u64) -> Pace {
        Pace { share: share.clamp(1, WHOLE) }
    }

    pub(crate) fn share(self) -> u64 {
        self.share
    }

    /// Whether the share is the whole device, so that nothing is throttled.
    pub fn is_whole(self) -> bool {
        self.share == WHOLE
    }

    /// How long work that is ready at `now` has to wait; `None` if it may begin.
    pub fn wait(self, paid_until: u64, now: u64) -> Option<Duration> {
        if self.is_whole() {
            return None;
        }
        paid_until.checked_sub(now).filter(|wait| *wait > 0).map(Duration::from_nanos)
    }

    /// The new `paid_until` after work that began at `begun` has used `spent` nanoseconds of the device.
    pub fn paid_until(self, paid_until: u64, begun: u64, spent: u64) -> u64 {
        let cost = u128::from(spent) * u128::from(WHOLE) / u128::from(self.share);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        paid_until.max(begun.saturating_sub(BURST_NS)).saturating_add(cost)
    }

    /// Like [`Pace::paid_until`], but updates a number that other processes change concurrently.
    pub(crate) fn charge(self, paid_until: &AtomicU64, begun: u64, spent: u64) {
        let next = |paid: u64| Some(self.paid_until(paid, begun, spent));
        // The closure never returns `None`, so the update cannot fail.
        let _ = paid_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const START: u64 = 3_600_000 * MS;

    /// Simulates back-to-back kernels for `length`. Kernel `n` uses `kernel(n)` nanoseconds of the device, takes `slow` times as long, and
    /// wakes up `late(n)` nanoseconds late. Returns the used share of the time in percent.
    fn run(
        pace: Pace,
        length: u64,
        slow: u64,
        kernel: impl Fn(u64) -> u64,
        late: impl Fn(u64) -> u64,
    ) -> f64 {
        let (mut now, mut paid, mut spent) = (START, START, 0);
        for n in 0.. {
            if let Some(wait) = pace.wait(paid, now) {
                now += wait.as_nanos() as u64 + late(n);
            }
            if now >= START + length {
                break;
            }
            let begun = now;
            now += kernel(n) * slow;
            spent += kernel(n);
            paid = pace.paid_until(paid, begun, kernel(n));
        }
        100.0 * spent as f64 / (now - START) as f64
    }

    #[test]
    fn use_over_a_minute_is_the_share_whatever_kernels_are_like() {
        for percent in [5.0, 25.0, 50.0, 90.0] {
            let pace = Pace::percent(percent);
            for (name, kernel) in [
                ("short", &(|_: u64| MS / 50) as &dyn Fn(u64) -> u64),
                ("middling", &|_| 20 * MS),
                ("long", &|_| 900 * MS),
                ("mixed", &|n| [MS / 100, 300 * MS, 5 * MS][n as usize % 3]),
            ] {
                let used = run(pace, 60_000 * MS, 1, kernel, |_| 0);
                assert!((used - percent).abs() < 2.0, "{name} kernels at {percent} %: {used}");
            }
        }
    }

    #[test]
    fn late_wake_ups_are_made_up_for() {
        let used = run(Pace::percent(50.0), 60_000 * MS, 1, |_| MS, |n| n % 40 * MS);
        assert!((used - 50.0).abs() < 1.0, "{used}");
    }

    #[test]
    fn a_device_that_others_slow_down_is_charged_for_what_it_used_only() {
        // Contention leaves it a fifth of the CPU time. That is below its share of a quarter, so it never waits.
        let used = run(Pace::percent(25.0), 60_000 * MS, 5, |_| 10 * MS, |_| 0);
        assert!((used - 20.0).abs() < 0.1, "{used}");
        let used = run(Pace::percent(25.0), 60_000 * MS, 2, |_| 10 * MS, |_| 0);
        assert!((used - 25.0).abs() < 0.5, "{used}");
    }

    #[test]
    fn a_long_kernel_is_paid_for_by_those_after_it() {
        let pace = Pace::percent(25.0);
        let paid = pace.paid_until(START, START, 10_000 * MS);
        let wait = pace.wait(paid, START + 10_000 * MS).unwrap();
        assert_eq!(wait, Duration::from_secs(30));
        assert_eq!(pace.wait(paid, START + 40_000 * MS), None);
    }

    #[test]
    fn idleness_is_no_credit_beyond_a_burst() {
        let pace = Pace::percent(50.0);
        let later = START + 3_600_000 * MS;
        let paid = pace.paid_until(START, later, 1000 * MS);
        assert_eq!(paid, later - BURST_NS + 2000 * MS);
    }

    #[test]
    fn the_whole_device_never_waits() {
        let pace = Pace::percent(100.0);
        assert_eq!(pace.wait(u64::MAX, 0), None);
        assert_eq!(Pace::percent(f64::NAN).share(), 1);
        assert_eq!(pace.paid_until(u64::MAX - 1, 0, u64::MAX), u64::MAX);
    }
}
