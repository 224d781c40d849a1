//! How long a thread polls before it sleeps.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The longest time that a thread polls: several times what a short call takes.
const LONG: Duration = Duration::from_micros(20);
/// Time to poll after waits that lasted longer: the other process may need the processor.
const SHORT: Duration = Duration::from_micros(1);
/// Polls between two looks at the clock, which takes as long as several polls.
const POLLS: u32 = 16;

/// Adaptive polling time of one waiter. If waits are short, it polls long enough to never sleep; if they are long, it hardly polls.
#[derive(Debug)]
pub(crate) struct Spin {
    nanoseconds: AtomicU32,
}

impl Spin {
    /// Does not poll if the process may use only one processor: the other side could not run meanwhile.
    pub(crate) fn new() -> Spin {
        Spin { nanoseconds: AtomicU32::new(if may_poll() { LONG.as_nanos() as u32 } else { 0 }) }
    }

    /// Polls until `done` returns true or the time is over; returns whether it did.
    #[inline]
    pub(crate) fn until(&self, done: impl Fn() -> bool) -> bool {
        let limit = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed).into());
        if limit.is_zero() {
            return false;
        }
        let start = Instant::now();
        loop {
            for _ in 0..POLLS {
                if done() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() >= limit {
                return false;
            }
        }
    }

    /// Adjusts to the time that a wait took after polling failed.
    pub(crate) fn slept(&self, time: Duration) {
        let before = self.nanoseconds.load(Ordering::Relaxed);
        if before == 0 {
            return;
        }
        // The limit is higher than `LONG` because the time includes the wake-up.
        let next = match time < 2 * LONG {
            true => LONG,
            false => (Duration::from_nanos(before.into()) / 2).max(SHORT),
        };
        self.nanoseconds.store(next.as_nanos() as u32, Ordering::Relaxed);
    }
}

fn may_poll() -> bool {
    static VALUE: OnceLock<bool> = OnceLock::new();
    *VALUE.get_or_init(|| std::thread::available_parallelism().is_ok_and(|count| count.get() > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_polls_less_after_long_waits_and_more_after_short_ones() {
        let spin = Spin { nanoseconds: AtomicU32::new(LONG.as_nanos() as u32) };
        for _ in 0..10 {
            spin.slept(Duration::from_millis(1));
        }
        assert_eq!(spin.nanoseconds.load(Ordering::Relaxed), SHORT.as_nanos() as u32);
        spin.slept(Duration::from_micros(8));
        assert_eq!(spin.nanoseconds.load(Ordering::Relaxed), LONG.as_nanos() as u32);
    }

    #[test]
    fn a_waiter_that_may_not_poll_never_does() {
        let spin = Spin { nanoseconds: AtomicU32::new(0) };
        assert!(!spin.until(|| panic!("polled")));
        spin.slept(Duration::ZERO);
        assert!(!spin.until(|| panic!("polled")));
    }
}
