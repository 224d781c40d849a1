//! Host memory that a session makes its process use: mirrors and their twins, graphs, code objects, compilers.
//!
//! Counted against one budget of the worker. Booked with the page in steps, so that small things need no lock on its file.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::machine::machine_memory;
use crate::memory::Exhausted;
use crate::page::Seat;

/// Booked ahead, and kept when things are given back.
const STEP: u64 = 4 << 20;

/// The host memory of one session.
#[derive(Debug)]
pub struct HostMemory {
    seat: Option<Seat>,
    /// Where there is no seat.
    limit: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// With the page; never less than what is used.
    booked: u64,
}

/// Bytes that are counted until this is dropped.
#[derive(Debug)]
pub struct HostCharge {
    host: Arc<HostMemory>,
    bytes: u64,
}

impl HostMemory {
    /// Without a seat a session may use what the machine has.
    pub fn new(seat: Option<Seat>) -> Arc<HostMemory> {
        let limit = if seat.is_some() { u64::MAX } else { machine_memory() };
        Arc::new(HostMemory { seat, limit, state: Mutex::default() })
    }

    pub fn charge(self: &Arc<HostMemory>, bytes: u64) -> Result<HostCharge, Exhausted> {
        self.take(bytes)?;
        Ok(HostCharge { host: Arc::clone(self), bytes })
    }

    /// Bytes that the worker may use together, and that this session uses.
    pub fn limit(&self) -> u64 {
        self.seat.as_ref().map_or(self.limit, |seat| seat.page().host_limit())
    }

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
            // Near the limit there is no room ahead.
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
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts more or less from now on.
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
        let [ours, theirs] = [0, 1].map(|seat| HostMemory::new(Seat::new(Arc::clone(&page), seat)));
        assert_eq!(ours.limit(), 100 * MIB);
        let held = ours.charge(60 * MIB).unwrap();
        let refused = theirs.charge(41 * MIB).unwrap_err();
        assert_eq!(refused.limit, 100 * MIB);
        // What was booked ahead is all that one session keeps from another.
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
