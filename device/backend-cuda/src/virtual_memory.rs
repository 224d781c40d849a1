//! Virtual memory management through the driver.
//!
//! Physical memory with an ID is exported as a file descriptor of the driver. Ordinary allocations cannot be exported, because
//! they share chunks with other allocations.

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use backend::{
    DeviceError, MemoryAccess, MemoryId, PHYSICAL_GRANULARITY, Scope, Shareable, SharedMemory, Sharing,
    Snapshot, VirtualMemory,
};

use crate::device::{Cuda, Shared};
use crate::error::call;
use crate::memory::properties;
use crate::types::*;

/// Longest wait for running work before rights are taken away.
const PATIENCE: Duration = Duration::from_secs(10);

/// Physical memory of a session, by ID.
#[derive(Default)]
pub(crate) struct Physical {
    memories: HashMap<MemoryId, Piece>,
    /// Mapped memory by address.
    mapped: HashMap<u64, MemoryId>,
    /// Memory released while mapped: the driver keeps it, so it stays charged.
    lingering: HashMap<MemoryId, Piece>,
}

#[derive(Clone, Copy)]
struct Piece {
    handle: CuMemory,
    bytes: u64,
    device: u32,
    /// Created by this session and charged to it; false for imported memory.
    charged: bool,
}

impl Physical {
    fn get(&self, id: MemoryId) -> Result<Piece, DeviceError> {
        self.memories.get(&id).copied().ok_or_else(|| unknown(id))
    }

    fn insert(&mut self, id: MemoryId, piece: Piece) -> Result<(), DeviceError> {
        if id == 0 || self.memories.contains_key(&id) || self.lingering.contains_key(&id) {
            return Err(DeviceError::invalid_handle(format!("memory {id:#x} exists already or is reserved")));
        }
        self.memories.insert(id, piece);
        Ok(())
    }

    /// The memory whose charge must be released after `id` was released or unmapped: `None` while a mapping still holds it.
    fn freed(&mut self, id: MemoryId) -> Option<Piece> {
        let is_mapped = self.mapped.values().any(|mapped| *mapped == id);
        if is_mapped { None } else { self.lingering.remove(&id).filter(|piece| piece.charged) }
    }
}

/// Not supported yet.
impl Snapshot for Cuda {}

impl Shared {
    fn forget_physical(&self, freed: Option<Piece>) {
        if let Some(freed) = freed {
            self.memory.give(freed.device, freed.bytes);
            self.memory.discount(freed.device, freed.bytes);
        }
    }

    /// Zeroes physical memory, through a mapping at an address of the driver's choice.
    fn zero_physical(&self, device: u32, handle: CuMemory, bytes: u64) -> Result<(), DeviceError> {
        let (functions, size) = (&self.functions, bytes as usize);
        let mut address = 0;
        call!(functions, cuMemAddressReserve(&raw mut address, size, 0, 0, 0))?;
        let zeroed = self.memory.map_physical(device, address, bytes, handle).and_then(|()| {
            let zeroed = self.gpus[device as usize].zero(address, bytes);
            let _ = call!(functions, cuMemUnmap(address, size));
            zeroed
        });
        let _ = call!(functions, cuMemAddressFree(address, size));
        zeroed
    }

    /// Removes a mapping that no work uses any longer.
    pub(crate) fn drop_mapping(&self, address: u64, bytes: u64) {
        let _ = self.on(0);
        if let Err(error) = call!(self.functions, cuMemUnmap(address, bytes as usize)) {
            tracing::warn!("a mapping stays until the session ends: {error}");
        }
        self.memory.unbook(address);
        let mut physical = self.physical.lock();
        let freed = physical.mapped.remove(&address).and_then(|id| physical.freed(id));
        drop(physical);
        self.forget_physical(freed);
    }
}

impl VirtualMemory for Cuda {
    fn create_memory(&self, device: u32, memory: MemoryId, bytes: u64) -> Result<(), DeviceError> {
        let shared = self.shared();
        let gpu = shared.on(device)?;
        if bytes == 0 || !bytes.is_multiple_of(PHYSICAL_GRANULARITY) {
            return Err(DeviceError::invalid_value(format!(
                "physical memory size {bytes} is not a multiple of 2 MiB"
            )));
        }
        let (free, _) = gpu.memory()?;
        if bytes > free {
            return Err(DeviceError::out_of_memory(format!(
                "cannot allocate {bytes} bytes: {free} are free on device {device}"
            )));
        }
        let properties = MemAllocationProp { handle_types: HANDLE_FILE_DESCRIPTOR, ..properties(gpu) };
        let mut handle: CuMemory = 0;
        shared.memory.take(device, bytes)?;
        let made =
            call!(shared.functions, cuMemCreate(&raw mut handle, bytes as usize, &raw const properties, 0))
                .and_then(|()| {
                    let piece = Piece { handle, bytes, device, charged: true };
                    let kept = shared.zero_physical(device, handle, bytes);
                    let kept = kept.and_then(|()| shared.physical.lock().insert(memory, piece));
                    kept.inspect_err(|_| {
                        // The handle has not been published, so no other code uses it.
                        let _ = call!(shared.functions, cuMemRelease(handle));
                    })
                });
        made.inspect_err(|_| shared.memory.give(device, bytes))?;
        shared.memory.count(device, bytes);
        Ok(())
    }

