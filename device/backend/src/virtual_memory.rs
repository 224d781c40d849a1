//! Physical memory apart from addresses: made, mapped where the caller wants it, shared with other sessions.

use std::os::fd::OwnedFd;

use crate::DeviceError;

/// Physical memory, by a number the caller mints.
pub type MemoryId = u64;

/// Sizes and places of physical memory are multiples of this, on every back end.
pub const PHYSICAL_GRANULARITY: u64 = 2 << 20;

/// What a device may do with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MemoryAccess {
    None,
    Read,
    ReadWrite,
}

/// What of a session another one may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shareable {
    /// Physical memory.
    Memory(MemoryId),
    /// The allocation that [`Device::map`](crate::Device::map) made at this address.
    Allocation(u64),
}

/// Memory on its way to another session of the same worker.
#[derive(Debug)]
pub struct SharedMemory {
    /// What the other back end opens.
    pub file: OwnedFd,
    /// Bytes that may be used; what is mapped is more, up to the granularity.
    pub bytes: u64,
}

/// Called once with what is shared, on any thread.
pub type Sharing = Box<dyn FnOnce(Result<SharedMemory, DeviceError>) + Send>;

/// Virtual memory management. Mapped memory has no access until some is given, and keeps its bytes for as long as it is mapped
/// or not released, in any session.
pub trait VirtualMemory {
    /// Makes `bytes` of a device's memory, zero, mapped nowhere.
    fn create_memory(&self, device: u32, memory: MemoryId, bytes: u64) -> Result<(), DeviceError>;
    /// Forgets the number. The memory itself goes with its last mapping.
    fn release_memory(&self, memory: MemoryId) -> Result<(), DeviceError>;
    /// Puts memory, from `offset` on, at an address of the arena where nothing is.
    fn map_memory(&self, memory: MemoryId, offset: u64, address: u64, bytes: u64) -> Result<(), DeviceError>;
    /// Takes whole mappings away, once all earlier work has ended.
    fn unmap_memory(&self, address: u64, bytes: u64) -> Result<(), DeviceError>;
    /// Says what kernels of a device may do with whole mappings, from the next command on.
    fn set_access(
        &self,
        device: u32,
        address: u64,
        bytes: u64,
        access: MemoryAccess,
    ) -> Result<(), DeviceError>;
    /// Makes memory open to others. The sessions see the same bytes from then on.
    fn share(&self, what: Shareable, done: Sharing);
    /// Gives memory of another session a number here.
    fn open_memory(&self, device: u32, memory: MemoryId, shared: SharedMemory) -> Result<(), DeviceError>;
}
