//! The memory map of a session: device allocations, pinned host ranges, and the ledger that makes out-of-memory
//! synchronous.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use hip_api::types::*;
use parking_lot::{Mutex, RwLock};

use session::arena::Arena;

/// The kind of an address range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// hipMalloc and its relatives.
    Device,
    /// The segments of a loaded module: code, constants, globals.
    Module,
    /// A mapping of physical memory at reserved addresses, or memory of another process.
    Virtual,
    /// Pinned host memory the library allocated (hipHostMalloc).
    Host,
    /// Host memory of the program, pinned by hipHostRegister.
    Registered,
    /// hipMallocManaged and managed variables.
    Managed,
}

/// One address range.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    pub start: u64,
    pub bytes: u64,
    pub kind: Kind,
    /// Index of the visible device that was current.
    pub device: usize,
    pub flags: u32,
    /// Allocation counter of this process, for HIP_POINTER_ATTRIBUTE_BUFFER_ID.
    pub id: u64,
    /// The pool it came from, or 0.
    pub pool: u64,
    /// Its device address; 0 if it is not mapped for kernels.
    pub view: u64,
}

impl Allocation {
    pub fn end(&self) -> u64 {
        self.start + self.bytes
    }

    /// Whether the program itself can read and write it.
    pub fn is_host(&self) -> bool {
        matches!(self.kind, Kind::Host | Kind::Registered | Kind::Managed)
    }
}

/// All ranges of a session.
#[derive(Debug)]
pub struct AddressSpace {
    base: u64,
    end: u64,
    arena: Mutex<Arena>,
    ranges: RwLock<BTreeMap<u64, Allocation>>,
    next_id: AtomicU64,
}

/// Classification of a pointer.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    Device,
    Host,
}

impl AddressSpace {
    pub fn new(base: u64, bytes: u64) -> AddressSpace {
        AddressSpace {
            base,
            end: base + bytes,
            arena: Mutex::new(Arena::new(base, bytes)),
            ranges: RwLock::new(BTreeMap::new()),
            next_id: AtomicU64::new(1),
        }
    }

    /// Allocates an address for a new device range and records the range.
    pub fn reserve(
        &self,
        bytes: u64,
        kind: Kind,
        device: usize,
        flags: u32,
        pool: u64,
    ) -> Option<Allocation> {
        let start = self.arena.lock().take(bytes)?;
        Some(self.insert(start, bytes, kind, device, flags, pool))
    }

    /// Takes addresses without recording an allocation.
    pub fn take_addresses(&self, bytes: u64) -> Option<u64> {
        self.arena.lock().take(bytes)
    }

    /// Returns addresses from [`take_addresses`](Self::take_addresses).
    pub fn return_addresses(&self, start: u64, bytes: u64) {
        self.arena.lock().give_back(start, bytes);
    }

    /// Records a range at a known address.
    pub fn insert(
        &self,
        start: u64,
        bytes: u64,
        kind: Kind,
        device: usize,
        flags: u32,
        pool: u64,
    ) -> Allocation {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let view = if matches!(kind, Kind::Host | Kind::Registered) { 0 } else { start };
        let allocation = Allocation { start, bytes, kind, device, flags, id, pool, view };
        self.ranges.write().insert(start, allocation);
        allocation
    }

    /// Sets the device address of the range that starts at `start`; 0 for none.
    pub fn show(&self, start: u64, view: u64) {
        if let Some(allocation) = self.ranges.write().get_mut(&start) {
            allocation.view = view;
        }
    }

    /// Allocates a device address for memory that also has a host address. `release_view` frees it.
    pub fn reserve_view(&self, bytes: u64) -> Option<u64> {
        self.arena.lock().take(bytes)
    }

    pub fn release_view(&self, view: u64, bytes: u64) {
        self.arena.lock().give_back(view, bytes);
    }

    /// Removes the range that starts at `start`. Its addresses are quarantined before they are reused.
    pub fn remove(&self, start: u64) -> Option<Allocation> {
        let allocation = self.ranges.write().remove(&start)?;
        if self.is_device_address(start) {
            self.arena.lock().give_back(start, allocation.bytes);
        }
        Some(allocation)
    }

    /// The range that contains `address`.
    pub fn find(&self, address: u64) -> Option<Allocation> {
        let ranges = self.ranges.read();
        let (_, allocation) = ranges.range(..=address).next_back()?;
        (address < allocation.end() || address == allocation.start).then_some(*allocation)
    }

    /// Whether the address can only be a device address.
    pub fn is_device_address(&self, address: u64) -> bool {
        (self.base..self.end).contains(&address)
    }