    fn release_memory(&self, memory: MemoryId) -> Result<(), DeviceError> {
        let shared = self.shared();
        let mut physical = shared.physical.lock();
        let piece = physical.memories.remove(&memory).ok_or_else(|| unknown(memory))?;
        physical.lingering.insert(memory, piece);
        let freed = physical.freed(memory);
        if !physical.mapped.values().any(|mapped| *mapped == memory) {
            physical.lingering.remove(&memory);
        }
        drop(physical);
        shared.forget_physical(freed);
        shared.on(piece.device)?;
        call!(shared.functions, cuMemRelease(piece.handle))
    }

    fn map_memory(&self, memory: MemoryId, offset: u64, address: u64, bytes: u64) -> Result<(), DeviceError> {
        let shared = self.shared();
        let piece = shared.physical.lock().get(memory)?;
        let aligned = [address, bytes].iter().all(|value| value.is_multiple_of(PHYSICAL_GRANULARITY));
        // The driver maps only whole memory, from its start.
        if offset != 0 || bytes == 0 || !aligned || bytes > piece.bytes.next_multiple_of(PHYSICAL_GRANULARITY)
        {
            return Err(DeviceError::invalid_value(format!(
                "invalid mapping of {bytes} bytes at {address:#x}"
            )));
        }
        shared.on(piece.device)?;
        shared.memory.book(piece.device, address, bytes, || {
            call!(shared.functions, cuMemMap(address, bytes as usize, 0, piece.handle, 0))
        })?;
        shared.physical.lock().mapped.insert(address, memory);
        Ok(())
    }

    fn unmap_memory(&self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        let shared = self.shared();
        let mappings = shared.memory.mappings(address, bytes)?;
        shared.settle(PATIENCE)?;
        for (start, bytes) in mappings {
            shared.drop_mapping(start, bytes);
        }
        Ok(())
    }

    fn set_access(
        &self,
        device: u32,
        address: u64,
        bytes: u64,
        access: MemoryAccess,
    ) -> Result<(), DeviceError> {
        let shared = self.shared();
        let gpu = shared.on(device)?;
        shared.memory.mappings(address, bytes)?;
        let flags = match access {
            MemoryAccess::None => ACCESS_NONE,
            MemoryAccess::Read => ACCESS_READ,
            MemoryAccess::ReadWrite => ACCESS_READ_WRITE,
        };
        if access != MemoryAccess::ReadWrite {
            // Queued work still has the rights that it was queued with.
            shared.settle(PATIENCE)?;
        }
        let location = MemLocation { kind: LOCATION_DEVICE, id: gpu.device };
        let access = MemAccessDesc { location, flags };
        call!(shared.functions, cuMemSetAccess(address, bytes as usize, &raw const access, 1))
    }

    fn share(&self, what: Shareable, done: Sharing) {
        let shared = self.shared();
        let Shareable::Memory(id) = what else {
            let text = "on NVIDIA GPUs, only memory allocated with hipMemCreate can be shared";
            return done(Err(DeviceError::not_supported(text)));
        };
        let exported = shared.physical.lock().get(id).and_then(|piece| {
            shared.on(piece.device)?;
            let mut fd: c_int = -1;
            call!(
                shared.functions,
                cuMemExportToShareableHandle((&raw mut fd).cast(), piece.handle, HANDLE_FILE_DESCRIPTOR, 0)
            )?;
            // SAFETY: the driver has just created the descriptor, and the caller owns it.
            Ok(SharedMemory { file: unsafe { OwnedFd::from_raw_fd(fd) }, bytes: piece.bytes })
        });
        done(exported);
    }

    fn open_memory(&self, device: u32, memory: MemoryId, it: SharedMemory) -> Result<(), DeviceError> {
        let shared = self.shared();
        shared.on(device)?;
        let given = std::ptr::without_provenance_mut(it.file.as_raw_fd() as usize);
        let mut handle: CuMemory = 0;
        call!(
            shared.functions,
            cuMemImportFromShareableHandle(&raw mut handle, given, HANDLE_FILE_DESCRIPTOR)
        )?;
        shared.physical.lock().insert(memory, Piece { handle, bytes: it.bytes, device, charged: false })
    }
}

impl Shared {
    /// Waits until no work is queued.
    fn settle(&self, patience: Duration) -> Result<(), DeviceError> {
        let marks = self.marks(Scope::Everything)?;
        self.waiter.wake();
        let begin = Instant::now();
        while !marks.iter().all(crate::stream::Mark::is_reached) {
            if let Some(fault) = self.fault() {
                return Err(fault.clone());
            }
            if begin.elapsed() > patience {
                return Err(DeviceError::not_ready("work that may use the mapping is still running"));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }
}

fn unknown(id: MemoryId) -> DeviceError {
    DeviceError::invalid_handle(format!("there is no memory {id:#x}"))
}
