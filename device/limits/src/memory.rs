//! Memory accounting across the session processes of a worker.
//!
//! Each session's usage is one number; the free memory is the limit minus the sum of all. A session that allocates reads the sum under
//! a lock on the page's file. The kernel releases that lock when its process exits, so a process may be killed at any point.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::page::{Page, SessionSlot};

/// Not enough free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{free} of {limit} bytes are free")]
pub struct Exhausted {
    /// Bytes that are left.
    pub free: u64,
    /// Bytes of the limit.
    pub limit: u64,
}

impl Page {
    pub(crate) fn memory_used(&self, device: u32) -> u64 {
        let seats = 0..self.seats();
        seats.map(|seat| self.seat_row(seat, device).memory.load(Ordering::Relaxed)).sum()
    }

    /// Host memory that all sessions together have booked.
    pub fn host_used(&self) -> u64 {
        (0..self.seats()).map(|seat| self.seat_host(seat).load(Ordering::Relaxed)).sum()
    }

    /// Adds `bytes` to a session's usage if they are free under the limit.
    fn book(
        &self,
        mine: &AtomicU64,
        bytes: u64,
        limit: impl Fn() -> u64,
        used: impl Fn() -> u64,
    ) -> Result<(), Exhausted> {
        let _ours = self.booking.lock();
        self.lock_file(libc::F_WRLCK as libc::c_int);
        let limit = limit();
        let free = limit.saturating_sub(used());
        if bytes <= free {
            mine.fetch_add(bytes, Ordering::Relaxed);
        }
        self.lock_file(libc::F_UNLCK as libc::c_int);
        if bytes <= free { Ok(()) } else { Err(Exhausted { free, limit }) }
    }

    /// Revokes the unused part of a device's grant beyond the request. Returns the bytes that stay granted.
    pub fn shrink_grant(&self, device: u32, request: u64) -> u64 {
        let row = self.device(device);
        let _ours = self.booking.lock();
        self.lock_file(libc::F_WRLCK as libc::c_int);
        let granted = request.max(self.memory_used(device)).min(row.granted.load(Ordering::Relaxed));
        row.granted.store(granted, Ordering::Relaxed);
        self.lock_file(libc::F_UNLCK as libc::c_int);
        granted
    }

    fn lock_file(&self, kind: libc::c_int) {
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        // A signal may interrupt the wait. No other error is possible: the file is a private memfd.
        // SAFETY: the descriptor is open and the struct lives through the call.
        while unsafe { libc::fcntl(self.file().as_raw_fd(), libc::F_SETLKW, &lock) } != 0
            && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
        {}
    }
}