    /// Classifies `bytes` bytes at `address`; a device range must lie inside one live allocation.
    pub fn place(&self, address: u64, bytes: u64) -> Result<Place, hipError_t> {
        if !self.is_device_address(address) {
            return Ok(Place::Host);
        }
        let mut allocation = self.find(address).ok_or(hipErrorInvalidValue)?;
        let end = address.checked_add(bytes).ok_or(hipErrorInvalidValue)?;
        // Adjacent mappings count as one range.
        while end > allocation.end() && allocation.kind == Kind::Virtual {
            let next = self.find(allocation.end()).filter(|next| next.start == allocation.end());
            allocation = next.ok_or(hipErrorInvalidValue)?;
        }
        match end <= allocation.end() {
            true if allocation.view == 0 => Ok(Place::Host),
            true => Ok(Place::Device),
            false => Err(hipErrorInvalidValue),
        }
    }

    /// The device address of `bytes` bytes of host memory, if they are mapped for kernels.
    pub fn view(&self, address: u64, bytes: u64) -> Option<u64> {
        let allocation = self.find(address).filter(|found| found.is_host() && found.view != 0)?;
        let end = address.checked_add(bytes)?;
        (end <= allocation.end()).then_some(allocation.view + (address - allocation.start))
    }

    /// The device address of a range, including one that will be mapped on demand; 0 for none.
    pub fn seen_at(&self, allocation: &Allocation) -> u64 {
        let unseen = allocation.view == 0 && self.is_device_address(allocation.start);
        if unseen { allocation.start } else { allocation.view }
    }

    /// Whether the program itself can read and write memory at `address`.
    pub fn is_host(&self, address: u64) -> bool {
        self.find(address).map_or(!self.is_device_address(address), |found| found.is_host())
    }

    /// Whether a new range would overlap an existing one.
    pub fn overlaps(&self, start: u64, bytes: u64) -> bool {
        let ranges = self.ranges.read();
        let before = ranges.range(..start.saturating_add(bytes)).next_back();
        before.is_some_and(|(_, found)| found.end() > start)
    }

    /// Every range that satisfies `wanted`.
    pub fn all_where(&self, wanted: impl Fn(&Allocation) -> bool) -> Vec<Allocation> {
        self.ranges.read().values().filter(|a| wanted(a)).copied().collect()
    }

    /// Removes every range that satisfies `gone`.
    pub fn remove_where(&self, gone: impl Fn(&Allocation) -> bool) -> Vec<Allocation> {
        let taken: Vec<Allocation> = self.ranges.read().values().filter(|a| gone(a)).copied().collect();
        for allocation in &taken {
            self.remove(allocation.start);
        }
        taken
    }
}

/// Device memory quota and usage of this session, so that hipMalloc can fail without a round trip.
#[derive(Debug)]
pub struct Ledger {
    quota: u64,
    used: AtomicU64,
}

impl Ledger {
    pub fn new(quota: u64) -> Ledger {
        Ledger { quota, used: AtomicU64::new(0) }
    }

    pub fn book(&self, bytes: u64) -> Result<(), hipError_t> {
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let wanted = used.checked_add(bytes).filter(|w| *w <= self.quota).ok_or(hipErrorOutOfMemory)?;
            match self.used.compare_exchange_weak(used, wanted, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => used = now,
            }
        }
    }

    pub fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_past_the_end_of_an_allocation_is_refused() {
        let space = AddressSpace::new(0x2000_0000_0000, 1 << 30);
        let a = space.reserve(1000, Kind::Device, 0, 0, 0).unwrap();
        assert!(matches!(space.place(a.start, 1000), Ok(Place::Device)));
        assert!(matches!(space.place(a.start + 400, 600), Ok(Place::Device)));
        assert_eq!(space.place(a.start, 1001).unwrap_err(), hipErrorInvalidValue);
        assert_eq!(space.place(a.start + 5000, 1).unwrap_err(), hipErrorInvalidValue);
        assert_eq!(space.place(a.start, u64::MAX).unwrap_err(), hipErrorInvalidValue);
        assert!(matches!(space.place(0x1000, 8), Ok(Place::Host)));
        space.remove(a.start).unwrap();
        assert_eq!(space.place(a.start, 1).unwrap_err(), hipErrorInvalidValue);
        assert!(space.remove(a.start).is_none());
    }

    #[test]
    fn the_ledger_says_no_before_anything_is_sent() {
        let ledger = Ledger::new(100);
        ledger.book(60).unwrap();
        assert_eq!(ledger.book(41).unwrap_err(), hipErrorOutOfMemory);
        ledger.book(40).unwrap();
        ledger.give_back(60);
        ledger.book(50).unwrap();
        assert_eq!(ledger.book(u64::MAX).unwrap_err(), hipErrorOutOfMemory);
    }
}
