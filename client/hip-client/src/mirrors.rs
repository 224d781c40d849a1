//! Memory that both sides hold: pinned, registered and managed memory, and managed variables.
//!
//! The worker has a range of its own for each, under an address that kernels may use. What this side changed is sent before work
//! that may look at it; what the device changed comes before the word that its work has ended. Each side finds what it changed
//! by comparing with a twin, see the crate `mirror`: nothing is ever made inaccessible, so system calls, signal handlers and
//! threads of the program notice nothing.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use mirror::{Tracker, Twin};
use parking_lot::{Mutex, MutexGuard};
use wire::delta::Changes;
use wire::{Failure, WireError};

/// Messages of changes that are remembered until the worker says that it has them.
const MOST_UNDER_WAY: usize = 1024;

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
    /// How many times changes were sent.
    sent: u64,
    /// What was sent and may not have arrived: by number, the addresses of changed bytes.
    under_way: VecDeque<(u64, Vec<Range<u64>>)>,
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

    /// Sends what this side has changed, through `post`, which is given a number and changes. `look` is shown the
    /// memory around them.
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
            // Not held while sending: making room may mean reading, and what is read may be changes.
            drop(state);
            post(number, &body)?;
            if !more {
                return Ok(());
            }
            body.clear();
            state = self.state.lock();
        }
    }

    /// Takes what the worker says the device has changed, which had `taken` of our changes by then.
    pub fn take(&self, taken: u64, body: &[u8]) -> Result<(), WireError> {
        let mut state = self.state.lock();
        while state.under_way.front().is_some_and(|(number, _)| *number <= taken) {
            state.under_way.pop_front();
        }
        for change in Changes::new(body) {
            let change = change?;
            change.for_each(|at, bytes| state.accept(change.address + at as u64, bytes));
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

impl State {
    /// Notes what is about to be sent; returns its number.
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
        // Only threads that race with kernels would miss what is forgotten here.
        if self.under_way.len() == MOST_UNDER_WAY {
            self.under_way.pop_front();
        }
        self.under_way.push_back((self.sent, changed));
        self.sent
    }

    /// Takes bytes of the device, but for those that a change of ours is on the way to: it comes after them.
    fn accept(&mut self, address: u64, bytes: &[u8]) {
        let end = address + bytes.len() as u64;
        let mut ours: Vec<Range<u64>> = Vec::new();
        for (_, changed) in &self.under_way {
            let first = changed.partition_point(|range| range.end <= address);
            ours.extend(changed[first..].iter().take_while(|range| range.start < end).cloned());
        }
        ours.sort_unstable_by_key(|range| range.start);
        let mut from = address;
        for range in ours.into_iter().chain(std::iter::once(end..end)) {
            if from < range.start {
                let part = (from - address) as usize..(range.start - address) as usize;
                self.put(from, &bytes[part]);
            }
            from = from.max(range.end);
        }
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        let Some((start, mirror)) = self.mirrors.range_mut(..=address).next_back() else { return };
        let at = (address - start) as usize;
        // What was freed meanwhile is nobody's.
        if at.checked_add(bytes.len()).is_some_and(|end| end <= mirror.twin.bytes()) {
            mirror.twin.accept(at, bytes);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use wire::delta::diff;

    const AT: u64 = 0x2000_0000_0000;

    /// A mirror of 64 bytes at `AT`.
    fn mirrors(memory: &mut [u8; 64]) -> Mirrors {
        let mirrors = Mirrors::default();
        // SAFETY: every test keeps the memory as long as the mirrors.
        unsafe { mirrors.insert(memory.as_mut_ptr() as u64, AT, 64, false) }.unwrap();
        mirrors
    }

    /// What the device's side tells when it has changed these bytes.
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
        // The worker had the first when it looked, and the device wrote all around.
        mirrors.take(1, &changed(8, &[7, 7, 1, 7, 7])).unwrap();
        assert_eq!(flush(&mirrors).len(), 0, "nothing of this is ours to tell");
        mirrors.take(2, &changed(20, &[5])).unwrap();
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
        mirrors.take(1, &changed(0, &[9])).unwrap();
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
        mirrors.take(0, &body).unwrap();
        assert!(mirrors.take(0, &[1, 2, 3]).is_err());
        mirrors.remove(AT);
        assert_eq!(memory[..3], [11, 12, 13]);
        assert_eq!(memory[20], 31);
    }
}
