//! Mirrors: memory that exists on client and worker. Pinned, registered and managed memory, and managed variables.
//!
//! For each mirror the worker has its own range, at an address that kernels can use. The client sends its changes before
//! work that may read them; the worker sends the device's changes before the notification that its work has ended. Each
//! side detects its changes by comparing with a twin (a shadow copy), see the crate `mirror`. No page is ever made
//! inaccessible, so system calls, signal handlers and threads of the program are not affected.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use mirror::{Tracker, Twin};
use parking_lot::{Mutex, MutexGuard};
use wire::delta::Changes;
use wire::{Failure, WireError};

use crate::host::Host;

/// Limit of change messages that are remembered until the worker confirms them.
const MOST_UNDER_WAY: usize = 1024;

/// The mirrors of a session.
#[derive(Debug)]
pub struct Mirrors {
    host: &'static dyn Host,
    /// Number of mirrors, a fast check for programs without any.
    live: AtomicUsize,
    /// Work requests sent, and how many of them are known to have ended.
    sent: AtomicU64,
    ended: AtomicU64,
    /// Locked from the comparison until its result is sent, so that changes are sent in the order they were made.
    order: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By device address.
    mirrors: BTreeMap<u64, Mirror>,
    /// Device address by host address.
    hosts: BTreeMap<u64, u64>,
    /// Number of change messages sent.
    sent: u64,
    /// Change messages that may not have arrived: number and changed device addresses.
    under_way: VecDeque<(u64, Vec<Range<u64>>)>,
    tracker: Option<Option<Arc<Tracker>>>,
}

#[derive(Debug)]
struct Mirror {
    twin: Twin,
    /// Host address.
    host: u64,
}

/// Locks the mirrors while bytes are being received into one, so that nothing is compared until they are complete.
#[derive(Debug)]
pub struct Arrival<'a> {
    state: MutexGuard<'a, State>,
    address: u64,
    at: usize,
}

impl Mirrors {
    /// No mirrors yet. `host` is notified where tracking of written pages is not available.
    pub fn new(host: &'static dyn Host) -> Mirrors {
        Mirrors {
            host,
            live: AtomicUsize::new(0),
            sent: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            order: Mutex::new(()),
            state: Mutex::default(),
        }
    }

    /// Whether there is any mirror.
    #[inline]
    pub fn any(&self) -> bool {
        self.live.load(Ordering::Acquire) > 0
    }

    /// Adds memory at `host` that the worker has zeroed at `device`. `own`: the memory was allocated by this library, in
    /// whole pages.
    ///
    /// # Safety
    /// The memory is readable and writable until `remove`.
    pub unsafe fn insert(&self, host: u64, device: u64, bytes: usize, own: bool) -> std::io::Result<()> {
        let mut state = self.state.lock();
        let tracker = state.tracker.get_or_insert_with(|| open_tracker(self.host)).clone();
        // SAFETY: guaranteed by the caller.
        let twin = unsafe { Twin::new(host as *mut u8, bytes, tracker.as_ref().filter(|_| own)) }?;
        state.mirrors.insert(device, Mirror { twin, host });
        state.hosts.insert(host, device);
        self.live.store(state.mirrors.len(), Ordering::Release);
        Ok(())
    }

    /// Removes a mirror; its memory may be freed afterwards.
    pub fn remove(&self, device: u64) {
        let mut state = self.state.lock();
        if let Some(gone) = state.mirrors.remove(&device) {
            state.hosts.remove(&gone.host);
        }
        self.live.store(state.mirrors.len(), Ordering::Release);
    }

    /// Counts work that was sent and may change mirrors.
    #[inline]
    pub fn worked(&self) {
        self.sent.fetch_add(1, Ordering::AcqRel);
    }

    /// Number of work requests sent so far.
    #[inline]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Records that all work up to `sent` has ended and its changes have been received.
    pub fn ended(&self, sent: u64) {
        self.ended.fetch_max(sent, Ordering::AcqRel);
    }

    /// Whether the device may have made changes that have not been received.
    pub fn may_lag(&self) -> bool {
        self.any() && self.ended.load(Ordering::Acquire) < self.sent()
    }

