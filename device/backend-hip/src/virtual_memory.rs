//! Virtual memory management through AMD's runtime.
//!
//! Memory that has a number of its own is shared as the runtime shares it, by a file descriptor. Ordinary allocations lie in
//! chunks that they share with others, so they are not.

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

/// The first runtime that takes a descriptor itself where older ones take its address.
const TAKES_DESCRIPTORS: i32 = 70_000_000;

/// Physical memory of a session, by number.
#[derive(Default)]
pub(crate) struct Physical {
    memories: HashMap<MemoryId, Piece>,
    /// What is mapped where.
    mapped: HashMap<u64, MemoryId>,
    /// Released while mapped: the runtime keeps it, and so does the account.
    lingering: HashMap<MemoryId, Piece>,
}

#[derive(Clone, Copy)]
struct Piece {
    handle: usize,
    bytes: u64,
    device: u32,
    /// Made by this session, and in its account.
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

    /// What the account gets back now that `id` was released or unmapped: the memory, if nothing holds it any more.
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

/// AMD's runtime takes a wanted address for a hint only, so memory could not be put back where it was.
impl Snapshot for Hip {}

impl VirtualMemory for Hip {
    fn create_memory(&self, device: u32, memory: MemoryId, bytes: u64) -> Result<(), DeviceError> {
        let shared = self.shared();
        shared.on(device)?;
        if bytes == 0 || !bytes.is_multiple_of(PHYSICAL_GRANULARITY) {
            return Err(DeviceError::invalid_value(format!("{bytes} bytes of physical memory")));
        }
        let properties = shareable(device);
        let mut handle: hipMemGenericAllocationHandle_t = std::ptr::null_mut();
        shared.memory.take(device, bytes)?;
        let made =
            call!(shared.functions, hipMemCreate(&raw mut handle, bytes as usize, &raw const properties, 0))
                .and_then(|()| {
                    let piece = Piece { handle: handle as usize, bytes, device, charged: true };
                    shared.physical.lock().insert(memory, piece).inspect_err(|_| {
                        // Nobody has heard of it.
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
            return Err(DeviceError::invalid_value(format!("a mapping of {bytes} bytes at {address:#x}")));
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
            let text = "an allocation of AMD's runtime that was not made by hipMemCreate cannot be shared";
            return done(Err(DeviceError::not_supported(text)));
        };
        let exported = shared.physical.lock().get(id).and_then(|piece| {
            let mut fd: c_int = -1;
            let kind = hipMemHandleTypePosixFileDescriptor;
            call!(
                shared.functions,
                hipMemExportToShareableHandle((&raw mut fd).cast(), piece.handle(), kind, 0)
            )?;
            // SAFETY: the runtime has just made the descriptor for the caller.
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
