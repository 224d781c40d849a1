//! Memory accounting: each session against its quota, and all sessions of a worker against their common limit.

use backend::DeviceError;
use limits::SessionSlot;

/// Device memory usage of a session.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    quotas: Vec<u64>,
    used: Vec<u64>,
    seat: Option<SessionSlot>,
}

impl Accounts {
    pub(super) fn new(quotas: Vec<u64>, seat: Option<SessionSlot>) -> Accounts {
        Accounts { used: vec![0; quotas.len()], quotas, seat }
    }

    pub(super) fn book(&mut self, device: u32, bytes: u64) -> Result<(), DeviceError> {
        let at = device as usize;
        let (used, quota) = (self.used[at], self.quotas[at]);
        let refused = |free: u64, of: u64| {
            let text =
                format!("cannot allocate {bytes} bytes: {free} of {of} bytes are free on device {device}");
            DeviceError::out_of_memory(text)
        };
        let wanted = used.checked_add(bytes).filter(|wanted| *wanted <= quota);
        let wanted = wanted.ok_or_else(|| refused(quota.saturating_sub(used), quota))?;
        if let Some(seat) = &self.seat {
            seat.take(device, bytes).map_err(|left| refused(left.free, left.limit))?;
        }
        self.used[at] = wanted;
        Ok(())
    }

    pub(super) fn give_back(&mut self, device: u32, bytes: u64) {
        self.used[device as usize] -= bytes;
        if let Some(seat) = &self.seat {
            seat.give(device, bytes);
        }
    }

    pub(super) fn used(&self, device: u32) -> Option<u64> {
        self.used.get(device as usize).copied()
    }

    /// Bytes that can still be allocated.
    pub(super) fn free(&self, device: u32) -> u64 {
        let own = self.quotas[device as usize] - self.used[device as usize];
        let shared = self.seat.as_ref().and_then(|seat| seat.memory(device));
        shared.map_or(own, |(free, _)| own.min(free))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use limits::{LimitConfig, Page};

    use super::*;

    #[test]
    fn a_session_is_refused_what_another_has_and_its_own_account_stays_right() {
        let limits = LimitConfig { memory: Some(100 << 12), ..LimitConfig::default() };
        let page = Arc::new(Page::create(&limits, 1, 2).unwrap());
        let [mut ours, mut theirs] =
            [0, 1].map(|seat| Accounts::new(vec![100 << 12], SessionSlot::new(Arc::clone(&page), seat)));
        theirs.book(0, 60 << 12).unwrap();
        assert_eq!((ours.free(0), ours.used(0)), (40 << 12, Some(0)));
        let refused = ours.book(0, 41 << 12).unwrap_err();
        assert_eq!(refused.code, hip_api::types::hipErrorOutOfMemory);
        assert_eq!(ours.used(0), Some(0));
        theirs.give_back(0, 60 << 12);
        ours.book(0, 100 << 12).unwrap();
        assert!(ours.book(0, 1).is_err());
    }
}
