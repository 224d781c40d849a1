//! Accounting of the host memory that a session uses: mirrors and their twins, graphs, code objects, compilers.
//!
//! Counted against one budget of the worker. Memory is booked in the shared page in large steps, so that small charges need no
//! file lock.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::machine::machine_memory;
use crate::memory::Exhausted;
use crate::page::SessionSlot;

/// Bytes booked ahead of use, and kept booked when memory is freed.
const STEP: u64 = 4 << 20;

/// Host memory account of one session.
#[derive(Debug)]
pub struct HostMemory {
    seat: Option<SessionSlot>,
    /// Limit in bytes if there is no seat; `u64::MAX` otherwise.
    limit: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// Bytes booked in the shared page; never less than `used`.
    booked: u64,
}

/// Charge for some bytes of host memory, released on drop.
#[derive(Debug)]
pub struct HostCharge {
    host: Arc<HostMemory>,
    bytes: u64,
}

impl HostMemory {
    /// Opens the account. Without a seat the limit is the machine's memory.
    pub fn new(seat: Option<SessionSlot>) -> Arc<HostMemory> {
        let limit = if seat.is_some() { u64::MAX } else { machine_memory() };
        Arc::new(HostMemory { seat, limit, state: Mutex::default() })
    }

    /// Charges `bytes` until the charge is dropped, or says what is left.
    pub fn charge(self: &Arc<HostMemory>, bytes: u64) -> Result<HostCharge, Exhausted> {
        self.take(bytes)?;
        Ok(HostCharge { host: Arc::clone(self), bytes })
    }

    /// Bytes of host memory that all sessions of the worker may use together.
    pub fn limit(&self) -> u64 {
        self.seat.as_ref().map_or(self.limit, |seat| seat.page().host_limit())
    }

    /// Bytes that the session is charged for.
    pub fn used(&self) -> u64 {
        self.state.lock().used
    }

    fn take(&self, bytes: u64) -> Result<(), Exhausted> {
        let mut state = self.state.lock();
        let refused = Exhausted { free: self.limit.saturating_sub(state.used), limit: self.limit };
        let wanted = state.used.checked_add(bytes).filter(|wanted| *wanted <= self.limit).ok_or(refused)?;
        if let Some(seat) = &self.seat
            && wanted > state.booked
        {
            let missing = wanted - state.booked;
            let ahead = missing.saturating_add(STEP);
            // Near the limit booking ahead may fail although the missing bytes are free.
            let booked = seat.take_host(ahead).map(|()| ahead);
            let booked = booked.or_else(|_| seat.take_host(missing).map(|()| missing));
            state.booked += booked?;
        }
        state.used = wanted;
        Ok(())
    }

    fn give(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.used -= bytes;
        let keep = state.used.saturating_add(2 * STEP);
        if let Some(seat) = &self.seat
            && state.booked > keep
        {
            seat.give_host(state.booked - state.used - STEP);
            state.booked = state.used + STEP;
        }
    }
}

impl HostCharge {
    /// Size of the charge.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the charge to `bytes`.
    pub fn resize(&mut self, bytes: u64) -> Result<(), Exhausted> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.host.take(more)?,
            None => self.host.give(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for HostCharge {
    fn drop(&mut self) {
        self.host.give(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LimitConfig, Page};

    const MIB: u64 = 1 << 20;

    #[test]
    fn sessions_share_one_budget_to_the_byte_and_what_is_dropped_is_free() {
        let limits = LimitConfig { host_memory: Some(100 * MIB), ..LimitConfig::default() };
        let page = Arc::new(Page::create(&limits, 1, 2).unwrap());
        let [ours, theirs] = [0, 1].map(|seat| HostMemory::new(SessionSlot::new(Arc::clone(&page), seat)));
        assert_eq!(ours.limit(), 100 * MIB);
        let held = ours.charge(60 * MIB).unwrap();
        let refused = theirs.charge(41 * MIB).unwrap_err();
        assert_eq!(refused.limit, 100 * MIB);
        // Only the step booked ahead is unavailable to the other session.
        let mut other = theirs.charge(30 * MIB).unwrap();
        assert!(other.resize(41 * MIB).is_err());
        assert_eq!((other.bytes(), theirs.used()), (30 * MIB, 30 * MIB));
        drop(held);
        other.resize(90 * MIB).unwrap();
        other.resize(10).unwrap();
        assert!(page.host_used() <= 3 * STEP, "{}", page.host_used());
        let _all = ours.charge(90 * MIB).unwrap();
        assert!(ours.charge(u64::MAX).is_err());
        page.vacate(0);
        theirs.charge(80 * MIB).unwrap();
    }

    #[test]
    fn a_session_without_a_seat_may_use_what_the_machine_has() {
        let host = HostMemory::new(None);
        assert!(host.charge(host.limit() + 1).is_err());
        host.charge(host.limit()).unwrap();
        assert_eq!(host.used(), 0);
    }
}
