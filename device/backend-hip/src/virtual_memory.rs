//! Virtual memory management through AMD's runtime.
//!
//! Physical memory with an ID is exported as a file descriptor of the runtime. Ordinary allocations cannot be exported, because
//! they share chunks with other allocations.

use std::collections::HashMap;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use backend::{
    DeviceError, MemoryAccess, MemoryId, PHYSICAL_GRANULARITY, Scope, Shareable, SharedMemory, Sharing,
    Snapshot, VirtualMemory,
};
use hip_api::types::*;

use crate::device::Hip;
use crate::error::call;
use crate::memory::shareable;

/// First runtime version whose import call takes the file descriptor by value; older ones take a pointer to it.
const TAKES_DESCRIPTORS: i32 = 70_000_000;

/// Physical memory of a session, by ID.
#[derive(Default)]
pub(crate) struct Physical {
    memories: HashMap<MemoryId, Piece>,
    /// Mapped memory by address.
    mapped: HashMap<u64, MemoryId>,
    /// Memory released while mapped: the runtime keeps it, so it stays charged.
    lingering: HashMap<MemoryId, Piece>,
}

#[derive(Clone, Copy)]
struct Piece {
    handle: usize,
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

impl Piece {
    fn handle(&self) -> hipMemGenericAllocationHandle_t {
        self.handle as hipMemGenericAllocationHandle_t
    }
}

/// Not supported: AMD's runtime treats a requested address as a hint, so memory could not be restored at its old address.
impl Snapshot for Hip {}

impl VirtualMemory for Hip {
    fn create_memory(&self, device: u32, memory: MemoryId, bytes: u64) -> Result<(), DeviceError> {
        let shared = self.shared();
        shared.on(device)?;
        if bytes == 0 || !bytes.is_multiple_of(PHYSICAL_GRANULARITY) {
            return Err(DeviceError::invalid_value(format!(
                "physical memory size {bytes} is not a multiple of 2 MiB"
            )));
        }
        let properties = shareable(device);
        let mut handle: hipMemGenericAllocationHandle_t = std::ptr::null_mut();
        shared.memory.take(device, bytes)?;
        let made =
            call!(shared.functions, hipMemCreate(&raw mut handle, bytes as usize, &raw const properties, 0))
                .and_then(|()| {
                    let piece = Piece { handle: handle as usize, bytes, device, charged: true };
                    shared.physical.lock().insert(memory, piece).inspect_err(|_| {
                        // The handle has not been published, so no other code uses it.
                        let _ = call!(shared.functions, hipMemRelease(handle));
                    })
                });
        made.inspect_err(|_| shared.memory.give(device, bytes))
    }

    fn release_memory(&self, memory: MemoryId) -> Result<(), DeviceError> {
        let mut physical = self.shared().physical.lock();
        let piece = physical.memories.remove(&memory).ok_or_else(|| unknown(memory))?;
        physical.lingering.insert(memory, piece);
        let freed = physical.freed(memory);
        drop(physical);
        if let Some(freed) = freed {
            self.shared().memory.give(freed.device, freed.bytes);
        }
        call!(self.shared().functions, hipMemRelease(piece.handle()))
    }

    fn map_memory(&self, memory: MemoryId, offset: u64, address: u64, bytes: u64) -> Result<(), DeviceError> {
        let shared = self.shared();
        let piece = shared.physical.lock().get(memory)?;
        let aligned = [address, bytes].iter().all(|value| value.is_multiple_of(PHYSICAL_GRANULARITY));
        if offset != 0 || bytes == 0 || !aligned || bytes > piece.bytes.next_multiple_of(PHYSICAL_GRANULARITY)
        {
            return Err(DeviceError::invalid_value(format!(
                "invalid mapping of {bytes} bytes at {address:#x}"
            )));
        }
        shared.memory.book(piece.device, address, bytes, || {
            call!(shared.functions, hipMemMap(address as *mut c_void, bytes as usize, 0, piece.handle(), 0))
        })?;
        shared.physical.lock().mapped.insert(address, memory);
        Ok(())
    }

    fn unmap_memory(&self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        let shared = self.shared();
        let mappings = shared.memory.mappings(address, bytes)?;
        shared.wait(Scope::Everything)?;
        for (start, bytes) in mappings {
            call!(shared.functions, hipMemUnmap(start as *mut c_void, bytes as usize))?;
            shared.memory.unbook(start);
            let mut physical = shared.physical.lock();
            let freed = physical.mapped.remove(&start).and_then(|id| physical.freed(id));
            drop(physical);
            if let Some(freed) = freed {
                shared.memory.give(freed.device, freed.bytes);
            }
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
        shared.on(device)?;
        shared.memory.mappings(address, bytes)?;
        let flags = match access {
            MemoryAccess::None => hipMemAccessFlagsProtNone,
            MemoryAccess::Read => hipMemAccessFlagsProtRead,
            MemoryAccess::ReadWrite => hipMemAccessFlagsProtReadWrite,
        };
        let location = hipMemLocation { r#type: hipMemLocationTypeDevice, id: device as c_int };
        let access = hipMemAccessDesc { location, flags };
        call!(shared.functions, hipMemSetAccess(address as *mut c_void, bytes as usize, &raw const access, 1))
    }

    fn share(&self, what: Shareable, done: Sharing) {
        let shared = self.shared();
        let Shareable::Memory(id) = what else {
            let text = "AMD's runtime can share only memory allocated with hipMemCreate";
            return done(Err(DeviceError::not_supported(text)));
        };
        let exported = shared.physical.lock().get(id).and_then(|piece| {
            let mut fd: c_int = -1;
            let kind = hipMemHandleTypePosixFileDescriptor;
            call!(
                shared.functions,
                hipMemExportToShareableHandle((&raw mut fd).cast(), piece.handle(), kind, 0)
            )?;
            // SAFETY: the runtime has just created the descriptor, and the caller owns it.
            Ok(SharedMemory { file: unsafe { OwnedFd::from_raw_fd(fd) }, bytes: piece.bytes })
        });
        done(exported);
    }

    fn open_memory(&self, device: u32, memory: MemoryId, it: SharedMemory) -> Result<(), DeviceError> {
        let shared = self.shared();
        shared.on(device)?;
        let mut fd = it.file.as_raw_fd();
        let by_value = shared.devices[device as usize].runtime_version >= TAKES_DESCRIPTORS;
        let given =
            if by_value { std::ptr::without_provenance_mut(fd as usize) } else { (&raw mut fd).cast() };
        let mut handle: hipMemGenericAllocationHandle_t = std::ptr::null_mut();
        let kind = hipMemHandleTypePosixFileDescriptor;
        call!(shared.functions, hipMemImportFromShareableHandle(&raw mut handle, given, kind))?;
        shared
            .physical
            .lock()
            .insert(memory, Piece { handle: handle as usize, bytes: it.bytes, device, charged: false })
    }
}

fn unknown(id: MemoryId) -> DeviceError {
    DeviceError::invalid_handle(format!("there is no memory {id:#x}"))
}
