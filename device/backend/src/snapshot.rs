//! What a session has on its devices, so that it can be put back on others: told and taken as plain data.
//!
//! Nothing runs meanwhile. Bytes travel beside the inventory, by holding, and what is zero is left out. A back end that cannot
//! put memory back at its old addresses refuses.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{DeviceError, EventId, FunctionId, MemoryAccess, MemoryId, MemoryKind, ModuleId, StreamId};

/// Everything a session has on its devices, but for the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    pub allocations: Vec<AllocationRecord>,
    /// Physical memory, and where it is mapped.
    pub memories: Vec<MemoryRecord>,
    pub mappings: Vec<MappingRecord>,
    pub access: Vec<AccessRecord>,
    pub modules: Vec<ModuleRecord>,
    /// Code objects of modules; they travel apart from the rest.
    #[serde(skip)]
    pub images: Vec<Arc<[u8]>>,
    pub functions: Vec<FunctionRecord>,
    /// But the null streams, which are always there.
    pub streams: Vec<StreamRecord>,
    pub events: Vec<EventRecord>,
    /// The device's clock, in nanoseconds: that of the times of events.
    pub clock: u64,
    /// What kernels have allocated.
    pub heaps: Vec<HeapRecord>,
    /// Device, `hipLimit_t` and value, where a program has set one.
    pub limits: Vec<(u32, i32, u64)>,
}

/// What [`Device::map`](crate::Device::map) or [`Device::adopt`](crate::Device::adopt) has put somewhere.
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
    /// Its number is forgotten; only mappings keep it.
    pub released: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappingRecord {
    pub memory: MemoryId,
    pub offset: u64,
    pub address: u64,
    pub bytes: u64,
}

/// What a device may do with the mapping that starts here.
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
    /// Of memory, from the base on.
    pub bytes: u64,
    /// Its place in [`Inventory::images`].
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
    /// When its last record was reached, if it was ever recorded.
    pub reached: Option<u64>,
}

/// The heap of one device: addresses of its own, and the pieces that are given out of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapRecord {
    pub device: u32,
    pub base: u64,
    pub bytes: u64,
    /// The piece with the heap's own books; 0 for none yet.
    pub block: u64,
    pub pieces: Vec<PieceRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceRecord {
    pub address: u64,
    pub bytes: u64,
    /// The module it goes with.
    pub owner: Option<ModuleId>,
}

/// Something that has bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Holding {
    /// An allocation, a module or a piece of a heap, by where it starts.
    At(u64),
    Memory(MemoryId),
}

impl Inventory {
    /// Everything with bytes, and how many.
    pub fn holdings(&self) -> impl Iterator<Item = (Holding, u64)> + '_ {
        let allocations = self.allocations.iter().map(|it| (Holding::At(it.address), it.bytes));
        let modules = self.modules.iter().map(|it| (Holding::At(it.base), it.bytes));
        let pieces = self.heaps.iter().flat_map(|heap| &heap.pieces);
        let pieces = pieces.map(|it| (Holding::At(it.address), it.bytes));
        let memories = self.memories.iter().map(|it| (Holding::Memory(it.memory), it.bytes));
        allocations.chain(modules).chain(pieces).chain(memories)
    }
}

/// Taking a session off its devices, and putting one on. No work is queued or runs while any of this is called.
pub trait Snapshot {
    /// Everything there is. Refused if some of it cannot be put back elsewhere, and while there is work.
    fn capture(&self) -> Result<Inventory, DeviceError> {
        Err(unsupported())
    }
    /// Shows the bytes of a holding with their offsets, in order; what is not shown is zero. Ends when `show` says false.
    fn show(&self, holding: Holding, show: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), DeviceError> {
        let _ = (holding, show);
        Err(unsupported())
    }
    /// Puts everything back, with zeros for bytes, on devices that have nothing yet and the same arena.
    fn restore(&self, inventory: &Inventory) -> Result<(), DeviceError> {
        let _ = inventory;
        Err(unsupported())
    }
    /// Puts bytes back, after [`Snapshot::restore`].
    fn fill(&self, holding: Holding, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let _ = (holding, offset, bytes);
        Err(unsupported())
    }
    /// Whether work has stopped until the caller does something: brings a host function's answer, or changes memory.
    fn waits_for_host(&self) -> bool {
        false
    }
}

fn unsupported() -> DeviceError {
    DeviceError::not_supported("sessions of this device cannot be moved")
}
