//! Snapshot of a session's device state as plain data, so that it can be restored on other devices.
//!
//! No work may run during capture or restore. Memory contents are transferred separately from the inventory, per [`Holding`],
//! and zero bytes are left out. A back end that cannot restore memory at its old addresses returns an error.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{DeviceError, EventId, FunctionId, MemoryAccess, MemoryId, MemoryKind, ModuleId, StreamId};

/// Everything a session has on its devices, except the memory contents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// Allocations, except modules.
    pub allocations: Vec<AllocationRecord>,
    /// Physical memory; `mappings` has the addresses at which it is mapped.
    pub memories: Vec<MemoryRecord>,
    /// Mappings of physical memory.
    pub mappings: Vec<MappingRecord>,
    /// Access rights to the mappings.
    pub access: Vec<AccessRecord>,
    /// Loaded modules.
    pub modules: Vec<ModuleRecord>,
    /// Code objects of the modules; transferred separately.
    #[serde(skip)]
    pub images: Vec<Arc<[u8]>>,
    /// Kernels that have an ID.
    pub functions: Vec<FunctionRecord>,
    /// All streams except the null streams, which always exist.
    pub streams: Vec<StreamRecord>,
    /// All events.
    pub events: Vec<EventRecord>,
    /// The device clock in nanoseconds, which event times refer to.
    pub clock: u64,
    /// Heaps of device-side `malloc`.
    pub heaps: Vec<HeapRecord>,
    /// Tuples of device, `hipLimit_t` and value, for limits that the program has set.
    pub limits: Vec<(u32, i32, u64)>,
}

/// An allocation made by [`Device::map`](crate::Device::map) or [`Device::map_host_range`](crate::Device::map_host_range).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationRecord {
    /// Device that the memory is charged to, or that mapped it.
    pub device: u32,
    /// Kind of the memory.
    pub kind: MemoryKind,
    /// First address.
    pub address: u64,
    /// Size as it was requested.
    pub bytes: u64,
    /// Made by `map_host_range`: an address outside the arena. Snapshot files call it `adopted`.
    #[serde(rename = "adopted")]
    pub host_range: bool,
}

/// Physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRecord {
    /// Device that it belongs to.
    pub device: u32,
    /// Its ID.
    pub memory: MemoryId,
    /// Its size.
    pub bytes: u64,
    /// The handle has been released; only mappings keep the memory alive.
    pub released: bool,
}

/// A mapping of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappingRecord {
    /// The memory that is mapped.
    pub memory: MemoryId,
    /// First byte of the memory that is mapped.
    pub offset: u64,
    /// First address of the mapping.
    pub address: u64,
    /// Size of the mapping.
    pub bytes: u64,
}

/// Access rights of a device to the mapping that starts at `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRecord {
    /// The device.
    pub device: u32,
    /// First address of the mapping.
    pub address: u64,
    /// Size of the mapping.
    pub bytes: u64,
    /// What kernels of the device may do.
    pub access: MemoryAccess,
}

/// A loaded module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleRecord {
    /// Device that it is loaded on.
    pub device: u32,
    /// Its ID.
    pub module: ModuleId,
    /// Address of its first segment.
    pub base: u64,
    /// Size in memory, starting at the base.
    pub bytes: u64,
    /// Index into [`Inventory::images`].
    pub image: usize,
}

/// A kernel that has an ID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionRecord {
    /// The ID.
    pub function: FunctionId,
    /// Module of the kernel.
    pub module: ModuleId,
    /// Name of the kernel in the module.
    pub name: String,
}

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Device of the stream.
    pub device: u32,
    /// Its ID.
    pub stream: StreamId,
    /// Whether it does not synchronize with the null stream.
    pub non_blocking: bool,
    /// Its priority; smaller numbers are higher.
    pub priority: i32,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Its ID.
    pub event: EventId,
    /// Device that it was created on.
    pub device: u32,
    /// Its `hipEvent` flags.
    pub flags: u32,
    /// Device clock at which the last record was reached; `None` if the event was never recorded.
    pub reached: Option<u64>,
}

/// The device-side `malloc` heap of one device: its address range, and the allocations in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapRecord {
    /// Device of the heap.
    pub device: u32,
    /// First address of the range.
    pub base: u64,
    /// Size of the range.
    pub bytes: u64,
    /// Address of the piece that holds the heap's metadata; 0 if it does not exist yet.
    pub block: u64,
    /// Allocations in the range.
    pub pieces: Vec<PieceRecord>,
}

/// An allocation in a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceRecord {
    /// First address.
    pub address: u64,
    /// Size.
    pub bytes: u64,
    /// The module that owns it; the piece is freed with the module.
    pub owner: Option<ModuleId>,
}

/// Identifies an object that has memory contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Holding {
    /// An allocation, a module or a heap piece, identified by its start address.
    At(u64),
    /// Physical memory.
    Memory(MemoryId),
}

impl Inventory {
    /// Iterates over all objects with memory contents and their sizes.
    pub fn holdings(&self) -> impl Iterator<Item = (Holding, u64)> + '_ {
        let allocations = self.allocations.iter().map(|it| (Holding::At(it.address), it.bytes));
        let modules = self.modules.iter().map(|it| (Holding::At(it.base), it.bytes));
        let pieces = self.heaps.iter().flat_map(|heap| &heap.pieces);
        let pieces = pieces.map(|it| (Holding::At(it.address), it.bytes));
        let memories = self.memories.iter().map(|it| (Holding::Memory(it.memory), it.bytes));
        allocations.chain(modules).chain(pieces).chain(memories)
    }
}

/// Saves a session's device state and restores it. No work may be queued or running during any of these calls.
pub trait Snapshot {
    /// Returns the inventory. Fails if part of it cannot be restored elsewhere, or if work is pending.
    fn capture(&self) -> Result<Inventory, DeviceError> {
        Err(unsupported())
    }
    /// Passes the bytes in a range of a holding with their offsets in the holding to `show`, in order. Parts of the range that are not
    /// passed are zero. Stops when `show` returns false. Several threads may do this at a time.
    fn show(
        &self,
        holding: Holding,
        range: Range<u64>,
        show: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> Result<(), DeviceError> {
        let _ = (holding, range, show);
        Err(unsupported())
    }
    /// Recreates everything in the inventory with zeroed memory. The devices must be empty and have the same arena.
    fn restore(&self, inventory: &Inventory) -> Result<(), DeviceError> {
        let _ = inventory;
        Err(unsupported())
    }
    /// Writes memory contents back, after [`Snapshot::restore`].
    fn fill(&self, holding: Holding, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let _ = (holding, offset, bytes);
        Err(unsupported())
    }
    /// Whether work is blocked until the caller acts: completes a host function, or changes memory that a stream waits on.
    fn waits_for_host(&self) -> bool {
        false
    }
}

fn unsupported() -> DeviceError {
    DeviceError::not_supported("this back end supports no snapshots: its sessions cannot be moved")
}
