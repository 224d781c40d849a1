//! Supervision: whether a session's process has a supervisor, and how much longer it waits because it had none.
//!
//! Without a supervisor nobody answers the process's requests, and no client can reconnect to its session. So timeouts do not count
//! then. The wait is bounded all the same: the control socket closes if no supervisor adopts the session in time.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Whether the process has a supervisor.
#[derive(Debug, Default)]
pub(crate) struct Supervision {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    /// It has the supervisor that started it.
    #[default]
    First,
    /// It has none.
    Orphaned,
    /// It has had another one since this time.
    Adopted(Instant),
}

impl Supervision {
    pub(crate) fn orphaned(&self) {
        *self.state.lock() = State::Orphaned;
    }

    pub(crate) fn adopted(&self) {
        *self.state.lock() = State::Adopted(Instant::now());
    }

    /// Returns how long to wait once more after a wait of `patience` for a supervisor or a client was over; `None` if it was long
    /// enough.
    pub(crate) fn extension(&self, patience: Duration) -> Option<Duration> {
        match *self.state.lock() {
            State::First => None,
            State::Orphaned => Some(patience.max(Duration::from_millis(100))),
            State::Adopted(since) => patience.checked_sub(since.elapsed()).filter(|left| !left.is_zero()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_supervisor_does_not_count() {
        const HOUR: Duration = Duration::from_secs(3600);
        let supervision = Supervision::default();
        assert_eq!(supervision.extension(HOUR), None);
        supervision.orphaned();
        assert_eq!(supervision.extension(HOUR), Some(HOUR));
        assert!(supervision.extension(Duration::ZERO).is_some());
        supervision.adopted();
        assert!(supervision.extension(HOUR).is_some_and(|left| left <= HOUR));
        assert_eq!(supervision.extension(Duration::ZERO), None);
    }
}
