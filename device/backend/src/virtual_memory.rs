//! Virtual memory management (`hipMem*`): physical memory is allocated, mapped at addresses the caller chooses, and shared with
//! other sessions.

use std::os::fd::OwnedFd;

use crate::DeviceError;

/// Identifies physical memory; the caller assigns the number.
pub type MemoryId = u64;

/// Sizes, offsets and addresses of physical memory are multiples of this, on every back end.
pub const PHYSICAL_GRANULARITY: u64 = 2 << 20;

/// Access rights of a device to a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MemoryAccess {
    /// No access.
    None,
    /// Loads only.
    Read,
    /// Loads and stores.
    ReadWrite,
}

/// Memory of a session that can be shared with another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shareable {
    /// Physical memory.
    Memory(MemoryId),
    /// The allocation that [`Device::map`](crate::Device::map) made at this address.
    Allocation(u64),
}

/// Memory exported to another session of the same worker.
#[derive(Debug)]
pub struct SharedMemory {
    /// File descriptor that the importing back end opens.
    pub file: OwnedFd,
    /// Usable bytes; the mapping is rounded up to the granularity.
    pub bytes: u64,
}

/// Callback that receives the exported memory. Called once, on any thread.
pub type Sharing = Box<dyn FnOnce(Result<SharedMemory, DeviceError>) + Send>;

/// Virtual memory management. A new mapping has no access rights until [`VirtualMemory::set_access`] grants them. Memory keeps
/// its contents as long as it is mapped or unreleased in any session.
pub trait VirtualMemory {
    /// Allocates `bytes` of zeroed device memory without mapping them.
    fn create_memory(&self, device: u32, memory: MemoryId, bytes: u64) -> Result<(), DeviceError>;
    /// Releases the handle. The memory is freed with its last mapping.
    fn release_memory(&self, memory: MemoryId) -> Result<(), DeviceError>;
    /// Maps memory, starting at `offset`, at a free address of the arena.
    fn map_memory(&self, memory: MemoryId, offset: u64, address: u64, bytes: u64) -> Result<(), DeviceError>;
    /// Removes whole mappings once all earlier work has ended.
    fn unmap_memory(&self, address: u64, bytes: u64) -> Result<(), DeviceError>;
    /// Sets the access rights of a device's kernels to whole mappings, starting with the next command.
    fn set_access(
        &self,
        device: u32,
        address: u64,
        bytes: u64,
        access: MemoryAccess,
    ) -> Result<(), DeviceError>;
    /// Exports memory for other sessions. All sessions see the same bytes from then on.
    fn share(&self, what: Shareable, done: Sharing);
    /// Imports memory of another session under the ID `memory`.
    fn open_memory(&self, device: u32, memory: MemoryId, shared: SharedMemory) -> Result<(), DeviceError>;
}