    /// Sends the changes made on the client. `post` receives a message number and the changes; `look` receives the memory
    /// around them.
    pub fn flush(
        &self,
        mut look: impl FnMut(&[u8]),
        mut post: impl FnMut(u64, &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let _order = self.order.lock();
        let mut state = self.state.lock();
        state.mirrors.values_mut().for_each(|mirror| mirror.twin.begin());
        let mut body = Vec::new();
        let mut next = 0;
        loop {
            let mut more = false;
            for (address, mirror) in state.mirrors.range_mut(next..) {
                more = mirror.twin.collect(*address, &mut body, &mut look);
                if more {
                    next = *address;
                    break;
                }
            }
            if body.is_empty() {
                return Ok(());
            }
            let number = state.sent(&body);
            // Unlocked while sending: waiting for room may read frames, and those may contain changes.
            drop(state);
            post(number, &body)?;
            if !more {
                return Ok(());
            }
            body.clear();
            state = self.state.lock();
        }
    }

    /// Applies the device's changes. `taken` is the last of our change messages that the worker had applied by then.
    pub fn apply(&self, taken: u64, body: &[u8]) -> Result<(), WireError> {
        let mut state = self.state.lock();
        state.confirm(taken);
        for change in Changes::new(body) {
            let change = change?;
            change.for_each(|at, bytes| state.accept(change.address + at as u64, bytes));
        }
        Ok(())
    }

    /// Compares the worker's bytes with those that both sides agreed on, except where a change of ours is under way. If they differ,
    /// takes the worker's, or returns true if `strict`.
    pub fn reconcile(&self, taken: u64, address: u64, bytes: &[u8], strict: bool) -> bool {
        let mut state = self.state.lock();
        state.confirm(taken);
        for range in state.not_under_way(address..address + bytes.len() as u64) {
            let part = &bytes[(range.start - address) as usize..(range.end - address) as usize];
            let Some((start, mirror)) = state.mirrors.range(..=range.start).next_back() else { continue };
            let differs = !mirror.twin.is_agreed((range.start - start) as usize, part);
            if differs && strict {
                return true;
            }
            if differs {
                state.put(range.start, part);
            }
        }
        false
    }

    /// Host address of `bytes` bytes at device address `address`, if they lie in a mirror.
    pub fn host_of(&self, address: u64, bytes: u64) -> Option<u64> {
        if !self.any() {
            return None;
        }
        let state = self.state.lock();
        let (start, mirror) = state.mirrors.range(..=address).next_back()?;
        let at = address - start;
        (at.checked_add(bytes)? <= mirror.twin.bytes() as u64).then_some(mirror.host + at)
    }

    /// Called before `bytes` bytes read from a mirror's device address are received at `host`. `None` if `host` is not in
    /// a mirror.
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

impl State {
    /// Records a change message that is about to be sent; returns its number.
    fn sent(&mut self, body: &[u8]) -> u64 {
        self.sent += 1;
        let mut changed: Vec<Range<u64>> = Vec::new();
        for change in Changes::new(body).flatten() {
            change.for_each(|at, bytes| {
                let start = change.address + at as u64;
                let end = start + bytes.len() as u64;
                match changed.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => changed.push(start..end),
                }
            });
        }
        // Dropping an entry affects only threads that race with kernels.
        if self.under_way.len() == MOST_UNDER_WAY {
            self.under_way.pop_front();
        }
        self.under_way.push_back((self.sent, changed));
        self.sent
    }

    /// Applies bytes from the device, except those covered by our changes in flight, which the worker applies later.
    fn accept(&mut self, address: u64, bytes: &[u8]) {
        for range in self.not_under_way(address..address + bytes.len() as u64) {
            let part = (range.start - address) as usize..(range.end - address) as usize;
            self.put(range.start, &bytes[part]);
        }
    }

    /// Drops our change messages up to `taken`, which have arrived.
    fn confirm(&mut self, taken: u64) {
        while self.under_way.front().is_some_and(|(number, _)| *number <= taken) {
            self.under_way.pop_front();
        }
    }

    /// The parts of a range that no change message under way covers.
    fn not_under_way(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut ours: Vec<Range<u64>> = Vec::new();
        for (_, changed) in &self.under_way {
            let first = changed.partition_point(|it| it.end <= range.start);
            ours.extend(changed[first..].iter().take_while(|it| it.start < range.end).cloned());
        }
        ours.sort_unstable_by_key(|it| it.start);
        let (mut from, mut parts) = (range.start, Vec::new());
        for it in ours.into_iter().chain(std::iter::once(range.end..range.end)) {
            if from < it.start {
                parts.push(from..it.start);
            }
            from = from.max(it.end);
        }
        parts
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        let Some((start, mirror)) = self.mirrors.range_mut(..=address).next_back() else { return };
        let at = (address - start) as usize;
        // Ignores memory that was freed meanwhile.
        if at.checked_add(bytes.len()).is_some_and(|end| end <= mirror.twin.bytes()) {
            mirror.twin.accept(at, bytes);
        }
    }
}

impl Arrival<'_> {
    /// Marks the received bytes as equal on both sides.
    pub fn arrived(mut self, bytes: &[u8]) {
        if let Some(mirror) = self.state.mirrors.get_mut(&self.address) {
            mirror.twin.agree(self.at, bytes);
        }
    }
}