impl SessionSlot {
    /// Books device memory, if enough is free; asks the supervisor for a larger grant if necessary.
    pub fn take(&self, device: u32, bytes: u64) -> Result<(), Exhausted> {
        let page = self.page();
        let row = page.device(device);
        let mine = &page.seat_row(self.number(), device).memory;
        let limit = row.memory_limit.load(Ordering::Relaxed);
        if limit == u64::MAX {
            mine.fetch_add(bytes, Ordering::Relaxed);
            return Ok(());
        }
        let granted = || limit.min(row.granted.load(Ordering::Relaxed));
        let used = || page.memory_used(device);
        let mut taken = page.book(mine, bytes, granted, used);
        if let Err(short) = &taken
            && short.limit < limit
            && bytes <= limit
            && self.ask_for(device, bytes.saturating_sub(short.free))
        {
            taken = page.book(mine, bytes, granted, used);
        }
        taken.inspect_err(|_| {
            row.refused.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Releases booked device memory.
    pub fn give(&self, device: u32, bytes: u64) {
        self.page().seat_row(self.number(), device).memory.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Free bytes and limit of a device; `None` if there is no limit.
    pub fn memory(&self, device: u32) -> Option<(u64, u64)> {
        let account = self.page().account(device);
        let within_reach = self.page().device(device).within_reach.load(Ordering::Relaxed);
        account.memory_limit.map(|limit| (limit.min(within_reach).saturating_sub(account.memory), limit))
    }

    /// Whether other sessions or workers use the same memory, so that free memory may vanish before it is booked.
    pub fn shares_memory(&self) -> bool {
        let row = self.page().device(0);
        let limit = row.memory_limit.load(Ordering::Relaxed);
        limit != u64::MAX && (self.page().seats() > 1 || row.request.load(Ordering::Relaxed) < limit)
    }

    /// Books host memory, if enough is free.
    pub(crate) fn take_host(&self, bytes: u64) -> Result<(), Exhausted> {
        let page = self.page();
        page.book(page.seat_host(self.number()), bytes, || page.host_limit(), || page.host_used())
    }

    pub(crate) fn give_host(&self, bytes: u64) {
        self.page().seat_host(self.number()).fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::LimitConfig;

    fn page(memory: Option<u64>) -> Arc<Page> {
        Arc::new(Page::create(&LimitConfig { memory, ..LimitConfig::default() }, 1, 8).unwrap())
    }

    #[test]
    fn sessions_share_one_limit_and_the_dead_give_theirs_back() {
        let page = page(Some(1000 << 12));
        let [first, second] = [0, 1].map(|seat| SessionSlot::new(Arc::clone(&page), seat).unwrap());
        first.take(0, 600 << 12).unwrap();
        let refused = second.take(0, 401 << 12).unwrap_err();
        assert_eq!(refused, Exhausted { free: 400 << 12, limit: 1000 << 12 });
        second.take(0, 400 << 12).unwrap();
        assert_eq!(second.memory(0), Some((0, 1000 << 12)));
        page.vacate(0);
        second.take(0, 600 << 12).unwrap();
        second.give(0, 1000 << 12);
        assert_eq!(
            page.account(0),
            crate::Account { refused: 1, memory_limit: Some(1000 << 12), ..Default::default() }
        );
    }

    #[test]
    fn more_than_is_granted_is_asked_for_and_what_is_within_reach_is_shown_as_free() {
        let limits =
            LimitConfig { memory: Some(100 << 12), memory_request: Some(40 << 12), ..LimitConfig::default() };
        let page = Arc::new(Page::create(&limits, 1, 1).unwrap());
        page.grant(0, 40 << 12, 70 << 12);
        let seat = SessionSlot::new(Arc::clone(&page), 0).unwrap();
        assert_eq!(seat.memory(0), Some((70 << 12, 100 << 12)));
        assert!(seat.shares_memory());
        seat.take(0, 40 << 12).unwrap();
        assert_eq!(seat.take(0, 1 << 12), Err(Exhausted { free: 0, limit: 40 << 12 }));
        let granting = Arc::clone(&page);
        let seat = seat.growing(move |device, bytes| {
            let free = bytes <= 30 << 12;
            if free {
                granting.grant(device, (40 << 12) + bytes, 70 << 12);
            }
            free
        });
        seat.take(0, 30 << 12).unwrap();
        assert!(seat.take(0, 31 << 12).is_err());
        assert_eq!((seat.memory(0), page.account(0).refused), (Some((0, 100 << 12)), 2));
        seat.give(0, 60 << 12);
        assert_eq!(page.shrink_grant(0, 5 << 12), 10 << 12);
        assert_eq!(page.shrink_grant(0, 20 << 12), 10 << 12);
    }

    #[test]
    fn without_a_limit_memory_is_only_counted() {
        let page = page(None);
        let seat = SessionSlot::new(Arc::clone(&page), 2).unwrap();
        seat.take(0, 1 << 40).unwrap();
        assert_eq!((seat.memory(0), page.account(0).memory), (None, 1 << 40));
    }

    #[test]
    fn processes_that_take_at_the_same_time_never_take_too_much_nor_too_little() {
        let page = page(Some(1000 << 12));
        let mut children = Vec::new();
        for number in 0..4 {
            // SAFETY: the child only touches the shared page and leaves by _exit; no other thread uses the page, so its lock is free.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let seat = SessionSlot::new(Arc::clone(&page), number).unwrap();
                while seat.take(0, 1 << 12).is_ok() {}
                // SAFETY: ends the child at once, without the test's destructors; the memory stays booked.
                unsafe { libc::_exit(0) };
            }
            children.push(child);
        }
        for child in children {
            let mut status = 0;
            // SAFETY: waits for a child of this process.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0);
        }
        assert_eq!(page.account(0).memory, 1000 << 12);
    }
}
