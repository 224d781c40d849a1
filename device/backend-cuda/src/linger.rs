//! Keeps the thread that queues commands awake for a short while after it has run out of requests: waking it again takes longer
//! than a program on the same machine needs for its next call.
//!
//! Bounded and adaptive: a thread whose requests come late stops lingering after a few attempts, until they come soon again.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Longest time to linger.
const LONGEST: Duration = Duration::from_micros(50);
/// Requests that come within this time after the thread has given up came soon.
const SOON: Duration = Duration::from_micros(100);
/// Below this it is not worth it.
const SHORTEST: Duration = Duration::from_micros(2);
/// Fewest processors: with fewer, the thread would be in the program's way.
const LEAST_PROCESSORS: usize = 4;
/// Pauses between two looks.
const PAUSES: usize = 20;

/// How long the thread lingers.
#[derive(Debug)]
pub(crate) struct Linger {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: Duration,
    longest: Duration,
    /// When the thread has given up last.
    gave_up: Option<Instant>,
}

impl Default for Linger {
    fn default() -> Linger {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        Linger::up_to(if processors < LEAST_PROCESSORS { Duration::ZERO } else { LONGEST })
    }
}

impl Linger {
    fn up_to(longest: Duration) -> Linger {
        Linger { state: Mutex::new(State { limit: longest, longest, gave_up: None }) }
    }

    /// Returns when `has_news` is true, or after a short while.
    pub(crate) fn wait(&self, has_news: &mut dyn FnMut() -> bool) {
        let mut state = self.state.lock();
        let begin = Instant::now();
        state.adapt(begin);
        while begin.elapsed() < state.limit {
            if has_news() {
                return;
            }
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
        state.gave_up = Some(Instant::now());
    }
}

impl State {
    /// Adapts to when the next request came.
    fn adapt(&mut self, now: Instant) {
        let Some(gave_up) = self.gave_up.take() else { return };
        self.limit = match now.saturating_duration_since(gave_up) < SOON {
            true => self.longest,
            false if self.limit / 2 < SHORTEST => Duration::ZERO,
            false => self.limit / 2,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_whose_requests_come_late_stops_lingering_until_they_come_soon() {
        let mut state = State { limit: LONGEST, longest: LONGEST, gave_up: None };
        let start = Instant::now();
        let mut limits = Vec::new();
        for _ in 0..6 {
            state.gave_up = Some(start);
            state.adapt(start + 10 * SOON);
            limits.push(state.limit);
        }
        assert!(limits.is_sorted_by(|a, b| a >= b) && limits[5] == Duration::ZERO, "{limits:?}");
        state.gave_up = Some(start);
        state.adapt(start + SOON / 2);
        assert_eq!(state.limit, LONGEST);
    }

    #[test]
    fn news_end_the_wait_and_nothing_else_is_asked_for() {
        let linger = Linger::up_to(Duration::from_secs(20));
        let mut looks = 0;
        linger.wait(&mut || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
        let never = Linger::up_to(Duration::ZERO);
        never.wait(&mut || panic!("it does not linger"));
    }
}
