//! Snapshot of a session's device state as plain data, so that it can be restored on other devices.
//!
//! No work may run during capture or restore. Memory contents are transferred separately from the inventory, per [`Holding`],
//! and zero bytes are left out. A back end that cannot restore memory at its old addresses returns an error.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{DeviceError, EventId, FunctionId, MemoryAccess, MemoryId, MemoryKind, ModuleId, StreamId};

/// Everything a session has on its devices, except the memory contents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    pub allocations: Vec<AllocationRecord>,
    /// Physical memory; `mappings` has the addresses at which it is mapped.
    pub memories: Vec<MemoryRecord>,
    pub mappings: Vec<MappingRecord>,
    pub access: Vec<AccessRecord>,
    pub modules: Vec<ModuleRecord>,
    /// Code objects of the modules; transferred separately.
    #[serde(skip)]
    pub images: Vec<Arc<[u8]>>,
    pub functions: Vec<FunctionRecord>,
    /// All streams except the null streams, which always exist.
    pub streams: Vec<StreamRecord>,
    pub events: Vec<EventRecord>,
    /// The device clock in nanoseconds, which event times refer to.
    pub clock: u64,
    /// Heaps of device-side `malloc`.
    pub heaps: Vec<HeapRecord>,
    /// Tuples of device, `hipLimit_t` and value, for limits that the program has set.
    pub limits: Vec<(u32, i32, u64)>,
}

/// An allocation made by [`Device::map`](crate::Device::map) or [`Device::adopt`](crate::Device::adopt).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationRecord {
    pub device: u32,
    pub kind: MemoryKind,
    pub address: u64,
    pub bytes: u64,
    pub adopted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRecord {
    pub device: u32,
    pub memory: MemoryId,
    pub bytes: u64,
    /// The handle has been released; only mappings keep the memory alive.
    pub released: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappingRecord {
    pub memory: MemoryId,
    pub offset: u64,
    pub address: u64,
    pub bytes: u64,
}

/// Access rights of a device to the mapping that starts at `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRecord {
    pub device: u32,
    pub address: u64,
    pub bytes: u64,
    pub access: MemoryAccess,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleRecord {
    pub device: u32,
    pub module: ModuleId,
    pub base: u64,
    /// Size in memory, starting at the base.
    pub bytes: u64,
    /// Index into [`Inventory::images`].
    pub image: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionRecord {
    pub function: FunctionId,
    pub module: ModuleId,
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRecord {
    pub device: u32,
    pub stream: StreamId,
    pub non_blocking: bool,
    pub priority: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    pub event: EventId,
    pub device: u32,
    pub flags: u32,
    /// Device clock at which the last record was reached; `None` if the event was never recorded.
    pub reached: Option<u64>,
}

/// The device-side `malloc` heap of one device: its address range, and the allocations in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapRecord {
    pub device: u32,
    pub base: u64,
    pub bytes: u64,
    /// Address of the piece that holds the heap's metadata; 0 if it does not exist yet.
    pub block: u64,
    pub pieces: Vec<PieceRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceRecord {
    pub address: u64,
    pub bytes: u64,
    /// The module that owns it; the piece is freed with the module.
    pub owner: Option<ModuleId>,
}

/// Identifies an object that has memory contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Holding {
    /// An allocation, a module or a heap piece, identified by its start address.
    At(u64),
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
    /// Passes the bytes of a holding with their offsets to `show`, in order. Ranges that are not passed are zero. Stops when
    /// `show` returns false.
    fn show(&self, holding: Holding, show: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), DeviceError> {
        let _ = (holding, show);
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
