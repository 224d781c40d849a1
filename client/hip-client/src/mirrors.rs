//! Memory that both sides hold: pinned, registered and managed memory, and managed variables.
//!
//! The worker has a range of its own for each, under an address that kernels may use. What this side changed is sent before work
//! that may look at it; what the device changed comes before the word that its work has ended. Each side finds what it changed
//! by comparing with a twin, see the crate `mirror`: nothing is ever made inaccessible, so system calls, signal handlers and
//! threads of the program notice nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use mirror::{Tracker, Twin};
use parking_lot::{Mutex, MutexGuard};
use wire::delta::Changes;
use wire::{Failure, WireError};

/// The mirrors of a session.
#[derive(Debug, Default)]
pub struct Mirrors {
    /// How many there are, so that programs without any do not look further.
    live: AtomicUsize,
    /// How much work was sent, and how much of it is known to have ended.
    sent: AtomicU64,
    ended: AtomicU64,
    /// Held from the comparison until what it found is sent, so that changes are sent in the order they were made.
    order: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the address kernels use.
    mirrors: BTreeMap<u64, Mirror>,
    /// The same by the address the program uses.
    hosts: BTreeMap<u64, u64>,
    /// The last number of the worker's changes that was taken.
    seen: u64,
    tracker: Option<Option<Arc<Tracker>>>,
}

#[derive(Debug)]
struct Mirror {
    twin: Twin,
    /// Where the program has it.
    host: u64,
}

/// Bytes that arrive go to a mirror: nothing is compared until they are there.
#[derive(Debug)]
pub struct Arrival<'a> {
    state: MutexGuard<'a, State>,
    address: u64,
    at: usize,
}

impl Mirrors {
    /// Whether there is any.
    #[inline]
    pub fn any(&self) -> bool {
        self.live.load(Ordering::Acquire) > 0
    }

    /// Adds memory at `host` that the worker has zeroed at `device`. `own` memory is this library's, whole pages of it.
    ///
    /// # Safety
    /// The memory is readable and writable until `remove`.
    pub unsafe fn insert(&self, host: u64, device: u64, bytes: usize, own: bool) -> std::io::Result<()> {
        let mut state = self.state.lock();
        let tracker = state.tracker.get_or_insert_with(open_tracker).clone();
        // SAFETY: the caller's promise.
        let twin = unsafe { Twin::new(host as *mut u8, bytes, tracker.as_ref().filter(|_| own)) }?;
        state.mirrors.insert(device, Mirror { twin, host });
        state.hosts.insert(host, device);
        self.live.store(state.mirrors.len(), Ordering::Release);
        Ok(())
    }

    /// Forgets one; its memory may go afterwards.
    pub fn remove(&self, device: u64) {
        let mut state = self.state.lock();
        if let Some(gone) = state.mirrors.remove(&device) {
            state.hosts.remove(&gone.host);
        }
        self.live.store(state.mirrors.len(), Ordering::Release);
    }

    /// Work was sent that may change mirrors.
    #[inline]
    pub fn worked(&self) {
        self.sent.fetch_add(1, Ordering::AcqRel);
    }

    /// How much work was sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// All work up to `sent` has ended, and this side was told what it changed.
    pub fn ended(&self, sent: u64) {
        self.ended.fetch_max(sent, Ordering::AcqRel);
    }

    /// Whether the device may have changed some without this side having been told.
    pub fn may_lag(&self) -> bool {
        self.any() && self.ended.load(Ordering::Acquire) < self.sent()
    }

    /// Sends what this side has changed, through `post`, which is given the last number seen and changes.
    pub fn flush(&self, mut post: impl FnMut(u64, &[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        let _order = self.order.lock();
        let mut state = self.state.lock();
        state.mirrors.values_mut().for_each(|mirror| mirror.twin.begin());
        let mut body = Vec::new();
        let mut next = 0;
        loop {
            let mut more = false;
            for (address, mirror) in state.mirrors.range_mut(next..) {
                more = mirror.twin.collect(*address, &mut body);
                if more {
                    next = *address;
                    break;
                }
            }
            if body.is_empty() {
                return Ok(());
            }
            let seen = state.seen;
            // Not held while sending: making room may mean reading, and what is read may be changes.
            drop(state);
            post(seen, &body)?;
            if !more {
                return Ok(());
            }
            body.clear();
            state = self.state.lock();
        }
    }

    /// Takes what the worker says the device has changed.
    pub fn take(&self, number: u64, body: &[u8]) -> Result<(), WireError> {
        let mut state = self.state.lock();
        state.seen = number;
        for change in Changes::new(body) {
            let change = change?;
            let found = state.mirrors.range_mut(..=change.address).next_back();
            let inside = found.and_then(|(start, mirror)| {
                let at = usize::try_from(change.address - start).ok()?;
                (at.checked_add(change.span)? <= mirror.twin.bytes()).then_some((at, mirror))
            });
            // What was freed meanwhile is nobody's.
            if let Some((at, mirror)) = inside {
                change.for_each(|offset, bytes| mirror.twin.accept(at + offset, bytes));
            }
        }
        Ok(())
    }

    /// Where the program has `bytes` bytes that kernels find at `address`, if they are a mirror's.
    pub fn host_of(&self, address: u64, bytes: u64) -> Option<u64> {
        if !self.any() {
            return None;
        }
        let state = self.state.lock();
        let (start, mirror) = state.mirrors.range(..=address).next_back()?;
        let at = address - start;
        (at.checked_add(bytes)? <= mirror.twin.bytes() as u64).then_some(mirror.host + at)
    }

    /// Called before `bytes` bytes that were read from a mirror's own address arrive at `host`; `None` if that is no mirror.
    pub fn expect(&self, host: u64, bytes: usize) -> Option<Arrival<'_>> {
        if !self.any() {
            return None;
        }
        let state = self.state.lock();
        let (start, address) = state.hosts.range(..=host).next_back().map(|(start, at)| (*start, *at))?;
        let at = usize::try_from(host - start).ok()?;
        let inside = at.checked_add(bytes)? <= state.mirrors.get(&address)?.twin.bytes();
        inside.then_some(Arrival { state, address, at })
    }
}

impl Arrival<'_> {
    /// The bytes are there: both sides have them.
    pub fn arrived(mut self, bytes: &[u8]) {
        if let Some(mirror) = self.state.mirrors.get_mut(&self.address) {
            mirror.twin.agree(self.at, bytes);
        }
    }
}

fn open_tracker() -> Option<Arc<Tracker>> {
    let tracker = Tracker::open();
    if let Err(error) = &tracker {
        crate::trace::debug(format_args!(
            "the kernel does not tell which pages were written ({error}): large mapped memory is compared as a whole"
        ));
    }
    tracker.ok().map(Arc::new)
}
