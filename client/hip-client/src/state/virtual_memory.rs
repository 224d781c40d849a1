//! Virtual memory management: reserved addresses, physical memory, and the mappings between them.
//!
//! The client keeps the complete layout, so reserving, creating and mapping need no round trip. It validates mappings;
//! the worker maps and enforces access.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hip_api::types::*;
use parking_lot::Mutex;

/// Sizes and addresses of physical memory are multiples of this.
pub const GRANULARITY: u64 = 2 << 20;

/// Physical memory.
#[derive(Debug)]
pub struct Physical {
    pub device: usize,
    /// For memory of another session: 0 until the worker has reported it.
    pub(super) bytes: AtomicU64,
    pub properties: Properties,
    /// Memory of another session, which is charged for it.
    pub imported: bool,
    /// References: handles that the program holds, and mappings.
    pub(super) references: AtomicU32,
    pub(super) mappings: AtomicU32,
}

/// `hipMemAllocationProp`, stored to be returned. Its pointer is used on Windows only.
#[derive(Clone, Copy, Debug)]
pub struct Properties(pub hipMemAllocationProp);

// SAFETY: the pointer is never dereferenced.
unsafe impl Send for Properties {}
// SAFETY: as above.
unsafe impl Sync for Properties {}

/// Reserved addresses without memory, and the range taken from the arena.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservation {
    pub bytes: u64,
    pub taken: (u64, u64),
}

/// Memory mapped at an address.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    pub bytes: u64,
    pub memory: u64,
    /// By device; a missing entry means no access.
    pub access: HashMap<usize, u32>,
}

#[derive(Debug, Default)]
pub(super) struct Layout {
    pub reservations: BTreeMap<u64, Reservation>,
    pub mappings: BTreeMap<u64, Mapping>,
    /// Imported memory: the address returned to the program, and the address of its mapping.
    pub imports: HashMap<u64, u64>,
}

/// The virtual memory layout of a session.
#[derive(Debug, Default)]
pub struct VirtualMemory {
    pub(super) layout: Mutex<Layout>,
}

impl Physical {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }
}

impl Layout {
    /// The mappings that exactly cover a range, without gaps.
    pub fn whole(&self, address: u64, bytes: u64) -> Result<Vec<u64>, hipError_t> {
        let end = address.checked_add(bytes).filter(|end| *end > address).ok_or(hipErrorInvalidValue)?;
        let (mut at, mut found) = (address, Vec::new());
        while at < end {
            found.push(at);
            at += self.mappings.get(&at).ok_or(hipErrorInvalidValue)?.bytes;
        }
        if at == end { Ok(found) } else { Err(hipErrorInvalidValue) }
    }

    pub fn mapping_at(&self, address: u64) -> Option<&Mapping> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (address < start + mapping.bytes).then_some(mapping)
    }
}