fn open_tracker(host: &dyn Host) -> Option<Arc<Tracker>> {
    let tracker = Tracker::open();
    if let Err(error) = &tracker {
        host.debug(format_args!(
            "the kernel cannot report written pages ({error}): large mapped memory is compared as a whole"
        ));
    }
    tracker.ok().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::delta::diff;

    const AT: u64 = 0x2000_0000_0000;

    /// A mirror of 64 bytes at `AT`.
    fn mirrors(memory: &mut [u8; 64]) -> Mirrors {
        let mirrors = Mirrors::new(&crate::host::StandardError);
        // SAFETY: every test keeps the memory as long as the mirrors.
        unsafe { mirrors.insert(memory.as_mut_ptr() as u64, AT, 64, false) }.unwrap();
        mirrors
    }

    /// The worker's message when the device has changed these bytes.
    fn changed(at: usize, values: &[u8]) -> Vec<u8> {
        let (mut now, mut body) = ([0; 64], Vec::new());
        now[at..at + values.len()].copy_from_slice(values);
        diff(AT, &now, &mut [0; 64], &mut body);
        body
    }

    fn flush(mirrors: &Mirrors) -> Vec<(u64, Vec<u8>)> {
        let mut sent = Vec::new();
        let post = |number, body: &[u8]| {
            sent.push((number, body.to_vec()));
            Ok(())
        };
        mirrors.flush(|_| (), post).unwrap();
        sent
    }

    #[test]
    fn a_byte_whose_change_is_under_way_is_not_taken_back() {
        let mut memory = [0; 64];
        let mirrors = mirrors(&mut memory);
        let write = |at: usize, value: u8| {
            let host = mirrors.host_of(AT, 64).unwrap() as *mut u8;
            // SAFETY: inside the memory of the mirror.
            unsafe { host.add(at).write_volatile(value) };
        };
        write(10, 1);
        assert_eq!(flush(&mirrors).len(), 1);
        write(10, 2);
        let second = flush(&mirrors);
        assert_eq!(second[0].0, 2);
        // The worker had applied the first change when it compared, and the device wrote around it.
        mirrors.apply(1, &changed(8, &[7, 7, 1, 7, 7])).unwrap();
        assert_eq!(flush(&mirrors).len(), 0, "none of these changes are the client's");
        mirrors.apply(2, &changed(20, &[5])).unwrap();
        mirrors.remove(AT);
        assert_eq!(memory[8..13], [7, 7, 2, 7, 7]);
        assert_eq!(memory[20], 5);
    }

    #[test]
    fn a_byte_the_device_writes_after_ours_arrived_is_taken() {
        let mut memory = [0; 64];
        let mirrors = mirrors(&mut memory);
        // SAFETY: inside the memory of the mirror.
        unsafe { (mirrors.host_of(AT, 64).unwrap() as *mut u8).write_volatile(3) };
        assert_eq!(flush(&mirrors)[0].0, 1);
        mirrors.apply(1, &changed(0, &[9])).unwrap();
        mirrors.remove(AT);
        assert_eq!(memory[0], 9);
    }

    #[test]
    fn changes_that_begin_outside_a_mirror_are_taken_where_they_are_inside() {
        let mut memory = [0; 64];
        let mirrors = mirrors(&mut memory);
        let (mut twin, mut body) = ([0; 32], Vec::new());
        let now: Vec<u8> = (0..32).map(|i| if i < 11 { 0 } else { i }).collect();
        diff(AT - 11, &now, &mut twin, &mut body);
        mirrors.apply(0, &body).unwrap();
        assert!(mirrors.apply(0, &[1, 2, 3]).is_err());
        mirrors.remove(AT);
        assert_eq!(memory[..3], [11, 12, 13]);
        assert_eq!(memory[20], 31);
    }
}
