//! Launch throttling: kernel launches block here until the session's compute share allows them.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::page::SessionSlot;

/// Launch gate of one session.
#[derive(Debug)]
pub struct Gate {
    seat: SessionSlot,
    /// How many times [`Gate::release_all`] was called.
    opened: Mutex<u64>,
    changed: Condvar,
}

impl Gate {
    /// Creates the gate of a session.
    pub fn new(seat: SessionSlot) -> Gate {
        Gate { seat, opened: Mutex::new(0), changed: Condvar::new() }
    }

    /// The session's slot on the limits page.
    pub fn seat(&self) -> &SessionSlot {
        &self.seat
    }

    /// Whether a launch would have to wait.
    pub fn is_closed(&self, device: u32) -> bool {
        self.due(device).is_some()
    }

    /// Current generation of the gate. [`Gate::release_all`] starts a new one, which releases waiters of this one.
    pub fn generation(&self) -> u64 {
        *self.opened.lock()
    }

    /// Waits until the device's compute debt is paid, or until [`Gate::release_all`] was called after `generation` was read.
    pub fn wait(&self, device: u32, generation: u64) {
        if !self.is_closed(device) {
            return;
        }
        let began = Instant::now();
        let mut opened = self.opened.lock();
        // Other sessions may have used the device meanwhile, which extends the wait.
        while *opened == generation
            && let Some(wait) = self.due(device)
        {
            self.changed.wait_for(&mut opened, wait);
        }
        drop(opened);
        self.seat.count_wait(device, began.elapsed().as_nanos() as u64);
    }

    /// Releases all current waiters without payment, because their work is cancelled.
    pub fn release_all(&self) {
        *self.opened.lock() += 1;
        self.changed.notify_all();
    }

    fn due(&self, device: u32) -> Option<Duration> {
        self.seat.page().pace(device).wait(self.seat.paid_until(device), crate::now())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{LimitConfig, Page};

    fn gate() -> Gate {
        let limits = LimitConfig { compute: Some(1.0), ..LimitConfig::default() };
        Gate::new(SessionSlot::new(Arc::new(Page::create(&limits, 1, 1).unwrap()), 0).unwrap())
    }

    #[test]
    fn debt_closes_the_gate_until_it_is_paid() {
        let gate = gate();
        gate.wait(0, gate.generation());
        assert_eq!(gate.seat().page().account(0).waits, 0);
        // 3 ms at a share of one hundredth cost 300 ms, less the burst allowance.
        gate.seat().charge(0, crate::now(), 3_000_000);
        let paid = gate.seat().paid_until(0);
        gate.wait(0, gate.generation());
        assert!(crate::now() >= paid);
        let account = gate.seat().page().account(0);
        assert_eq!(account.spent, 3_000_000);
    }

    #[test]
    fn a_wait_that_is_already_met_returns_at_once() {
        let gate = Arc::new(gate());
        gate.seat().charge(0, crate::now(), 3_600_000_000_000);
        let (waiter, generation) = (Arc::clone(&gate), gate.generation());
        let waiting = std::thread::spawn(move || waiter.wait(0, generation));
        gate.release_all();
        waiting.join().unwrap();
        assert!(gate.is_closed(0));
    }
}
